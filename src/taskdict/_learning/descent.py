"""Algorithm 1: a projected stochastic gradient step over the dictionary, the model and the transform together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskdict._learning.objective import Objective, Weights
from taskdict._learning.rates import Rate
from taskdict._learning.sets import Sets
from taskdict.streams.pairs import Batch

DIVERGENCE_FACTOR = 1e3  # times the values at the start: an objective above that has diverged


class DivergedError(ArithmeticError):
    """Raised when a step leads to values that are not finite or far too large; the weights before it are kept."""


@dataclass(frozen=True)
class Move:
    """The result of one step.

    Attributes
    ----------
    value : float
        The objective on the batch before the step.
    weights : Weights
        Those after the step.
    moments : Weights or None
        The second moments of the gradients, if the rate has any.
    finite : bool
        Whether all of this is finite. If not, the step has diverged and the weights must not be used.
    """

    value: float
    weights: Weights
    moments: Weights | None
    finite: bool


def descend(
    objective: Objective,
    sets: Sets,
    weights: Weights,
    batch: Batch,
    rate: Rate,
    t: int,
    moments: Weights | None = None,
    n_threads: int = 1,
) -> Move:
    """Move against the gradient on a batch, and project; t = 1 is the first step."""
    with np.errstate(over="ignore", invalid="ignore"):  # noticed below
        value, gradient = objective.evaluate(weights, batch, n_threads)
        moves, moments = rate.moves(gradient, moments, t)
        moved = sets.project(weights.each(np.subtract, moves))
        arrays = [array for array in vars(moved).values() if array is not None]
        finite = bool(np.isfinite(value)) and all(np.isfinite(array.sum()) for array in arrays)
    return Move(value, moved, moments, finite)
