"""Compressed sensing with learned measurements, as an estimator (paper, ``eq:cs``)."""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict import storage
from taskdict._exclusive import exclusive
from taskdict._threads import one_blas_thread
from taskdict._validation import check_dictionary, check_targets
from taskdict.checkpoints import check_checkpoint
from taskdict.coding import sparse_encode
from taskdict.estimators._learner import LearnerMixin
from taskdict.estimators._signals import validated
from taskdict.estimators.compressed_sensing.model import AT_ONCE, SensingModel, wanted_from
from taskdict.estimators.dictionary_learning import DictionaryLearning
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.initialisation import principal_directions, ridge, start_transform
from taskdict.streams import ArrayStream, Stream, StreamEndedError
from taskdict.streams._derived import MappedStream, ReplayedStream, mapped

Floats = NDArray[Any]

SAMPLE = 20_000  # signals that the first Z is found from, at most
TO_REGRESS = 100_000  # signals that W is found from where D is not learned for the task, at most
PACE = 0.6  # divided by √T, how far an atom moves in the first of T batches
FASTEST = 0.03  # but at most so far
ENOUGH = 5  # signals for each of their entries, to whiten them
LEAST_VARIANCE = 1e-4  # of the largest, where signals are whitened


class CompressedSensing(LearnerMixin, SensingModel):
    """Few linear measurements of a signal, and the signal again from them.

    The measurements of a signal x are Zx, fewer numbers than x has. Their code α is the minimiser of ½‖Zx − Dα‖² +
    lambda1 ‖α‖₁ + lambda2/2 ‖α‖², and the reconstruction is Wα. Z, D and W are learned together: they minimise the
    average of ½‖y − Wα‖² plus nu/2 ‖W‖² and nu2/2 ‖Z‖², where y is the signal itself, or a clean version of it.

    Parameters
    ----------
    n_measurements : int, default=20
        Number r of measurements, fewer than the signals have entries.
    n_components : int, default=200
        Number of atoms.
    lambda1 : float, default=0.01
        Weight of the ℓ1 norm of the codes, for signals of norm about one.
    lambda2 : float, default=0.01
        Weight of the squared ℓ2 norm of the codes. It must be positive: with more atoms than measurements and without
        it, codes change abruptly with Z and D, so that learning does not converge. As much as `lambda1` is a good
        start.
    transform_init : {"pca", "random"} or array of shape (n_measurements, n_features), default="pca"
        Where Z starts, or what it is if it is not learned: the first principal directions of the signals, which are
        not centred for that; Gaussian numbers of variance 1 / n_measurements; or as given.
    learn_transform : bool, default=True
        Whether Z is learned; only where D is learned for the reconstruction.
    dictionary : {"learned", "unsupervised"} or array of shape (n_components, n_features), default="learned"
        Where D comes from: learned for the reconstruction; learned from the measurements alone; or the measurements of
        atoms that are given, such as cosines, scaled to norm one. W is always learned for the reconstruction.
    nu : float, default=0.0
        Weight of the squared norm of W.
    nu2 : float, default=0.0
        Weight of the squared norm of Z. Without it, steps on Z are taken for signals whose entries have been made
        uncorrelated, which gets away from a random start much faster.
    batch_size : int, default=200
        Signals per batch.
    max_iter : int, default=5000
        Number of batches.
    learning_rate : "adaptive", ("adaptive", float), "auto" or float, default="adaptive"
        As in :class:`taskdict.TaskDrivenRegressor`; "adaptive" alone is a third as fast as there.
    checkpoint : path or None, default=None
        A file that the state of the training is written to every 20 seconds, if D is learned for the reconstruction.
        If the training is stopped, even killed, the same call resumes it.
    random_state : int, RandomState or None, default=None
        Seed of all random choices.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`.
    callbacks : callable, list of callables or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, which ends if one returns True. Its model is
        what learns D: a :class:`taskdict.TaskDrivenRegressor` or a :class:`taskdict.DictionaryLearning`.

    Attributes
    ----------
    transform_ : array of shape (n_measurements, n_features)
        Z.
    components_ : array of shape (n_components, n_measurements)
        D, atoms as rows.
    coef_ : array of shape (n_features, n_components)
        W; it has as many rows as y has columns, if y is given.
    n_iter_ : int
        Number of batches.
    n_features_in_ : int
        Number of entries of a signal.

    Examples
    --------
    >>> import taskdict as td
    >>> from sklearn.datasets import load_digits
    >>> X = td.UnitNorm().fit_transform(load_digits().data)
    >>> model = td.CompressedSensing(10, 100, max_iter=300, random_state=0).fit(X[:1000])
    >>> measurements = model.sense(X[1000:])
    >>> measurements.shape
    (797, 10)
    >>> model.reconstruct(measurements).shape
    (797, 64)
    """

    _LEARNED = "transform_"

    def __init__(
        self,
        n_measurements: int = 20,
        n_components: int = 200,
        *,
        lambda1: float = 1e-2,
        lambda2: float = 1e-2,
        transform_init: Any = "pca",
        learn_transform: bool = True,
        dictionary: Any = "learned",
        nu: float = 0.0,
        nu2: float = 0.0,
        batch_size: int = 200,
        max_iter: int = 5000,
        learning_rate: Any = "adaptive",
        checkpoint: Any = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_measurements = n_measurements
        self.n_components = n_components
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.transform_init = transform_init
        self.learn_transform = learn_transform
        self.dictionary = dictionary
        self.nu = nu
        self.nu2 = nu2
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks

    @exclusive
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn Z, D and W.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or Stream
            Signals as they are measured. A stream, see :func:`taskdict.stream`, may have targets in place of y.
        y : array of shape (n_samples, n_outputs) or None, default=None
            What is to be reconstructed: clean versions of noisy signals. None is the signals themselves.

        Returns
        -------
        self : CompressedSensing
        """
        with self._keeps_in_step(), one_blas_thread():  # the bits of products must not depend on its threads
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        self._check_parameters()
        check_checkpoint(self.checkpoint)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        resumed = self._resumed()
        signals, sample = self._open_pairs(X, y, seed, resumed)
        Z = self._first_transform(sample, seed)
        if isinstance(self.dictionary, str) and self.dictionary == "learned":
            P, back = self._whitening(sample) if self.learn_transform else (Z, Z)
            start = Z @ back if self.learn_transform else None
            unseeded = self.random_state is None and isinstance(self.transform_init, str)
            if resumed is not None and self.learn_transform and unseeded:
                start = resumed.transform_init
            model = TaskDrivenRegressor(**self._learner_parameters(start, seed), checkpoint=self.checkpoint)
            try:
                model.fit(MappedStream(signals, P))
            finally:  # an interrupted training leaves what it has learned
                if "_training" in vars(model):
                    self._learner = model, Z, P
                    self._publish_regressor(model, Z, P)
            return
        begin = None if signals.n_signals is None else signals.state()
        if isinstance(self.dictionary, str):
            learner = DictionaryLearning(
                self.n_components,
                lambda1=self.lambda1,
                lambda2=self.lambda2,
                batch_size=max(self.batch_size, 2 * self.n_components),
                max_iter=self.max_iter,
                random_state=seed,
                n_threads=self.n_threads,
                verbose=self.verbose,
                callback=self.callbacks,
            ).fit(MappedStream(signals, Z))
            D, n_iter = learner.components_, learner.n_iter_
        else:
            D, n_iter = self._measured_atoms(Z), 0
        if isinstance(signals, ReplayedStream):
            signals.again()
        elif begin is not None:  # each signal once
            signals.restore(begin)
        W = self._regress(MappedStream(signals, Z), D)
        self.__dict__.pop("_learner", None)
        self._publish(Z, D, W, n_iter)

    @exclusive
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take one step on the signals that are given; the first call finds where to start from them.

        Only where D is learned for the reconstruction, and not for a model from a file.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Signals as they are measured.
        y : array of shape (n_samples, n_outputs) or None, default=None
            What is to be reconstructed, None for the signals themselves.

        Returns
        -------
        self : CompressedSensing
        """
        with self._keeps_in_step():
            self._partial_fit(X, y)
        return self

    def _partial_fit(self, X: Any, y: Any) -> None:
        self._check_parameters()
        if not (isinstance(self.dictionary, str) and self.dictionary == "learned"):
            raise ValueError("partial_fit needs dictionary='learned': with others, use fit with a stream.")
        if isinstance(X, Stream):
            raise TypeError("X must be an array, got a stream: partial_fit(stream.take(n)) learns from its next.")
        known = vars(self).get("_learner")
        if known is None and hasattr(self, "transform_"):
            raise ValueError(
                "partial_fit goes on after fit or partial_fit with dictionary='learned' only, not with a model from a "
                "file: fit a new one with transform_init=model.transform_."
            )
        X = validated(self, X, dtype=(np.float64, np.float32), reset=known is None)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if known is None:
            self._check_narrow(X.shape[1])
            Z = self._first_transform(X, seed)
            P, back = self._whitening(X) if self.learn_transform else (Z, Z)
            start = Z @ back if self.learn_transform else None
            known = TaskDrivenRegressor(**self._learner_parameters(start, seed)), Z, P
        model, Z, P = known
        for name, size in zip(("n_measurements", "n_components"), (len(Z), model.n_components), strict=True):
            if getattr(self, name) != size:
                raise ValueError(f"{name} is {getattr(self, name)}, but the model has {size}: it cannot change now.")
        kept = ("n_measurements", "transform_init", "random_state")  # of what was begun
        parameters = {k: v for k, v in self._learner_parameters(None, seed).items() if k not in kept}
        model.set_params(**parameters).partial_fit(mapped(X, P), wanted_from(X, y))
        self._learner = known
        self._publish_regressor(model, Z, P)

    def _resumed(self) -> TaskDrivenRegressor | None:
        """Return what a training has left in the file of `checkpoint`."""
        learned = isinstance(self.dictionary, str) and self.dictionary == "learned"
        if not learned or self.checkpoint is None or not os.path.isfile(self.checkpoint):
            return None
        random = isinstance(self.transform_init, str) and self.transform_init == "random"
        if random and self.random_state is None and not self.learn_transform:
            raise ValueError("random_state must be given to go on with a random Z that is not learned.")
        arrays, document = storage.read(self.checkpoint)
        try:
            return TaskDrivenRegressor._from_file(arrays, document)
        except storage.UNSOUND:
            return None  # noticed by what goes on from there

    def _open_pairs(self, X: Any, y: Any, seed: int, resumed: TaskDrivenRegressor | None) -> tuple[Stream, Floats]:
        """Return a stream of signals and targets, and signals to begin with."""
        if isinstance(X, Stream):
            if y is not None:
                raise TypeError("y must be None for a stream: taskdict.stream(source, y) has the targets.")
            if resumed is not None and X.n_signals is not None:
                with contextlib.suppress(ValueError, KeyError, TypeError):  # of another stream, which is noticed later
                    X.restore(resumed._training.state.position["begin"])
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            n = min(SAMPLE, X.n_signals or SAMPLE)
            begin = X.state()
            sample, targets = X.take_pairs(n) if X.has_targets else (X.take(n), None)
            self.n_features_in_ = sample.shape[1]
            self._check_narrow(sample.shape[1])
            if X.n_signals is None:
                return ReplayedStream(sample, targets, X), sample
            X.restore(begin)
            return X, sample
        X = validated(self, X, dtype=(np.float64, np.float32))
        self._check_narrow(X.shape[1])
        rows = np.random.default_rng(0).permutation(len(X))[:SAMPLE]  # the same with any seed: a training may go on
        stream = ArrayStream(X, wanted_from(X, y), random_state=seed)
        if resumed is not None and self.random_state is None:  # its order
            with contextlib.suppress(ValueError, KeyError, TypeError):
                stream.restore(resumed._training.state.position["begin"])
        return stream, X[np.sort(rows)]

    def _check_narrow(self, n_features: int) -> None:
        if self.n_measurements >= n_features:
            raise ValueError(
                f"n_measurements={self.n_measurements} must be less than the number of entries of a signal "
                f"(n_features={n_features}): as many measurements would need no reconstruction."
            )

    def _first_transform(self, sample: Floats, seed: int) -> Floats:
        shape = (self.n_measurements, sample.shape[1])
        if not isinstance(self.transform_init, str):
            given = check_dictionary(self.transform_init, sample.dtype, name="transform_init")
            if given.shape != shape:
                raise ValueError(
                    f"transform_init must have shape (n_measurements, n_features) = {shape}, got {given.shape}."
                )
            return given
        if self.transform_init == "pca":  # of signals as they are: Wα has no intercept that could add their mean
            return principal_directions(sample, self.n_measurements).astype(sample.dtype)
        return start_transform(sample, self.n_measurements, "random", seed)

    def _whitening(self, sample: Floats) -> tuple[Floats, Floats]:
        """Return P and its inverse: the entries of Px are uncorrelated, and its size is that of x on average.

        A gradient step on Z P⁻¹ is one on Z whose gradient is multiplied by the inverse of the covariance: directions
        in which signals vary little are learned as fast as others.
        """
        few = len(sample) < ENOUGH * sample.shape[1]
        if self.nu2 > 0 or few:  # a penalty on Z, not on Z P⁻¹; or the covariance is not known well enough
            identity = np.eye(sample.shape[1], dtype=sample.dtype)
            return identity, identity
        wide = sample.astype(np.float64)
        variances, directions = np.linalg.eigh(wide.T @ wide / len(wide))
        variances = np.maximum(variances, LEAST_VARIANCE * max(variances[-1], np.finfo(np.float64).tiny))
        roots = np.sqrt(variances / variances.mean())
        whitening, back = ((directions * scales) @ directions.T for scales in (1 / roots, roots))
        return whitening.astype(sample.dtype), back.astype(sample.dtype)

    def _learner_parameters(self, Z: Floats | None, seed: int) -> dict[str, Any]:
        """Return the parameters of what learns D and W, and Z if one is given."""
        rate = self.learning_rate
        if isinstance(rate, str) and rate == "adaptive":
            rate = ("adaptive", min(FASTEST, PACE / math.sqrt(self.max_iter)))
        return {
            "n_components": self.n_components,
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
            "nu": self.nu,
            "nu2": self.nu2,
            "n_measurements": None if Z is None else self.n_measurements,
            "transform_init": "pca" if Z is None else Z,
            "fit_intercept": False,
            "batch_size": self.batch_size,
            "max_iter": self.max_iter,
            "learning_rate": rate,
            "random_state": None if self.random_state is None else seed,
            "n_threads": self.n_threads,
            "verbose": self.verbose,
            "callbacks": self.callbacks,
        }

    def _measured_atoms(self, Z: Floats) -> Floats:
        """Return the measurements of the atoms that are given, scaled to norm one."""
        atoms = check_dictionary(self.dictionary, Z.dtype)
        if atoms.shape != (self.n_components, Z.shape[1]):
            raise ValueError(
                "dictionary must have shape (n_components, n_features) = "
                f"{(self.n_components, Z.shape[1])}, got {atoms.shape}."
            )
        D = atoms @ Z.T
        norms = np.linalg.norm(D, axis=1, keepdims=True)
        if not norms.any():
            raise ValueError("dictionary must have atoms whose measurements are not all zero.")
        return np.ascontiguousarray(D / np.where(norms > 0, norms, 1))

    def _regress(self, signals: MappedStream, D: Floats) -> Floats:
        """Return the W that minimises ½‖y − Wα‖² + nu/2 ‖W‖² on average, for the codes on D."""
        coding: dict[str, Any] = {"lambda1": self.lambda1, "lambda2": self.lambda2, "n_threads": self.n_threads}
        wanted, seen = min(TO_REGRESS, signals.n_signals or TO_REGRESS), 0
        gram, right = np.zeros((len(D), len(D))), np.zeros((len(D), 0))
        with one_blas_thread():
            while wanted > 0:
                n = min(AT_ONCE, wanted)
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
            W = ridge(gram / seen, right / seen, self.nu, D.dtype)
        return np.ascontiguousarray(W, D.dtype)

    def _publish_regressor(self, model: TaskDrivenRegressor, Z: Floats, P: Floats) -> None:
        learned = model.transform_
        self._publish(Z if learned is None else learned @ P, model.components_, model.coef_, model.n_iter_)
