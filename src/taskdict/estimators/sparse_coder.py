"""Sparse coding on a given dictionary, as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from taskdict._validation import check_dictionary, check_signals
from taskdict.coding import sparse_encode


# scikit-learn has no types, so its base classes are Any to mypy.
class SparseCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode signals on a fixed dictionary with the elastic net.

    Each signal x becomes the minimiser of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖², see
    :func:`taskdict.sparse_encode`, which this class makes usable in pipelines and searches.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features)
        One atom per row, of any norm.
    lambda1 : float, default=0.15
        Weight of the ℓ1 norm; the default suits signals and atoms of unit norm.
    lambda2 : float, default=0.0
        Weight of the squared ℓ2 norm.
    positive : bool, default=False
        Whether to require non-negative codes.
    method : {"auto", "active-set", "homotopy"}, default="auto"
        See :func:`taskdict.sparse_encode`.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary.
    n_features_in_ : int
        Number of features per signal.
    feature_names_in_ : array of str
        Names of the features, if X in `fit` had names.

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> coder = td.SparseCoder(np.eye(3), lambda1=1.0)
    >>> coder.fit_transform([[3.0, -1.0, 0.5]]).toarray()
    array([[2., 0., 0.]])
    """

    def __init__(
        self,
        dictionary: ArrayLike,
        *,
        lambda1: float = 0.15,
        lambda2: float = 0.0,
        positive: bool = False,
        method: str = "auto",
        n_threads: int | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.positive = positive
        self.method = method
        self.n_threads = n_threads

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters against the data; nothing is learned.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : SparseCoder
        """
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric")
        single = getattr(self.dictionary, "dtype", None) == np.float32
        self.components_ = check_dictionary(self.dictionary, np.dtype(np.float32 if single else np.float64)).copy()
        self._encode(X[:1])  # every argument is checked before any work is done
        return self

    def transform(self, X: Any) -> sp.csr_array:
        """Encode signals.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        codes : scipy.sparse.csr_array of shape (n_samples, n_components)
            Their codes, in the dtype of X.
        """
        check_is_fitted(self)
        # The encoder itself looks for values that are not finite.
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, reset=False)
        return self._encode(X)

    def inverse_transform(self, codes: Any) -> NDArray[Any]:
        """Return the signals that the codes stand for, Dα.

        Parameters
        ----------
        codes : array or sparse array of shape (n_samples, n_components)
            Codes, as `transform` returns them.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        codes = check_signals(codes.tocsr() if sp.issparse(codes) else codes, "codes")
        if codes.shape[1] != self._n_features_out:
            raise ValueError(f"codes must have {self._n_features_out} columns, one per atom, got {codes.shape[1]}.")
        dtype = np.float32 if codes.dtype == np.float32 else np.float64
        signals: NDArray[Any] = codes @ self.components_.astype(dtype, copy=False)
        return signals

    def _encode(self, X: Any) -> sp.csr_array:
        return sparse_encode(
            X,
            self.components_,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            positive=self.positive,
            method=self.method,
            n_threads=self.n_threads,
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse input is welcome and the dtype is kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
