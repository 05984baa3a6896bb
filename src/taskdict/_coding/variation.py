"""What differs between signals or atoms: missing values, and weights of the ℓ1 norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taskdict._common.validation import one_of, refuse_masked

MISSING = ("error", "ignore")
LARGEST_RANGE = 1e6  # of weights with another rule than lambda1, whose certificates do not hold beyond
_CHUNK_ROWS = 4096  # that are compared with NaN at once


@dataclass(frozen=True)
class Variation:
    """What was observed of each signal, and the weights of its atoms.

    Attributes
    ----------
    observed : array of shape (n_samples, n_features) or None
        1 where a feature was observed, 0 elsewhere; None if all were.
    weights : array of shape (n_samples, n_components) or (1, n_components), CSR array, or None
        Weights of the ℓ1 norm; None for ones.
    ignores_nan : bool
        Whether NaN was taken for a missing value.
    """

    observed: NDArray[np.uint8] | None = None
    weights: Any = None
    ignores_nan: bool = False

    @classmethod
    def parse(cls, X: Any, mask: Any, missing: Any, weights: Any) -> Variation | None:
        """Return the variation that arguments ask for, None if there is none; `X` has been checked."""
        one_of(*MISSING)("missing", missing)
        observed = None if mask is None else _check_mask(mask, X.shape)
        if missing == "ignore" and X.dtype.kind == "f":
            observed = _without_stored_nan(X, observed) if sp.issparse(X) else _without_nan(X, observed)
        if observed is None and weights is None:
            return None
        return cls(observed, None if weights is None else _check_weights(weights, X.shape[0]), missing == "ignore")

    def check_fits(self, n_components: int) -> None:
        """Raise unless there is a weight for each atom."""
        if self.weights is not None and self.weights.shape[1] != n_components:
            raise ValueError(
                f"weights must have one column per atom of dictionary, {n_components}, got shape {self.weights.shape}."
            )

    @property
    def range(self) -> float:
        """The largest finite weight over the least positive one; 1 without any."""
        if self.weights is None:
            return 1.0
        values = np.asarray(self.weights.data if sp.issparse(self.weights) else self.weights, np.float64)
        used = values[np.isfinite(values) & (values > 0)]
        with np.errstate(over="ignore"):
            return float(used.max() / used.min()) if len(used) else 1.0

    def check_penalties(self, amounts: NDArray[np.float64]) -> None:
        """Raise if the product of a finite weight and λ1 is too large for a number."""
        if self.weights is None or len(amounts) == 0:
            return
        values = self.weights.data if sp.issparse(self.weights) else self.weights
        finite = values[np.isfinite(values)]
        largest, lambda1 = float(finite.max(initial=0)), float(amounts.max())
        if largest > 1 and lambda1 > np.finfo(np.float64).max / largest:
            raise ValueError(
                f"lambda1 times the largest finite weight must be finite, got lambda1={lambda1} and weights up to "
                f"{largest}: use infinity to exclude an atom."
            )

    @property
    def has_zero_weights(self) -> bool:
        """Whether some atom is not penalised."""
        weights = self.weights
        if weights is None:
            return False
        if sp.issparse(weights):
            return bool(weights.nnz < np.prod(weights.shape) or (weights.data == 0).any())
        return bool((weights == 0).any())

    def rows(self, start: int, stop: int) -> tuple[NDArray[np.uint8] | None, NDArray[np.float64] | None]:
        """Return what holds for some signals, as the core reads it."""
        observed = None if self.observed is None else np.ascontiguousarray(self.observed[start:stop])
        weights = self.weights
        if weights is not None and weights.shape[0] > 1:
            weights = weights[start:stop]
        if sp.issparse(weights):
            weights = weights.toarray()
        return observed, None if weights is None else np.ascontiguousarray(weights, dtype=np.float64)


def _check_mask(mask: Any, shape: tuple[int, int]) -> NDArray[np.uint8]:
    refuse_masked("mask", mask)
    if sp.issparse(mask):
        raise TypeError("mask must be dense, got a sparse array: call mask.toarray() first.")
    array = np.asarray(mask)
    if array.dtype != np.bool_:
        raise TypeError(
            f"mask must hold booleans, True where a value was observed, got dtype {array.dtype}: convert it with "
            "mask.astype(bool), or compare it, as in mask > 0."
        )
    if array.shape != shape:
        raise ValueError(f"mask must have the shape of X, {shape}, got {array.shape}.")
    return array.view(np.uint8) if array.flags.c_contiguous else array.astype(np.uint8)


def _without_nan(X: NDArray[Any], observed: NDArray[np.uint8] | None) -> NDArray[np.uint8] | None:
    """Return what was observed, if NaN stands for a value that was not; infinity is left to the core to refuse."""
    found = np.empty(X.shape, np.uint8)
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        np.logical_not(np.isnan(X[rows]), out=found[rows].view(np.bool_))
        if observed is not None:
            found[rows] &= observed[rows]
    return found


def _without_stored_nan(X: Any, observed: NDArray[np.uint8] | None) -> NDArray[np.uint8] | None:
    """Return the same for sparse signals, of which what is not stored is zero."""
    places = np.flatnonzero(np.isnan(X.data))
    if len(places) == 0:
        return observed
    found = np.ones(X.shape, np.uint8) if observed is None else observed.copy()
    found[np.searchsorted(X.indptr, places, side="right") - 1, X.indices[places]] = 0
    return found


def _check_weights(weights: Any, n_samples: int) -> Any:
    refuse_masked("weights", weights)
    if sp.issparse(weights):
        if weights.format != "csr":
            raise TypeError(
                f"weights must be dense or in CSR format, got {weights.format.upper()}: call weights.tocsr() first."
            )
        if not weights.has_canonical_format:
            weights = weights.copy()
            weights.sum_duplicates()
        values = weights.data
    else:
        weights = np.asarray(weights)
        weights = weights[None] if weights.ndim == 1 else weights
        values = weights
    if values.dtype.kind not in "fiub":
        raise TypeError(f"weights must hold real numbers, got dtype {values.dtype}.")
    if weights.ndim != 2 or weights.shape[0] not in (1, n_samples):
        raise ValueError(
            "weights must have shape (n_components,), or (n_samples, n_components) with one row per signal "
            f"({n_samples}), got {weights.shape}."
        )
    bad = np.isnan(values) | (values < 0) if values.dtype.kind == "f" else values < 0
    if bad.any():
        raise ValueError(f"weights must be at least 0, or infinite to exclude an atom, got {values[bad].ravel()[0]}.")
    return weights
