"""The native floor as Python sees it: arrays in, arrays out, one class pair per dtype.

No other module calls the core. Misaligned arrays (a memory map at an odd offset, a field of packed records, a buffer
in a file) are copied here, since reading them as they are is undefined behaviour. The core refuses them: a call that
does not align its arguments is an error.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from taskdict import _core
from taskdict._common.arrays import Floats

_ENCODERS: dict[np.dtype[Any], type[_core.EncoderFloat32] | type[_core.EncoderFloat64]] = {
    np.dtype(np.float32): _core.EncoderFloat32,
    np.dtype(np.float64): _core.EncoderFloat64,
}
_DIRECT_ENCODERS: dict[np.dtype[Any], type[_core.DirectEncoderFloat32] | type[_core.DirectEncoderFloat64]] = {
    np.dtype(np.float32): _core.DirectEncoderFloat32,
    np.dtype(np.float64): _core.DirectEncoderFloat64,
}
_RULES = {
    "lambda1": _core.Rule.penalty,
    "n_nonzero": _core.Rule.n_nonzero,
    "max_error": _core.Rule.max_error,
    "max_l1": _core.Rule.max_l1,
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


class Pattern(Protocol):
    """The places of the nonzeros of codes, in compressed rows."""

    @property
    def indices(self) -> NDArray[np.int32]:
        """The atoms of each signal."""

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where the atoms of each signal begin."""


class Encoded(NamedTuple):
    """The codes of a batch in compressed rows, with a status for each signal."""

    values: Floats
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    status: NDArray[np.uint8]
    kkt: Floats
    n_steps: NDArray[np.int32]
    factors: Floats
    lambda1: NDArray[np.float64] = np.empty(0)  # of each signal


class Goals(Protocol):
    """Which point of the path of each signal is its code: a rule, and its amount for all signals or for each."""

    @property
    def name(self) -> str:
        """The rule: "lambda1", "n_nonzero", "max_error" or "max_l1"."""

    @property
    def amounts(self) -> NDArray[np.float64]:
        """One number, or one per signal."""


class _Penalty(NamedTuple):
    """The rule of one λ1 for all signals."""

    amounts: NDArray[np.float64]
    name: str = "lambda1"


def needs_no_gram(n_signals: float, dictionary: Floats) -> bool:
    """Return whether so many signals are encoded on a dictionary without its Gram matrix, which costs less then."""
    p, m = dictionary.shape
    entry_bytes = 4 if dictionary.dtype == np.float32 else 12  # of the Gram matrix: float64 has one in float32 too
    return _core.prefers_direct(n_signals, m, p, entry_bytes)


class Encoder:
    """A dictionary prepared for encoding batches of signals of its dtype.

    It has the Gram matrix of the atoms, or none if that costs more than it saves for `n_signals` signals, or if signals
    vary (``encode_varied``): each has a Gram matrix of its own then.
    """

    def __init__(
        self,
        dictionary: Floats,
        *,
        lambda1: float | None = None,
        rule: Goals | None = None,
        lambda2: float,
        positive: bool,
        n_threads: int,
        homotopy: bool = False,
        sparse: bool = False,
        keep_factors: bool = False,
        n_signals: float = np.inf,
        varies: bool = False,
    ) -> None:
        if (lambda1 is None) == (rule is None):
            raise TypeError("exactly one of lambda1 and rule must be given.")
        self._goals: Goals = _Penalty(np.array([lambda1], np.float64)) if rule is None else rule
        amounts = self._goals.amounts
        positive_amounts = amounts[amounts > 0]
        is_penalty = self._goals.name == "lambda1" and len(positive_amounts) > 0
        self._n_encoded = 0
        self.dtype = dictionary.dtype
        self.n_components, self.n_features = dictionary.shape
        self.n_threads = n_threads
        atoms = aligned(dictionary)
        least = float(positive_amounts.min()) if is_penalty else 0.0
        self._encoder: Any
        if varies or (not homotopy and needs_no_gram(n_signals, dictionary)):
            self._encoder = _DIRECT_ENCODERS[self.dtype](atoms, least, lambda2, positive)
        else:
            self._encoder = _ENCODERS[self.dtype](atoms, least, lambda2, positive, homotopy, sparse, n_threads)
        self._codes: Any = _CODES[self.dtype](keep_factors)  # of the encoder's dtype, which no type can say

    def for_another_batch(self, n_threads: int, keep_factors: bool = False) -> Encoder:
        """Return an encoder with the same prepared dictionary, and no codes so far; both may be used at once."""
        other = copy.copy(self)
        other.n_threads, other._n_encoded = n_threads, 0
        other._codes = _CODES[self.dtype](keep_factors)
        return other

    def encode(self, X: Floats) -> None:
        """Append the codes of dense signals; any strides."""
        rule, amounts = self._goals_of_next(len(X))
        _check_row(self._encoder.encode(aligned(X), rule, amounts, self._codes, self.n_threads))

    def encode_sparse(self, values: Floats, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> None:
        """Append the codes of signals in compressed rows."""
        rule, amounts = self._goals_of_next(len(indptr) - 1)
        row = self._encoder.encode_sparse(
            aligned(values), aligned(indptr), aligned(indices), rule, amounts, self._codes, self.n_threads
        )
        _check_row(row)

    def encode_varied(self, X: Any, observed: NDArray[np.uint8] | None, weights: NDArray[np.float64] | None) -> None:
        """Append the codes of signals, dense or CSR, from their observed features and with weights of the ℓ1 norm.

        Parameters
        ----------
        X : array or CSR array of shape (n_samples, n_features)
            Signals.
        observed : array of shape (n_samples, n_features) or None
            1 where a feature was observed, 0 elsewhere; None if all were.
        weights : array of shape (n_samples, n_components) or (1, n_components), or None
            At least 0, or infinite to exclude an atom; None for ones.
        """
        rule, amounts = self._goals_of_next(X.shape[0])
        if isinstance(X, np.ndarray):
            row = self._encoder.encode_varied(aligned(X), rule, amounts, observed, weights, self._codes, self.n_threads)
        else:
            indptr, indices = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False)
            row = self._encoder.encode_sparse_varied(
                aligned(X.data),
                aligned(indptr),
                aligned(indices),
                rule,
                amounts,
                observed,
                weights,
                self._codes,
                self.n_threads,
            )
        _check_row(row)

    def _goals_of_next(self, n_signals: int) -> tuple[_core.Rule, NDArray[np.float64]]:
        """Return the rule, and the amounts for the signals that follow those encoded so far."""
        amounts = self._goals.amounts
        if len(amounts) > 1:
            amounts = amounts[self._n_encoded : self._n_encoded + n_signals]
        self._n_encoded += n_signals
        return _RULES[self._goals.name], aligned(np.ascontiguousarray(amounts))

    def release(self) -> Encoded:
        """Hand over the codes so far; nothing is copied."""
        self._n_encoded = 0
        return Encoded(*self._codes.release())

    def objectives(self, encoded: Encoded, X: Floats) -> NDArray[np.float64]:
        """Return the objective of each signal at its code, from Lemma 1: ½‖x‖² − ½ αᵀ(DᵀD + λ2 I)α."""
        values: NDArray[np.float64] = self._encoder.objectives(
            encoded.indptr, encoded.indices, encoded.values, aligned(X), self.n_threads
        )
        return values

    def duplicates(self, cosine: float) -> NDArray[np.int32]:
        """Return the atoms whose angle with an earlier atom has at least this cosine."""
        repeated: NDArray[np.int32] = self._encoder.duplicates(cosine)
        return repeated

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


def encode_each(
    dictionaries: Floats,
    which: NDArray[np.int32],
    X: Floats,
    *,
    rule: Goals,
    lambda2: float,
    positive: bool,
    n_threads: int,
) -> Encoded:
    """Return the codes of signals, each on the dictionary of its number in ``which``."""
    codes: Any = _CODES[dictionaries.dtype](False)
    amounts = rule.amounts
    positive_amounts = amounts[amounts > 0]
    is_penalty = rule.name == "lambda1" and len(positive_amounts) > 0
    least = float(positive_amounts.min()) if is_penalty else 0.0
    row = _core.encode_each(
        aligned(dictionaries), least, lambda2, positive, which, aligned(X), _RULES[rule.name], amounts, codes, n_threads
    )
    _check_row(row)
    return Encoded(*codes.release())


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
    encoded: Pattern, values: Floats, X: Floats, fade: float, before: Floats, after: Floats, n_threads: int
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
    encoded: Pattern, values: Floats, dictionary: Floats, fade: float, before: Floats, after: Floats, n_threads: int
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


def update_atoms_on_window(
    dictionary: Floats,
    pattern: Pattern,
    values: Floats,
    weights: Floats,
    X: Floats,
    targets: Floats,
    curvatures: Floats,
    positive: bool,
    n_threads: int,
    observed: NDArray[np.uint8] | None = None,
) -> None:
    """Move each atom in place, one after the other, to the minimiser in its constraint set of what is in a window.

    That is Σ w ½‖x − Dα‖² + Σ (½ a‖d‖² − ⟨t, d⟩), over signals with weights and codes, and over atoms d with curvatures
    a and targets t. With `observed`, 1 where a feature was observed and 0 elsewhere, it is Σ w ½‖o ∘ (x − Dα)‖² and
    Σ (½⟨a, d ∘ d⟩ − ⟨t, d⟩): curvatures are those of each feature of an atom.
    """
    _core.update_atoms_on_window(
        dictionary,
        aligned(pattern.indptr),
        aligned(pattern.indices),
        aligned(values),
        aligned(weights),
        aligned(X),
        aligned(targets),
        aligned(curvatures if observed is not None else curvatures[:, None]),
        None if observed is None else aligned(observed),
        positive,
        n_threads,
    )


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
