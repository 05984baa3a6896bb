"""Signals centred and of norm one, as the paper has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unit_norm(X: NDArray[Any], center: bool = True) -> NDArray[Any]:
    """Return the rows less their own mean and scaled to norm one; those that are constant become zero."""
    wide = np.abs(X).max(axis=1, keepdims=True, initial=0)
    rows = X / np.where(wide > 0, wide, 1)  # neither squares nor sums leave the range of the dtype
    if center:
        rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    constant = norms <= 8 * np.finfo(rows.dtype).eps * np.sqrt(X.shape[1])  # nothing but rounding is left
    unit: NDArray[Any] = np.where(constant, 0, rows / np.where(constant, 1, norms)).astype(X.dtype)
    return unit
