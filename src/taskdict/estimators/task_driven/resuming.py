"""Resuming a training: its checkpoint, and whether parameters and data are those of its beginning."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from taskdict._common.text import message
from taskdict._common.warn import warn
from taskdict._files import storage
from taskdict._files.checkpoint import FinishedTrainingWarning, warn_finished
from taskdict._files.fingerprint import KIND
from taskdict._files.values import NOT_IN_FILES, can_be_written
from taskdict._learning.comparison import Comparison
from taskdict._learning.task_settings import AUTO, TaskSettings
from taskdict._learning.training import Training
from taskdict.estimators.task_driven.learned import LearnedTask
from taskdict.estimators.task_driven.targets import Targets
from taskdict.streams.pairs import Batch, Source


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
    ours = {**estimator.get_params(deep=False), **estimator._settings().given}
    _check_same_parameters(name, mine, other.get_params(deep=False), ours)
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


def check_same_data(path: str | os.PathLike[str], previous: Training, fingerprint: str) -> None:
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


def check_continues(settings: TaskSettings, previous: Training, source: Source, targets: Targets) -> None:
    """Raise if a training cannot be resumed with signals, atoms and a model like these."""
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
    if settings.decision not in (AUTO, previous.decision):
        raise ValueError(
            f"decision is {settings.decision!r}, but the model was learned with {previous.decision!r}, which cannot "
            "change while learning continues."
        )
    if (None if first.Z is None else len(first.Z)) != settings.n_measurements:
        raise ValueError(
            f"n_measurements is {settings.n_measurements}, but the model was learned with "
            f"{None if first.Z is None else len(first.Z)}: it cannot change while learning continues."
        )
    if (len(targets.selects), targets.n_outputs) != (len(previous.state.weights), len(first.b)):
        raise ValueError(
            f"loss={settings.loss!r} and multi_class={settings.multi_class!r} need {len(targets.selects)} models with "
            f"{targets.n_outputs} outputs each, but there are {len(previous.state.weights)} with {len(first.b)}: they "
            "cannot change while learning continues."
        )


def again(previous: Training, fingerprint: str) -> Training:
    """Return the record to resume with `warm_start`, also after an early stop."""
    state = replace(previous.state, stopped=False, stale=0)
    same = previous.fingerprint in ("", fingerprint)
    return replace(previous, state=state if same else state.unguarded())


def comparison_to_continue(previous: Training, fingerprint: str, validation: Batch | None) -> Comparison | None:
    """Return what a training that continues with `warm_start` may keep of its comparison with the baselines.

    It becomes another model than the one of a trial. Errors on a validation part hold if that is the same.
    """
    comparison = previous.comparison
    if comparison is None or comparison.of_trial or validation is None:
        return None
    same = previous.fingerprint == fingerprint and comparison.n_samples == len(validation.X)
    return comparison if same else None


def is_finished(settings: TaskSettings, training: Training) -> bool:
    """Return whether there is nothing left to learn or to compare with the baselines."""
    max_iter = (training.max_iter or np.inf) if settings.max_iter is None else settings.max_iter
    left_out = training.is_left_out(settings.max_iter)
    done = training.state.stopped or left_out or training.state.t >= max_iter * len(settings.mu)
    return done and training.is_concluded


def warn_nothing_learned(training: Training, max_iter: int, path: str | os.PathLike[str] | None) -> None:
    """Warn that `fit` has learned nothing, since the training was complete before; `path` is its file, if any."""
    if path is None:
        if training.is_left_out(None) and not training.steps:
            warn(
                f"warm_start=True resumes a fit that has kept a baseline (kept_={training.best!r}) and left the "
                "training out: nothing was learned now. To train the dictionary all the same, set max_iter.",
                FinishedTrainingWarning,
            )
        else:
            warn_finished(len(training.steps), max_iter, "raise max_iter")
        return
    warn(
        f"checkpoint {os.fspath(path)!r} is of a finished training on these data with these parameters: its model is "
        "the result, and nothing was learned now. To train again, remove the file or give another path.",
        FinishedTrainingWarning,
    )


def _same(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter are the same."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        try:
            return np.array_equal(np.asarray(a), np.asarray(b))
        except (TypeError, ValueError):
            return False
    return bool(a == b)
