"""A committee: models that are trained side by side on the same batches.

Regression and a softmax have a single member; otherwise there is one per class, or per pair of classes. Each member has
weights and a learning rate of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._common.threads import in_parallel
from taskdict._learning.models import evaluate
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.schedule import Schedule
from taskdict._learning.sets import Sets
from taskdict.streams.pairs import Batch

Result = TypeVar("Result")
Select = Callable[[Any], tuple[NDArray[np.intp] | None, Any]]


@dataclass(frozen=True)
class Member:
    """One model of the committee: its objective for μ = 0, its constraint sets, and its view of the targets.

    `select` maps the targets of a batch to the rows that the model learns from, None for all, and their targets.
    """

    objective: Objective
    sets: Sets
    select: Select

    def batch(self, batch: Batch) -> Batch:
        """Return the part of a batch that this model learns from, with its targets."""
        rows, y = self.select(batch.y)
        if rows is None:
            return replace(batch, y=y)
        weights = None if batch.weights is None else batch.weights[rows]
        return replace(batch, X=np.ascontiguousarray(batch.X[rows]), y=y, weights=weights)

    def at(self, mu: float, schedule: Schedule) -> Member:
        """Return this model with another μ.

        With μ = 1 only the dictionary is learned: W does not enter the objective and stays as it is.
        """
        objective = replace(self.objective, task=1 - mu, reconstruction=mu * schedule.reconstruction)
        if schedule.relative_nu:
            objective = replace(objective, nu=(1 - mu) * objective.nu)
        if mu == 1:
            objective = replace(objective, nu=0.0, fit_intercept=False)
        return replace(self, objective=objective)


class Committee:
    """The members, and the threads that they share.

    Parameters
    ----------
    members : sequence of Member
        The models, for μ = 0.
    n_threads : int
        Threads to use, for the models or within them.
    """

    def __init__(self, members: Sequence[Member], n_threads: int) -> None:
        self.members = tuple(members)
        self.n_threads = n_threads
        self.threads_each = max(1, n_threads // len(self.members))
        self._cancelled = threading.Event()

    def __len__(self) -> int:
        return len(self.members)

    def for_each(self, function: Callable[[int], Result]) -> list[Result]:
        """Return function(k) for each member k, in parallel."""
        self._cancelled.clear()
        try:
            return in_parallel(function, range(len(self.members)), self.n_threads)
        except BaseException:
            self._cancelled.set()
            raise

    def scores(self, weights: Sequence[Weights], X: Floats) -> Floats:
        """Return the outputs of all members side by side, of shape (n_samples, outputs)."""

        def scores(k: int) -> Floats:
            return self.members[k].objective.scores(weights[k], X, self.threads_each)

        return np.concatenate(self.for_each(scores), axis=1)

    def losses(self, weights: Sequence[Weights], batch: Batch) -> NDArray[np.float64]:
        """Return the loss of the task for each sample, summed over the members that learn from it."""

        def losses(k: int) -> NDArray[np.float64]:
            member, mine = self.members[k], weights[k]
            rows, y = member.select(batch.y)
            X = batch.X if rows is None else np.ascontiguousarray(batch.X[rows])
            coded = member.objective.encode(mine, X, self.threads_each)
            equal = np.ones(len(X), X.dtype)
            terms, _ = evaluate(member.objective.model, member.objective.loss, coded, y, mine.W, mine.b, equal)
            each = np.zeros(len(batch.X))
            each[slice(None) if rows is None else rows] = terms.values
            return each

        total: NDArray[np.float64] = np.sum(self.for_each(losses), axis=0)
        return total

    def check_cancelled(self) -> None:
        """Raise in a thread of `for_each` if another of its threads has failed or was interrupted."""
        if self._cancelled.is_set():
            raise KeyboardInterrupt
