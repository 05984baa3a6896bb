"""Losses of the task: twice differentiable functions of the scores that a model gives to a code.

A loss has one method, ``evaluate``, which returns for a batch the value of each sample and the gradient in its scores.
To add one, write a class with this method; nothing else knows which losses there are.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]


class Loss(Protocol):
    """ℓ(y, s) for targets y and scores s of shape (n_samples, n_outputs)."""

    def evaluate(self, y: Any, scores: Floats) -> tuple[Floats, Floats]:
        """Return the values, of shape (n_samples,), and the gradients in the scores, of their shape and dtype."""


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
