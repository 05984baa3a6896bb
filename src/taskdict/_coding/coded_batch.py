"""Gradients through the codes (Propositions 1 and 2), on the supports only.

Rows are signals and atoms are the rows of D here, as everywhere in Python. With g = ∇α ℓ on the supports, β solves
(D_ΛᵀD_Λ + λ2 I) β_Λ = g_Λ (``eq:beta``), and

    ∇D = Σ β (x − Dα)ᵀ − α (Dβ)ᵀ,    ∇x = Dβ,

each a sum over the few nonzeros of a signal: nothing of size n × p is made. The gradients of the unsupervised objective
ℓu(x, D), −α (x − Dα)ᵀ and x − Dα, fit into the same sums. A linear transform z = Zx of the signals has the gradient
Σ ∇z xᵀ (``eq:gradient2``).

Several dictionaries side by side are the rows of one matrix D, see :class:`Part`: each encodes the signal by itself,
and a task sees one long code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._native import Encoded, Encoder, decode


@dataclass(frozen=True)
class Coding:
    """How signals are encoded."""

    lambda1: float
    lambda2: float = 0.0
    positive: bool = False


@dataclass(frozen=True)
class Part:
    """One of several dictionaries: some rows of D, on some of the features or, with None, all; D is zero elsewhere."""

    atoms: slice
    features: NDArray[np.intp] | None = None

    def signals(self, X: Floats) -> Floats:
        """Return what this dictionary sees of signals."""
        return X if self.features is None else np.ascontiguousarray(X[:, self.features])

    def dictionary(self, D: Floats) -> Floats:
        """Return this dictionary."""
        return D[self.atoms] if self.features is None else np.ascontiguousarray(D[self.atoms][:, self.features])


@dataclass(frozen=True)
class CodeGradient:
    """Gradients of a sum over the batch, in the dictionary and in each signal that was encoded."""

    D: Floats  # (n_components, n_features)
    x: Floats  # (n_samples, n_features)


class _CodedPart:
    """Signals encoded on one dictionary."""

    def __init__(self, X: Floats, D: Floats, coding: Coding, n_threads: int) -> None:
        self.X, self.D = X, D
        self.encoder = Encoder(
            D,
            lambda1=coding.lambda1,
            lambda2=coding.lambda2,
            positive=coding.positive,
            n_threads=n_threads,
            keep_factors=True,
            n_signals=len(X),
        )
        self.encoder.encode(X)
        self.encoded = self.encoder.release()

    def gradient(self, g: Floats, reconstruction: float) -> CodeGradient:
        return CodeGradient(*self.encoder.gradient(self.encoded, g, self.D, self.X, reconstruction))


class CodedBatch:
    """Signals, the dictionary they were encoded on, and their codes.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Signals, contiguous and of the dtype of D.
    D : array of shape (n_components, n_features)
        Atoms.
    coding : Coding
        Penalties and signs.
    parts : sequence of Part
        Which rows of D are a dictionary each; empty if D is one dictionary.
    n_threads : int
        Threads to use.

    Attributes
    ----------
    encoded : Encoded
        The codes in compressed rows.
    """

    def __init__(self, X: Floats, D: Floats, coding: Coding, parts: Sequence[Part] = (), n_threads: int = 1) -> None:
        self.X, self.D, self.coding, self.n_threads = X, D, coding, n_threads
        self._parts = tuple(parts) or (Part(slice(0, len(D))),)
        self._coded = [_CodedPart(part.signals(X), part.dictionary(D), coding, n_threads) for part in self._parts]
        self._places: list[NDArray[np.intp]] | None = None
        if len(self._coded) == 1:
            self.encoded = self._coded[0].encoded
        else:
            self.encoded, self._places = _side_by_side(
                [coded.encoded for coded in self._coded], [part.atoms.start for part in self._parts]
            )

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The signal that each nonzero belongs to."""
        return np.repeat(np.arange(len(self.X)), np.diff(self.encoded.indptr))

    @cached_property
    def split(self) -> Encoded:
        """The positive and the negative parts of the codes: (α⁺, α⁻) on twice as many atoms, not sorted in a row."""
        values, indices = self.encoded.values, self.encoded.indices
        apart = indices + np.int32(len(self.D)) * (values < 0)
        return self.encoded._replace(values=np.abs(values), indices=apart.astype(np.int32, copy=False))

    @property
    def codes(self) -> sp.csr_array:
        """The codes as a sparse array of shape (n_samples, n_components)."""
        shape = (len(self.X), len(self.D))
        return sp.csr_array((self.encoded.values, self.encoded.indices, self.encoded.indptr), shape=shape)

    def decode(self, values: Floats | None = None) -> Floats:
        """Return Dα, or Dv for other values v on the supports, for each signal; a sum over all dictionaries."""
        decoded = np.empty_like(self.X)
        values = self.encoded.values if values is None else np.ascontiguousarray(values, self.D.dtype)
        decode(self.encoded, values, self.D, 0.0, decoded, decoded, self.n_threads)
        return decoded

    def through_codes(self, g: Floats, reconstruction: float = 0.0) -> CodeGradient:
        """Return the gradients of Σ ℓ(α*(x, D)) + reconstruction · Σ ℓu(x, D).

        Parameters
        ----------
        g : array of shape (nnz,)
            ∇α ℓ, one number per nonzero of the codes.
        reconstruction : float
            Weight of the unsupervised objective, which is the sum of those of all dictionaries.
        """
        if len(self._coded) == 1 and self._parts[0].features is None:
            return self._coded[0].gradient(g, reconstruction)
        total = CodeGradient(np.zeros_like(self.D), np.zeros_like(self.X))
        for i, (part, coded) in enumerate(zip(self._parts, self._coded, strict=True)):
            here = g if self._places is None else np.ascontiguousarray(g[self._places[i]])
            gradient = coded.gradient(here, reconstruction)
            features = slice(None) if part.features is None else part.features
            total.D[part.atoms, features] = gradient.D
            total.x[:, features] += gradient.x
        return total

    def reconstruction_objectives(self) -> NDArray[np.float64]:
        """Return ℓu(x, D) for each signal, summed over the dictionaries."""
        each = [coded.encoder.objectives(coded.encoded, coded.X) for coded in self._coded]
        objectives: NDArray[np.float64] = np.sum(each, axis=0)
        return objectives


def _side_by_side(parts: list[Encoded], offsets: list[int]) -> tuple[Encoded, list[NDArray[np.intp]]]:
    """Return the codes of several dictionaries as one, and the places of the nonzeros of each in it."""
    counts = [np.diff(part.indptr) for part in parts]
    indptr = np.concatenate([[0], np.cumsum(sum(counts))])
    ahead = indptr[:-1].copy()  # where the next nonzero of each signal goes
    values = np.empty(indptr[-1], parts[0].values.dtype)
    indices = np.empty(indptr[-1], np.int32)
    places = []
    for part, count, offset in zip(parts, counts, offsets, strict=True):
        place = np.arange(len(part.values)) + np.repeat(ahead - part.indptr[:-1], count)
        values[place], indices[place] = part.values, part.indices + offset
        ahead += count
        places.append(place)
    first = parts[0]
    return Encoded(
        values, indices, indptr, first.status, first.kkt, first.n_steps, first.factors[:0], first.lambda1
    ), places
