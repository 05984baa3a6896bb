"""The progress of a training as callbacks receive it, and the line of text that shows progress."""

from __future__ import annotations

import contextlib
import math
import numbers
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TextIO

import numpy as np


@dataclass(frozen=True)
class Progress:
    """The progress of a training, which callbacks receive after each batch.

    Attributes
    ----------
    model : estimator
        The estimator that is being fitted; its attributes are up to date, so it may be used or saved.
    n_iter : int
        Batches so far.
    max_iter : int or None
        Batches at most, None if there is no limit.
    n_signals : int
        Signals so far.
    objective : float
        Objective per signal, averaged over the last batches.
    nonzeros : float or None
        Nonzero coefficients per signal in the last batch, None if they are not counted.
    signals_per_second : float
        Speed over the last seconds.
    seconds_left : float or None
        Time until `max_iter` at this speed, None if there is no limit; the training may end before.
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

SAYING_SECONDS = 2.0  # between two lines before the first batch
SPEED_SECONDS = 10.0  # over which the speed is measured


class StatusLine:
    """One line of text that is rewritten on a terminal, and repeated now and then elsewhere.

    Nothing is written if there is no file, as under pythonw, or if the program has closed it.

    Parameters
    ----------
    file : file or None, default=None
        Where to write; None is standard error.
    seconds : float or None, default=10
        Least time between two lines where they cannot be rewritten, None to write none there.
    terminal_seconds : float, default=0.2
        Least time between two texts on a terminal.
    """

    def __init__(
        self, file: TextIO | None = None, *, seconds: float | None = 10.0, terminal_seconds: float = 0.2
    ) -> None:
        self._file = file
        self._seconds = seconds
        self._terminal_seconds = terminal_seconds
        self._pending: str | None = None
        self._written_at = -math.inf
        self._width = 0  # of the text on the terminal

    def show(self, text: str, *, now: bool = False, seconds: float | None = None) -> None:
        """Write a text if the last one was written a while ago, or `now`; else keep it for :meth:`close`.

        With `seconds`, a while is not longer than that.
        """
        self._pending = text
        file = self._open_file()
        if file is None:
            return
        least = self._terminal_seconds if _is_terminal(file) else self._seconds
        if least is not None and (now or time.monotonic() - self._written_at >= min(least, seconds or math.inf)):
            self._write(file, text)

    def print(self, text: str) -> None:
        """Write a text of any length on a line of its own."""
        self.close()
        file = self._open_file()
        if file is not None:
            _print(file, f"{text}\n")

    def close(self) -> None:
        """Write the last text if it was not written, and end the line: the next output starts on a new one."""
        file = self._open_file()
        if file is not None and self._pending is not None and (self._seconds is not None or _is_terminal(file)):
            self._write(file, self._pending)
        if file is not None and self._width > 0:
            _print(file, "\n")
        self._pending, self._width = None, 0

    def clear(self) -> None:
        """Remove the text from a terminal, and forget a text that was not written."""
        file = self._open_file()
        if file is not None and self._width > 0:
            _print(file, f"\r{' ' * self._width}\r")
        self._pending, self._width = None, 0

    def _open_file(self) -> TextIO | None:
        file = sys.stderr if self._file is None else self._file
        return None if file is None or getattr(file, "closed", False) else file

    def _write(self, file: TextIO, text: str) -> None:
        if _is_terminal(file):
            text = text[: shutil.get_terminal_size().columns - 1]  # a longer line could not be rewritten
            _print(file, f"\r{text.ljust(self._width)}")
            self._width = len(text)
        else:
            _print(file, f"{text}\n")
        self._pending, self._written_at = None, time.monotonic()


def _is_terminal(file: Any) -> bool:
    """Return whether a file is a terminal; what a program puts in the place of standard error may not know."""
    try:
        return bool(file.isatty())
    except Exception:
        return False


def _print(file: Any, text: str) -> None:
    """Write to a file. Whatever is in its place, such as a pipe that was closed, must not end a training."""
    with contextlib.suppress(Exception):
        file.write(text)
        file.flush()


class ProgressLine:
    """A callback that shows the progress of a training in one line.

    The line is rewritten on a terminal, and repeated now and then elsewhere.

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
        self._line = StatusLine(file)

    def __call__(self, progress: Progress) -> None:
        """Show the progress if the last time was a while ago, or if this is the end."""
        self._line.show(_progress_text(progress))
        if progress.done:
            self.close()

    def say(self, text: str) -> None:
        """Show what is done before the first batch."""
        self._line.show(text, seconds=SAYING_SECONDS)

    def conclude(self, text: str) -> None:
        """Show a result on a line of its own, of any length."""
        self._line.print(text)

    def close(self) -> None:
        """Show the last batch if it was not shown, and end the line: the next output starts on a new one."""
        self._line.close()


def _progress_text(progress: Progress) -> str:
    total = "" if progress.max_iter is None else f"/{progress.max_iter}"
    if progress.done:
        end = "done" if progress.n_iter == progress.max_iter else "done early"
    else:
        end = "" if progress.seconds_left is None else f"{_clock(progress.seconds_left)} left"
    nonzeros = "" if progress.nonzeros is None else f"nonzeros {progress.nonzeros:.1f}  "
    return (
        f"batch {progress.n_iter}{total}  objective {progress.objective:.5f}  {nonzeros}"
        f"{progress.signals_per_second:,.0f} signals/s  {end}"
    ).rstrip()


class Reporter:
    """Passes the progress of a training to its callbacks, and to a progress line if it is verbose.

    Use it as a context manager around the training, so that the line is ended also after an error.
    """

    def __init__(
        self, model: Any, max_iter: int | None, callback: Callback | Sequence[Callback] | None, verbose: Any
    ) -> None:
        callbacks: list[Any] = [] if callback is None else [callback]
        if isinstance(callback, (list, tuple)):
            callbacks = list(callback)
        if not all(map(callable, callbacks)):
            raise TypeError(
                f"callbacks must be a function of a taskdict.Progress, a list of such, or None, got {callback!r}."
            )
        if not isinstance(verbose, numbers.Integral) or int(verbose) < 0:
            raise ValueError(f"verbose must be 0 (quiet) or a positive integer, got {verbose!r}.")
        self._model = model
        self._max_iter = max_iter
        self._callbacks = callbacks
        self._line = ProgressLine() if verbose else None
        self._signals = 0
        self._recent: deque[tuple[float, int, int]] = deque()  # when, after how many batches and signals

    def __enter__(self) -> Self:
        self.expect(self._max_iter)
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()

    def expect(self, max_iter: int | None) -> None:
        """Begin to measure the speed; `max_iter` is the number of batches, None if there is no limit."""
        self._max_iter = max_iter
        self._signals = 0
        self._recent = deque([(time.monotonic(), 0, 0)])

    def say(self, text: str) -> None:
        """Show what is done before the first batch."""
        if self._line is not None:
            self._line.say(text)

    def conclude(self, text: str) -> None:
        """Show a result after the last batch."""
        if self._line is not None:
            self._line.conclude(text)

    def report(
        self, *, n_iter: int, n_signals: int, batch: int, objective: float, nonzeros: float | None, done: bool
    ) -> bool:
        """Report a batch of so many signals; return whether a callback asks to stop."""
        if not self._callbacks and self._line is None:
            return False
        self._signals += batch
        now, recent = time.monotonic(), self._recent
        recent.append((now, recent[-1][1] + 1, self._signals))
        while len(recent) > 2 and now - recent[1][0] > SPEED_SECONDS:
            recent.popleft()
        seconds, batches, signals = (last - first for last, first in zip(recent[-1], recent[0], strict=True))
        seconds = max(seconds, 1e-9)
        progress = Progress(
            model=self._model,
            n_iter=n_iter,
            max_iter=self._max_iter,
            n_signals=n_signals,
            objective=objective,
            nonzeros=nonzeros,
            signals_per_second=signals / seconds,
            seconds_left=None if self._max_iter is None else (self._max_iter - n_iter) * seconds / batches,
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
