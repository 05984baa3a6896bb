"""Learning rates: how far to move against a gradient, as a function of time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from taskdict._common.arrays import Floats
from taskdict._learning.objective import Weights

SECOND_MOMENT_SHARE = 0.01  # of the last batch in the second moments
GRADIENT_CLIP = 3.0  # a gradient counts at most so many times its usual size


class Rate(Protocol):
    """A rule for the steps of a descent."""

    def at(self, t: int) -> float:
        """Return the size of step t = 1, 2, and so on."""

    def moves(self, gradient: Weights, moments: Weights | None, t: int) -> tuple[Weights, Weights | None]:
        """Return by how much to move against a gradient, and the second moments from those before, if it has any."""


@dataclass(frozen=True)
class DecayingRate:
    """The paper's step ρ_t = min(ρ, ρ t0 / t) at time t = 1, 2, and so on."""

    rho: float
    t0: float

    def at(self, t: int) -> float:
        """Return ρ_t."""
        return min(self.rho, self.rho * self.t0 / t)

    def moves(self, gradient: Weights, moments: Weights | None, t: int) -> tuple[Weights, None]:
        """Return by how much to move against the gradient."""
        rho = gradient.D.dtype.type(self.at(t))
        return gradient.each(lambda array: rho * array), None


@dataclass(frozen=True)
class AdaptiveRate:
    """RMSprop with one second moment per atom and per row of Z, and one per number of W and b; clipped, decayed.

    The gradient of an atom is divided by its usual size, the root of the mean of its square over the last hundred
    batches or so. The quotient is clipped at `GRADIENT_CLIP` and multiplied by a pace that falls from `pace` to zero
    over `total` steps like a cosine. So an atom that few signals use, or one whose signals are all classified correctly
    already, moves as far as the others.
    """

    pace: float
    total: int
    t0: float | None = None  # if given, the pace falls without an end, like t0 / t from step t0 on

    def at(self, t: int) -> float:
        """Return the pace."""
        if self.t0 is not None:
            return self.pace * min(1.0, self.t0 / t)
        return self.pace * 0.5 * (1 + math.cos(math.pi * min(1.0, (t - 1) / self.total)))

    def moves(self, gradient: Weights, moments: Weights | None, t: int) -> tuple[Weights, Weights]:
        """Return by how much to move against the gradient, and the second moments from those before."""
        number = gradient.D.dtype.type
        rho, share, least = number(self.at(t)), number(max(SECOND_MOMENT_SHARE, 1 / t)), np.finfo(number).tiny
        squares = gradient.squares()
        means = squares if moments is None else moments.each(lambda old, new: old + share * (new - old), squares)

        def move(array: Floats, mean: Floats, square: Floats) -> Floats:
            usual = np.sqrt(np.maximum(np.maximum(mean, square / number(GRADIENT_CLIP**2)), least))
            return np.asarray(rho * array / usual)

        return gradient.each(move, means, squares), means
