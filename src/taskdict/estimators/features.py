"""The features of signals: how many there are and their names. They are learned with a model, and only with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from taskdict._common.validation import refuse_masked


@dataclass(frozen=True, eq=False)
class Features:
    """What scikit-learn knows of the columns of X: `n_features_in_` and, if they have names, `feature_names_in_`."""

    count: int
    names: NDArray[Any] | None = None

    def publish(self, estimator: Any) -> None:
        """Set the attributes of an estimator."""
        estimator.n_features_in_ = self.count
        if self.names is not None:
            estimator.feature_names_in_ = self.names
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_

    @classmethod
    def of(cls, estimator: Any) -> Features:
        """Return those of a fitted estimator."""
        return cls(int(estimator.n_features_in_), getattr(estimator, "feature_names_in_", None))

    def to_document(self) -> dict[str, Any]:
        """Return them for the document of a model file."""
        names = None if self.names is None else [str(name) for name in self.names]
        return {"n_features_in": self.count, "feature_names_in": names}

    @classmethod
    def from_document(cls, document: dict[str, Any], count: int) -> Features:
        """Return those of a model file, whose arrays are for so many features."""
        if count != document["n_features_in"]:
            raise ValueError("the dictionary does not fit the number of features")
        names = document["feature_names_in"]
        if names is None:
            return cls(count)
        if not isinstance(names, list) or [type(name) for name in names] != [str] * count:
            raise ValueError("the names of the features do not fit their number")
        return cls(count, np.array(names, dtype=object))


def validated(estimator: Any, X: Any, **settings: Any) -> Any:
    """Return X as :func:`sklearn.utils.validation.validate_data` does, but refuse masked arrays, dates and text.

    scikit-learn takes them for numbers.
    """
    refuse_masked("X", X)
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "mMVSU":
        raise TypeError(f"X must hold real numbers, got dtype {dtype}.")
    return validate_data(estimator, X, **settings)


def read_signals(estimator: Any, X: Any, reset: bool, **settings: Any) -> tuple[Any, Features]:
    """Return the signals of a fit after scikit-learn's checks, and their features; the estimator stays as it is.

    Parameters
    ----------
    estimator : estimator
        Whose fit it is.
    X : array or sparse array of shape (n_samples, n_features)
        Signals. Values that are not finite are left to the encoder, unless `settings` asks for them.
    reset : bool
        Whether the features may differ from those of an earlier fit.
    **settings
        Of :func:`sklearn.utils.validation.validate_data`.
    """
    several = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], (str, os.PathLike))
    if several or isinstance(X, (str, os.PathLike, Iterator)):
        raise TypeError(f"X must be an array or a stream, got {type(X).__name__}: fit(taskdict.stream(X)) reads it.")
    settings = {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": False, **settings}
    probe = object.__new__(type(estimator))  # takes the attributes that scikit-learn sets
    vars(probe).update(vars(estimator))
    X = validated(probe, X, reset=reset, **settings)
    return X, Features.of(probe)
