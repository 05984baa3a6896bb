"""Models: how scores come from codes, and the gradients of a loss on the scores back to codes and parameters.

:func:`evaluate` combines a model and a loss to a task. Gradients in the codes are given on their supports only,
one number per nonzero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from taskdict._coding.coded_batch import CodedBatch
from taskdict._common.arrays import Floats
from taskdict._native import correlate_supports, decode, sum_outer
from taskdict.losses import CodeLoss, Loss, Terms


@dataclass(frozen=True)
class ModelGradient:
    """Gradients of a sum over the batch at fixed dictionary; `x` is None if the scores depend on codes only."""

    alpha: Floats  # one per nonzero of the codes
    W: Floats
    b: Floats
    x: Floats | None = None


@runtime_checkable
class Model(Protocol):
    """Scores s of shape (n_samples, n_outputs) from a batch of codes."""

    degree: int  # the scores, up to b, go with this power of the size of the signals

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats) -> ModelGradient:
        """Return the gradients of a loss whose gradients in the scores are `slopes`."""


class LinearModel:
    """s = Wα + b, with W of shape (n_outputs, n_components)."""

    degree = 1

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""
        return n_outputs, n_components

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""
        scores = np.empty((len(batch.X), len(W)), W.dtype)
        table = np.ascontiguousarray(W.T)
        decode(batch.encoded, batch.encoded.values, table, 0.0, scores, scores, batch.n_threads)
        scores += b
        return scores

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats) -> ModelGradient:
        """Return the gradients."""
        table = np.ascontiguousarray(W.T)
        alpha = correlate_supports(batch.encoded, table, slopes, batch.n_threads)
        gradient = np.empty_like(table)
        sum_outer(batch.encoded, batch.encoded.values, slopes, 0.0, gradient, gradient, batch.n_threads)
        return ModelGradient(alpha, gradient.T, slopes.sum(axis=0))


class BilinearModel:
    """s = xᵀWα + b, with W of shape (n_outputs, n_components, n_features) (``eq:bilinear``)."""

    degree = 2

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""
        return n_outputs, n_components, n_features

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""
        terms = batch.encoded.values * self._products(batch, W)
        sums = [np.bincount(batch.rows, term, minlength=len(batch.X)) for term in terms]
        return np.stack(sums, axis=1).astype(W.dtype) + b

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats) -> ModelGradient:
        """Return the gradients."""
        on_supports = np.ascontiguousarray(slopes.T[:, batch.rows])
        alpha = (on_supports * self._products(batch, W)).sum(axis=0)
        gradient, explicit = np.empty_like(W), np.zeros_like(batch.X)
        for k, slope in enumerate(on_supports):
            weighted = slope * batch.encoded.values
            sum_outer(batch.encoded, weighted, batch.X, 0.0, gradient[k], gradient[k], batch.n_threads)
            before = explicit
            explicit = np.empty_like(before)
            decode(batch.encoded, weighted, W[k], 1.0, before, explicit, batch.n_threads)
        return ModelGradient(alpha, gradient, slopes.sum(axis=0), explicit)

    @staticmethod
    def _products(batch: CodedBatch, W: Floats) -> Floats:
        """Return xᵀw_kj for each output k and each nonzero of the codes."""
        return np.stack([correlate_supports(batch.encoded, table, batch.X, batch.n_threads) for table in W])


def evaluate(
    model: Model, loss: Loss | CodeLoss, batch: CodedBatch, y: Any, W: Floats, b: Floats, weights: Floats
) -> tuple[Terms, ModelGradient]:
    """Return the value of ℓ(y, model(α)) for each sample, times its weight, and the gradients of the sum.

    The gradients in codes and signals of the second part include those of the first.
    """
    scores = model.scores(batch, W, b)
    if hasattr(loss, "evaluate_codes"):  # isinstance with a protocol takes longer than a loss
        terms = loss.evaluate_codes(y, scores, batch, weights)
    else:
        values, slopes = loss.evaluate(y, scores)
        if np.shape(values) != weights.shape or np.shape(slopes) != scores.shape:
            raise ValueError(
                "loss.evaluate must return the values, of shape (n_samples,), and the gradients in the scores, of "
                f"their shape {scores.shape}, got shapes {np.shape(values)} and {np.shape(slopes)}."
            )
        terms = Terms(weights * values, weights[:, None] * slopes)
    through = model.back(batch, W, np.ascontiguousarray(terms.scores, W.dtype))
    alpha = through.alpha if terms.alpha is None else through.alpha + terms.alpha
    in_x = through.x if terms.x is None else terms.x if through.x is None else through.x + terms.x
    return terms, ModelGradient(np.ascontiguousarray(alpha, W.dtype), through.W, through.b, in_x)
