"""`fit` and `partial_fit` of the task-driven estimators, from their parameters to the learned task.

The walk of a fit: parse the parameters, find the training to resume, open the source, begin
(:mod:`taskdict.estimators.task_driven.beginning`), run, conclude. Nothing of the estimator changes before there is a
model to use; `begin` then sets it once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from sklearn.utils import check_random_state

from taskdict._common.atomic_files import check_writable
from taskdict._common.progress import Reporter
from taskdict._common.threads import one_blas_thread, resolve_threads
from taskdict._files import storage
from taskdict._files.checkpoint import check_checkpoint
from taskdict._learning.comparison import TASK_DRIVEN
from taskdict._learning.task_settings import TaskSettings
from taskdict._learning.training import Training
from taskdict.estimators.codes import model_file
from taskdict.estimators.features import Features, read_signals
from taskdict.estimators.task_driven.beginning import Opened, begin
from taskdict.estimators.task_driven.conclusion import conclude
from taskdict.estimators.task_driven.learned import LearnedTask
from taskdict.estimators.task_driven.resuming import (
    again,
    check_continues,
    check_same_data,
    comparison_to_continue,
    is_finished,
    read_checkpoint,
    warn_nothing_learned,
)
from taskdict.estimators.task_driven.targets import Request, Targets
from taskdict.streams import Stream
from taskdict.streams.base import rewind

ENDLESS = 2**62  # batches of a schedule without an end


@dataclass(frozen=True)
class Data:
    """The arguments of `fit` or `partial_fit`."""

    X: Any
    y: Any
    sample_weight: Any = None
    classes: Any = None


def fit_task(estimator: Any, settings: TaskSettings, targets: Targets, data: Data) -> None:
    """Learn from data until `max_iter`, or resume a training that was interrupted.

    Parameters
    ----------
    estimator : estimator
        Whose fit it is. Its learned task is set when there is one to use.
    settings : TaskSettings
        Its parameters.
    targets : Targets
        The kind of its targets, before any are known.
    data : Data
        What to learn from.
    """
    path = estimator.checkpoint
    reporter = Reporter(estimator, None, estimator.callbacks, estimator.verbose)
    check_checkpoint(path)
    earlier: LearnedTask | None = vars(estimator).get("_learned") if settings.warm_start else None
    warm = earlier is not None
    if earlier is None and path is not None and os.path.exists(path):
        earlier = read_checkpoint(estimator, path)
        first = earlier.training.state.position
        if isinstance(data.X, Stream) and isinstance(first, dict):
            rewind(data.X, first.get("begin"))
    previous = None if earlier is None else earlier.training
    n_threads = resolve_threads(estimator.n_threads)
    with one_blas_thread(), reporter:
        reporter.say("reading the signals")
        opened = _open(estimator, targets, data, earlier, settings, reset=not warm)
        compared = path is not None or settings.warm_start
        fingerprint = opened.source.fingerprint(n_threads) if compared else ""
        if previous is not None:
            check_continues(settings, previous, opened.source, opened.targets)
            if warm:
                previous = again(previous, fingerprint)
            else:
                check_same_data(path, previous, fingerprint)
        if path is not None and (previous is None or not is_finished(settings, previous)):
            check_writable(path, "checkpoint")  # before any work is done
        run = begin(estimator, settings, opened, previous, earlier, fingerprint, n_threads, reporter)
        finished = previous is not None and run.done and run.training.is_concluded
        if finished:
            warn_nothing_learned(run.training, run.trainer.schedule.max_iter, None if warm else path)
            if not warm:
                return
        elif warm and previous is not None:
            kept = comparison_to_continue(previous, fingerprint, opened.source.validation)
            run.training.comparison = kept
        reporter.expect(run.trainer.schedule.total)
        run.run(
            settings.samples_of_batch(opened.targets.batch_factor),
            reporter,
            path,
            lambda file, training: write_training(estimator, file, training),
            lambda: None if finished else conclude(estimator, run, reporter),
        )


def partial_fit_task(estimator: Any, settings: TaskSettings, targets: Targets, data: Data) -> None:
    """Take one step on the samples that are given, all in one batch; arguments as for `fit_task`."""
    if isinstance(data.X, Stream):
        raise TypeError("X must be an array, got a stream: partial_fit(*stream.take_pairs(n)) learns from its next.")
    earlier: LearnedTask | None = vars(estimator).get("_learned")
    previous = None if earlier is None else earlier.training
    n_threads = resolve_threads(estimator.n_threads)
    settings = replace(settings, early_stopping=False)
    whole = replace(settings, mu=settings.mu[-1:])  # no part of a batch is kept for validation
    opened = _open(estimator, targets, data, earlier, whole, reset=earlier is None)
    endless = replace(settings, max_iter=settings.n_batches(None))
    with one_blas_thread():
        if previous is not None:
            check_continues(settings, previous, opened.source, opened.targets)
        run = begin(estimator, endless, opened, previous, earlier, "", n_threads, None)
        run.training.max_iter = 0 if previous is None else previous.max_iter
        run.training.comparison, run.training.best = None, TASK_DRIVEN
        schedule = run.trainer.schedule
        run.trainer.schedule = replace(schedule, max_iter=ENDLESS, t0=schedule.max_iter / 10, mus=schedule.mus[-1:])
        run.training.state = run.training.state.unguarded()  # the limits of fit are those of its data
        run.step(opened.source.take(opened.n_signals), None)
        run.training.state = replace(run.training.state, position=None).unguarded()


def _open(
    estimator: Any, targets: Targets, data: Data, earlier: LearnedTask | None, settings: TaskSettings, reset: bool
) -> Opened:
    """Open the source of batches, with the seed and the targets of a training that is resumed."""
    position = None
    if earlier is None:
        seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    else:
        seed, position = earlier.training.seed, earlier.training.state.position
        targets = targets.like(earlier.targets)
    X, features = data.X, None
    if not isinstance(X, Stream):
        X, features = read_signals(estimator, X, reset=reset)
    source, found = targets.open(
        Request(X, data.y, data.sample_weight, settings.validation, seed, position, data.classes)
    )
    n_signals = 0 if isinstance(X, Stream) else X.shape[0]
    if features is None:
        features = Features(source.n_features) if reset else Features.of(estimator)
    return Opened(source, found, features, seed, n_signals)


def write_training(estimator: Any, path: str | os.PathLike[str], training: Training) -> None:
    """Write a model file of an estimator with a record of its training, which may be an earlier one."""
    learned: LearnedTask = estimator._learned
    arrays, document = model_file(estimator, *learned.to_file(training), learned.targets.settings.given)
    storage.write(path, type(estimator).__name__, arrays, document)
