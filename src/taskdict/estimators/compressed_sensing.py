"""Compressed sensing with learned measurements, as an estimator (paper, ``eq:cs``)."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from taskdict import storage
from taskdict._native import Encoder, decode
from taskdict._threads import one_blas_thread, resolve_threads
from taskdict._validation import check_count, check_dictionary, check_flag, check_number, check_penalty
from taskdict.coding import sparse_encode
from taskdict.estimators._parameters import read, written
from taskdict.estimators.dictionary_learning import DictionaryLearning
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.initialisation import principal_directions, ridge, start_transform
from taskdict.quantisation import quantise, write_integers
from taskdict.streams import ArrayStream, Stream
from taskdict.streams._mapped import MappedStream, mapped

Floats = NDArray[Any]

SAMPLE = 20_000  # signals that the first Z is found from, at most
TO_REGRESS = 100_000  # signals that W is found from where D is not learned for the task, at most
AT_ONCE = 8192  # signals
PACE, FASTEST = (
    0.6,
    0.03,
)  # how far an atom moves in the first of T batches: the first divided by √T, at most the second
LEAST_VARIANCE = 1e-4  # of the largest, where signals are whitened


class CompressedSensing(BaseEstimator):  # type: ignore[misc]
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
    lambda2 : float, default=0.001
        Weight of the squared ℓ2 norm of the codes. It must be positive: there are more atoms than measurements, and
        without it codes change abruptly with Z and D, so that learning does not converge.
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
        If the training is stopped, even killed, the same call goes on from there.
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

    def __init__(
        self,
        n_measurements: int = 20,
        n_components: int = 200,
        *,
        lambda1: float = 1e-2,
        lambda2: float = 1e-3,
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
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        signals, sample = self._open(X, y, seed)
        begin = None if signals.n_signals is None else signals.state()
        self.__dict__.pop("_learner", None)
        Z = self._first_transform(sample, seed)
        if not isinstance(self.dictionary, str):
            atoms = check_dictionary(self.dictionary, Z.dtype)
            if atoms.shape != (self.n_components, Z.shape[1]):
                raise ValueError(
                    "dictionary must have shape (n_components, n_features) = "
                    f"{(self.n_components, Z.shape[1])}, got {atoms.shape}."
                )
            D = atoms @ Z.T
            norms = np.linalg.norm(D, axis=1, keepdims=True)
            D, n_iter = np.ascontiguousarray(D / np.where(norms > 0, norms, 1)), 0
            W = self._regress(MappedStream(signals, Z), D)
        elif self.dictionary == "unsupervised":
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
            if begin is not None:  # each signal once
                signals.restore(begin)
            W = self._regress(MappedStream(signals, Z), D)
        else:
            learns = self.learn_transform
            P, back = self._whitening(sample) if learns else (Z, Z)
            model = self._regressor(Z @ back if learns else None, seed)
            try:
                model.fit(MappedStream(signals, P))
            finally:  # an interrupted training leaves what it has learned
                if "_training" in vars(model):
                    self._learner = model, Z, P
                    self._publish_regressor(model, Z, P)
            return self
        self._publish(Z, D, W, n_iter)
        return self

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
        self._check_parameters()
        if not (isinstance(self.dictionary, str) and self.dictionary == "learned"):
            raise ValueError("partial_fit needs dictionary='learned': with others, use fit with a stream.")
        if isinstance(X, Stream):
            raise TypeError("X must be an array, got a stream: partial_fit(stream.take(n)) learns from its next.")
        first = not hasattr(self, "_learner")
        if first and hasattr(self, "transform_"):
            raise ValueError("a model from a file cannot go on learning: fit a new one with transform_init=transform_.")
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=first)
        if first:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self._check_narrow(X.shape[1])
            Z = self._first_transform(X, seed)
            P, back = self._whitening(X) if self.learn_transform else (Z, Z)
            self._learner = self._regressor(Z @ back if self.learn_transform else None, seed), Z, P
        model, Z, P = self._learner
        model.partial_fit(mapped(X, P), _wanted(X, y))
        self._publish_regressor(model, Z, P)
        return self

    def _open(self, X: Any, y: Any, seed: int) -> tuple[Stream, Floats]:
        """Return a stream of signals and targets, and signals to begin with."""
        if isinstance(X, Stream):
            if y is not None:
                raise TypeError("y must be None for a stream: taskdict.stream(source, y) has the targets.")
            begin = X.state()
            sample = X.take(min(SAMPLE, X.n_signals or SAMPLE))
            if X.n_signals is not None:  # an iterator cannot go back
                X.restore(begin)
            self.n_features_in_ = sample.shape[1]
            self._check_narrow(sample.shape[1])
            return X, sample
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        self._check_narrow(X.shape[1])
        rows = np.random.default_rng(0).permutation(len(X))[:SAMPLE]  # the same with any seed: a training may go on
        return ArrayStream(X, _wanted(X, y), random_state=seed), X[np.sort(rows)]

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
        if self.nu2 > 0:  # a penalty on Z, not on Z P⁻¹
            identity = np.eye(sample.shape[1], dtype=sample.dtype)
            return identity, identity
        wide = sample.astype(np.float64)
        variances, directions = np.linalg.eigh(wide.T @ wide / len(wide))
        variances = np.maximum(variances, LEAST_VARIANCE * max(variances[-1], np.finfo(np.float64).tiny))
        roots = np.sqrt(variances / variances.mean())
        whitening, back = ((directions * scales) @ directions.T for scales in (1 / roots, roots))
        return whitening.astype(sample.dtype), back.astype(sample.dtype)

    def _regressor(self, Z: Floats | None, seed: int) -> TaskDrivenRegressor:
        """Return what learns D and W, and Z if one is given."""
        if Z is not None and self.checkpoint is not None and os.path.exists(self.checkpoint):
            Z = storage.read(self.checkpoint)[0].get("parameter transform_init", Z)  # a training goes on from there
        rate = self.learning_rate
        if isinstance(rate, str) and rate == "adaptive":
            rate = ("adaptive", min(FASTEST, PACE / math.sqrt(self.max_iter)))
        return TaskDrivenRegressor(
            self.n_components,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            nu=self.nu,
            nu2=self.nu2,
            n_measurements=None if Z is None else self.n_measurements,
            transform_init="pca" if Z is None else Z,
            fit_intercept=False,
            batch_size=self.batch_size,
            max_iter=self.max_iter,
            learning_rate=rate,
            checkpoint=self.checkpoint,
            random_state=None if self.random_state is None else seed,
            n_threads=self.n_threads,
            verbose=self.verbose,
            callbacks=self.callbacks,
        )

    def _regress(self, signals: MappedStream, D: Floats) -> Floats:
        """Return the W that minimises ½‖y − Wα‖² + nu/2 ‖W‖² on average, for the codes on D."""
        coding: dict[str, Any] = {"lambda1": self.lambda1, "lambda2": self.lambda2, "n_threads": self.n_threads}
        n = min(TO_REGRESS, signals.n_signals or TO_REGRESS)
        gram, right = np.zeros((len(D), len(D))), np.zeros((len(D), 0))
        with one_blas_thread():
            for start in range(0, n, AT_ONCE):
                X, y = signals.take_pairs(min(AT_ONCE, n - start))
                codes = sparse_encode(X, D.astype(X.dtype, copy=False), **coding).astype(np.float64)
                gram += (codes.T @ codes).toarray() / n
                products = codes.T @ np.asarray(y, np.float64) / n
                right = products if right.size == 0 else right + products
            W = ridge(gram, right, self.nu, D.dtype)
        return np.ascontiguousarray(W, D.dtype)

    def _publish_regressor(self, model: TaskDrivenRegressor, Z: Floats, P: Floats) -> None:
        learned = model.transform_
        self._publish(Z if learned is None else learned @ P, model.components_, model.coef_, model.n_iter_)

    def _publish(self, Z: Floats, D: Floats, W: Floats, n_iter: int) -> None:
        self.transform_, self.components_ = np.ascontiguousarray(Z), np.ascontiguousarray(D)
        self.coef_, self.n_iter_ = np.ascontiguousarray(W), n_iter

    def sense(self, X: Any) -> Floats:
        """Return the measurements Zx of signals.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        array of shape (n_samples, n_measurements)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return mapped(X, self.transform_)

    def reconstruct(self, measurements: Any) -> Floats:
        """Return the signals that measurements tell of.

        Parameters
        ----------
        measurements : array of shape (n_samples, n_measurements)
            What `sense` returns, or a device.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        seen = np.asarray(measurements)
        if seen.ndim != 2 or seen.shape[1] != len(self.transform_):
            raise ValueError(
                f"measurements must have shape (n_samples, n_measurements={len(self.transform_)}), got {seen.shape}."
            )
        if seen.dtype.kind not in "fiub":
            raise TypeError(f"measurements must be real numbers, got dtype {seen.dtype}.")
        dtype = np.float32 if seen.dtype == np.float32 else np.float64
        if not np.isfinite(seen).all():
            row = int(np.flatnonzero(~np.isfinite(seen).all(axis=1))[0])
            raise ValueError(f"measurements must be finite, but row {row} contains NaN or infinity.")
        n_threads = resolve_threads(self.n_threads)
        table = np.ascontiguousarray(self.coef_.T, dtype)
        D = np.ascontiguousarray(self.components_, dtype)
        encoder = Encoder(D, lambda1=self.lambda1, lambda2=self.lambda2, positive=False, n_threads=n_threads)
        found = np.empty((len(seen), table.shape[1]), dtype)
        for start in range(0, len(seen), AT_ONCE):
            part = found[start : start + AT_ONCE]
            encoder.encode(np.ascontiguousarray(seen[start : start + AT_ONCE], dtype))
            encoded = encoder.release()
            decode(encoded, encoded.values, table, 0.0, part, part, n_threads)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the squared error ‖y − Wα‖² of a signal on average, so that greater is better.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Signals as they are measured.
        y : array of shape (n_samples, n_outputs) or None, default=None
            What is to be reconstructed, None for the signals themselves.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        wanted = _wanted(X, y)
        total = 0.0
        for start in range(0, len(X), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            error = np.asarray(wanted[part], np.float64) - self.reconstruct(mapped(X[part], self.transform_))
            total += float(np.square(error).sum())
        return -total / len(X)

    def export(self, path: str | os.PathLike[str], bits: int = 8) -> tuple[NDArray[np.int32], int]:
        """Write Z as whole numbers, for a device that measures: Z is about ``integers / 2**shift``.

        Parameters
        ----------
        path : str or path
            Name of the file. One that ends in .h is for the C language, .csv has numbers only, one row for each
            measurement, and .npy is for NumPy.
        bits : int, default=8
            Bits of a number with its sign, from 2 to 16.

        Returns
        -------
        integers : array of shape (n_measurements, n_features)
        shift : int
        """
        check_is_fitted(self)
        integers, shift = quantise(self.transform_, bits)
        write_integers(Path(path), integers, shift, bits)
        return integers, shift

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write Z, D and W to a file, for :func:`taskdict.load`; without `checkpoint`, `n_threads`, `verbose`.

        Parameters
        ----------
        path : str or path
            Name of the file.
        """
        check_is_fitted(self)
        self._check_parameters()
        n_components, n_measurements = self.components_.shape
        arrays = [name for name in ("dictionary", "transform_init") if not isinstance(getattr(self, name), str)]
        own = written(self, but=arrays, n_components=n_components, n_measurements=n_measurements)  # arrays: in Z and D
        storage.write(
            path,
            type(self).__name__,
            {"Z": self.transform_, "D": self.components_, "W": self.coef_},
            {"parameters": own, "n_iter": self.n_iter_},
        )

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Make the model that `save` has written; raises ValueError, TypeError or KeyError for anything else."""
        model = read(cls, document["parameters"])
        Z, D, W = (arrays[name] for name in ("Z", "D", "W"))
        if any(array.ndim != 2 or array.dtype != Z.dtype or array.dtype.kind != "f" for array in (Z, D, W)):
            raise ValueError("its arrays are not matrices of one kind of numbers")
        if D.shape != (model.n_components, model.n_measurements) or len(Z) != D.shape[1] or W.shape[1] != len(D):
            raise ValueError("its arrays do not fit each other")
        if not all(np.isfinite(array).all() for array in (Z, D, W)):
            raise ValueError("its arrays are not finite")
        model._publish(Z, D, W, int(document["n_iter"]))
        model.n_features_in_ = Z.shape[1]
        return model

    def _check_parameters(self) -> None:
        for name in ("n_measurements", "n_components", "batch_size", "max_iter"):
            check_count(name, getattr(self, name))
        for name in ("lambda1", "nu", "nu2"):
            check_penalty(name, getattr(self, name))
        if not 0 < check_number("lambda2", self.lambda2) < np.inf:
            raise ValueError(
                f"lambda2 must be positive, got {self.lambda2}: there are more atoms than measurements, and without "
                "lambda2 codes jump as Z and D change, so that learning does not converge. A tenth of lambda1 is usual."
            )
        check_flag("learn_transform", self.learn_transform)
        for name, choices in (("transform_init", ("pca", "random")), ("dictionary", ("learned", "unsupervised"))):
            given = getattr(self, name)
            if isinstance(given, str) and given not in choices:
                names = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {names} or an array, got {given!r}.")

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "transform_")


def _wanted(X: Floats, y: Any) -> Floats:
    """Return what is to be reconstructed from X, in rows."""
    if y is None:
        return X
    wanted: Floats = check_array(y, dtype=(np.float64, np.float32), ensure_2d=False, input_name="y")
    if len(wanted) != len(X):
        raise ValueError(f"y must have {len(X)} rows, as X has, got shape {wanted.shape}.")
    return wanted.reshape(len(X), -1)
