"""Convex sets that the weights are kept in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._learning.objective import Weights
from taskdict.constraints import ConstraintSet


@dataclass(frozen=True)
class Sets:
    """Where the weights are kept; None is everywhere."""

    D: ConstraintSet
    W: ConstraintSet | None = None
    Z: ConstraintSet | None = None

    def project(self, weights: Weights) -> Weights:
        """Return the nearest weights in the sets."""
        moved = {}
        for name in ("D", "W", "Z"):
            kept, array = getattr(self, name), getattr(weights, name)
            if kept is not None and array is not None:
                moved[name] = np.ascontiguousarray(kept.project(array), array.dtype)
        return replace(weights, **moved)


@dataclass(frozen=True)
class ScaledSet:
    """A set of W in the units of the user, for a W that is larger by a factor for each output.

    The last columns of W may be smaller by factors of their own.
    """

    kept: ConstraintSet
    factor: NDArray[np.float64]
    last: Floats | None = None

    def project(self, matrix: Floats) -> Floats:
        """Return the nearest point, in the units of the user."""
        of_rows = each_output(self.factor, matrix)
        if self.last is None:
            return self.kept.project(matrix / of_rows) * of_rows
        factors = np.ones(matrix.shape[1], matrix.dtype)
        factors[-len(self.last) :] = self.last
        used = factors > 0  # a column that does not change has no weight
        projected = self.kept.project(matrix * (factors / of_rows))
        return np.where(used, projected * (of_rows / np.where(used, factors, 1)), 0)


def each_output(numbers: NDArray[np.float64], W: Floats) -> Floats:
    """Return one number for each output in a shape that multiplies the rows of W, in its dtype."""
    return numbers.astype(W.dtype).reshape(-1, *(1,) * (W.ndim - 1))
