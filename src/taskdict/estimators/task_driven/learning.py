"""How the task-driven estimators learn: from the first sample to the last batch, with checkpoints on the way."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict import storage
from taskdict._fingerprint import KIND
from taskdict._native import BadSignalError
from taskdict._text import message
from taskdict._threads import one_blas_thread, resolve_threads
from taskdict._validation import check_count, check_dictionary, check_flag, check_penalty
from taskdict.checkpoints import Checkpoint, check_checkpoint
from taskdict.constraints import ConstraintSet, UnitBall
from taskdict.descent import Batch, DivergedError, Objective, Parameters, Sets
from taskdict.estimators._learner import LearnerMixin, warn_finished
from taskdict.estimators._parameters import NOT_IN_FILES, can_be_written
from taskdict.estimators.task_driven.files import Scaling, Training
from taskdict.estimators.task_driven.model import TaskModel
from taskdict.estimators.task_driven.sources import StreamSource
from taskdict.gradients import Coding, Part
from taskdict.initialisation import learn_dictionary, start_transform
from taskdict.losses import CodeLoss
from taskdict.progress import Reporter
from taskdict.schedule import Schedule
from taskdict.storage import check_writable
from taskdict.streams import Stream, StreamEndedError
from taskdict.training import Member, State, Trainer

Floats = NDArray[Any]

LAMBDA1 = 0.15  # for signals of norm one, as in the paper
NU = 0.1  # divided by the number of samples
UNKNOWN = 100_000  # samples that a stream of unknown length is taken to have
LARGEST = {np.dtype(np.float32): 1e12, np.dtype(np.float64): 1e60}  # size of signals and targets, or one over it
CHECKPOINT_SECONDS = 20.0  # between two checkpoints, at least


@dataclass(frozen=True)
class _ScaledSet:
    """A set of W as the user means it, for a W that is larger by a factor."""

    kept: ConstraintSet
    factor: float

    def project(self, matrix: Floats) -> Floats:
        """Return the nearest point."""
        return self.kept.project(matrix / self.factor) * self.factor


class TaskLearner(LearnerMixin, TaskModel):
    """`fit` and `partial_fit` of the task-driven estimators, up to what they make of targets."""

    _LEARNED = "_training"
    _IN_STEP = ("n_features_in_", "feature_names_in_", "classes_", "_flat_and_targets")
    _warns_of_finished_checkpoint = True

    @abstractmethod
    def _selects(self) -> list[Any]:
        """Return for each model what it makes of targets, see :class:`taskdict.training.Member`."""

    @abstractmethod
    def _n_outputs(self) -> int:
        """Return the number of outputs of each model."""

    def _batch_factor(self) -> float:
        """Return how many samples a batch needs for each that a model sees."""
        return 1.0

    @abstractmethod
    def _open_pairs(
        self, X: Any, y: Any, sample_weight: Any, validation: float, seed: int, previous: Training | None
    ) -> Any:
        """Return a source of batches with targets that are numbers (of classes, or in columns)."""

    def _target_scaling(self, y: Floats) -> tuple[float, tuple[float, ...]]:
        """Return s and the offset of the targets."""
        return 1.0, (0.0,)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._check_parameters()
        Reporter(self, None, self.callbacks, self.verbose)  # raises before anything is read
        check_checkpoint(self.checkpoint)
        going_on = check_flag("warm_start", self.warm_start) and "_training" in vars(self)
        previous = self._training if going_on else None
        if previous is None and self.checkpoint is not None and os.path.exists(self.checkpoint):
            previous = self._read_checkpoint()
            if isinstance(X, Stream) and StreamSource.is_state(previous.state.position):
                with contextlib.suppress(ValueError):  # of another stream, which is noticed later
                    X.restore(previous.state.position["begin"])
        validation = self.validation_fraction if self.early_stopping or len(self._mus()) > 1 else 0.0
        seed = previous.seed if previous is not None else int(check_random_state(self.random_state).randint(2**31 - 1))
        with one_blas_thread():
            source = self._open_pairs(X, y, sample_weight, validation, seed, previous)
            compared = self.checkpoint is not None or self.warm_start
            fingerprint = source.fingerprint(resolve_threads(self.n_threads)) if compared else ""
            if previous is not None:
                self._check_continues(previous, source)
                if not going_on:
                    self._check_data(previous, fingerprint)
                else:  # who calls again wants more, also after an early stop
                    state = replace(previous.state, stopped=False, stale=0)
                    same = previous.fingerprint in ("", fingerprint)
                    previous = replace(previous, state=state if same else state.unguarded())
            if self.checkpoint is not None and (previous is None or not self._is_finished(previous)):
                check_writable(self.checkpoint, "checkpoint")  # before any work is done
            trainer = self._trainer(source, previous, seed, fingerprint)
            if previous is not None and trainer.done:
                self._warn_finished(from_file=not going_on)
                if not going_on:
                    return
            total = self._schedule(self._training.scaling).total
            with Reporter(self, total, self.callbacks, self.verbose) as reporter:
                self._descend(trainer, source, reporter)

    def _descend(self, trainer: Trainer, source: Any, reporter: Reporter) -> None:
        """Learn from batch after batch; what the model has is always that after a whole batch."""
        training = self._training
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(self.checkpoint, self.save, CHECKPOINT_SECONDS)
            if training.state.t == 0:
                checkpoint.write(0)
        size = max(1, round(self._batch_factor() * check_count("batch_size", self.batch_size)))
        n_signals = 0
        seen = training.state, len(training.steps)  # by the callbacks
        try:
            while not trainer.done:
                batch = self._take(source, size)
                self._learn(trainer, batch, source)
                n_signals += len(batch.X) + (0 if batch.unlabelled is None else len(batch.unlabelled))
                stop = reporter.report(
                    n_iter=training.state.t,
                    n_signals=n_signals,
                    batch=len(batch.X),
                    objective=float(np.nanmean([step.objective for step in training.steps[-20:]])),
                    nonzeros=None,
                    done=trainer.done,
                )
                seen = training.state, len(training.steps)
                if stop:
                    break
                if checkpoint is not None and checkpoint.due:
                    checkpoint.write(training.state.t)  # after the callbacks: what it holds, they have seen
        except KeyboardInterrupt as interrupt:
            self._keep(*seen, interrupt)
            raise
        if checkpoint is not None:
            checkpoint.finish(training.state.t)

    def _take(self, source: Any, size: int) -> Batch:
        try:
            batch: Batch = source.take(size)
        except StreamEndedError:
            raise StreamEndedError(
                f"the stream ended after {self._training.state.t} batches, before max_iter={self.max_iter}. The model "
                "learned so far is kept and can be used. A function that returns an iterator makes a stream that does "
                "not end."
            ) from None
        return batch

    def _keep(self, state: State, n_steps: int, interrupt: BaseException) -> None:
        """Write a checkpoint of an earlier state, if there is to be one, while an interrupt is on its way."""
        now = self._training
        if self.checkpoint is not None:
            self._training = replace(now, state=state, steps=now.steps[:n_steps])
            try:
                self.save(self.checkpoint)
            except (ValueError, OSError) as error:  # the interrupt must not be lost
                interrupt.add_note(f"checkpoint {os.fspath(self.checkpoint)!r} could not be written: {error}.")
            finally:
                self._training = now

    def _learn(self, trainer: Trainer, batch: Batch, source: Any | None) -> None:
        training = self._training
        position = training.state.position if source is None else source.state()
        try:
            step = trainer.step(training.scaling.inside(batch), position)
        except BadSignalError:
            self._raise_bad(batch, source, training.state.t)
        except DivergedError as error:
            if trainer.state is not None:  # the last good one
                training.state = trainer.state
            raise DivergedError(
                f"learning_rate={self.learning_rate} diverges: {error} The model before that step is kept."
            ) from None
        assert trainer.state is not None
        training.steps.append(step)
        training.state = trainer.state

    def _raise_bad(self, batch: Batch, source: Any | None, t: int) -> None:
        kept = " What was learned from the batches before is kept." if t > 0 else ""
        for X, unlabelled in ((batch.X, False), (batch.unlabelled, True)):
            bad = np.flatnonzero(~np.isfinite(X).all(axis=1)) if X is not None else np.empty(0, np.intp)
            if len(bad) > 0:
                name = f"row {bad[0]}" if source is None else source.name(int(bad[0]), unlabelled)
                raise ValueError(
                    f"X must be finite, but {name} contains NaN or infinity. Remove or impute such values first.{kept}"
                ) from None
        raise ValueError(f"X holds values that are too large for its dtype.{kept}") from None

    def _trainer(self, source: Any, previous: Training | None, seed: int, fingerprint: str) -> Trainer:
        """Return a trainer that is ready to step, with `_training` set to what it has learned."""
        sample = source.sample()
        if not all(np.isfinite(X).all() for X in (sample.X, sample.unlabelled) if X is not None):
            self._raise_bad(sample, source, 0 if previous is None else previous.state.t)
        if previous is None:
            scaling, lambda1, nu = self._scales(sample, source.n_labelled)
        else:
            scaling, lambda1, nu = previous.scaling, previous.lambda1, previous.nu
            if self.lambda1 is not None:
                lambda1 = check_penalty("lambda1", self.lambda1)
            if self.nu is not None:
                nu = check_penalty("nu", self.nu)
        inside = scaling.inside(sample)
        validation = None if source.validation is None else scaling.inside(source.validation)
        n_threads = resolve_threads(self.n_threads)
        members = self._members(scaling, lambda1, nu, source.n_features)
        size = check_count("batch_size", self.batch_size)
        trainer = Trainer(members, self._schedule(scaling), inside, validation, size, seed, n_threads)
        if previous is not None:
            if validation is None and previous.state.best is not None:  # go on from what is in use
                state = replace(previous.state, parameters=previous.state.best, best=None, best_value=np.inf, stale=0)
                previous = replace(previous, state=state)
            trainer.resume(previous.state)
            assert trainer.state is not None
            previous = replace(previous, state=trainer.state)
            if source.reads_like(previous.state.position):
                source.restore(previous.state.position)
            self._publish(replace(previous, lambda1=lambda1, nu=nu, fingerprint=fingerprint))
            return trainer
        starts = self._starts(inside, members, seed, n_threads)
        try:
            if len(members[0].objective.encode(starts[0], inside.X[:1000], n_threads).encoded.indices) == 0:
                warnings.warn(
                    f"the codes of all signals are zero: lambda1={lambda1:.3g} is too large for them.",
                    UserWarning,
                    stacklevel=5,
                )
            trainer.start(starts)
        except DivergedError as error:
            raise DivergedError(f"learning_rate={self.learning_rate!r} found none: {error}") from None
        assert trainer.state is not None
        state = replace(trainer.state, position=source.state())
        trainer.state = state
        self._publish(Training(scaling, lambda1, nu, seed, state, [], fingerprint))
        return trainer

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Take one step on the samples that are given, all in one batch."""
        self._check_parameters()
        previous = vars(self).get("_training")
        seed = previous.seed if previous is not None else int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(X, Stream):
            raise TypeError(
                "X must be an array, got a stream: partial_fit(*stream.take_pairs(n)) learns from its next."
            )
        source = self._open_pairs(X, y, sample_weight, 0.0, seed, previous)
        with one_blas_thread():
            trainer = self._trainer(source, previous, seed, "")
            schedule = trainer.schedule
            trainer.schedule = replace(
                schedule, max_iter=2**62, t0=schedule.max_iter / 10, mus=schedule.mus[-1:]
            )  # no end
            trainer.state = self._training.state.unguarded()  # the limits of fit are those of its data
            self._learn(trainer, source.take(source.n_signals), None)
            self._training.state = replace(self._training.state, position=None).unguarded()

    def _starts(self, inside: Batch, members: Sequence[Member], seed: int, n_threads: int) -> list[Parameters]:
        """Return where each model starts: a dictionary learned without a task, the first transform, and W = 0."""
        X = inside.X if inside.unlabelled is None else np.concatenate([inside.X, inside.unlabelled])
        Z = self._first_transform(X, seed)
        objective, q = members[0].objective, self._n_outputs()
        shape = (sum(self._sizes()), X.shape[1] if Z is None else len(Z))

        def learned(signals: Floats, atoms: int, parts: Sequence[Part]) -> Floats:
            seen = signals if Z is None else np.ascontiguousarray(signals @ Z.T)
            zero = np.zeros((atoms, shape[1]), X.dtype)
            ball = UnitBall(self.positive_dictionary)
            return learn_dictionary(seen, zero, objective.coding, ball, parts, seed, n_threads)

        if self.dictionary_init is None:
            dictionaries = [learned(X, shape[0], objective.parts)] * len(members)
        elif isinstance(self.dictionary_init, str):  # "classes"
            dictionaries = []
            for member in members:
                mine = member.batch(inside)
                kinds, kind_of = np.unique(mine.y, axis=0, return_inverse=True)
                sizes = [len(share) for share in np.array_split(np.arange(shape[0]), max(1, len(kinds)))]
                groups = [mine.X[kind_of.ravel() == kind] for kind in range(len(kinds))] or [X]
                atoms = [learned(group, size, ()) for group, size in zip(groups, sizes, strict=True) if size > 0]
                dictionaries.append(np.concatenate(atoms))
        else:
            D = check_dictionary(self.dictionary_init, X.dtype, name="dictionary_init")
            if D.shape != shape:
                raise ValueError(
                    f"dictionary_init must have shape (n_components, n_features) = {shape}, got {D.shape}."
                )
            D = np.ascontiguousarray(UnitBall(self.positive_dictionary).project(D), X.dtype)
            dictionaries = [D] * len(members)
        W, b = np.zeros(objective.model.shape(q, *shape), X.dtype), np.zeros(q, X.dtype)
        return [Parameters(D, W, b, Z) for D in dictionaries]

    def _first_transform(self, X: Floats, seed: int) -> Floats | None:
        if self.n_measurements is None:
            return None
        r, m = check_count("n_measurements", self.n_measurements), X.shape[1]
        if isinstance(self.transform_init, str):
            if self.transform_init == "pca" and r > m:
                raise ValueError(f"n_measurements={r} must be at most the number of features, {m}, to start from PCA.")
            Z = start_transform(X, r, self.transform_init, seed)
        else:
            Z = check_dictionary(self.transform_init, X.dtype, name="transform_init")
            if Z.shape != (r, m):
                raise ValueError(
                    f"transform_init must have shape (n_measurements, n_features) = {(r, m)}, got {Z.shape}."
                )
        if self.transform_set is not None:
            Z = np.ascontiguousarray(self.transform_set.project(Z), X.dtype)
        return Z

    def _scales(self, sample: Batch, n_labelled: int | None) -> tuple[Scaling, float, float]:
        """Return the scaling, and the penalties that the user has left to us."""
        X = sample.X if sample.unlabelled is None else np.concatenate([sample.X, sample.unlabelled])
        top = float(np.abs(X).max(initial=0))
        size = top * math.sqrt(float(np.square(X / top, dtype=np.float64).sum(axis=1).mean())) if top > 0 else 1.0
        c = 1.0 if isinstance(self._loss(), CodeLoss) else size
        s, offset = self._target_scaling(sample.y)
        largest = LARGEST[X.dtype]
        if not all(1 / largest < value < largest for value in (size, s)):
            what, value = ("X", size) if not 1 / largest < size < largest else ("y", s)
            raise ValueError(
                f"{what} is of size {value:.1e}, too far from one to compute with in {X.dtype}: scale it or use "
                "float64."
            )
        lambda1 = LAMBDA1 * size if self.lambda1 is None else check_penalty("lambda1", self.lambda1)
        degree = self._model().degree
        nu = NU / max(1, n_labelled or UNKNOWN) * c ** (2 * degree) if self.nu is None else check_penalty("nu", self.nu)
        return Scaling(c, s, offset, degree), lambda1, nu

    def _members(self, scaling: Scaling, lambda1: float, nu: float, n_features: int) -> list[Member]:
        coding = Coding(lambda1 / scaling.c, float(self.lambda2), bool(self.positive_code))
        objective = Objective(
            self._model(),
            self._loss(),
            coding,
            self._parts(n_features),
            nu=nu / scaling.c ** (2 * scaling.degree),
            nu2=float(self.nu2) / scaling.s / scaling.s,
            fit_intercept=bool(self.fit_intercept),
        )
        W = None if self.coef_set is None else _ScaledSet(self.coef_set, scaling.of_model)
        sets = Sets(UnitBall(bool(self.positive_dictionary)), W, self.transform_set)
        return [Member(objective, sets, select) for select in self._selects()]

    def _schedule(self, scaling: Scaling) -> Schedule:
        rho, adaptive, pace = self._steps()
        return Schedule(
            check_count("max_iter", self.max_iter),
            self._mus(),
            rho=rho,
            adaptive=adaptive,
            first_pace=pace,
            reconstruction=(scaling.c / scaling.s) ** 2,
            patience=self.n_iter_no_change if self.early_stopping else None,
            average=self.average,
            relative_nu=self.nu is None,
        )

    def _read_checkpoint(self) -> Training:
        """Return what the file at `checkpoint` has, if it is of a model like this one."""
        path = os.fspath(self.checkpoint)
        try:
            arrays, document = storage.read(path)
        except storage.ModelFileError as error:
            raise storage.ModelFileError(
                f"checkpoint must be the path of a file that an earlier fit has written, or of none: {error} Give "
                "another path, or remove the file."
            ) from None
        mine = type(self).__name__
        if document.get("class") != mine:
            raise ValueError(
                f"checkpoint {path!r} belongs to a {document.get('class')}, but this is a {mine}: "
                "give another path or remove the file."
            )
        try:
            other = type(self)._from_file(arrays, document)
        except storage.UNSOUND as error:
            raise storage.ModelFileError(message(f"checkpoint {path!r} is not sound: {error}.")) from None
        theirs, ours = other.get_params(deep=False), self.get_params(deep=False)
        for name in ours:
            # Parameters that a file does not hold may change; objects are not compared either.
            if name in NOT_IN_FILES or not (hasattr(ours[name], "__array__") or can_be_written(ours[name])):
                continue
            if name == "random_state" and ours[name] is None:
                continue
            if not _same(theirs[name], ours[name]):
                arrays_differ = isinstance(theirs[name], np.ndarray) and hasattr(ours[name], "__array__")
                differ = f"another array as {name}" if arrays_differ else f"{name}={theirs[name]!r}"
                here = "" if arrays_differ else f", but this one has {name}={ours[name]!r}"
                raise ValueError(
                    f"checkpoint {path!r} belongs to a {mine} with {differ}{here}: give another path, or remove the "
                    "file to begin again."
                )
        self._take_targets_of(other)
        return other._training

    def _take_targets_of(self, other: Any) -> None:
        """Take over what another model knows of the targets."""

    def _check_continues(self, previous: Training, source: Any) -> None:
        """Raise if learning cannot go on from `previous` with signals and atoms like these."""
        first = previous.state.parameters[0]
        width = first.D.shape[1] if first.Z is None else first.Z.shape[1]
        if source.n_features != width:
            raise ValueError(
                f"X has {source.n_features} features, but the model was learned from signals with {width}."
            )
        if len(first.D) != sum(self._sizes()):
            raise ValueError(
                f"n_components is {self.n_components}, but the model has {len(first.D)} atoms: the number cannot "
                "change while learning goes on."
            )

    def _check_data(self, previous: Training, fingerprint: str) -> None:
        """Raise unless a checkpoint is of a training on the data with this fingerprint."""
        path = os.fspath(self.checkpoint)
        if not previous.fingerprint.startswith(KIND):
            raise ValueError(
                f"checkpoint {path!r} has no fingerprint of all of its data, so it cannot be resumed: it is from an "
                "earlier version of taskdict, or of a model that was trained without checkpoint. Remove the file "
                "or give another path to train from the beginning."
            )
        if previous.fingerprint != fingerprint:
            raise ValueError(
                f"checkpoint {path!r} belongs to a training on other data (fingerprint {previous.fingerprint}, these "
                f"have {fingerprint}): give another path, or remove the file."
            )

    def _is_finished(self, training: Training) -> bool:
        """Return whether there is nothing left to learn."""
        return training.state.stopped or training.state.t >= self._schedule(training.scaling).total

    def _warn_finished(self, from_file: bool) -> None:
        """Say that `fit` has learned nothing, since the training was complete before."""
        if not from_file:
            warn_finished(self.n_iter_, self.max_iter, "raise max_iter")
        elif self._warns_of_finished_checkpoint:
            warnings.warn(
                f"checkpoint {os.fspath(self.checkpoint)!r} is of a finished training on these data with these "
                "parameters: its model is the result, and nothing was learned now. To train again, remove the file or "
                "give another path.",
                UserWarning,
                stacklevel=5,
            )


def _same(a: Any, b: Any) -> bool:
    """Return whether two values of a parameter are the same."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        try:
            return np.array_equal(np.asarray(a), np.asarray(b))
        except (TypeError, ValueError):
            return False
    return bool(a == b)
