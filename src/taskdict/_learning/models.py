"""Models: how scores come from codes, and the gradients of a loss on the scores back to codes and parameters.

:func:`evaluate` combines a model and a loss to a task. Gradients in the codes are given on their supports only,
one number per nonzero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from taskdict._coding.coded_batch import CodedBatch
from taskdict._common.arrays import Floats
from taskdict._native import correlate_supports, decode, sum_outer
from taskdict.losses import CodeLoss, Loss, Terms

CONSTANT = 10.0  # a column that varies by less than so many roundings of its largest entry is constant


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

    @property
    def degree(self) -> int:
        """The power of the size of the signals that the scores go with, up to b."""

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


class SplitModel:
    """s = W(α⁺, α⁻) + b, with W of shape (n_outputs, 2 n_components), where α = α⁺ − α⁻ and both are not negative.

    The codes of x and −x are opposite, so Wα cannot give both the same score; this model can. It contains Wα.
    """

    degree = 1

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""
        return n_outputs, 2 * n_components

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""
        split = batch.split
        scores = np.empty((len(batch.X), len(W)), W.dtype)
        decode(split, split.values, np.ascontiguousarray(W.T), 0.0, scores, scores, batch.n_threads)
        scores += b
        return scores

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats) -> ModelGradient:
        """Return the gradients."""
        split, table = batch.split, np.ascontiguousarray(W.T)
        alpha = np.sign(batch.encoded.values) * correlate_supports(split, table, slopes, batch.n_threads)
        gradient = np.empty_like(table)
        sum_outer(split, split.values, slopes, 0.0, gradient, gradient, batch.n_threads)
        return ModelGradient(alpha, gradient.T, slopes.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Columns:
    """Features with mean zero and of the same size: (x − mean) · factor, of root mean square norm one.

    Columns that do not change have the factor zero.
    """

    mean: Floats
    factor: Floats

    @classmethod
    def of(cls, X: Floats, *, center: bool = True, scale: bool = True) -> Columns:
        """Return those of signals; without `center` their mean counts as zero, without `scale` all have one factor."""
        wide = X.astype(np.float64)
        mean = wide.mean(axis=0) if center else np.zeros(X.shape[1])
        if center:
            mean += (wide - mean).mean(axis=0)  # without the rounding of a large mean
        spread = np.sqrt(np.square(wide - mean).mean(axis=0))
        changes = spread > CONSTANT * np.finfo(X.dtype).eps * np.abs(wide).max(axis=0, initial=0)
        factor = np.where(changes, 1 / np.where(changes, spread, 1), 0) / np.sqrt(max(1, changes.sum()))
        if not scale:
            size = np.sqrt(np.square(spread[changes]).sum())
            factor = np.where(changes, 1 / (size if size > 0 else 1), 0)
        return cls(mean.astype(X.dtype), factor.astype(X.dtype))

    def of_signals(self, X: Floats) -> Floats:
        """Return the features of signals."""
        features: Floats = (X - self.mean) * self.factor
        return features


@dataclass(frozen=True, eq=False)
class JointModel:
    """s = W(α⁺, α⁻, x) + b, with W of shape (n_outputs, 2 n_components + n_features).

    It contains the linear model on the signals. While it is learned, x stands for `columns` of the signal, so that the
    penalty ν/2 ‖W‖² does not depend on the units of the features.
    """

    columns: Columns | None = None
    degree: ClassVar[int] = 1

    def shape(self, n_outputs: int, n_components: int, n_features: int) -> tuple[int, ...]:
        """Return the shape of W."""
        return n_outputs, 2 * n_components + n_features

    def scores(self, batch: CodedBatch, W: Floats, b: Floats) -> Floats:
        """Return the scores."""
        of_codes, of_signals = self._divided(batch, W)
        scores: Floats = _SPLIT.scores(batch, of_codes, b) + self.features(batch) @ of_signals.T
        return scores

    def back(self, batch: CodedBatch, W: Floats, slopes: Floats) -> ModelGradient:
        """Return the gradients; those in the signals are left out, since they are never learned with this model."""
        through = _SPLIT.back(batch, self._divided(batch, W)[0], slopes)
        in_W = np.concatenate([through.W, slopes.T @ self.features(batch)], axis=1)
        return ModelGradient(through.alpha, in_W, through.b)

    def in_units_of_signals(self, W: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return W and b for signals as they are, not for their `columns`."""
        if self.columns is None:
            return W, b
        m = len(self.columns.mean)
        of_signals = W[:, -m:] * self.columns.factor
        moved = b.astype(np.float64) - of_signals.astype(np.float64) @ self.columns.mean.astype(np.float64)
        return np.concatenate([W[:, :-m], of_signals], axis=1), moved.astype(b.dtype)

    def features(self, batch: CodedBatch) -> Floats:
        """Return what the model sees of the signals themselves."""
        return batch.X if self.columns is None else self.columns.of_signals(batch.X)

    @staticmethod
    def _divided(batch: CodedBatch, W: Floats) -> tuple[Floats, Floats]:
        """Return the weights of the codes and those of the signals."""
        m = batch.X.shape[1]
        return W[:, :-m], W[:, -m:]


_SPLIT = SplitModel()


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


def loss_terms(
    model: Model, loss: Loss | CodeLoss, batch: CodedBatch, y: Any, W: Floats, b: Floats, weights: Floats
) -> Terms:
    """Return the value of ℓ(y, model(α)) for each sample, times its weight, and the gradients of the loss."""
    scores = model.scores(batch, W, b)
    if hasattr(loss, "evaluate_codes"):  # isinstance with a protocol takes longer than a loss
        return loss.evaluate_codes(y, scores, batch, weights)
    return weighted_terms(loss, y, scores, weights)


def evaluate(
    model: Model, loss: Loss | CodeLoss, batch: CodedBatch, y: Any, W: Floats, b: Floats, weights: Floats
) -> tuple[Terms, ModelGradient]:
    """Return the value of ℓ(y, model(α)) for each sample, times its weight, and the gradients of the sum.

    The gradients in codes and signals of the second part include those of the first.
    """
    terms = loss_terms(model, loss, batch, y, W, b, weights)
    through = model.back(batch, W, np.ascontiguousarray(terms.scores, W.dtype))
    alpha = through.alpha if terms.alpha is None else through.alpha + terms.alpha
    in_x = through.x if terms.x is None else terms.x if through.x is None else through.x + terms.x
    return terms, ModelGradient(np.ascontiguousarray(alpha, W.dtype), through.W, through.b, in_x)


def weighted_terms(loss: Loss, y: Any, scores: Floats, weights: Floats) -> Terms:
    """Return the value of ℓ(y, s) for each sample, times its weight, and the gradients of the sum in the scores."""
    values, slopes = loss.evaluate(y, scores)
    if np.shape(values) != weights.shape or np.shape(slopes) != scores.shape:
        raise ValueError(
            "loss.evaluate must return the values, of shape (n_samples,), and the gradients in the scores, of "
            f"their shape {scores.shape}, got shapes {np.shape(values)} and {np.shape(slopes)}."
        )
    return Terms(weights * values, weights[:, None] * slopes)


def model_named(decision: str, columns: Columns | None = None) -> Model:
    """Return the model of a `decision`."""
    return JointModel(columns) if decision == "joint" else MODELS[decision]()


MODELS: dict[str, type[Model]] = {
    "linear": LinearModel,
    "split": SplitModel,
    "joint": JointModel,
    "bilinear": BilinearModel,
}
