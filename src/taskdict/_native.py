"""The native floor as Python sees it: arrays in, arrays out, one class pair per dtype.

No other module calls the core. Misaligned arrays (a memory map at an odd offset, a field of packed records, a buffer
in a file) are copied here, since reading them as they are is undefined behaviour. The core refuses them: a call that
does not align its arguments is an error.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskdict import _core
from taskdict._common.arrays import Floats

_ENCODERS: dict[np.dtype[Any], type[_core.EncoderFloat32] | type[_core.EncoderFloat64]] = {
    np.dtype(np.float32): _core.EncoderFloat32,
    np.dtype(np.float64): _core.EncoderFloat64,
}
_PURSUITS: dict[np.dtype[Any], type[_core.PursuitFloat32] | type[_core.PursuitFloat64]] = {
    np.dtype(np.float32): _core.PursuitFloat32,
    np.dtype(np.float64): _core.PursuitFloat64,
}
_CODES = {np.dtype(np.float32): _core.CodesFloat32, np.dtype(np.float64): _core.CodesFloat64}


class BadSignalError(Exception):
    """Raised for a signal with an entry that is not finite."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def _check_row(row: int | None) -> None:
    if row is not None:
        raise BadSignalError(row)


def aligned(array: Any) -> Any:
    """Return the array itself if the core can read its numbers where they are, else a copy."""
    return array if array.flags.aligned else array.copy()


class Encoded(NamedTuple):
    """The codes of a batch in compressed rows, with a status for each signal."""

    values: Floats
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    status: NDArray[np.uint8]
    kkt: Floats
    n_steps: NDArray[np.int32]
    factors: Floats


class Encoder:
    """A dictionary prepared for encoding batches of signals of its dtype."""

    def __init__(
        self,
        dictionary: Floats,
        *,
        lambda1: float,
        lambda2: float,
        positive: bool,
        n_threads: int,
        homotopy: bool = False,
        sparse: bool = False,
        keep_factors: bool = False,
    ) -> None:
        self.dtype = dictionary.dtype
        self.n_components, self.n_features = dictionary.shape
        self.n_threads = n_threads
        self._encoder = _ENCODERS[self.dtype](
            aligned(dictionary), lambda1, lambda2, positive, homotopy, sparse, n_threads
        )
        self._codes: Any = _CODES[self.dtype](keep_factors)  # of the encoder's dtype, which no type can say

    def for_another_batch(self, n_threads: int, keep_factors: bool = False) -> Encoder:
        """Return an encoder with the same prepared dictionary, and no codes so far; both may be used at once."""
        other = copy.copy(self)
        other.n_threads = n_threads
        other._codes = _CODES[self.dtype](keep_factors)
        return other

    def encode(self, X: Floats) -> None:
        """Append the codes of dense signals; any strides."""
        _check_row(self._encoder.encode(aligned(X), self._codes, self.n_threads))

    def encode_sparse(self, values: Floats, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> None:
        """Append the codes of signals in compressed rows."""
        row = self._encoder.encode_sparse(
            aligned(values), aligned(indptr), aligned(indices), self._codes, self.n_threads
        )
        _check_row(row)

    def release(self) -> Encoded:
        """Hand over the codes so far; nothing is copied."""
        return Encoded(*self._codes.release())

    def objectives(self, encoded: Encoded, X: Floats) -> NDArray[np.float64]:
        """Return the objective of each signal at its code, from Lemma 1: ½‖x‖² − ½ αᵀ(DᵀD + λ2 I)α."""
        values: NDArray[np.float64] = self._encoder.objectives(
            encoded.indptr, encoded.indices, encoded.values, aligned(X), self.n_threads
        )
        return values

    def duplicates(self, cosine: float) -> NDArray[np.int32]:
        """Return the atoms whose angle with an earlier atom has at least this cosine."""
        return self._encoder.duplicates(cosine)

    def solve_adjoint(self, encoded: Encoded, g: Floats) -> Floats:
        """Solve on the active sets of ``encoded``, see :class:`taskdict._coding.encode.ActiveSets`."""
        beta: Floats = self._encoder.solve_adjoint(
            encoded.indptr, encoded.indices, encoded.factors, aligned(g), self.n_threads
        )
        return beta

    def gradient(
        self, encoded: Encoded, g: Floats, dictionary: Floats, X: Floats, reconstruction: float
    ) -> tuple[Floats, Floats]:
        """Return the gradients of Σ ℓ(α) + reconstruction · Σ ℓu in the dictionary and in X, where g is ∇α ℓ."""
        n, m = X.shape
        both, in_dictionary = np.empty((2 * n, m), self.dtype), np.empty_like(dictionary)
        self._encoder.gradient(
            encoded.indptr,
            encoded.indices,
            encoded.values,
            encoded.factors,
            aligned(g),
            aligned(dictionary),
            aligned(X),
            reconstruction,
            both,
            in_dictionary,
            self.n_threads,
        )
        return in_dictionary, both[n:]


class Pursuit:
    """A dictionary prepared for orthogonal matching pursuit of batches of signals of its dtype."""

    def __init__(self, dictionary: Floats, *, n_threads: int, sparse: bool = False) -> None:
        self.dtype = dictionary.dtype
        self.n_components, self.n_features = dictionary.shape
        self.n_threads = n_threads
        self._pursuit = _PURSUITS[self.dtype](aligned(dictionary), sparse, n_threads)
        self._codes: Any = _CODES[self.dtype](False)

    def for_another_batch(self, n_threads: int) -> Pursuit:
        """Return a pursuit with the same prepared dictionary, and no codes so far; both may be used at once."""
        other = copy.copy(self)
        other.n_threads = n_threads
        other._codes = _CODES[self.dtype](False)
        return other

    def encode(self, X: Floats, n_nonzero: NDArray[np.int32], max_error: NDArray[np.float64]) -> None:
        """Append the codes of dense signals, any strides; each rule is one number, one per signal, or empty."""
        _check_row(self._pursuit.encode(aligned(X), n_nonzero, max_error, self._codes, self.n_threads))

    def encode_sparse(
        self,
        values: Floats,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        n_nonzero: NDArray[np.int32],
        max_error: NDArray[np.float64],
    ) -> None:
        """Append the codes of signals in compressed rows."""
        row = self._pursuit.encode_sparse(
            aligned(values), aligned(indptr), aligned(indices), n_nonzero, max_error, self._codes, self.n_threads
        )
        _check_row(row)

    def release(self) -> Encoded:
        """Hand over the codes so far; nothing is copied."""
        return Encoded(*self._codes.release())


def sum_outer(
    encoded: Encoded, values: Floats, X: Floats, fade: float, before: Floats, after: Floats, n_threads: int
) -> None:
    """Set ``after`` to fade · before + Σ v xᵀ, of shape (n_components, n_features), for values v on the supports."""
    _core.sum_outer(
        encoded.indptr, encoded.indices, aligned(values), aligned(X), fade, aligned(before), after, n_threads
    )


def sum_outer_sparse(encoded: Encoded, fade: float, before: Floats, after: Floats, n_threads: int) -> None:
    """Set ``after`` to fade · before + Σ α αᵀ, of shape (n_components, n_components)."""
    values = encoded.values
    _core.sum_outer_sparse(encoded.indptr, encoded.indices, values, values, fade, aligned(before), after, n_threads)


def decode(
    encoded: Encoded, values: Floats, dictionary: Floats, fade: float, before: Floats, after: Floats, n_threads: int
) -> None:
    """Set ``after`` to fade · before + Dv, of shape (n_samples, n_features), for values v on the supports."""
    _core.decode(
        encoded.indptr, encoded.indices, aligned(values), aligned(dictionary), fade, aligned(before), after, n_threads
    )


def correlate_supports(encoded: Encoded, table: Floats, X: Floats, n_threads: int) -> Floats:
    """Return the product of each signal with the rows of ``table`` that its support names, one per nonzero."""
    products: Floats = np.empty(len(encoded.indices), X.dtype)
    _core.correlate_supports(encoded.indptr, encoded.indices, aligned(table), aligned(X), products, n_threads)
    return products


def shorten_rows(rows: Floats, positive: bool) -> None:
    """Replace each row by the nearest vector of norm at most one, without negative entries if `positive`."""
    _core.shorten_rows(rows, positive)


def update_atoms(dictionary: Floats, A: Floats, B: Floats, positive: bool, n_threads: int) -> None:
    """Move each atom in place to the minimiser of ½ tr(DᵀD A) − tr(DᵀB) in its constraint set, one after the other."""
    _core.update_atoms(dictionary, aligned(A), aligned(B), positive, n_threads)


def diffuse_errors(pixels: Floats, taps: Sequence[tuple[int, int, float]]) -> None:
    """Replace pixels, values from 0 to 1, by 0 or 1; each hands on shares of its error to (down, right) of it."""
    down, right, share = zip(*taps, strict=True)
    _core.diffuse_errors(pixels, np.array(down, np.int64), np.array(right, np.int64), np.array(share, np.float64))


def bend(
    images: NDArray[np.float32],
    offsets: NDArray[np.int64],
    knots: NDArray[np.float32],
    down: NDArray[np.float32],
    right: NDArray[np.float32],
    background: float,
) -> NDArray[np.float32]:
    """Return images shifted by whole offsets and displaced by smooth fields, see ``native/core/images/bend.hpp``.

    Parameters
    ----------
    images : array of shape (n, height, width)
        The images.
    offsets : array of shape (n, 2)
        Pixels down and to the right.
    knots : array of shape (n, 2, n_knots, n_knots)
        Values of the fields, down and to the right.
    down, right : arrays of shape (height, n_knots) and (width, n_knots)
        Weights of the knots at the pixels of a side.
    background : float
        The value around an image.
    """
    out = np.empty_like(images)
    images, offsets, knots, down, right = map(aligned, (images, offsets, knots, down, right))
    _core.bend(images, offsets, knots, down, right, background, out)
    return out
