"""The linear model on the signals: the baseline that a task-driven model is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._learning.committee import Committee
from taskdict._learning.convex import Linear, fit_linear, leave_one_out
from taskdict._learning.models import Columns
from taskdict._learning.objective import Weights
from taskdict._learning.selection import LEAST_SAMPLES, NUS, some_rows
from taskdict.losses import CodeLoss, Loss, is_log_likelihood, is_quadratic, sees_codes
from taskdict.streams.pairs import Batch

LIKELIHOOD_SHARES = (1.0, 0.1)  # of the best penalty of least squares, that are tried for a likelihood


class Judge(Protocol):
    """What targets know of scores."""

    @property
    def n_outputs(self) -> int:
        """Outputs of each model of the task."""

    @property
    def linear_task(self) -> tuple[Loss, int]:
        """The loss and the number of outputs of a linear model, where the task is more than one model of scores."""

    def numbers(self, y: Any) -> Floats:
        """Return the targets as columns of numbers, for least squares."""

    def errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return the error of each sample times its weight; one minus their mean is the score of the estimator."""

    def linear_errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return the same for the scores of a model of `linear_task`."""


@dataclass(frozen=True, eq=False)
class LinearBaseline:
    """Linear models on the signals, with one penalty.

    Attributes
    ----------
    columns : Columns
        The features that it sees of signals.
    loss, n_outputs
        What it learns.
    nu : float
        Weight of ‖W‖²/2 beside the average loss.
    fit_intercept : bool
        Whether it has an intercept.
    is_of_the_task : bool
        Whether its scores are those of the task, so that the two models can take each other's place.
    """

    judge: Judge
    committee: Committee
    columns: Columns
    loss: Loss
    n_outputs: int
    nu: float
    fit_intercept: bool
    is_of_the_task: bool

    @classmethod
    def candidates(cls, judge: Judge, committee: Committee, sample: Batch) -> list[LinearBaseline]:
        """Return baselines to compare on held-out samples.

        Features are standardised or as they are, whichever has the lower leave-one-out error of least squares. The best
        penalty of least squares is only a guess for a likelihood, so there are two, and that of
        scikit-learn's LogisticRegression on standardised features.
        """
        objective = committee.members[0].objective
        loss: Loss | CodeLoss = objective.loss
        is_of_the_task = len(committee) == 1 and not sees_codes(loss)
        n_outputs = judge.n_outputs
        if not is_of_the_task:
            loss, n_outputs = judge.linear_task
        assert isinstance(loss, Loss)
        n, intercept = len(sample.X), objective.fit_intercept
        signals = np.concatenate([sample.X, sample.others])
        either = [Columns.of(signals, center=intercept, scale=scale) for scale in (True, False)]
        columns, nu = either[0], 1 / n
        if n >= LEAST_SAMPLES:
            some = sample.rows(some_rows(n), sample.others[:0])
            nus, numbers = [share / len(some.X) for share in NUS], judge.numbers(some.y)
            errors = [leave_one_out(each.of_signals(some.X), numbers, some.weights, nus, intercept) for each in either]
            best = int(np.argmin([each.min() for each in errors]))
            columns, nu = either[best], NUS[int(errors[best].argmin())] / n
        penalised = [(columns, share * nu) for share in ((1.0,) if is_quadratic(loss) else LIKELIHOOD_SHARES)]
        if is_log_likelihood(loss):
            standardised = either[0]
            default = 1 / (n * max(1, int(np.count_nonzero(standardised.factor))))
            if not any(of is standardised and np.isclose(nu, default) for of, nu in penalised):
                penalised.append((standardised, default))
        return [cls(judge, committee, of, loss, n_outputs, nu, intercept, is_of_the_task) for of, nu in penalised]

    def fit(self, batch: Batch, start: Linear | None = None) -> Linear:
        """Return the linear model that is learned from a batch, from one with another penalty."""
        features, y = self.columns.of_signals(batch.X), self._targets(batch.y)
        if start is None:
            m, dtype = features.shape[1], features.dtype
            start = Linear(np.zeros((self.n_outputs, m), dtype), np.zeros(self.n_outputs, dtype))
        return fit_linear(features, y, batch.weights, self.loss, start, self.nu, self.fit_intercept)

    @staticmethod
    def fit_all(baselines: Sequence[LinearBaseline], batch: Batch) -> Iterator[Linear]:
        """Yield the linear models of several baselines, each from the one before on the same features."""
        fitted: Linear | None = None
        columns: Columns | None = None
        for each in baselines:
            fitted = each.fit(batch, fitted if each.columns is columns else None)
            columns = each.columns
            yield fitted

    def scores(self, linear: Linear, X: Floats) -> Floats:
        """Return the scores of signals."""
        scores: Floats = self.columns.of_signals(X) @ linear.W.T + linear.b
        return scores

    def errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return the error of each sample times its weight."""
        errors = self.judge.errors if self.is_of_the_task else self.judge.linear_errors
        return errors(y, scores, weights)

    def losses(self, y: Any, scores: Floats) -> NDArray[np.float64]:
        """Return the loss of each sample."""
        return np.asarray(self.loss.evaluate(self._targets(y), scores)[0], np.float64)

    def in_place_of(self, start: Weights, linear: Linear) -> Weights:
        """Return the weights of a joint model, on a dictionary, that has no weight on the codes."""
        none = np.zeros((self.n_outputs, 2 * len(start.D)), start.D.dtype)
        W = np.concatenate([none, linear.W.astype(start.D.dtype)], axis=1)
        return Weights(start.D, W, linear.b.astype(start.D.dtype))

    def _targets(self, y: Any) -> Any:
        return self.committee.members[0].select(y)[1] if self.is_of_the_task else y
