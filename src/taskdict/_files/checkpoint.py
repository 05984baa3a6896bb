"""Checkpoints: files that a training is resumed from. A training never ends because one cannot be written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taskdict._common.atomic_files import check_file, remove_stale_parts
from taskdict._common.warn import warn
from taskdict._files import storage
from taskdict._files.persistent import parameters_from_file


def check_checkpoint(checkpoint: Any) -> None:
    """Raise unless a checkpoint is None, or the path of a regular file, or of nothing yet in a folder that exists.

    It is not opened. Temporary files that a process which was killed has left of it are removed.
    """
    if checkpoint is None:
        return
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be the path of a file or None, got {checkpoint!r}.")
    check_file(checkpoint, "checkpoint")
    if not os.fspath(checkpoint) or not os.path.isdir(os.path.dirname(os.path.realpath(checkpoint))):
        raise FileNotFoundError(
            f"checkpoint must be the path of a file in a folder that exists, got {os.fspath(checkpoint)!r}."
        )
    remove_stale_parts(checkpoint)


@dataclass(frozen=True)
class Peek:
    """The content of a checkpoint, read without building its estimator.

    Attributes
    ----------
    kind : str
        Name of the class of the estimator.
    parameters : dict
        Its parameters, as far as files hold them.
    position : dict or None
        The state of the source of batches after the last one, None if it is not known.
    """

    kind: str
    parameters: dict[str, Any]
    position: dict[str, Any] | None

    @property
    def begin(self) -> dict[str, Any] | None:
        """The state of the stream of signals before the first batch, None if it is not known."""
        begin = None if self.position is None else self.position.get("begin")
        return begin if isinstance(begin, dict) else None


def peek(checkpoint: str | os.PathLike[str] | None) -> Peek | None:
    """Return the content of a checkpoint, None if there is no such file or it is not sound.

    Raises
    ------
    ModelFileError
        If the file is no model file at all.
    """
    if checkpoint is None or not os.path.isfile(checkpoint):
        return None
    arrays, document = storage.read(checkpoint)
    try:
        parameters, _ = parameters_from_file(arrays, document["parameters"])
        position = document["learned"].get("position")
        return Peek(str(document["class"]), parameters, position if isinstance(position, dict) else None)
    except storage.UNSOUND:
        return None  # noticed by the fit that resumes it


class FinishedTrainingWarning(UserWarning):
    """Given when `fit` has learned nothing, since the training that it resumes was complete before."""


def warn_finished(n_iter: int, max_iter: int | None, remedy: str) -> None:
    """Warn that `fit` with `warm_start` has learned nothing, since the training was complete before."""
    warn(
        f"warm_start=True resumes a training that is complete after {n_iter} batches (max_iter={max_iter}): nothing "
        f"was learned now. To learn more, {remedy}.",
        FinishedTrainingWarning,
    )


class Checkpoint:
    """A file that the state of a training is written to now and then.

    If it cannot be written, because the disk is full for instance, there is one warning, and the next try is at the
    next time. The file that was there before stays.

    Parameters
    ----------
    path : str or path
        Name of the file.
    save : callable
        A function of the path that writes the file.
    seconds : float
        Time between two tries.
    """

    def __init__(self, path: str | os.PathLike[str], save: Callable[[Any], None], seconds: float) -> None:
        self._path, self._save, self._seconds = path, save, seconds
        self._tried = time.monotonic()
        self._failing = False

    @property
    def due(self) -> bool:
        """Whether it is time for the next try."""
        return time.monotonic() - self._tried >= self._seconds

    def write(self, n_iter: int) -> None:
        """Write the file after so many batches, or warn that it could not be written."""
        error = self._try()
        if error is not None and not self._failing:
            self._warn(
                f"could not be written after {n_iter} batches: {error}. The training continues, and the next try is in "
                f"{self._seconds:g} seconds."
            )
        self._failing = error is not None

    def finish(self, n_iter: int) -> None:
        """Write the file for the last time, or warn that it holds an earlier state."""
        error = self._try()
        if error is not None:
            left = "holds an earlier state" if os.path.exists(self._path) else "does not exist"
            self._warn(
                f"could not be written at the end, after {n_iter} batches: {error}. The model in memory is that after "
                f"all batches; the file {left}."
            )

    def _try(self) -> OSError | None:
        """Write the file; return the error if that fails."""
        try:
            self._save(self._path)
        except OSError as error:
            return error
        finally:
            self._tried = time.monotonic()
        return None

    def _warn(self, text: str) -> None:
        warn(f"checkpoint {os.fspath(self._path)!r} {text}", RuntimeWarning)
