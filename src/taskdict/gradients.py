"""Gradients through the codes (Propositions 1 and 2), on the supports only.

Rows are signals and atoms are the rows of D here, as everywhere in Python. With g = ∇α ℓ on the supports, β solves
(D_ΛᵀD_Λ + λ2 I) β_Λ = g_Λ (``eq:beta``), and

    ∇D = Σ β (x − Dα)ᵀ − α (Dβ)ᵀ,    ∇x = Dβ,

each a sum over the few nonzeros of a signal: nothing of size n × p is made. A linear transform z = Zx of the signals
has the gradient Σ ∇z xᵀ (``eq:gradient2``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taskdict._native import Encoded, Encoder, decode, sum_outer

Floats = NDArray[Any]


@dataclass(frozen=True)
class CodeGradient:
    """Gradients of a sum over the batch, in the dictionary and in each signal that was encoded."""

    D: Floats  # (n_components, n_features)
    x: Floats  # (n_samples, n_features)


@dataclass(frozen=True)
class CodedBatch:
    """Signals, the dictionary they were encoded on, their codes, and the residuals x − Dα."""

    X: Floats
    D: Floats
    encoder: Encoder
    encoded: Encoded
    residuals: Floats

    @classmethod
    def encode(
        cls,
        X: Floats,
        D: Floats,
        *,
        lambda1: float,
        lambda2: float = 0.0,
        positive: bool = False,
        n_threads: int = 1,
    ) -> CodedBatch:
        """Encode X, contiguous and of the dtype of D, and keep what the gradients need."""
        encoder = Encoder(
            D,
            lambda1=lambda1,
            lambda2=lambda2,
            positive=positive,
            n_threads=n_threads,
            keep_factors=True,
        )
        encoder.encode(X)
        encoded = encoder.release()
        residuals = np.empty_like(X)
        decode(encoded, -encoded.values, D, 1.0, X, residuals, n_threads)
        return cls(X, D, encoder, encoded, residuals)

    @property
    def rows(self) -> NDArray[np.intp]:
        """Return the signal that each nonzero belongs to."""
        return np.repeat(np.arange(len(self.X)), np.diff(self.encoded.indptr))

    @property
    def codes(self) -> sp.csr_array:
        """Return the codes as a sparse array."""
        shape = (len(self.X), len(self.D))
        return sp.csr_array((self.encoded.values, self.encoded.indices, self.encoded.indptr), shape=shape)

    def through_codes(self, g: Floats) -> CodeGradient:
        """Return the gradients of Σ ℓ(α*(x, D)), where g is ∇α ℓ, one number per nonzero of the codes."""
        n_threads = self.encoder.n_threads
        beta = self.encoder.solve_adjoint(self.encoded, g)
        decoded = np.empty_like(self.X)
        decode(self.encoded, beta, self.D, 0.0, decoded, decoded, n_threads)
        first, gradient = np.empty_like(self.D), np.empty_like(self.D)
        sum_outer(self.encoded, -self.encoded.values, decoded, 0.0, first, first, n_threads)
        sum_outer(self.encoded, beta, self.residuals, 1.0, first, gradient, n_threads)
        return CodeGradient(gradient, decoded)

    def of_reconstruction(self) -> CodeGradient:
        """Return the gradients of the unsupervised objective Σ ℓu(x, D): −α(x − Dα)ᵀ in D, x − Dα in x."""
        gradient = np.empty_like(self.D)
        sum_outer(self.encoded, -self.encoded.values, self.residuals, 0.0, gradient, gradient, self.encoder.n_threads)
        return CodeGradient(gradient, self.residuals)

    def reconstruction_objectives(self) -> NDArray[np.float64]:
        """Return ℓu(x, D) for each signal."""
        return self.encoder.objectives(self.encoded, self.X)
