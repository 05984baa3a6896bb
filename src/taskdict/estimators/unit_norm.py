"""Signals centred and of norm one, as the paper has them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from taskdict._common.normalise import unit_norm
from taskdict._common.validation import check_count, check_flag
from taskdict._files import storage
from taskdict._files.persistent import PersistentEstimator, parameters_from_file, parameters_to_file
from taskdict._files.registry import register
from taskdict.estimators.features import Features, validated


@register
class UnitNorm(OneToOneFeatureMixin, TransformerMixin, PersistentEstimator):
    """Subtract from each signal its own mean, then scale it to norm one.

    What the paper does to digits and image patches before anything else. There is nothing to fit: the first step of a
    pipeline, or the `preprocess` of a stream, ``taskdict.stream(X, preprocess=taskdict.UnitNorm().transform)``.

    Parameters
    ----------
    center : bool, default=True
        Whether to subtract the mean; False for signals whose mean matters, and for sparse ones.

    Examples
    --------
    >>> import taskdict as td
    >>> td.UnitNorm().fit_transform([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    array([[-0.70710678,  0.        ,  0.70710678],
           [ 0.        ,  0.        ,  0.        ]])
    """

    def __init__(self, center: bool = True) -> None:
        self.center = center

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the signals.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : UnitNorm
        """
        self._check(X, reset=True)
        return self

    def transform(self, X: Any) -> sp.csr_array | NDArray[Any]:
        """Return the signals centred and of norm one; those that are constant become zero.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        array or sparse array of the shape of X
            float32 if X was, else float64.
        """
        X = self._check(X, reset=not hasattr(self, "n_features_in_"))
        if sp.issparse(X):
            X = X.copy()
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            top = _row_maxima(X, rows)
            scaled = X.data / np.where(top > 0, top, 1)[rows]
            norms = np.sqrt(np.bincount(rows, scaled.astype(np.float64) ** 2, minlength=X.shape[0]))
            X.data = (scaled / np.where(norms > 0, norms, 1)[rows]).astype(X.dtype)
            return X
        return unit_norm(X, self.center)

    def _check(self, X: Any, reset: bool) -> Any:
        if check_flag("center", self.center) and sp.issparse(X):
            raise ValueError("sparse signals cannot be centred: use UnitNorm(center=False).")
        return validated(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=reset)

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        arrays, parameters = parameters_to_file(self)
        features = Features.of(self).to_document() if hasattr(self, "n_features_in_") else {}
        return arrays, {"parameters": parameters, **features}

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        parameters, _ = parameters_from_file(arrays, document["parameters"])
        model = cls(**parameters)
        check_flag("center", model.center)
        if "n_features_in" in document:  # the model was fitted
            Features.from_document(document, check_count("n_features_in", document["n_features_in"])).publish(model)
        return model

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: there is nothing to fit."""
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.sparse = not self.center
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _row_maxima(X: sp.csr_array, rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return the largest magnitude in each row."""
    top = np.zeros(X.shape[0], X.dtype)
    np.maximum.at(top, rows, np.abs(X.data))
    return top
