"""Convex sets that parameters are kept in, with their projections.

A set is a frozen dataclass with one method, ``project``. The dictionary of the paper (``eq:C``) has its atoms in the
unit ball; W and Z have sets of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class ConstraintSet(Protocol):
    """A closed convex set of matrices."""

    def project(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the nearest point of the set, a new array."""


@dataclass(frozen=True)
class UnitBall:
    """Matrices whose rows have norm at most one, and no negative entry if `positive`.

    The projection on the non-negative part of the ball sets negative entries to zero first, then shortens the rows
    that are too long: the set is the intersection of a cone and a ball around its apex.
    """

    positive: bool = False

    def project(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the nearest matrix of the set."""
        rows = np.maximum(matrix, 0) if self.positive else matrix
        # The largest entry is divided out, so that squares neither overflow nor vanish.
        top = np.abs(rows).max(axis=1, keepdims=True, initial=0)
        safe = np.where(top > 0, top, 1)
        norms = safe * np.linalg.norm(rows / safe, axis=1, keepdims=True)
        projected: NDArray[Any] = np.where(norms > 1, rows / np.maximum(norms, 1), rows).astype(matrix.dtype)
        return projected
