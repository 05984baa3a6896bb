"""What a learner tells while it works, and a line that shows it."""

from __future__ import annotations

import numbers
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TextIO

import numpy as np


@dataclass(frozen=True)
class Progress:
    """Where a learner is, as callbacks get it after each batch.

    Attributes
    ----------
    model : estimator
        The learner itself; its attributes are up to date, so it may be used or saved.
    n_iter : int
        Batches so far.
    max_iter : int or None
        Batches at most, None if there is no limit.
    n_signals : int
        Signals so far.
    objective : float
        Objective per signal, averaged over the last batches.
    nonzeros : float or None
        Nonzero coefficients per signal in the last batch, if the learner counts them.
    signals_per_second : float
        Speed since this call of `fit` began.
    seconds_left : float or None
        Time until `max_iter` at this speed, None if there is no limit; learning may end before.
    done : bool
        Whether this was the last batch.
    """

    model: Any
    n_iter: int
    max_iter: int | None
    n_signals: int
    objective: float
    nonzeros: float | None
    signals_per_second: float
    seconds_left: float | None
    done: bool


Callback = Callable[[Progress], Any]


class ProgressLine:
    """A callback that shows progress in one line, which is rewritten on a terminal and repeated now and then elsewhere.

    Parameters
    ----------
    file : file or None, default=None
        Where to write; None is standard error.

    Examples
    --------
    >>> import sys
    >>> import taskdict as td
    >>> line = td.ProgressLine(sys.stdout)
    >>> line(td.Progress(None, 3, 9, 1536, 0.21, 9.5, signals_per_second=1e5, seconds_left=61.0, done=False))
    batch 3/9  objective 0.21000  nonzeros 9.5  100,000 signals/s  1:01 left
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._last: Progress | None = None
        self._written = -float("inf")  # when
        self._width = 0  # of the line on the terminal

    def __call__(self, progress: Progress) -> None:
        """Show where the learner is, if the last time was a while ago or this is the end."""
        self._last = progress
        file = self._out()
        wait = 0.2 if file is not None and not file.closed and file.isatty() else 10
        if progress.done or time.monotonic() - self._written >= wait:
            self._write(progress)
        if progress.done:
            self.close()

    def close(self) -> None:
        """Show the last batch if it was not, and end the line, so that what is printed next starts on a new one."""
        if self._last is not None:
            self._write(self._last)
        if self._width > 0:
            print(file=self._out(), flush=True)
        self._width = 0

    def _out(self) -> TextIO | None:
        return sys.stderr if self._file is None else self._file

    def _write(self, progress: Progress) -> None:
        file = self._out()
        if file is None or file.closed:  # as under pythonw, or when the program has closed it
            return
        total = "" if progress.max_iter is None else f"/{progress.max_iter}"
        if progress.done:
            end = "done" if progress.n_iter == progress.max_iter else "done early"
        else:
            end = "" if progress.seconds_left is None else f"{_clock(progress.seconds_left)} left"
        nonzeros = "" if progress.nonzeros is None else f"nonzeros {progress.nonzeros:.1f}  "
        text = (
            f"batch {progress.n_iter}{total}  objective {progress.objective:.5f}  {nonzeros}"
            f"{progress.signals_per_second:,.0f} signals/s  {end}"
        ).rstrip()
        if file.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]  # a longer line could not be rewritten
            print(f"\r{text.ljust(self._width)}", end="", file=file, flush=True)
            self._width = len(text)
        else:
            print(text, file=file, flush=True)
        self._last, self._written = None, time.monotonic()


class Reporter:
    """Tells a learner's callback, and a progress line if it is verbose, how the learner is getting on.

    Use it as a context manager around the learning, so that the line is ended whatever happens.
    """

    def __init__(
        self, model: Any, max_iter: int | None, callback: Callback | Sequence[Callback] | None, verbose: Any
    ) -> None:
        callbacks: list[Any] = [] if callback is None else [callback]
        if isinstance(callback, (list, tuple)):
            callbacks = list(callback)
        if not all(map(callable, callbacks)):
            raise TypeError(f"callback must be a function of a taskdict.Progress or None, got {callback!r}.")
        if not isinstance(verbose, numbers.Integral) or int(verbose) < 0:
            raise ValueError(f"verbose must be 0 (quiet) or a positive integer, got {verbose!r}.")
        self._model = model
        self._max_iter = max_iter
        self._callbacks = callbacks
        self._line = ProgressLine() if verbose else None
        self._start = time.monotonic()
        self._batches = 0
        self._signals = 0

    def __enter__(self) -> Self:
        self._start = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()

    def report(
        self, *, n_iter: int, n_signals: int, batch: int, objective: float, nonzeros: float | None, done: bool
    ) -> bool:
        """Tell of a batch with so many signals that was just learned from; return whether the callback says stop."""
        if not self._callbacks and self._line is None:
            return False
        self._batches += 1
        self._signals += batch
        seconds = max(time.monotonic() - self._start, 1e-9)
        progress = Progress(
            model=self._model,
            n_iter=n_iter,
            max_iter=self._max_iter,
            n_signals=n_signals,
            objective=objective,
            nonzeros=nonzeros,
            signals_per_second=self._signals / seconds,
            seconds_left=None if self._max_iter is None else (self._max_iter - n_iter) * seconds / self._batches,
            done=done,
        )
        if self._line is not None:
            self._line(progress)
        answers = [callback(progress) for callback in self._callbacks]
        return any(isinstance(answer, (bool, np.bool_)) and bool(answer) for answer in answers)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
