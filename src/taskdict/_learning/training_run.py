"""A training run: the one owner of the state of a training.

A run takes batches from its source, gives them to the trainer, and keeps the result in its record, a
:class:`taskdict._learning.training.Training`. Nothing else changes the record. The estimator that is being fitted
shares it, so its attributes are always those after a whole batch. A run also writes the checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from taskdict._common.progress import Reporter
from taskdict._files.checkpoint import Checkpoint
from taskdict._learning.descent import DivergedError
from taskdict._learning.state import Outcome, State
from taskdict._learning.trainer import Trainer
from taskdict._learning.training import Training
from taskdict._native import BadSignalError
from taskdict.streams.base import StreamEndedError
from taskdict.streams.pairs import Batch, Source

CHECKPOINT_SECONDS = 20.0  # between two checkpoints, at least
AVERAGED_BATCHES = 20  # in the objective that is shown

Write = Callable[[Any, Training], None]  # of a path and a record


class TrainingRun:
    """Learns from batch after batch.

    Parameters
    ----------
    trainer : Trainer
        Takes the steps.
    source : Source
        Gives the batches, in the units of the user.
    training : Training
        The record. The run changes its state and its steps.
    learning_rate : object
        The parameter of the estimator, for error messages.
    """

    def __init__(self, trainer: Trainer, source: Source, training: Training, learning_rate: Any) -> None:
        self.trainer = trainer
        self.source = source
        self.training = training
        self._learning_rate = learning_rate

    @property
    def done(self) -> bool:
        """Whether there is nothing left to learn."""
        return self.trainer.is_done(self.training.state)

    def run(
        self,
        batch_size: int,
        reporter: Reporter,
        checkpoint: str | os.PathLike[str] | None,
        write: Write,
        conclude: Callable[[], None],
    ) -> None:
        """Learn until the schedule ends, or a callback ends it.

        Parameters
        ----------
        batch_size : int
            Samples to take for each batch.
        reporter : Reporter
            Calls the callbacks after each batch.
        checkpoint : path or None
            A file that the record is written to now and then.
        write : callable
            Writes a record to a path.
        conclude : callable
            Called after the last batch, before the record is written for the last time.
        """
        training = self.training
        file = None
        if checkpoint is not None:
            file = Checkpoint(checkpoint, lambda path: write(path, self.training), CHECKPOINT_SECONDS)
            if training.state.t == 0:
                file.write(0)
        n_signals = 0
        seen = training.state, len(training.steps)  # by the callbacks
        try:
            while not self.done:
                batch = self._take(batch_size)
                self.step(batch, self.source.state())
                n_signals += len(batch.X) + len(batch.others)
                stop = reporter.report(
                    n_iter=training.state.t,
                    n_signals=n_signals,
                    batch=len(batch.X),
                    objective=float(np.nanmean([step.objective for step in training.steps[-AVERAGED_BATCHES:]])),
                    nonzeros=None,
                    done=self.done,
                )
                seen = training.state, len(training.steps)
                if stop:
                    break
                if file is not None and (file.due or self.done):
                    file.write(training.state.t)  # after the callbacks: they have seen the state that it holds
        except KeyboardInterrupt as interrupt:
            if checkpoint is not None:
                self._write_seen(*seen, interrupt, checkpoint, write)
            raise
        conclude()
        if file is not None:
            file.finish(self.training.state.t)

    def step(self, batch: Batch, position: Any) -> None:
        """Learn from one batch; either all of it counts or, if anything is raised, nothing."""
        training = self.training
        try:
            state, step = self.trainer.step(training.state, training.scaling.inside(batch), position)
        except BadSignalError:
            raise_bad_signal(batch, self.source, training.state.t)
        if step.outcome is Outcome.DIVERGED:
            training.state = state
            raise DivergedError(
                f"learning_rate={self._learning_rate} diverges: {step.message} The model before that step of this "
                "fit is kept."
            )
        training.steps.append(step)
        training.state = state

    def _take(self, size: int) -> Batch:
        try:
            return self.source.take(size)
        except StreamEndedError:
            raise StreamEndedError(
                f"the stream ended after {self.training.state.t} batches, before "
                f"max_iter={self.trainer.schedule.max_iter}. The model learned so far is kept and can be used. A "
                "function that returns an iterator makes a stream that does not end."
            ) from None

    def _write_seen(self, state: State, n_steps: int, interrupt: BaseException, path: Any, write: Write) -> None:
        """Write a checkpoint of the state that callbacks have seen, while an interrupt is on its way."""
        try:
            write(path, replace(self.training, state=state, steps=self.training.steps[:n_steps]))
        except (ValueError, OSError) as error:  # the interrupt must not be lost
            interrupt.add_note(f"checkpoint {os.fspath(path)!r} could not be written: {error}.")


def raise_bad_signal(batch: Batch, source: Source, t: int) -> NoReturn:
    """Raise an error that names the first signal of a batch that is not finite."""
    kept = " The model learned from the batches before is kept." if t > 0 else ""
    for X, unlabelled in ((batch.X, False), (batch.others, True)):
        bad = np.flatnonzero(~np.isfinite(X).all(axis=1))
        if len(bad) > 0:
            raise ValueError(
                f"X must be finite, but {source.name(int(bad[0]), unlabelled)} contains NaN or infinity. Remove or "
                f"impute such values first.{kept}"
            ) from None
    raise ValueError(f"X holds values that are too large for its dtype.{kept}") from None
