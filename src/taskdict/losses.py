"""Losses of the task: twice differentiable functions of the scores that a model gives a code.

A loss of the scores has one method, ``evaluate``, which returns for a batch the value of each sample and the gradient
in its scores. A loss that also depends on the codes, the signals or the dictionary themselves has ``evaluate_codes``
in its place, and returns the explicit gradients, those at fixed codes, as well (paper, end of Section 3.1). To add
one, write a class with one of these methods and pass an instance as `loss`. A loss may have these attributes:

quadratic : bool
    Whether it is ½‖y − s‖². Then W has a closed form at fixed codes, and targets are brought to size one.
log_likelihood : bool
    Whether it is a negative log-likelihood, so that scores give probabilities of the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats

if TYPE_CHECKING:
    from taskdict._coding.coded_batch import CodedBatch


@runtime_checkable
class Loss(Protocol):
    """ℓ(y, s) for targets y and scores s of shape (n_samples, n_outputs)."""

    def evaluate(self, y: Any, scores: Floats) -> tuple[Floats, Floats]:
        """Return the values, of shape (n_samples,), and the gradients in the scores, of their shape."""


@dataclass(frozen=True)
class Terms:
    """The values of a :class:`CodeLoss` on a batch, and the gradients of their weighted sum.

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

    quadratic = True

    def evaluate(self, y: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Return values and gradients."""
        error = scores - y
        return 0.5 * np.square(error).sum(axis=1), error


class LogisticLoss:
    """Σ log(1 + exp(−y s)), with y = ±1 of the shape of the scores (``eq:linear``)."""

    log_likelihood = True

    def evaluate(self, y: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """Return values and gradients."""
        margin = y * scores
        small = np.exp(-np.abs(margin))  # never overflows
        values = np.log1p(small) + np.maximum(-margin, 0)
        return values.sum(axis=1), -y * np.where(margin > 0, small, 1) / (1 + small)


class SoftmaxLoss:
    """Log Σ_k exp(s_k) − s_y, with y the number of the class, of shape (n_samples,)."""

    log_likelihood = True

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


NAMED: dict[str, Loss] = {"logistic": LogisticLoss(), "squared": SquaredLoss()}


def is_loss(value: Any) -> bool:
    """Return whether a value is a loss, not a class of them."""
    return not isinstance(value, type) and isinstance(value, (Loss, CodeLoss))


def is_quadratic(loss: Loss | CodeLoss) -> bool:
    """Return whether a loss is ½‖y − s‖²."""
    return bool(getattr(loss, "quadratic", False))


def is_log_likelihood(loss: Loss | CodeLoss) -> bool:
    """Return whether scores give probabilities."""
    return bool(getattr(loss, "log_likelihood", False))


def sees_codes(loss: Loss | CodeLoss) -> bool:
    """Return whether a loss depends on more than the scores."""
    return hasattr(loss, "evaluate_codes")
