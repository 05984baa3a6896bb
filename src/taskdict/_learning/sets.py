"""Convex sets that the weights are kept in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

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
    """A set of W in the units of the user, for a W that is larger by a factor."""

    kept: ConstraintSet
    factor: float

    def project(self, matrix: Floats) -> Floats:
        """Return the nearest point."""
        return self.kept.project(matrix / self.factor) * self.factor
