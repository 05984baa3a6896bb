"""Convex sets that parameters are kept in, with their projections.

A set is a frozen dataclass with one method, ``project``. The dictionary of the paper (``eq:C``) has its atoms in the
unit ball; W and Z have sets of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taskdict._native import shorten_rows


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
        rows = np.array(matrix, order="C")
        shorten_rows(rows, self.positive)
        return rows


@dataclass(frozen=True)
class Ball:
    """Arrays whose norm, the root of the sum of all squares, is at most `radius`."""

    radius: float = 1.0

    def project(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the nearest array of the set."""
        top = float(np.abs(matrix).max(initial=0))
        norm = top * float(np.linalg.norm(matrix / top)) if top > 0 else 0.0
        return np.array(matrix) if norm <= self.radius else matrix * matrix.dtype.type(self.radius / norm)


@dataclass(frozen=True)
class NonNegative:
    """Arrays without negative entries."""

    def project(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the nearest array of the set."""
        projected: NDArray[Any] = np.maximum(matrix, 0)
        return projected
