"""What a learner tells while it works, and a line that shows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TextIO


@dataclass(frozen=True)
class Progress:
    """Where a learner is, as callbacks get it after each batch.

    Attributes
    ----------
    model : estimator
        The learner itself; its attributes are up to date, so it may be used or saved.
    n_iter, max_iter : int
        Batches so far, and at most.
    n_signals : int
        Signals so far.
    objective : float
        Objective per signal, averaged over the last batches.
    nonzeros : float
        Nonzero coefficients per signal in the last batch.
    signals_per_second : float
        Speed since this call of `fit` began.
    seconds_left : float
        Time until `max_iter` at this speed; learning may end before.
    done : bool
        Whether this was the last batch.
    """

    model: Any
    n_iter: int
    max_iter: int
    n_signals: int
    objective: float
    nonzeros: float
    signals_per_second: float
    seconds_left: float
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
    >>> line(td.Progress(None, 3, 3, 1536, 0.21, 9.5, signals_per_second=1e5, seconds_left=0.0, done=True))
    3/3 batches  1,536 signals  objective 0.21000  nonzeros 9.5  100,000 signals/s  0:00 left
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._shown = -float("inf")
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Show where the learner is, if the last time was a while ago or this is the end."""
        file = sys.stderr if self._file is None else self._file
        rewrites = file.isatty()
        now = time.monotonic()
        if not progress.done and now - self._shown < (0.2 if rewrites else 10):
            return
        self._shown = now
        text = (
            f"{progress.n_iter}/{progress.max_iter} batches  {progress.n_signals:,} signals  "
            f"objective {progress.objective:.5f}  nonzeros {progress.nonzeros:.1f}  "
            f"{progress.signals_per_second:,.0f} signals/s  {_clock(progress.seconds_left)} left"
        )
        if rewrites:
            print(f"\r{text.ljust(self._width)}", end="", file=file, flush=True)
            self._width = len(text)
        else:
            print(text, file=file, flush=True)
        if progress.done:
            self.close()

    def close(self) -> None:
        """End the line, so that what is printed next starts on a new one."""
        if self._width > 0:
            print(file=sys.stderr if self._file is None else self._file, flush=True)
        self._width = 0


class Reporter:
    """Tells a learner's callback, and a progress line if it is verbose, how the learner is getting on.

    Use it as a context manager around the learning, so that the line is ended whatever happens.
    """

    def __init__(self, model: Any, max_iter: int, callback: Callback | None, verbose: int) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of a taskdict.Progress or None, got {callback!r}.")
        if verbose not in (0, 1):
            raise ValueError(f"verbose must be 0 or 1, got {verbose!r}.")
        self._model = model
        self._max_iter = max_iter
        self._callback = callback
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

    def report(self, *, n_iter: int, n_signals: int, batch: int, objective: float, nonzeros: float, done: bool) -> None:
        """Tell of a batch with so many signals that was just learned from."""
        if self._callback is None and self._line is None:
            return
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
            seconds_left=0.0 if done else (self._max_iter - n_iter) * seconds / self._batches,
            done=done,
        )
        if self._line is not None:
            self._line(progress)
        if self._callback is not None:
            self._callback(progress)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
