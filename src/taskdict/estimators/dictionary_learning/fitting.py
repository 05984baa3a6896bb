"""`fit` and `partial_fit` of :class:`taskdict.DictionaryLearning`.

The estimator holds an :class:`taskdict._learning.online.OnlineLearner`, the one owner of the state of its training. It
is published with the first whole batch; after that, the estimator's attributes follow from it.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from taskdict._coding.rules import Rule
from taskdict._coding.variation import MISSING
from taskdict._common.arrays import Floats
from taskdict._common.deprecation import renamed
from taskdict._common.progress import Reporter
from taskdict._common.threads import resolve_threads
from taskdict._common.validation import (
    Check,
    check_count,
    check_dictionary,
    check_flag,
    check_parameters,
    check_penalty,
    one_of,
    optional,
)
from taskdict._files.checkpoint import warn_finished
from taskdict._learning.online import DictionaryProblem, OnlineLearner, OnlineState, has_converged
from taskdict._learning.scaling import size_of
from taskdict._learning.statistics import no_statistics
from taskdict._learning.task_settings import DEFAULT_LAMBDA1, default_components
from taskdict._native import BadSignalError
from taskdict.constraints import UnitBall
from taskdict.estimators.features import Features, read_signals
from taskdict.streams import ArrayStream, Stream, StreamEndedError, dense_batch
from taskdict.streams.base import rewind

CHECK_EVERY = 20  # batches between two checks whether the objective still falls
AVERAGED_BATCHES = 20  # in the objective that is shown

CHECKS: dict[str, Check] = {
    "n_components": optional(check_count),
    "lambda1": optional(check_penalty),
    "lambda2": check_penalty,
    "positive_code": check_flag,
    "positive_dictionary": check_flag,
    "batch_size": check_count,
    "max_iter": optional(check_count),
    "tol": check_penalty,
    "warm_start": check_flag,
    "missing": one_of(*MISSING),
}


@dataclass(frozen=True)
class DictionarySettings:
    """The parameters of :class:`taskdict.DictionaryLearning`, after all checks."""

    n_components: int | None
    lambda1: float | None
    lambda2: float
    positive_code: bool
    positive_dictionary: bool
    batch_size: int
    max_iter: int | None
    tol: float
    warm_start: bool
    missing: str
    rule: Rule | None  # instead of lambda1

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> DictionarySettings:
        """Return the settings of an estimator; raise for parameters that make no sense."""
        return cls(**check_parameters(parameters, CHECKS), rule=Rule.of_estimator(parameters))

    def problem(self, lambda1: float) -> DictionaryProblem:
        """Return the problem to solve."""
        ball, missing = UnitBall(self.positive_dictionary), self.missing == "ignore"
        return DictionaryProblem(lambda1, self.lambda2, self.positive_code, ball, self.rule, missing)

    def is_done(self, learner: OnlineLearner) -> bool:
        """Return whether there have been enough batches, or the objective no longer falls."""
        n_batches = learner.state.n_batches
        if self.max_iter is not None and n_batches >= self.max_iter:
            return True
        due = self.tol > 0 and n_batches % CHECK_EVERY == 0
        return due and has_converged([step.objective for step in learner.counted], self.tol)


def fit_dictionary(estimator: Any, settings: DictionarySettings, X: Any) -> None:
    """Learn from signals until `max_iter` or `tol`, or resume an earlier fit."""
    callbacks = renamed(estimator, "callback", "callbacks", removed_in="0.4")
    reporter = Reporter(estimator, settings.max_iter, callbacks, estimator.verbose)
    learner: OnlineLearner | None = vars(estimator).get("_learner") if settings.warm_start else None
    stream, features = _open(estimator, settings, X, reset=learner is None)
    batch_size = settings.batch_size if stream.n_signals is None else min(settings.batch_size, stream.n_signals)
    if learner is not None:
        _resume(estimator, settings, learner)
        unseeded = not isinstance(X, Stream) and not isinstance(estimator.random_state, numbers.Integral)
        if unseeded or stream.reads_like(learner.state.position):
            rewind(stream, learner.state.position)
        if settings.is_done(learner):
            warn_finished(learner.state.n_batches, settings.max_iter, "raise max_iter or lower tol")
    seen, resumed = 0, learner is not None
    with reporter:
        while learner is None or not settings.is_done(learner):
            batch = _next_batch(stream, batch_size, settings, learner)
            if batch is None:
                break
            if learner is None:
                learner = _start(estimator, settings, batch, stream.n_signals)
            if features is None:
                features = Features.of(estimator) if resumed else Features(batch.shape[1])
            _learn(estimator, learner, batch, stream, features)
            seen += len(batch)
            if stream.n_signals is not None and seen >= stream.n_signals:
                _check_born(learner)
            stop = reporter.report(
                n_iter=learner.state.n_batches,
                n_signals=learner.state.n_signals,
                batch=len(batch),
                objective=float(np.mean([step.objective for step in learner.counted[-AVERAGED_BATCHES:]])),
                nonzeros=learner.steps[-1].nonzeros,
                done=settings.is_done(learner),
            )
            if stop:
                break
    assert learner is not None
    _check_born(learner)


def partial_fit_dictionary(estimator: Any, settings: DictionarySettings, X: Any) -> None:
    """Learn from signals as one batch."""
    if isinstance(X, Stream):
        raise TypeError("X must be an array, got a stream: partial_fit(stream.take(n)) learns from its next signals.")
    learner: OnlineLearner | None = vars(estimator).get("_learner")
    X, features = read_signals(estimator, X, reset=learner is None)
    refuse_sparse_nan(X, settings.missing)
    batch = dense_batch(X)
    if learner is None:
        learner = _start(estimator, settings, batch, None)
    else:
        _resume(estimator, settings, learner)
    _learn(estimator, learner, batch, None, features)


def refuse_sparse_nan(X: Any, missing: str) -> None:
    """Raise if missing values are marked in a sparse array, whose absent entries are zeros that were observed."""
    if missing != "ignore" or not sp.issparse(X) or X.dtype.kind != "f":
        return
    places = np.flatnonzero(np.isnan(X.data))
    if len(places):
        row = int(np.searchsorted(X.indptr, places[0], side="right")) - 1
        raise ValueError(
            f"X must be dense where values are missing, but it is sparse and row {row} contains NaN: call X.toarray(). "
            "Its entries that are not stored are then zeros that were observed."
        )


def _open(estimator: Any, settings: DictionarySettings, X: Any, reset: bool) -> tuple[Stream, Features | None]:
    """Return X as a stream with enough signals, and the features of an array."""
    features = None
    if isinstance(X, Stream):
        stream = X
    else:
        X, features = read_signals(estimator, X, reset=reset)
        refuse_sparse_nan(X, settings.missing)
        stream = ArrayStream(X, random_state=estimator.random_state)
    n_atoms = settings.n_components
    few = stream.n_signals is not None and n_atoms is not None and stream.n_signals < n_atoms
    if few and estimator.dictionary_init is None and stream.preprocess is None:
        raise ValueError(
            f"X has fewer signals than there are atoms (n_samples={stream.n_signals}, n_components={n_atoms}): lower "
            "n_components or bring more signals."
        )
    return stream, features


def _next_batch(
    stream: Stream, size: int, settings: DictionarySettings, learner: OnlineLearner | None
) -> Floats | None:
    """Return the next batch, None if the stream has ended and may end."""
    try:
        batch = stream.take(size)
    except StreamEndedError:
        if learner is None:
            raise StreamEndedError("the stream has no signals (left).") from None
        if settings.max_iter is None:
            return None
        raise StreamEndedError(
            f"the stream ended after {learner.state.n_batches} batches ({learner.state.n_signals} signals), before "
            f"max_iter={settings.max_iter}. The model learned so far is kept and can be used. With max_iter=None, fit "
            "ends when a stream does; a function that returns an iterator makes a stream that does not end."
        ) from None
    if learner is not None and batch.shape[1] != learner.state.dictionary.shape[1]:
        raise ValueError(
            f"batch {learner.state.n_batches + 1} of the stream has {batch.shape[1]} features per signal, but those "
            f"before had {learner.state.dictionary.shape[1]}. The model learned before it is kept."
        )
    return batch


def _start(estimator: Any, settings: DictionarySettings, batch: Floats, n_signals: int | None) -> OnlineLearner:
    """Return a learner for signals like those of a batch; n_signals is None if their number is unknown."""
    n_features = batch.shape[1]
    n_atoms = settings.n_components or default_components(n_features, n_signals or len(batch))
    observed = np.where(np.isnan(batch), batch.dtype.type(0), batch) if settings.missing == "ignore" else batch
    finite = observed[np.isfinite(observed).all(axis=1)]
    lambda1 = DEFAULT_LAMBDA1 * (size_of(finite) or 1.0) if settings.lambda1 is None else settings.lambda1
    problem, shape = settings.problem(lambda1), (n_atoms, n_features)
    problem.coding_rule.check_fits(0, n_atoms)
    if estimator.dictionary_init is None:
        atoms = np.zeros(shape, batch.dtype)
    else:
        atoms = check_dictionary(estimator.dictionary_init, batch.dtype, name="dictionary_init")
        if settings.n_components is None:
            shape = (len(atoms), n_features)
        if atoms.shape != shape:
            raise ValueError(
                f"dictionary_init must have shape (n_components, n_features) = {shape}, got {atoms.shape}."
            )
        atoms = problem.constraint.project(atoms)
    state = OnlineState.start(atoms, no_statistics(atoms, missing=problem.missing))
    return OnlineLearner(problem, state, resolve_threads(estimator.n_threads))


def _resume(estimator: Any, settings: DictionarySettings, learner: OnlineLearner) -> None:
    """Let a learner continue with the parameters as they are now."""
    n_atoms = len(learner.state.dictionary)
    if settings.n_components not in (None, n_atoms):
        raise ValueError(
            f"n_components is {settings.n_components}, but the model has {n_atoms} atoms: the number cannot change "
            "while learning continues."
        )
    if (settings.missing == "ignore") != learner.problem.missing:
        raise ValueError(
            f"missing is {settings.missing!r}, but the model has learned with another: it cannot change while learning "
            "continues. A new model can start from this one with dictionary_init=model.components_."
        )
    learner.problem = settings.problem(learner.problem.lambda1 if settings.lambda1 is None else settings.lambda1)
    learner.n_threads = resolve_threads(estimator.n_threads)


def _learn(estimator: Any, learner: OnlineLearner, batch: Floats, stream: Stream | None, features: Features) -> None:
    """Take one step, and publish the learner; its state is that of the last whole step, whatever happens."""
    state = learner.state
    position = state.position if stream is None else stream.state()
    try:
        learner.step(batch.astype(state.dictionary.dtype, copy=False), position)
    except BadSignalError as bad:
        name = f"row {bad.row}" if stream is None else stream.name(bad.row)
        kept = " The model learned from the batches before is kept." if state.n_batches > 0 else ""
        if learner.problem.missing:
            what, remedy = "infinity", "NaN stands for missing values, infinity does not: replace it."
        else:
            what = "NaN or infinity"
            remedy = "Remove or impute such values first, or let NaN stand for missing values with missing='ignore'."
        raise ValueError(
            f"X must be finite, but {name} contains {what} (batch {state.n_batches + 1}). {remedy}{kept}"
        ) from None
    finally:
        if learner.state.n_batches > 0:
            estimator._learner = learner
            features.publish(estimator)


def _check_born(learner: OnlineLearner) -> None:
    """Raise if some atoms still wait for a signal."""
    state = learner.state
    missing = int(state.unborn().sum())
    if missing > 0:
        n_atoms, n_features = state.dictionary.shape
        rule = learner.problem.coding_rule
        remedy = "lower n_components" + (f" or {rule.name}" if rule.least_norm > 0 else "")
        least = f"lambda1={rule.amount:g}" if rule.name == "lambda1" else f"{rule.least_norm:g}"
        raise ValueError(
            f"n_components={n_atoms} atoms need as many signals that are not zero, not multiples of each other, and of "
            f"norm above {least} (else their code is zero), but of {state.n_signals} signals (n_features={n_features}) "
            f"only {n_atoms - missing} are: {remedy}, or check the signals."
        )
