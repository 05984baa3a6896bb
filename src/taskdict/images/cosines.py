"""Overcomplete dictionaries of cosines for patches: products of a vertical and a horizontal cosine.

With as many atoms as pixels, and without centring, this is the discrete cosine transform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cosine_waves(patch_size: int, n_frequencies: int) -> NDArray[np.float64]:
    """Return cosines along a side of a patch as columns, from the constant to the highest frequency.

    If there are more frequencies than pixels, they are closer to each other than in the discrete cosine transform.
    """
    spacing = max(patch_size, n_frequencies)
    return np.cos(np.pi * np.outer(np.arange(patch_size) + 0.5, np.arange(n_frequencies)) / spacing)


def lowest_products(waves: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return the `n` products of a vertical and a horizontal wave with the lowest sums of frequencies, as rows."""
    down, across = np.divmod(np.arange(waves.shape[1] ** 2), waves.shape[1])
    lowest = np.argsort(down + across, kind="stable")[:n]
    return (waves.T[down[lowest], :, None] * waves.T[across[lowest], None, :]).reshape(len(lowest), -1)


def unit_atoms(atoms: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return atoms scaled to norm one, as float32."""
    return np.ascontiguousarray(atoms / np.linalg.norm(atoms, axis=1, keepdims=True), np.float32)
