"""Estimators whose output is codes: `transform`, the inverse, and model files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from taskdict._common.arrays import Floats
from taskdict._common.validation import check_flag, check_signals
from taskdict._files import storage
from taskdict._files.persistent import parameters_to_file
from taskdict.estimators.features import Features, validated
from taskdict.streams import Stream


class CodesMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """`transform` for an estimator with a method ``_codes(X)`` and a parameter `sparse_output`."""

    sparse_output: bool

    def transform(self, X: Any) -> sp.csr_array | NDArray[Any]:
        """Encode signals.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        codes : scipy.sparse.csr_array of shape (n_samples, n_components)
            Their codes, in the dtype of X; an array if `sparse_output` is False.
        """
        codes = self._codes(check_used(self, X))
        if check_flag("sparse_output", self.sparse_output):
            return codes
        dense: NDArray[Any] = codes.toarray()
        return dense

    @abstractmethod
    def _codes(self, X: Any) -> sp.csr_array:
        """Return the codes of signals that were checked."""

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: sparse input is welcome, and the dtype is kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def check_used(estimator: Any, X: Any) -> Any:
    """Return the signals that a fitted model is applied to, after scikit-learn's checks.

    Values that are not finite are left to the encoder.
    """
    check_is_fitted(estimator)
    if isinstance(X, Stream):
        raise TypeError("X must be an array, got a stream: pass stream.take(n), as often as you like.")
    return validated(estimator, X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, reset=False)


def decoded(codes: Any, dictionary: Floats) -> Floats:
    """Return the signals Dα of codes, which may be sparse in any format."""
    codes = check_signals(codes.tocsr() if sp.issparse(codes) else codes, "codes")
    if codes.shape[1] != len(dictionary):
        raise ValueError(f"codes must have {len(dictionary)} columns, one per atom, got {codes.shape[1]}.")
    dtype = np.float32 if codes.dtype == np.float32 else np.float64
    signals: Floats = codes @ dictionary.astype(dtype, copy=False)
    return signals


def model_file(
    estimator: Any, arrays: storage.Arrays, learned: dict[str, Any], as_fitted: Mapping[str, Any] | None = None
) -> tuple[storage.Arrays, dict[str, Any]]:
    """Return the content of the model file of an estimator: its parameters, its features, and its learned values.

    The values in `as_fitted` take the place of parameters that may have changed since the fit.
    """
    given, parameters = parameters_to_file(estimator, **(as_fitted or {}))
    arrays = {**arrays, **given}
    document = {"parameters": parameters, "learned": learned, **Features.of(estimator).to_document()}
    try:  # a file that could not be loaded must not replace one that can
        type(estimator)._from_file(*storage.as_read(arrays, document))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"the model cannot be saved with these parameters: {error}") from None
    return arrays, document
