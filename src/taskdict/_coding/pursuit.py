"""Orthogonal matching pursuit: signals in, codes with few nonzeros or a small error out, each with a certificate."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from taskdict._coding.reading import MOST_KEPT_ATOMS, as_csr, check_width, dtype_of, not_finite, ready_chunks
from taskdict._coding.report import Report
from taskdict._common.threads import resolve_threads
from taskdict._common.validation import check_dictionary, check_number, check_signals
from taskdict._native import BadSignalError, Encoded, Pursuit


def matching_pursuit(
    X: Any,
    dictionary: ArrayLike,
    *,
    n_nonzero: ArrayLike | None = None,
    max_error: ArrayLike | None = None,
    n_threads: int | None = None,
) -> tuple[sp.csr_array, Report]:
    """Encode signals by orthogonal matching pursuit (OMP).

    For each row x of X, with the atoms as columns of D, the code approximates

        argmin ‖α‖₀  subject to  ‖x − Dα‖² ≤ max_error,   or   argmin ‖x − Dα‖²  subject to  ‖α‖₀ ≤ n_nonzero

    greedily: the atom with the largest abs(⟨x − Dα, d_j⟩) / ‖d_j‖ joins the support, the first of those that are tied,
    and α becomes the least-squares solution on the support. This is repeated until the support has `n_nonzero` atoms or
    the error is at most `max_error`, whichever comes first.

    A pursuit ends earlier if no atom is left that is independent of the support, or if only rounding is left: if
    ‖x − Dα‖, or the correlations abs(⟨x − Dα, d_j⟩) / ‖d_j‖, are at most four machine epsilons of
    ‖x‖ + Σ abs(α_j) ‖d_j‖. An atom whose distance from the span of the support is at most the square root of the
    machine epsilon, relative to its norm, counts as dependent. The codes are the same bits for every number of threads.

    Parameters
    ----------
    X : array or scipy sparse array of shape (n_samples, n_features)
        Signals. Dense in any memory layout, memory-mapped or read-only, or sparse in CSR format. float32 and float64
        are used as they are; other real types are converted to float64, block by block.
    dictionary : array of shape (n_components, n_features)
        One atom per row, of any norm; used in the dtype of X.
    n_nonzero : int or array of shape (n_samples,), optional
        The largest number of nonzeros, from 0 to n_components: for all signals or for each.
    max_error : float or array of shape (n_samples,), optional
        The bound on ‖x − Dα‖², at least 0: for all signals or for each.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.

    Returns
    -------
    codes : scipy.sparse.csr_array of shape (n_samples, n_components)
        The codes in the dtype of X, with sorted indices and no stored zeros.
    report : Report
        Status, certificate and number of chosen atoms of each signal. The status is 3 (unmet) where ‖x − Dα‖² is above
        `max_error`. `kkt` is the largest abs(⟨x − Dα, d_j⟩) over the support, which is zero for the least-squares
        solution, relative to ``max(abs(dictionary @ x))``: at most 1e-10 for float64 and 1e-4 for float32 unless the
        status is ``INEXACT``.
    """
    pursuit, encoded = PreparedPursuit(dictionary).encode(
        X, n_nonzero=n_nonzero, max_error=max_error, n_threads=n_threads
    )
    return as_csr(encoded, pursuit.n_components), Report.of(encoded)


def refuse_with_omp(**arguments: Any) -> None:
    """Raise for arguments that have no meaning in a pursuit; None is not given."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ValueError(
            f"{' and '.join(given)} cannot be used with method='omp': it takes n_nonzero and max_error only."
        )


class PreparedPursuit:
    """A dictionary that is prepared for orthogonal matching pursuit once, when the first signals come.

    The preparation is kept for each dtype of signals, and for dense and sparse ones. It is not copied or pickled with
    the object.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features)
        One atom per row; it must not change.
    """

    def __init__(self, dictionary: ArrayLike) -> None:
        self.dictionary: Any = dictionary
        self._pursuits: dict[tuple[np.dtype[Any], bool], Pursuit] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pursuits": {}}

    def encode(
        self,
        X: Any,
        *,
        n_nonzero: ArrayLike | None = None,
        max_error: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> tuple[Pursuit, Encoded]:
        """Return the codes of signals, and the pursuit that has found them; see :func:`matching_pursuit`."""
        X = check_signals(X)
        dtype = dtype_of(X)
        if n_nonzero is None and max_error is None:
            raise ValueError("a pursuit needs an end: give n_nonzero, max_error, or both.")
        pursuit = self._pursuit(X, dtype, resolve_threads(n_threads))
        counts = _check_counts(n_nonzero, X.shape[0], pursuit.n_components)
        errors = _check_errors(max_error, X.shape[0])
        done = 0
        try:
            for chunk in ready_chunks(X, dtype):
                rows = slice(done, done + chunk.shape[0])
                rules = _of_rows(counts, rows), _of_rows(errors, rows)
                if sp.issparse(chunk):
                    indptr, indices = (
                        chunk.indptr.astype(np.int64, copy=False),
                        chunk.indices.astype(np.int32, copy=False),
                    )
                    pursuit.encode_sparse(chunk.data, indptr, indices, *rules)
                else:
                    pursuit.encode(chunk, *rules)
                done += chunk.shape[0]
        except BadSignalError as bad:
            raise not_finite(done + bad.row) from None
        return pursuit, pursuit.release()

    def _pursuit(self, X: Any, dtype: np.dtype[Any], n_threads: int) -> Pursuit:
        """Return a pursuit for signals of a dtype, with a prepared dictionary that is kept unless it is very large."""
        kind = dtype, sp.issparse(X)
        prepared = self._pursuits.get(kind)
        if prepared is not None:
            check_width(X, prepared.n_features)
            return prepared.for_another_batch(n_threads)
        atoms = check_dictionary(self.dictionary, dtype)
        check_width(X, atoms.shape[1])
        pursuit = Pursuit(atoms, sparse=sp.issparse(X), n_threads=n_threads)
        if pursuit.n_components <= MOST_KEPT_ATOMS:
            self._pursuits[kind] = pursuit.for_another_batch(n_threads)
        return pursuit


def _check_counts(n_nonzero: Any, n_samples: int, n_components: int) -> NDArray[np.int32]:
    """Return the largest numbers of nonzeros: none, one for all signals, or one for each."""
    if n_nonzero is None:
        return np.zeros(0, np.int32)
    rule = f"n_nonzero must be an integer from 0 to the number of atoms, {n_components}, or one for each signal"
    counts = np.asarray(n_nonzero)
    large = counts.dtype.kind == "O" and isinstance(n_nonzero, numbers.Integral)  # beyond 64 bits: refused below
    if isinstance(n_nonzero, np.ma.MaskedArray) or (counts.dtype.kind not in "iu" and not large):
        raise TypeError(f"{rule}, got {_shown(n_nonzero)}.")
    bad = (counts < 0) | (counts > n_components)
    if bad.any():
        raise ValueError(f"{rule}, got {counts[bad].flat[0]}{_place(bad)}.")
    return _one_per_signal("n_nonzero", counts, n_samples).astype(np.int32)


def _check_errors(max_error: Any, n_samples: int) -> NDArray[np.float64]:
    """Return the bounds on the squared errors: none, one for all signals, or one for each."""
    if max_error is None:
        return np.zeros(0)
    rule = "max_error must be finite and at least 0, one number or one for each signal"
    if np.ndim(max_error) == 0:
        errors = np.array(check_number("max_error", max_error))
    else:
        errors = np.asarray(max_error)
        if isinstance(max_error, np.ma.MaskedArray) or errors.dtype.kind not in "fiu":
            raise TypeError(f"{rule}, got {_shown(max_error)}.")
        errors = errors.astype(np.float64)
    bad = ~(np.isfinite(errors) & (errors >= 0))
    if bad.any():
        raise ValueError(f"{rule}, got {errors[bad].flat[0]}{_place(bad)}.")
    return _one_per_signal("max_error", errors, n_samples)


def _of_rows(rule: NDArray[Any], rows: slice) -> NDArray[Any]:
    """Return the part of a rule that some signals have."""
    return rule if len(rule) < 2 else rule[rows]


def _shown(value: Any) -> str:
    return repr(value) if np.ndim(value) == 0 else f"an array of dtype {np.asarray(value).dtype}"


def _place(bad: NDArray[np.bool_]) -> str:
    return f" for signal {int(np.argmax(bad))}" if bad.ndim == 1 else ""


def _one_per_signal(name: str, numbers: NDArray[Any], n_samples: int) -> NDArray[Any]:
    """Return one number as an array of length one, or an array that has one number per signal."""
    if numbers.ndim == 0:
        return numbers.reshape(1)
    if numbers.shape != (n_samples,):
        raise ValueError(
            f"{name} must be one number, or an array of shape ({n_samples},) with one per signal, got shape "
            f"{numbers.shape}."
        )
    return np.ascontiguousarray(numbers)
