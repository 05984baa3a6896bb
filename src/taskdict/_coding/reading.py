"""Between the arrays of a user and the core: signals in pieces that it can read, codes as sparse arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from taskdict._native import Encoded

MOST_KEPT_ATOMS = 4096  # of a prepared dictionary that is kept: its Gram matrices take up to 200 MB
CHUNK_BYTES = 1 << 24  # of signals that have to be converted before they are encoded


def dtype_of(X: Any) -> np.dtype[Any]:
    """Return the dtype that signals are encoded in."""
    return np.dtype(np.float32 if X.dtype.kind == "f" and X.dtype.itemsize == 4 else np.float64)


def not_finite(row: int, ignores_nan: bool = False) -> ValueError:
    if ignores_nan:
        return ValueError(
            f"X must be finite where it is not NaN, but row {row} contains infinity: replace it, or leave it out with "
            "a mask that is False there."
        )
    return ValueError(
        f"X must be finite, but row {row} contains NaN or infinity. Remove or impute such values first. In a dense "
        "array, taskdict.sparse_encode lets NaN stand for missing values with missing='ignore', but not infinity."
    )


def check_width(X: Any, n_features: int) -> None:
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features per signal, but the atoms of dictionary have {n_features}: both must have "
            "the same number of columns."
        )


def ready_chunks(X: Any, dtype: np.dtype[Any], in_pieces: bool = False) -> Iterator[Any]:
    """Yield X as the core can read it: at once if it can be, else or on request in blocks of bounded size."""
    if sp.issparse(X):
        ready = X.dtype == dtype and X.dtype.isnative and X.has_canonical_format
        row_bytes = 16 * max(1, X.nnz // max(1, X.shape[0]))
    else:
        whole_items = all(stride % X.itemsize == 0 for stride in X.strides)
        ready = X.dtype == dtype and X.dtype.isnative and X.flags.aligned and whole_items
        row_bytes = X.shape[1] * dtype.itemsize
    if ready and not in_pieces:
        yield X
        return
    rows = max(1, CHUNK_BYTES // max(1, row_bytes))
    for start in range(0, X.shape[0], rows):
        piece = X[start : start + rows]
        with np.errstate(over="ignore"):  # what becomes infinite is reported as such
            converted: Any = piece.astype(dtype) if sp.issparse(X) else np.ascontiguousarray(piece, dtype=dtype)
        if sp.issparse(X):
            converted.sum_duplicates()
        yield converted


def as_csr(encoded: Encoded, n_components: int) -> sp.csr_array:
    indices, indptr = encoded.indices, encoded.indptr
    if len(indices) <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    else:
        indices = indices.astype(np.int64)
    shape = (len(indptr) - 1, n_components)
    codes = sp.csr_array((encoded.values, indices, indptr), shape=shape, copy=False)
    codes.has_sorted_indices = True
    codes.has_canonical_format = True
    return codes
