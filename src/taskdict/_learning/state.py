"""The state of a training, and the outcome of a step."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskdict._learning.objective import Weights

Each = tuple[Weights, ...]  # one for each member


@dataclass(frozen=True)
class State:
    """Where a training is."""

    weights: Each
    rhos: tuple[float, ...]  # of each member
    t: int = 0  # batches so far
    position: Any = None  # of the source of the batches after the last one
    moments: Each | None = None  # second moments of the gradients, if steps are adaptive
    before: Each | None = None  # the weights one batch before, None after a step back and when training is done
    limits: tuple[float, ...] | None = None  # objectives above which a member has diverged, None before the first step
    mean: Each | None = None  # of the weights over the tail of the stage, while in it
    best: Each | None = None  # on the validation part
    best_value: float = np.inf
    stale: int = 0  # checks since then
    stopped: bool = False

    @property
    def chosen(self) -> Each:
        """The weights to use."""
        return self.weights if self.best is None else self.best

    def one_back(self) -> State:
        """Return the state with the weights of one batch before, where they are known."""
        return replace(self, weights=self.before or self.weights, before=None, mean=None)

    def unguarded(self) -> State:
        """Return the state without what detects a divergence, for other data than before."""
        return replace(self, before=None, limits=None)


class Outcome(enum.Enum):
    """How a step ended."""

    MOVED = "the weights have moved"
    EMPTY = "no member had a sample to learn from; the batch counts"
    DIVERGED = "the learning rate is too large; the state is that of one batch before"


@dataclass(frozen=True)
class Step:
    """The result of a batch: the objective before the step, averaged over the members, and a check if there was one."""

    objective: float
    validation: float | None = None
    outcome: Outcome = Outcome.MOVED
    message: str = ""  # why it has diverged
