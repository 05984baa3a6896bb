"""Sparse coding on a given dictionary, as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from taskdict import storage
from taskdict._validation import check_dictionary
from taskdict.coding import sparse_encode
from taskdict.estimators._base import DictionaryTransformer
from taskdict.estimators._signals import validated


class SparseCoder(DictionaryTransformer):
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
        X = validated(self, X, accept_sparse="csr", dtype="numeric")
        single = getattr(self.dictionary, "dtype", None) == np.float32
        self.components_ = check_dictionary(self.dictionary, np.dtype(np.float32 if single else np.float64)).copy()
        sparse_encode(X[:1], self.components_, **self._coding())  # every argument is checked before any work is done
        return self

    def _set_learned(self, arrays: storage.Arrays, learned: dict[str, Any]) -> None:
        atoms = arrays["components"]
        if atoms.dtype not in (np.float32, np.float64):
            raise ValueError("its dictionary must be float32 or float64")
        self.components_ = check_dictionary(atoms, atoms.dtype)
        sparse_encode(np.zeros((1, atoms.shape[1])), atoms, **self._coding())  # checks the parameters

    def _coding(self) -> dict[str, Any]:
        return {
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
            "positive": self.positive,
            "method": self.method,
            "n_threads": self.n_threads,
        }
