"""Models: how scores come from codes, and the gradients of a loss on the scores back to codes and parameters.

A task is what :func:`evaluate` makes of a model and a loss. Its value depends on the parameters W and b, on the codes,
and for some models on the signals too; gradients in the codes are given on their supports only, one number per
nonzero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taskdict._native import correlate_supports, decode, sum_outer
from taskdict.gradients import CodedBatch
from taskdict.losses import Loss

Floats = NDArray[Any]


@dataclass(frozen=True)
class Evaluation:
    """The value of a task for each sample of a batch, and the gradients of their sum.

    `D` and `x` are the explicit gradients only, those at fixed codes, None where there are none.
    """

    values: Floats  # (n_samples,)
    alpha: Floats  # one per nonzero of the codes
    W: Floats
    b: Floats
    D: Floats | None = None
    x: Floats | None = None


class Model(Protocol):
    """Scores s of shape (n_samples, n_outputs) from a batch of codes."""

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats, values: Floats) -> Evaluation:
        """Return the gradients of a loss whose gradients in the scores are `slopes`."""


class LinearModel:
    """s = Wα + b, with W of shape (n_outputs, n_components)."""

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""
        return n_outputs, n_components

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""
        scores: Floats = batch.codes @ W.T + b
        return scores

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats, values: Floats) -> Evaluation:
        """Return the gradients."""
        alpha = np.einsum("ik,ki->i", slopes[batch.rows], W[:, batch.encoded.indices])
        return Evaluation(values, alpha, (batch.codes.T @ slopes).T, slopes.sum(axis=0))


class BilinearModel:
    """s = xᵀWα + b, with W of shape (n_outputs, n_components, n_features) (``eq:bilinear``)."""

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""
        return n_outputs, n_components, n_features

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""
        terms = batch.encoded.values * self._products(batch, W)
        sums = [np.bincount(batch.rows, term, minlength=len(batch.X)) for term in terms]
        return np.stack(sums, axis=1).astype(W.dtype) + b

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats, values: Floats) -> Evaluation:
        """Return the gradients."""
        n_threads = batch.encoder.n_threads
        on_supports = np.ascontiguousarray(slopes.T[:, batch.rows])
        alpha = (on_supports * self._products(batch, W)).sum(axis=0)
        gradient, explicit = np.empty_like(W), np.zeros_like(batch.X)
        for k, slope in enumerate(on_supports):
            weighted = slope * batch.encoded.values
            sum_outer(batch.encoded, weighted, batch.X, 0.0, gradient[k], gradient[k], n_threads)
            before = explicit
            explicit = np.empty_like(before)
            decode(batch.encoded, weighted, W[k], 1.0, before, explicit, n_threads)
        return Evaluation(values, alpha, gradient, slopes.sum(axis=0), x=explicit)

    @staticmethod
    def _products(batch: CodedBatch, W: Floats) -> Floats:
        """Return xᵀw_kj for each output k and each nonzero of the codes."""
        n_threads = batch.encoder.n_threads
        return np.stack([correlate_supports(batch.encoded, table, batch.X, n_threads) for table in W])


def evaluate(
    model: Model, loss: Loss, batch: CodedBatch, y: Any, W: Floats, b: Floats, weights: Floats | None = None
) -> Evaluation:
    """Return the value of ℓ(y, model(α)) for each sample, times its weight, and the gradients of the sum."""
    values, slopes = loss.evaluate(y, model.scores(batch, W, b))
    if weights is not None:
        values, slopes = weights * values, weights[:, None] * slopes
    return model.back(batch, W, np.ascontiguousarray(slopes, W.dtype), values)
