"""The problem: weights D, W, b, Z, and the objective that Algorithm 1 minimises over them.

The objective is

    E[(1 − μ) ℓs(y, W, α*(Zx, D)) + μ ℓu(Zx, D)] + ν/2 ‖W‖² + ν2/2 ‖Z‖²

(``eq:formulation``, ``eq:extended``, ``eq:semi``). The intercept b is not penalised. Signals without a target take part
in the second term only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskdict._coding.coded_batch import CodedBatch, Coding, Part
from taskdict._common.arrays import Floats
from taskdict._learning.models import Model, evaluate, loss_terms
from taskdict.losses import CodeLoss, Loss
from taskdict.streams.pairs import Batch


@dataclass(frozen=True)
class Weights:
    """The arrays that are learned, or gradients in them; `Z` is None if the signals are encoded as they are."""

    D: Floats  # (n_components, n_features), or (n_components, n_measurements) with Z
    W: Floats
    b: Floats  # (n_outputs,)
    Z: Floats | None = None  # (n_measurements, n_features)

    def each(self, function: Callable[..., Floats], *others: Weights) -> Weights:
        """Apply a function to each array, together with the arrays of the same name in others."""
        names = [name for name, array in vars(self).items() if array is not None]
        return Weights(**{name: function(*(getattr(each, name) for each in (self, *others))) for name in names})

    def squares(self) -> Weights:
        """Return the squares of the norms of the rows of D and Z, and of the numbers of W and b."""
        rows = [None if rows is None else np.square(rows).sum(axis=1, keepdims=True) for rows in (self.D, self.Z)]
        assert rows[0] is not None
        return Weights(rows[0], np.square(self.W), np.square(self.b), rows[1])


@dataclass(frozen=True)
class Objective:
    """The objective on a batch, up to the constraint sets; `task` and `reconstruction` stand for 1 − μ and μ."""

    model: Model
    loss: Loss | CodeLoss
    coding: Coding
    parts: tuple[Part, ...] = ()
    nu: float = 0.0
    nu2: float = 0.0
    task: float = 1.0
    reconstruction: float = 0.0
    fit_intercept: bool = True

    def evaluate(self, weights: Weights, batch: Batch, n_threads: int = 1) -> tuple[float, Weights]:
        """Return the value on a batch and its gradients in all weights."""
        D, W, b, Z = weights.D, weights.W, weights.b, weights.Z
        n, others = len(batch.X), self._others(batch)
        each = self._share_of_signal(n, others)
        value = 0.5 * self.nu * _square(W)
        in_D, in_W, in_b = None, self.nu * W, np.zeros_like(b)
        in_Z = None if Z is None else self.nu2 * Z
        if n > 0:
            coded = self.encode(weights, batch.X, n_threads)
            terms, through = evaluate(self.model, self.loss, coded, batch.y, W, b, self._shares(batch, D.dtype))
            gradient = coded.through_codes(through.alpha, each)
            value += float(terms.values.sum(dtype=np.float64))
            if each > 0:
                value += each * float(coded.reconstruction_objectives().sum())
            in_D = gradient.D if terms.D is None else gradient.D + terms.D
            in_W = in_W + through.W
            if self.fit_intercept:
                in_b = through.b
            if in_Z is not None:
                in_Z = in_Z + (gradient.x if through.x is None else gradient.x + through.x).T @ batch.X
        if len(others) > 0:
            coded = self.encode(weights, others, n_threads)
            gradient = coded.through_codes(np.zeros_like(coded.encoded.values), each)
            value += each * float(coded.reconstruction_objectives().sum())
            in_D = gradient.D if in_D is None else in_D + gradient.D
            if in_Z is not None:
                in_Z = in_Z + gradient.x.T @ others
        if Z is not None:
            value += 0.5 * self.nu2 * _square(Z)
        return value, Weights(np.zeros_like(D) if in_D is None else in_D, in_W, in_b, in_Z)

    def value(self, weights: Weights, batch: Batch, n_threads: int = 1) -> float:
        """Return the value on a batch, without the cost of its gradients."""
        D, W, b, Z = weights.D, weights.W, weights.b, weights.Z
        n, others = len(batch.X), self._others(batch)
        each = self._share_of_signal(n, others)
        value = 0.5 * self.nu * _square(W)
        if n > 0:
            coded = self.encode(weights, batch.X, n_threads)
            terms = loss_terms(self.model, self.loss, coded, batch.y, W, b, self._shares(batch, D.dtype))
            value += float(terms.values.sum(dtype=np.float64))
            if each > 0:
                value += each * float(coded.reconstruction_objectives().sum())
        if len(others) > 0:
            value += each * float(self.encode(weights, others, n_threads).reconstruction_objectives().sum())
        return value if Z is None else value + 0.5 * self.nu2 * _square(Z)

    def _others(self, batch: Batch) -> Floats:
        """Return the signals of a batch that only the reconstruction sees."""
        return batch.unlabelled if batch.unlabelled is not None and self.reconstruction > 0 else batch.X[:0]

    def _share_of_signal(self, n: int, others: Floats) -> float:
        """Return the weight of ℓu of each signal; all of a batch are samples of p(x), those with targets too."""
        return self.reconstruction / max(1, n + len(others))

    def _shares(self, batch: Batch, dtype: Any) -> Floats:
        """Return the weight of the loss of each sample."""
        n = len(batch.X)
        shares = np.full(n, self.task / n, dtype)
        if batch.weights is not None:
            shares *= batch.weights
        return shares

    def encode(self, weights: Weights, X: Floats, n_threads: int = 1) -> CodedBatch:
        """Encode signals."""
        Z = weights.Z
        signals = X if Z is None else np.ascontiguousarray(X @ Z.T)
        return CodedBatch(signals, weights.D, self.coding, self.parts, n_threads)

    def scores(self, weights: Weights, X: Floats, n_threads: int = 1) -> Floats:
        """Return the scores of signals."""
        return self.model.scores(self.encode(weights, X, n_threads), weights.W, weights.b)


def _square(array: Floats) -> float:
    return float(np.square(array).sum(dtype=np.float64))
