"""Fingerprints of data: a checkpoint is resumed only with the data that it was begun with."""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from taskdict._common.threads import in_parallel

KIND = "sha256:"  # the beginning of a fingerprint of all of the data
BLOCK = 1 << 24  # bytes that are hashed at once


def fingerprint(data: Iterable[Any], n_threads: int = 1) -> str:
    """Return the SHA-256 digest of data: of every byte of arrays, and of numbers, text, None, dicts and lists.

    Arrays may be memory-mapped or sparse, or anything with a shape, a dtype and rows; they are read in blocks, in up to
    `n_threads` threads, which do not change the digest. Equal values in another dtype have another fingerprint, those
    in another memory order the same.
    """
    digest = hashlib.sha256()
    for item in data:
        if sp.issparse(item):
            csr = sp.csr_array(item)
            digest.update(f"sparse {csr.shape}\n".encode())
            arrays = [csr.data, csr.indices, csr.indptr]
        elif hasattr(item, "dtype") and hasattr(item, "shape"):
            arrays = [item if len(item.shape) > 0 else np.asarray(item)]
        else:
            digest.update(_plain(item).encode())
            continue
        for k, array in enumerate(arrays):
            index = sp.issparse(item) and k > 0  # of 32 or 64 bits, as scipy likes
            digest.update(_array_digest(array, n_threads, np.dtype(np.int64) if index else None))
    return f"{KIND}{digest.hexdigest()[:32]}"


def _plain(item: Any) -> str:
    """Return text for a value that has no bytes of its own; what `repr` says of an object may be its address."""
    if isinstance(item, dict):
        return f"{{{''.join(_plain(key) + _plain(value) for key, value in item.items())}}}\n"
    if isinstance(item, list | tuple):
        return f"[{''.join(map(_plain, item))}]\n"
    if item is None or isinstance(item, bool | numbers.Number | str | np.bool_):
        return f"{item!r}\n"
    raise TypeError(f"the known data of a stream must be arrays, numbers, text or None, got {type(item).__name__}.")


def _array_digest(array: Any, n_threads: int, dtype: np.dtype[Any] | None = None) -> bytes:
    """Return the digest of an array, as of another dtype if one is given."""
    if dtype is None:
        wide = array.dtype.kind == "f" and array.dtype.itemsize > 8  # has bytes that are not set
        dtype = np.dtype(np.float64) if wide else array.dtype
    digest = hashlib.sha256(f"{dtype.str} {array.shape}\n".encode())
    rows = array if len(array.shape) > 0 else np.atleast_1d(array)
    size = math.prod(rows.shape)
    step = max(1, BLOCK // max(1, dtype.itemsize * (size // max(1, len(rows)))))

    def block(start: int) -> bytes:
        part = np.ascontiguousarray(rows[start : start + step])
        if dtype.kind == "O":
            return hashlib.sha256(repr(part.tolist()).encode()).digest()
        return hashlib.sha256(part.astype(dtype, copy=False).view(np.uint8).data).digest()

    if size > 0:
        for part in in_parallel(block, range(0, len(rows), step), n_threads):
            digest.update(part)
    return digest.digest()
