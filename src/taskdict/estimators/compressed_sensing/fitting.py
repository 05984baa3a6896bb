"""`fit` and `partial_fit` of :class:`taskdict.CompressedSensing`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from taskdict._coding.encode import sparse_encode
from taskdict._common.arrays import Floats
from taskdict._common.threads import one_blas_thread
from taskdict._common.validation import (
    Check,
    check_count,
    check_dictionary,
    check_flag,
    check_number,
    check_parameters,
    check_penalty,
    check_targets,
    is_fitted,
    optional,
)
from taskdict._files.checkpoint import Peek, check_checkpoint, peek
from taskdict._learning.convex import ridge
from taskdict._learning.scaling import size_of
from taskdict._learning.start import principal_directions, start_transform
from taskdict._learning.task_settings import default_components
from taskdict.estimators.compressed_sensing.learned import (
    SIGNALS_PER_BLOCK,
    LearnedSensing,
    SensingLearner,
    wanted_from,
)
from taskdict.estimators.dictionary_learning import DictionaryLearning
from taskdict.estimators.features import Features, read_signals
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.streams import ArrayStream, Stream, StreamEndedError
from taskdict.streams.base import rewind
from taskdict.streams.derived import MappedStream, ReplayedStream, mapped

SAMPLE_SIGNALS = 20_000  # that the first Z is found from, at most
REGRESSED_SIGNALS = 100_000  # that W is found from where D is not learned for the task, at most
FIRST_PACE = 0.6  # divided by √T, how far an atom moves in the first of T batches
HIGHEST_PACE = 0.03  # but at most so far
WHITENED_RATIO = 5  # signals for each of their entries that are needed to whiten them
LEAST_VARIANCE = 1e-4  # of the largest, where signals are whitened
DEFAULT_LAMBDA1 = 0.01  # for signals of norm one


def _check_lambda2(name: str, value: Any) -> float:
    number = check_number(name, value)
    if not 0 < number < np.inf:
        raise ValueError(
            f"{name} must be positive, got {value}: with more atoms than measurements and without lambda2, codes jump "
            "as Z and D change, so that learning does not converge. As much as lambda1 is a good start."
        )
    return number


def _word_or_array(*words: str) -> Check:
    def check(name: str, value: Any) -> Any:
        sound = value in words if isinstance(value, str) else np.asarray(value).dtype.kind in "fiu" and np.size(value)
        if not sound:
            raise ValueError(f"{name} must be {' or '.join(map(repr, words))} or an array, got {repr(value)[:100]}.")
        return value

    return check


def _anything(name: str, value: Any) -> Any:
    """Return a value that the regressor checks."""
    return value


CHECKS: dict[str, Check] = {
    "n_measurements": check_count,
    "n_components": optional(check_count),
    "lambda1": optional(check_penalty),
    "lambda2": _check_lambda2,
    "transform_init": _word_or_array("pca", "random"),
    "learn_transform": check_flag,
    "dictionary": _word_or_array("learned", "unsupervised"),
    "nu": check_penalty,
    "nu2": check_penalty,
    "batch_size": check_count,
    "max_iter": check_count,
    "learning_rate": _anything,
}


@dataclass(frozen=True, eq=False)
class SensingSettings:
    """The parameters of :class:`taskdict.CompressedSensing`, after all checks."""

    n_measurements: int
    n_components: int | None
    lambda1: float | None
    lambda2: float
    transform_init: Any
    learn_transform: bool
    dictionary: Any
    nu: float
    nu2: float
    batch_size: int
    max_iter: int
    learning_rate: Any

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> SensingSettings:
        """Return the settings of an estimator; raise for parameters that make no sense."""
        return cls(**check_parameters(parameters, CHECKS))

    @property
    def learns_dictionary(self) -> bool:
        """Whether D is learned for the reconstruction."""
        return isinstance(self.dictionary, str) and self.dictionary == "learned"

    def resolved(self, sample: Floats) -> SensingSettings:
        """Return these settings with values for those that are None; raise if signals have too few entries."""
        n_features = sample.shape[1]
        if self.n_measurements >= n_features:
            raise ValueError(
                f"n_measurements={self.n_measurements} must be less than the number of entries of a signal "
                f"(n_features={n_features}): as many measurements would need no reconstruction."
            )
        n_components = self.n_components
        if n_components is None:
            given = not isinstance(self.dictionary, str)
            n_components = len(self.dictionary) if given else default_components(n_features, len(sample))
        lambda1 = DEFAULT_LAMBDA1 * (size_of(sample) or 1.0) if self.lambda1 is None else self.lambda1
        return replace(self, n_components=n_components, lambda1=lambda1)


def fit_sensing(estimator: Any, settings: SensingSettings, X: Any, y: Any) -> None:
    """Learn Z, D and W. The estimator is changed when there is something to use, and then at once."""
    check_checkpoint(estimator.checkpoint)
    seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    resumed = _resumed(estimator, settings)
    signals, sample, features = _open_pairs(estimator, X, y, seed, resumed)
    settings = settings.resolved(sample)
    Z = _first_transform(settings, sample, seed)
    if settings.learns_dictionary:
        begun = _begin(estimator, settings, sample, Z, seed, resumed)
        try:
            begun.regressor.set_params(checkpoint=estimator.checkpoint).fit(MappedStream(signals, begun.P))
        finally:  # an interrupted training leaves a model
            if is_fitted(begun.regressor):
                _publish(estimator, begun.learned(), features)
        return
    begin = None if signals.n_signals is None else signals.state()
    assert settings.n_components is not None
    assert settings.lambda1 is not None
    if isinstance(settings.dictionary, str):
        learner = DictionaryLearning(
            settings.n_components,
            lambda1=settings.lambda1,
            lambda2=settings.lambda2,
            batch_size=max(settings.batch_size, 2 * settings.n_components),
            max_iter=settings.max_iter,
            random_state=seed,
            n_threads=estimator.n_threads,
            verbose=estimator.verbose,
            callbacks=estimator.callbacks,
        ).fit(MappedStream(signals, Z))
        D, n_iter = learner.components_, learner.n_iter_
    else:
        D, n_iter = _measured_atoms(settings, Z), 0
    if isinstance(signals, ReplayedStream):
        signals.again()
    else:
        rewind(signals, begin)  # each signal once
    W = _regress(settings, MappedStream(signals, Z), D, estimator.n_threads)
    _publish(estimator, LearnedSensing.of(Z, D, W, settings.lambda1, settings.lambda2, n_iter), features)


def partial_fit_sensing(estimator: Any, settings: SensingSettings, X: Any, y: Any) -> None:
    """Take one step on the signals that are given."""
    if not settings.learns_dictionary:
        raise ValueError("partial_fit needs dictionary='learned': with others, use fit with a stream.")
    if isinstance(X, Stream):
        raise TypeError("X must be an array, got a stream: partial_fit(stream.take(n)) learns from its next.")
    earlier: LearnedSensing | None = vars(estimator).get("_learned")
    if earlier is not None and earlier.learner is None:
        raise ValueError(
            "partial_fit continues after fit or partial_fit with dictionary='learned' only, not with a model from a "
            "file: fit a new one with transform_init=model.transform_."
        )
    X, features = _read(estimator, X, reset=earlier is None)
    seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
    if earlier is None:
        settings = settings.resolved(X)
        begun = _begin(estimator, settings, X, _first_transform(settings, X, seed), seed, None)
    else:
        assert earlier.learner is not None
        begun = earlier.learner
        for name, size in (("n_measurements", len(earlier.Z)), ("n_components", len(earlier.D))):
            if getattr(settings, name) not in (None, size):
                raise ValueError(
                    f"{name} is {getattr(settings, name)}, but the model has {size}: it cannot change now."
                )
        settings = replace(
            settings,
            n_components=len(earlier.D),
            lambda1=earlier.lambda1 if settings.lambda1 is None else settings.lambda1,
        )
        kept = ("n_measurements", "transform_init", "random_state")  # of the beginning
        parameters = _regressor_parameters(estimator, settings, None, seed)
        begun.regressor.set_params(**{name: value for name, value in parameters.items() if name not in kept})
    begun.regressor.partial_fit(mapped(X, begun.P), wanted_from(X, y))
    _publish(estimator, begun.learned(), features)


def _publish(estimator: Any, learned: LearnedSensing, features: Features) -> None:
    estimator._learned = learned
    features.publish(estimator)


def _resumed(estimator: Any, settings: SensingSettings) -> Peek | None:
    """Return the content of the checkpoint of an interrupted training, None if there is none."""
    found = peek(estimator.checkpoint) if settings.learns_dictionary else None
    if found is not None and found.kind != TaskDrivenRegressor.__name__:
        return None  # noticed by the regressor, which resumes it
    random = isinstance(settings.transform_init, str) and settings.transform_init == "random"
    if found is not None and random and estimator.random_state is None and not settings.learn_transform:
        raise ValueError("random_state must be given to resume with a random Z that is not learned.")
    return found


def _read(estimator: Any, X: Any, reset: bool) -> tuple[Floats, Features]:
    """Return signals as a finite dense array, and their features."""
    wanted = {"accept_sparse": False, "dtype": (np.float64, np.float32), "ensure_all_finite": True}
    return read_signals(estimator, X, reset=reset, **wanted)


def _open_pairs(estimator: Any, X: Any, y: Any, seed: int, resumed: Peek | None) -> tuple[Stream, Floats, Features]:
    """Return a stream of signals and targets, signals to start from, and their features."""
    begin = None if resumed is None else resumed.begin
    if isinstance(X, Stream):
        if y is not None:
            raise TypeError("y must be None for a stream: taskdict.stream(source, y) has the targets.")
        if X.n_signals is not None:
            rewind(X, begin)
        n, here = min(SAMPLE_SIGNALS, X.n_signals or SAMPLE_SIGNALS), X.state()
        sample, targets = X.take_pairs(n) if X.has_targets else (X.take(n), None)
        features = Features(sample.shape[1])
        if X.n_signals is None:
            return ReplayedStream(sample, targets, X), sample, features
        X.restore(here)
        return X, sample, features
    X, features = _read(estimator, X, reset=True)
    rows = np.random.default_rng(0).permutation(len(X))[:SAMPLE_SIGNALS]  # with any seed: a training may be resumed
    stream = ArrayStream(X, wanted_from(X, y), random_state=seed)
    if estimator.random_state is None:  # the order of the training that is resumed
        rewind(stream, begin)
    return stream, X[np.sort(rows)], features


def _begin(
    estimator: Any, settings: SensingSettings, sample: Floats, Z: Floats, seed: int, resumed: Peek | None
) -> SensingLearner:
    """Return the regressor that learns D and W, and Z if it is to be learned."""
    if not settings.learn_transform:
        return SensingLearner(TaskDrivenRegressor(**_regressor_parameters(estimator, settings, None, seed)), Z, Z)
    P, back = _whitening(settings, sample)
    start = Z @ back
    if resumed is not None and estimator.random_state is None and isinstance(settings.transform_init, str):
        start = resumed.parameters["transform_init"]
    return SensingLearner(TaskDrivenRegressor(**_regressor_parameters(estimator, settings, start, seed)), Z, P)


def _first_transform(settings: SensingSettings, sample: Floats, seed: int) -> Floats:
    """Return the Z to start from."""
    r, init = settings.n_measurements, settings.transform_init
    if not isinstance(init, str):
        given = check_dictionary(init, sample.dtype, name="transform_init")
        if given.shape != (r, sample.shape[1]):
            raise ValueError(
                f"transform_init must have shape (n_measurements, n_features) = {(r, sample.shape[1])}, got "
                f"{given.shape}."
            )
        return given
    if init == "pca":  # of signals as they are: Wα has no intercept that could add their mean
        return principal_directions(sample, r).astype(sample.dtype)
    return start_transform(sample, r, "random", seed)


def _whitening(settings: SensingSettings, sample: Floats) -> tuple[Floats, Floats]:
    """Return P and its inverse: the entries of Px are uncorrelated, and its size is that of x on average.

    A gradient step on Z P⁻¹ is one on Z whose gradient is multiplied by the inverse of the covariance: directions
    in which signals vary little are learned as fast as others.
    """
    few = len(sample) < WHITENED_RATIO * sample.shape[1]
    if settings.nu2 > 0 or few:  # a penalty on Z, not on Z P⁻¹; or the covariance is not known well enough
        identity = np.eye(sample.shape[1], dtype=sample.dtype)
        return identity, identity
    wide = sample.astype(np.float64)
    variances, directions = np.linalg.eigh(wide.T @ wide / len(wide))
    variances = np.maximum(variances, LEAST_VARIANCE * max(variances[-1], np.finfo(np.float64).tiny))
    roots = np.sqrt(variances / variances.mean())
    whitening, back = ((directions * scales) @ directions.T for scales in (1 / roots, roots))
    return whitening.astype(sample.dtype), back.astype(sample.dtype)


def _regressor_parameters(estimator: Any, settings: SensingSettings, Z: Floats | None, seed: int) -> dict[str, Any]:
    """Return the parameters of the regressor that learns D and W, and Z if one is given."""
    rate = settings.learning_rate
    if isinstance(rate, str) and rate == "adaptive":
        rate = ("adaptive", min(HIGHEST_PACE, FIRST_PACE / math.sqrt(settings.max_iter)))
    return {
        "n_components": settings.n_components,
        "lambda1": settings.lambda1,
        "lambda2": settings.lambda2,
        "nu": settings.nu,
        "nu2": settings.nu2,
        "decision": "linear",
        "n_measurements": None if Z is None else settings.n_measurements,
        "transform_init": "pca" if Z is None else Z,
        "fit_intercept": False,
        "batch_size": settings.batch_size,
        "max_iter": settings.max_iter,
        "learning_rate": rate,
        "early_stopping": False,
        "random_state": None if estimator.random_state is None else seed,
        "n_threads": estimator.n_threads,
        "verbose": estimator.verbose,
        "callbacks": estimator.callbacks,
    }


def _measured_atoms(settings: SensingSettings, Z: Floats) -> Floats:
    """Return the measurements of the atoms that are given, scaled to norm one."""
    atoms = check_dictionary(settings.dictionary, Z.dtype)
    if atoms.shape != (settings.n_components, Z.shape[1]):
        raise ValueError(
            "dictionary must have shape (n_components, n_features) = "
            f"{(settings.n_components, Z.shape[1])}, got {atoms.shape}."
        )
    D = atoms @ Z.T
    norms = np.linalg.norm(D, axis=1, keepdims=True)
    if not norms.any():
        raise ValueError("dictionary must have atoms whose measurements are not all zero.")
    return np.ascontiguousarray(D / np.where(norms > 0, norms, 1))


def _regress(settings: SensingSettings, signals: MappedStream, D: Floats, n_threads: int | None) -> Floats:
    """Return the W that minimises ½‖y − Wα‖² + nu/2 ‖W‖² on average, for the codes on D."""
    coding: dict[str, Any] = {"lambda1": settings.lambda1, "lambda2": settings.lambda2, "n_threads": n_threads}
    wanted, seen = min(REGRESSED_SIGNALS, signals.n_signals or REGRESSED_SIGNALS), 0
    gram, right = np.zeros((len(D), len(D))), np.zeros((len(D), 0))
    with one_blas_thread():
        while wanted > 0:
            n = min(SIGNALS_PER_BLOCK, wanted)
            try:
                X, y = signals.take_pairs(n)
            except StreamEndedError:
                if seen == 0:
                    raise
                break
            codes = sparse_encode(X, D.astype(X.dtype, copy=False), **coding).astype(np.float64)
            gram += (codes.T @ codes).toarray()
            products = codes.T @ check_targets(y).astype(np.float64)
            right = products if seen == 0 else right + products
            seen, wanted = seen + len(X), wanted - n  # fewer come if a stream drops some
        W = ridge(gram / seen, right / seen, settings.nu, D.dtype)
    return np.ascontiguousarray(W, D.dtype)
