"""Losses of the task: twice differentiable functions of what a model makes of a code.

A loss of the scores has one method, ``evaluate``, which returns for a batch the value of each sample and the gradient
in its scores. A loss that also depends on the codes, the signals or the dictionary themselves has ``evaluate_codes``
in its place, and returns the explicit gradients, those at fixed codes, as well (paper, end of Section 3.1). To add
one, write a class with one of these methods and pass an instance as `loss`; nothing else knows which losses there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from taskdict.gradients import CodedBatch

Floats = NDArray[Any]


@runtime_checkable
class Loss(Protocol):
    """ℓ(y, s) for targets y and scores s of shape (n_samples, n_outputs)."""

    def evaluate(self, y: Any, scores: Floats) -> tuple[Floats, Floats]:
        """Return the values, of shape (n_samples,), and the gradients in the scores, of their shape."""


@dataclass(frozen=True)
class Terms:
    """What a :class:`CodeLoss` makes of a batch: values, and gradients of their weighted sum.

    Attributes
    ----------
    values : array of shape (n_samples,)
        The loss of each sample, times its weight.
    scores : array of shape (n_samples, n_outputs)
        Gradient in the scores.
    alpha : array of shape (nnz,) or None
        Gradient in the nonzeros of the codes, besides that through the scores.
    D : array of the shape of the dictionary or None
        Gradient in the dictionary at fixed codes.
    x : array of the shape of the signals or None
        Gradient in the signals at fixed codes; only a learned transform Z needs it.
    """

    values: Floats
    scores: Floats
    alpha: Floats | None = None
    D: Floats | None = None
    x: Floats | None = None


@runtime_checkable
class CodeLoss(Protocol):
    """ℓ(y, s, α, x, D): a loss that sees everything."""

    def evaluate_codes(self, y: Any, scores: Floats, batch: CodedBatch, weights: Floats) -> Terms:
        """Return values and gradients of Σ weights · ℓ."""


class SquaredLoss:
    """½‖y − s‖², with y of the shape of the scores (``eq:regression``)."""

    def evaluate(self, y: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Return values and gradients."""
        error = scores - y
        return 0.5 * np.square(error).sum(axis=1), error


class LogisticLoss:
    """Σ log(1 + exp(−y s)), with y = ±1 of the shape of the scores (``eq:linear``)."""

    def evaluate(self, y: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Return values and gradients."""
        margin = y * scores
        small = np.exp(-np.abs(margin))  # never overflows
        values = np.log1p(small) + np.maximum(-margin, 0)
        return values.sum(axis=1), -y * np.where(margin > 0, small, 1) / (1 + small)


class SoftmaxLoss:
    """Log Σ_k exp(s_k) − s_y, with y the number of the class, of shape (n_samples,)."""

    def evaluate(self, y: NDArray[np.intp], scores: Floats) -> tuple[Floats, Floats]:
        """Return values and gradients."""
        rows = np.arange(len(scores))
        shifted = scores - scores.max(axis=1, keepdims=True)
        shares = np.exp(shifted)
        total = shares.sum(axis=1, keepdims=True)
        gradient = shares / total
        gradient[rows, y] -= 1
        values: Floats = np.log(total[:, 0]) - shifted[rows, y]
        return values, gradient
