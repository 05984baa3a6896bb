"""Compressed sensing with learned measurements, as an estimator (paper, ``eq:cs``)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict._common.arrays import Floats
from taskdict._common.exclusive import exclusive
from taskdict._common.threads import one_blas_thread, resolve_threads
from taskdict._files import storage
from taskdict._files.integers import quantise, write_integers
from taskdict._files.persistent import PersistentEstimator, parameters_from_file, parameters_to_file
from taskdict._files.registry import register
from taskdict.estimators.compressed_sensing.fitting import SensingSettings, fit_sensing, partial_fit_sensing
from taskdict.estimators.compressed_sensing.learned import LearnedSensing
from taskdict.estimators.features import Features, validated


@register
class CompressedSensing(PersistentEstimator):
    """Few linear measurements of a signal, and the signal again from them.

    The measurements of a signal x are Zx, fewer numbers than x has. Their code α is the minimiser of ½‖Zx − Dα‖² +
    lambda1 ‖α‖₁ + lambda2/2 ‖α‖², and the reconstruction is Wα. Z, D and W are learned together: they minimise the
    average of ½‖y − Wα‖² plus nu/2 ‖W‖² and nu2/2 ‖Z‖², where y is the signal itself, or a clean version of it.

    Parameters
    ----------
    n_measurements : int, default=20
        Number r of measurements, fewer than the signals have entries.
    n_components : int or None, default=200
        Number of atoms. None is as many as features, at most 256 and at most as many as signals.
    lambda1 : float or None, default=0.01
        Weight of the ℓ1 norm of the codes, for signals of norm about one. None is 0.01 times the root mean square norm
        of the signals.
    lambda2 : float, default=0.01
        Weight of the squared ℓ2 norm of the codes. It must be positive: with more atoms than measurements and without
        it, codes change abruptly with Z and D, so that learning does not converge. As much as `lambda1` is a good
        start.
    transform_init : {"pca", "random"} or array of shape (n_measurements, n_features), default="pca"
        The first Z, or the Z that is used if it is not learned: the first principal directions of the signals, which
        are not centred; Gaussian numbers of variance 1 / n_measurements; or as given.
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

    def __init__(
        self,
        n_measurements: int = 20,
        n_components: int | None = 200,
        *,
        lambda1: float | None = 1e-2,
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
            The signals to be reconstructed: clean versions of noisy signals. None is the signals themselves.

        Returns
        -------
        self : CompressedSensing
        """
        with one_blas_thread():  # the bits of products must not depend on its threads
            fit_sensing(self, SensingSettings.parse(self.get_params(deep=False)), X, y)
        return self

    @exclusive
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take one step on the signals that are given; the first call finds where to start from them.

        Only where D is learned for the reconstruction, and not for a model from a file.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Signals as they are measured.
        y : array of shape (n_samples, n_outputs) or None, default=None
            The signals to be reconstructed, None for the signals themselves.

        Returns
        -------
        self : CompressedSensing
        """
        partial_fit_sensing(self, SensingSettings.parse(self.get_params(deep=False)), X, y)
        return self

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
        learned = self._sensing()
        return learned.measure(validated(self, X, dtype=(np.float64, np.float32), reset=False))

    def reconstruct(self, measurements: Any) -> Floats:
        """Return the signals that belong to measurements.

        Parameters
        ----------
        measurements : array of shape (n_samples, n_measurements)
            Those that `sense` returns, or those of a device.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        return self._sensing().reconstruct(measurements, resolve_threads(self.n_threads))

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the squared error ‖y − Wα‖² of a signal on average, so that greater is better.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Signals as they are measured.
        y : array of shape (n_samples, n_outputs) or None, default=None
            The signals to be reconstructed, None for the signals themselves.

        Returns
        -------
        float
        """
        learned = self._sensing()
        X = validated(self, X, dtype=(np.float64, np.float32), reset=False)
        return -learned.squared_error(X, y, resolve_threads(self.n_threads))

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
        integers, shift = quantise(self.transform_, bits)
        write_integers(Path(path), integers, shift, bits)
        return integers, shift

    @property
    def transform_(self) -> Floats:
        """The matrix Z."""
        return self._sensing().Z

    @property
    def components_(self) -> Floats:
        """The dictionary D, atoms as rows."""
        return self._sensing().D

    @property
    def coef_(self) -> Floats:
        """The matrix W."""
        return self._sensing().W

    @property
    def n_iter_(self) -> int:
        """Number of batches."""
        return self._sensing().n_iter

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model, also after a training that was interrupted."""
        return "_learned" in vars(self)

    def _sensing(self) -> LearnedSensing:
        check_is_fitted(self)
        learned: LearnedSensing = self._learned
        return learned

    def _summary(self) -> str:
        (r, m), p = self.transform_.shape, len(self.components_)
        return f"{r} measurements of signals with {m} entries, {p} atoms, {self.n_iter_} batches"

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        SensingSettings.parse(self.get_params(deep=False))
        learned = self._sensing()
        (n_components, n_measurements), (lambda1, lambda2) = learned.D.shape, (learned.lambda1, learned.lambda2)
        given, parameters = parameters_to_file(
            self, n_components=n_components, n_measurements=n_measurements, lambda1=lambda1, lambda2=lambda2
        )
        arrays, document = learned.to_file()
        return {**arrays, **given}, {"parameters": parameters, **document, **Features.of(self).to_document()}

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        parameters, arrays = parameters_from_file(arrays, document["parameters"])
        model = cls(**parameters)
        settings = SensingSettings.parse(model.get_params(deep=False))
        if settings.lambda1 is None or arrays["D"].shape != (settings.n_components, settings.n_measurements):
            raise ValueError("its arrays do not fit its parameters")
        model._learned = LearnedSensing.from_file(arrays, document, settings.lambda1, settings.lambda2)
        n_features = model._learned.Z.shape[1]
        unnamed = {"n_features_in": n_features, "feature_names_in": None}  # of earlier versions
        Features.from_document({**unnamed, **document}, n_features).publish(model)
        return model
