"""`fit` and `partial_fit` of the task-driven estimators, from their parameters to the learned task.

The walk of a fit: parse the parameters, find the training to resume, open the source, build the trainer, run. Nothing
of the estimator changes before there is a model to use; `publish` then sets it once.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from taskdict._coding.coded_batch import Coding
from taskdict._common.atomic_files import check_writable
from taskdict._common.progress import Reporter
from taskdict._common.text import message
from taskdict._common.threads import one_blas_thread, resolve_threads
from taskdict._files import storage
from taskdict._files.checkpoint import FinishedTrainingWarning, check_checkpoint, warn_finished
from taskdict._files.fingerprint import KIND
from taskdict._files.values import NOT_IN_FILES, can_be_written
from taskdict._learning.committee import Committee, Member
from taskdict._learning.descent import DivergedError
from taskdict._learning.objective import Objective
from taskdict._learning.scaling import Scaling, check_sizes, size_of
from taskdict._learning.sets import Sets
from taskdict._learning.start import first_weights
from taskdict._learning.task_settings import DEFAULT_LAMBDA1, TaskSettings
from taskdict._learning.trainer import NO_RATE, Trainer
from taskdict._learning.training import Training
from taskdict._learning.training_run import TrainingRun, raise_bad_signal
from taskdict.constraints import UnitBall
from taskdict.estimators.codes import model_file
from taskdict.estimators.features import Features, read_signals
from taskdict.estimators.task_driven.learned import LearnedTask
from taskdict.estimators.task_driven.targets import Request, Targets
from taskdict.losses import sees_codes
from taskdict.streams import Stream
from taskdict.streams.base import rewind
from taskdict.streams.pairs import Batch, Source

NU = 0.1  # divided by the number of samples
UNKNOWN_SAMPLES = 100_000  # that a stream of unknown length is taken to have
CHECKED_CODES = 1000  # signals that are encoded to see whether lambda1 leaves any code
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
    reporter = Reporter(estimator, settings.max_iter * len(settings.mu), estimator.callbacks, estimator.verbose)
    check_checkpoint(path)
    earlier: LearnedTask | None = vars(estimator).get("_learned") if settings.warm_start else None
    warm = earlier is not None
    if earlier is None and path is not None and os.path.exists(path):
        earlier = read_checkpoint(estimator, path)
        begin = earlier.training.state.position
        if isinstance(data.X, Stream) and isinstance(begin, dict):
            rewind(data.X, begin.get("begin"))
    previous = None if earlier is None else earlier.training
    n_threads = resolve_threads(estimator.n_threads)
    with one_blas_thread():
        opened = _open(estimator, targets, data, earlier, settings.validation, reset=not warm)
        compared = path is not None or settings.warm_start
        fingerprint = opened.source.fingerprint(n_threads) if compared else ""
        if previous is not None:
            _check_continues(settings, previous, opened.source)
            if warm:
                previous = _again(previous, fingerprint)
            else:
                _check_same_data(path, previous, fingerprint)
        if path is not None and (previous is None or not _is_finished(settings, previous)):
            check_writable(path, "checkpoint")  # before any work is done
        run = _begin(estimator, settings, opened, previous, earlier, fingerprint, n_threads)
        if previous is not None and run.done:
            _warn_finished(run.training, settings, None if warm else path)
            if not warm:
                return
        size = max(1, round(opened.targets.batch_factor * settings.batch_size))
        with reporter:
            run.run(size, reporter, path, lambda file, training: write_training(estimator, file, training))


def partial_fit_task(estimator: Any, settings: TaskSettings, targets: Targets, data: Data) -> None:
    """Take one step on the samples that are given, all in one batch; arguments as for `fit_task`."""
    if isinstance(data.X, Stream):
        raise TypeError("X must be an array, got a stream: partial_fit(*stream.take_pairs(n)) learns from its next.")
    earlier: LearnedTask | None = vars(estimator).get("_learned")
    previous = None if earlier is None else earlier.training
    n_threads = resolve_threads(estimator.n_threads)
    opened = _open(estimator, targets, data, earlier, validation=0.0, reset=earlier is None)
    with one_blas_thread():
        if previous is not None:
            _check_continues(settings, previous, opened.source)
        run = _begin(estimator, settings, opened, previous, earlier, "", n_threads)
        schedule = run.trainer.schedule
        run.trainer.schedule = replace(schedule, max_iter=ENDLESS, t0=schedule.max_iter / 10, mus=schedule.mus[-1:])
        run.training.state = run.training.state.unguarded()  # the limits of fit are those of its data
        run.step(opened.source.take(opened.n_signals), None)
        run.training.state = replace(run.training.state, position=None).unguarded()


@dataclass(frozen=True)
class _Opened:
    """The source of a fit, with the targets and features that it has shown."""

    source: Source
    targets: Targets
    features: Features
    seed: int
    n_signals: int  # of an array


def _open(
    estimator: Any, targets: Targets, data: Data, earlier: LearnedTask | None, validation: float, reset: bool
) -> _Opened:
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
    source, found = targets.open(Request(X, data.y, data.sample_weight, validation, seed, position, data.classes))
    n_signals = 0 if isinstance(X, Stream) else X.shape[0]
    if features is None:
        features = Features(source.n_features) if reset else Features.of(estimator)
    return _Opened(source, found, features, seed, n_signals)


def _begin(
    estimator: Any,
    settings: TaskSettings,
    opened: _Opened,
    previous: Training | None,
    earlier: LearnedTask | None,
    fingerprint: str,
    n_threads: int,
) -> TrainingRun:
    """Return a run that is ready to step, and publish its record in the estimator."""
    source, targets, seed = opened.source, opened.targets, opened.seed
    sample = source.sample()
    if not all(np.isfinite(X).all() for X in (sample.X, sample.others)):
        raise_bad_signal(sample, source, 0 if previous is None else previous.state.t)
    if previous is None:
        scaling, lambda1, nu = _units(settings, targets, sample, source.n_labelled)
        sizes = settings.sizes(source.n_features, source.n_labelled)
    else:
        scaling = previous.scaling
        lambda1 = previous.lambda1 if settings.lambda1 is None else settings.lambda1
        nu = previous.nu if settings.nu is None else settings.nu
        assert earlier is not None
        sizes = settings.n_components or earlier.sizes
    settings = replace(settings, n_components=sizes)
    inside = scaling.inside(sample)
    validation = None if source.validation is None else scaling.inside(source.validation)
    members = _members(settings, targets, scaling, lambda1, nu, source.n_features)
    committee = Committee(members, n_threads)
    trainer = Trainer(committee, settings.schedule(scaling), inside, validation, settings.batch_size, seed)
    if previous is None:
        weights = first_weights(settings, members, inside, sum(sizes), targets.n_outputs, seed, n_threads)
        if len(members[0].objective.encode(weights[0], inside.X[:CHECKED_CODES], n_threads).encoded.indices) == 0:
            warnings.warn(
                f"the codes of all signals are zero: lambda1={lambda1:.3g} is too large for them.",
                UserWarning,
                stacklevel=6,
            )
        state = trainer.start(weights)
    else:
        state = previous.state
        if validation is None and state.best is not None:  # continue from the weights in use
            state = replace(state, weights=state.best, best=None, best_value=np.inf, stale=0)
        state = trainer.resume(state)
    rate = estimator.learning_rate
    if state is None:
        raise DivergedError(f"learning_rate={rate!r} found none: {NO_RATE}")
    if previous is None:
        training = Training(scaling, lambda1, nu, seed, replace(state, position=source.state()), [], fingerprint)
    else:
        if source.reads_like(state.position):
            source.restore(state.position)
        training = replace(previous, state=state, lambda1=lambda1, nu=nu, fingerprint=fingerprint)
    estimator._learned = LearnedTask.of(settings, targets, training)
    opened.features.publish(estimator)
    return TrainingRun(trainer, source, training, rate)


def _units(
    settings: TaskSettings, targets: Targets, sample: Batch, n_labelled: int | None
) -> tuple[Scaling, float, float]:
    """Return the scaling, and the penalties that were left open."""
    X = sample.X if sample.unlabelled is None else np.concatenate([sample.X, sample.unlabelled])
    size = size_of(X) or 1.0
    c = 1.0 if sees_codes(targets.loss) else size
    s, offset = targets.scaling(sample.y, settings.fit_intercept)
    check_sizes(X.dtype, size, s)
    degree = settings.model.degree
    lambda1 = DEFAULT_LAMBDA1 * size if settings.lambda1 is None else settings.lambda1
    nu = NU / max(1, n_labelled or UNKNOWN_SAMPLES) * c ** (2 * degree) if settings.nu is None else settings.nu
    return Scaling(c, s, offset, degree), lambda1, nu


def _members(
    settings: TaskSettings, targets: Targets, scaling: Scaling, lambda1: float, nu: float, n_features: int
) -> list[Member]:
    """Return the models of a committee, in the units of the training."""
    assert settings.n_components is not None
    objective = Objective(
        settings.model,
        targets.loss,
        Coding(scaling.lambda1(lambda1), settings.lambda2, settings.positive_code),
        settings.parts(settings.n_components, n_features),
        nu=scaling.nu(nu),
        nu2=scaling.nu2(settings.nu2),
        fit_intercept=settings.fit_intercept,
    )
    ball = UnitBall(settings.positive_dictionary)
    sets = Sets(ball, scaling.coef_set(settings.coef_set), settings.transform_set)
    return [Member(objective, sets, select) for select in targets.selects]


def write_training(estimator: Any, path: str | os.PathLike[str], training: Training) -> None:
    """Write a model file of an estimator with a record of its training, which may be an earlier one."""
    learned: LearnedTask = estimator._learned
    arrays, document = model_file(estimator, *learned.to_file(training), learned.targets.settings.given)
    storage.write(path, type(estimator).__name__, arrays, document)


def read_checkpoint(estimator: Any, path: str | os.PathLike[str]) -> LearnedTask:
    """Return the learned task of a checkpoint, if it is of an estimator with the same parameters."""
    name = os.fspath(path)
    try:
        arrays, document = storage.read(path)
    except storage.ModelFileError as error:
        raise storage.ModelFileError(
            f"checkpoint must be the path of a file that an earlier fit has written, or of none: {error} Give "
            "another path, or remove the file."
        ) from None
    mine = type(estimator).__name__
    if document.get("class") != mine:
        raise ValueError(
            f"checkpoint {name!r} belongs to a {document.get('class')}, but this is a {mine}: "
            "give another path or remove the file."
        )
    try:
        other = type(estimator)._from_file(arrays, document)
    except storage.UNSOUND as error:
        raise storage.ModelFileError(message(f"checkpoint {name!r} is not sound: {error}.")) from None
    _check_same_parameters(name, mine, other.get_params(deep=False), estimator.get_params(deep=False))
    learned: LearnedTask = other._learned
    return learned


def _check_same_parameters(path: str, kind: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise unless the parameters of a checkpoint are ours, as far as a file holds them."""
    for name, value in ours.items():
        # Parameters that a file does not hold may change; objects are not compared either.
        if name in NOT_IN_FILES or not (hasattr(value, "__array__") or can_be_written(value)):
            continue
        if name == "random_state" and value is None:
            continue
        if not _same(theirs[name], value):
            arrays_differ = isinstance(theirs[name], np.ndarray) and hasattr(value, "__array__")
            differ = f"another array as {name}" if arrays_differ else f"{name}={theirs[name]!r}"
            here = "" if arrays_differ else f", but this one has {name}={value!r}"
            raise ValueError(
                f"checkpoint {path!r} belongs to a {kind} with {differ}{here}: give another path, or remove the "
                "file to begin again."
            )


def _check_same_data(path: str | os.PathLike[str], previous: Training, fingerprint: str) -> None:
    """Raise unless a checkpoint is of a training on the data with this fingerprint."""
    name = os.fspath(path)
    if not previous.fingerprint.startswith(KIND):
        raise ValueError(
            f"checkpoint {name!r} has no fingerprint of all of its data, so it cannot be resumed: it is from an "
            "earlier version of taskdict, or of a model that was trained without checkpoint. Remove the file "
            "or give another path to train from the beginning."
        )
    if previous.fingerprint != fingerprint:
        raise ValueError(
            f"checkpoint {name!r} belongs to a training on other data (fingerprint {previous.fingerprint}, these "
            f"have {fingerprint}): give another path, or remove the file. In cross-validation, use no checkpoint."
        )


def _check_continues(settings: TaskSettings, previous: Training, source: Source) -> None:
    """Raise if a training cannot be resumed with signals and atoms like these."""
    first = previous.state.weights[0]
    width = first.D.shape[1] if first.Z is None else first.Z.shape[1]
    if source.n_features != width:
        raise ValueError(f"X has {source.n_features} features, but the model was learned from signals with {width}.")
    if settings.n_components is not None and len(first.D) != sum(settings.n_components):
        sizes = settings.n_components[0] if len(settings.n_components) == 1 else list(settings.n_components)
        raise ValueError(
            f"n_components is {sizes}, but the model has {len(first.D)} atoms: the number cannot change while "
            "learning continues."
        )


def _again(previous: Training, fingerprint: str) -> Training:
    """Return the record to resume with `warm_start`, also after an early stop."""
    state = replace(previous.state, stopped=False, stale=0)
    same = previous.fingerprint in ("", fingerprint)
    return replace(previous, state=state if same else state.unguarded())


def _is_finished(settings: TaskSettings, training: Training) -> bool:
    """Return whether there is nothing left to learn."""
    return training.state.stopped or training.state.t >= settings.schedule(training.scaling).total


def _warn_finished(training: Training, settings: TaskSettings, path: str | os.PathLike[str] | None) -> None:
    """Warn that `fit` has learned nothing, since the training was complete before; `path` is its file, if any."""
    if path is None:
        warn_finished(len(training.steps), settings.max_iter, "raise max_iter")
        return
    warnings.warn(
        f"checkpoint {os.fspath(path)!r} is of a finished training on these data with these parameters: its model is "
        "the result, and nothing was learned now. To train again, remove the file or give another path.",
        FinishedTrainingWarning,
        stacklevel=6,
    )


def _same(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter are the same."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        try:
            return np.array_equal(np.asarray(a), np.asarray(b))
        except (TypeError, ValueError):
            return False
    return bool(a == b)
