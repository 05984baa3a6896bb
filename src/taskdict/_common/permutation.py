"""A random order of any number of things that is computed where it is needed, not stored."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def permuted(places: NDArray[np.int64], n: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """Return where a random permutation of 0 … n − 1 sends these places, without storing the permutation.

    The places are written as pairs (left, right) of a rectangle with at least n cells, and each half is shifted in
    turn by a hash of the other, which can be undone, so it is a permutation of the cells (a Feistel network). A place
    that falls outside 0 … n − 1 is sent on until it falls inside.
    """
    height = math.isqrt(n - 1) + 1
    width = -(-n // height)
    keys = np.random.SeedSequence(list(seed)).generate_state(8, np.uint64)
    result = places.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside) > 0:
        left, right = np.divmod(result[outside], np.uint64(width))
        for key, other in zip(keys[::2], keys[1::2], strict=True):
            left = (left + _hash(right ^ key)) % np.uint64(height)
            right = (right + _hash(left ^ other)) % np.uint64(width)
        result[outside] = left * np.uint64(width) + right
        outside = outside[result[outside] >= n]
    return result.astype(np.int64)


def _hash(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64-bit numbers (two rounds of multiplying and folding), down to 32 bits."""
    for factor in (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(31))) * factor
    return values >> np.uint64(32)
