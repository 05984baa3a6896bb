"""Z, D and W as they are used: measurements, reconstructions, errors, files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._native import Encoder, decode
from taskdict._threads import resolve_threads
from taskdict._validation import check_count, check_flag, check_number, check_penalty, check_targets, refuse_masked
from taskdict.estimators._parameters import read, written
from taskdict.estimators._signals import validated
from taskdict.estimators._versions import VersionedEstimator
from taskdict.quantisation import quantise, write_integers
from taskdict.streams._derived import mapped

Floats = NDArray[Any]

AT_ONCE = 8192  # signals
MAY_BE_ARRAYS = ("dictionary", "transform_init")


class SensingModel(VersionedEstimator):
    """What was learned is in `transform_`, `components_` and `coef_`."""

    n_measurements: Any
    n_components: Any
    lambda1: Any
    lambda2: Any
    transform_init: Any
    learn_transform: Any
    dictionary: Any
    n_threads: Any

    def _publish(self, Z: Floats, D: Floats, W: Floats, n_iter: int) -> None:
        self.transform_, self.components_ = np.ascontiguousarray(Z), np.ascontiguousarray(D)
        self.coef_, self.n_iter_ = np.ascontiguousarray(W), n_iter
        self._weights = float(self.lambda1), float(self.lambda2)  # that belong to D and W

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
        X = validated(self, X, dtype=(np.float64, np.float32), reset=False)
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
        refuse_masked("measurements", measurements)
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
        lambda1, lambda2 = self._weights
        encoder = Encoder(D, lambda1=lambda1, lambda2=lambda2, positive=False, n_threads=n_threads)
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
        X = validated(self, X, dtype=(np.float64, np.float32), reset=False)
        wanted = wanted_from(X, y)
        if wanted.shape[1] != len(self.coef_):
            name, width = ("X", "y was in fit") if y is None else ("y", "the model reconstructs")
            raise ValueError(f"{name} has {wanted.shape[1]} columns, but {width} {len(self.coef_)}.")
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
        lambda1, lambda2 = self._weights
        given = {
            name: np.asarray(getattr(self, name)) for name in MAY_BE_ARRAYS if not isinstance(getattr(self, name), str)
        }
        learned = {
            "n_components": n_components,
            "n_measurements": n_measurements,
            "lambda1": lambda1,
            "lambda2": lambda2,
        }
        storage.write(
            path,
            type(self).__name__,
            {
                "Z": self.transform_,
                "D": self.components_,
                "W": self.coef_,
                **{f"parameter {name}": array for name, array in given.items()},
            },
            {"parameters": written(self, but=given, **learned), "n_iter": self.n_iter_},
        )

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Make the model that `save` has written; raises ValueError, TypeError or KeyError for anything else."""
        model = read(cls, document["parameters"])
        for name in MAY_BE_ARRAYS:
            if f"parameter {name}" in arrays:
                setattr(model, name, arrays[f"parameter {name}"])
        model._check_parameters()
        Z, D, W = (arrays[name] for name in ("Z", "D", "W"))
        if any(array.ndim != 2 or array.dtype != Z.dtype or array.dtype.kind != "f" for array in (Z, D, W)):
            raise ValueError("its arrays are not matrices of one kind of numbers")
        if D.shape != (model.n_components, model.n_measurements) or len(Z) != D.shape[1] or W.shape[1] != len(D):
            raise ValueError("its arrays do not fit each other")
        if not all(np.isfinite(array).all() for array in (Z, D, W)):
            raise ValueError("its arrays are not finite")
        n_iter = int(document["n_iter"])
        if n_iter < 0:
            raise ValueError("its counts make no sense")
        model._publish(Z, D, W, n_iter)
        model.n_features_in_ = Z.shape[1]
        return model

    def _check_parameters(self) -> None:
        for name in ("n_measurements", "n_components", "batch_size", "max_iter"):
            check_count(name, getattr(self, name))
        for name in ("lambda1", "nu", "nu2"):
            check_penalty(name, getattr(self, name))
        if not 0 < check_number("lambda2", self.lambda2) < np.inf:
            raise ValueError(
                f"lambda2 must be positive, got {self.lambda2}: with more atoms than measurements and without lambda2, "
                "codes jump as Z and D change, so that learning does not converge. As much as lambda1 is a good start."
            )
        check_flag("learn_transform", self.learn_transform)
        for name, choices in (("transform_init", ("pca", "random")), ("dictionary", ("learned", "unsupervised"))):
            given = getattr(self, name)
            sound = (
                given in choices if isinstance(given, str) else np.asarray(given).dtype.kind in "fiu" and np.size(given)
            )
            if not sound:
                names = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {names} or an array, got {repr(given)[:100]}.")

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "transform_")


def wanted_from(X: Floats, y: Any) -> Floats:
    """Return what is to be reconstructed from X, in rows."""
    if y is None:
        return X
    wanted = check_targets(y)
    if wanted.dtype not in (np.float32, np.float64):
        wanted = wanted.astype(np.float64)
    if len(wanted) != len(X):
        raise ValueError(f"y must have {len(X)} rows, as X has, got shape {wanted.shape}.")
    return wanted[:, None] if wanted.ndim == 1 else wanted
