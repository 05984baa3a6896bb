"""Sparse coding: signals in, sparse codes out, each with a certificate."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from taskdict._coding.pursuit import PreparedPursuit, refuse_with_omp
from taskdict._coding.reading import (
    CHUNK_BYTES,
    MOST_KEPT_ATOMS,
    as_csr,
    check_width,
    dtype_of,
    not_finite,
    ready_chunks,
)
from taskdict._coding.report import Report, Status
from taskdict._coding.rules import Rule
from taskdict._coding.variation import LARGEST_RANGE, Variation
from taskdict._common.threads import resolve_threads
from taskdict._common.validation import (
    check_dictionaries,
    check_dictionary,
    check_flag,
    check_penalty,
    check_signals,
    refuse_masked,
)
from taskdict._native import BadSignalError, Encoded, Encoder, Pursuit, encode_each

METHODS = ("auto", "active-set", "homotopy", "omp")

__all__ = [
    "ActiveSets",
    "PreparedDictionary",
    "Report",
    "Status",
    "encode_with_active_sets",
    "mean_objective",
    "sparse_encode",
]


class ActiveSets:
    """The active sets Λ of a batch of codes, with the inverses of D_ΛᵀD_Λ + λ2 I that encoding left behind."""

    def __init__(self, encoder: Encoder, encoded: Encoded) -> None:
        self._encoder = encoder
        self._encoded = encoded

    def solve(self, g: ArrayLike) -> NDArray[Any]:
        """Solve (D_ΛᵀD_Λ + λ2 I) β_Λ = g_Λ for every signal (paper, ``eq:beta``).

        Parameters
        ----------
        g : array of shape (nnz,)
            One number per stored element of the codes, in the same order.

        Returns
        -------
        array of shape (nnz,)
            β_Λ in the same layout. Where λ2 = 0 and the active atoms are linearly dependent, the solution of least
            norm (in the least-squares sense).
        """
        g = np.ascontiguousarray(g, dtype=self._encoder.dtype)
        if g.shape != self._encoded.indices.shape:
            raise ValueError(
                f"g must hold one number per nonzero of the codes, shape {self._encoded.indices.shape}, got {g.shape}."
            )
        return self._encoder.solve_adjoint(self._encoded, g)


@overload
def sparse_encode(
    X: Any,
    dictionary: ArrayLike,
    *,
    lambda1: float | ArrayLike | None = ...,
    n_nonzero: int | ArrayLike | None = ...,
    max_error: float | ArrayLike | None = ...,
    max_l1: float | ArrayLike | None = ...,
    lambda2: float = ...,
    positive: bool = ...,
    weights: Any = ...,
    mask: ArrayLike | None = ...,
    missing: str = ...,
    which: ArrayLike | None = ...,
    method: str = ...,
    n_threads: int | None = ...,
    return_report: Literal[False] = ...,
) -> sp.csr_array: ...
@overload
def sparse_encode(
    X: Any,
    dictionary: ArrayLike,
    *,
    lambda1: float | ArrayLike | None = ...,
    n_nonzero: int | ArrayLike | None = ...,
    max_error: float | ArrayLike | None = ...,
    max_l1: float | ArrayLike | None = ...,
    lambda2: float = ...,
    positive: bool = ...,
    weights: Any = ...,
    mask: ArrayLike | None = ...,
    missing: str = ...,
    which: ArrayLike | None = ...,
    method: str = ...,
    n_threads: int | None = ...,
    return_report: Literal[True],
) -> tuple[sp.csr_array, Report]: ...
def sparse_encode(
    X: Any,
    dictionary: ArrayLike,
    *,
    lambda1: float | ArrayLike | None = None,
    n_nonzero: int | ArrayLike | None = None,
    max_error: float | ArrayLike | None = None,
    max_l1: float | ArrayLike | None = None,
    lambda2: float = 0.0,
    positive: bool = False,
    weights: Any = None,
    mask: ArrayLike | None = None,
    missing: str = "error",
    which: ArrayLike | None = None,
    method: str = "auto",
    n_threads: int | None = None,
    return_report: bool = False,
) -> sp.csr_array | tuple[sp.csr_array, Report]:
    """Encode signals on a dictionary with the elastic net, exactly.

    For each row x of X, with the atoms as columns of D, the code is the minimiser of

        ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖²,

    with α ≥ 0 if `positive`. It satisfies the optimality conditions (Lemma 1 of the paper): with
    ρ = Dᵀ(x − Dα) − lambda2 α, ρ_j = lambda1 sign(α_j) where α_j ≠ 0 and abs(ρ_j) ≤ lambda1 elsewhere, up to 1e-10
    (float64) or 1e-4 (float32) of max(lambda1, ‖Dᵀx‖∞). The codes are the same bits for every number of threads. From
    1,024 atoms on, their last digits may depend on how many signals come at once, since a Gram matrix is computed only
    where it pays.

    Exactly one of four rules says which lambda1 that is. As lambda1 falls from the largest correlation, where the code
    is zero, to 0, codes move along a path of straight segments (the path of LARS). A rule other than `lambda1` chooses
    a point on it, exactly, and the report says its lambda1. Each rule is one number, or an array of one per signal.
    The guide docs/sparse-coding.md says which rule suits what, and which calls of SPAMS and scikit-learn it replaces.

    Parameters
    ----------
    X : array or scipy sparse array of shape (n_samples, n_features)
        Signals. Dense in any memory layout, memory-mapped or read-only, or sparse in CSR format. float32 and float64
        are used as they are; other real types are converted to float64, block by block.
    dictionary : array of shape (n_components, n_features) or (n_dictionaries, n_components, n_features)
        One atom per row, of any norm; used in the dtype of X. Several dictionaries of one size go with `which`.
    lambda1 : float or array of shape (n_samples,)
        Weight of the ℓ1 norm, at least 0.
    n_nonzero : int or array of shape (n_samples,)
        Follow the path to the last point with at most so many nonzeros: to where one more atom would join, or to
        lambda1 = 0. Atoms that leave on the way make room for others. The ℓ1 norm shrinks coefficients, more so the
        fewer there are: those of method "omp" are least squares, with a smaller error.
    max_error : float or array of shape (n_samples,)
        The code of least ‖α‖₁ with ‖x − Dα‖² ≤ max_error, which is the point of the path where they are equal. The
        error is squared and summed over the features, not averaged. If it is larger even at lambda1 = 0, the code is
        that one, with the status ``UNMET``. With lambda2 > 0 it is the point of its path where they are equal.
    max_l1 : float or array of shape (n_samples,)
        The code of least error with ‖α‖₁ ≤ max_l1: the point of the path where they are equal, or lambda1 = 0.
    lambda2 : float, default=0.0
        Weight of the squared ℓ2 norm, at least 0. With 0 the problem is the Lasso, whose solution may not be unique.
    positive : bool, default=False
        Whether to require non-negative codes.
    weights : array of shape (n_components,) or (n_samples, n_components), or CSR array, default=None
        Weights w_j of the ℓ1 norm Σ w_j abs(α_j), at least 0, of each atom or of each signal and atom. An atom with
        weight 0 is not penalised, an atom with infinite weight is not used. None is 1 for all. What a CSR array does
        not store is 0, so not penalised. Rules other than `lambda1` need weights above 0 and lambda2 = 0.
    mask : array of bool of shape (n_samples, n_features), default=None
        True where a value was observed; X may hold anything elsewhere. The code of a signal is that of its observed
        features, on these features of the atoms, and so is its error. A signal of which nothing was observed has the
        code zero, and the status ``UNOBSERVED``.
    missing : {"error", "ignore"}, default="error"
        With "ignore", NaN in a dense X stands for a value that was not observed, beside those that `mask` leaves out.
    which : array of int of shape (n_samples,), default=None
        With several dictionaries, the number from 0 of the one that each signal is encoded on. X must be dense, and
        weights and missing values need a single dictionary.
    method : {"auto", "active-set", "homotopy", "omp"}, default="auto"
        "active-set" adds several atoms per pass and is the fastest as a rule, "homotopy" follows the path of solutions
        as LARS does. Both are exact, and each hands over to the other where it cannot finish. "auto" is "active-set"
        for `lambda1`; leave it as it is unless you compare methods. For the other rules, weights and missing values
        there is no choice between the two. "omp" is another problem: orthogonal matching pursuit, with `n_nonzero`,
        `max_error` or both, whichever comes first. The atom most correlated with the residual, relative to its norm,
        joins the support, and α is the least-squares solution on it, until there are `n_nonzero` atoms or the error is
        at most `max_error`. It takes no weights, missing values, several dictionaries, `positive` or `lambda2`.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    return_report : bool, default=False
        Whether to return a :class:`Report` as well.

    Returns
    -------
    codes : scipy.sparse.csr_array of shape (n_samples, n_components)
        The codes in the dtype of X, with sorted indices and no stored zeros.
    report : Report
        Only if `return_report`: status, optimality residual, number of steps and lambda1 of each signal. Unless the
        status is ``INEXACT``, the error is `max_error` up to 1e-10 (float64) or 1e-4 (float32) of ‖x‖², and the norm is
        `max_l1` up to the same share of it.

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> codes, report = td.sparse_encode([[3.0, -1.0, 0.5]], np.eye(3), lambda1=1.0, return_report=True)
    >>> codes.toarray()
    array([[2., 0., 0.]])
    >>> report
    Report(1 signals: 1 converged, 0 exact, 0 inexact; largest kkt 0.0e+00)

    At most one nonzero, and a squared error of at most 0.75:

    >>> codes, report = td.sparse_encode([[3.0, -1.0, 0.5]], np.eye(3), n_nonzero=1, return_report=True)
    >>> codes.toarray(), report.lambda1
    (array([[2., 0., 0.]]), array([1.]))
    >>> td.sparse_encode([[3.0, -1.0, 0.5]], np.eye(3), max_error=0.75).toarray().round(6)
    array([[ 2.5, -0.5,  0. ]])
    """
    if method == "omp":
        refuse_with_omp(
            lambda1=lambda1,
            max_l1=max_l1,
            lambda2=lambda2 or None,
            positive=positive or None,
            weights=weights,
            mask=mask,
            missing=None if missing == "error" else missing,
            which=which,
        )
        pursuit, pursued = PreparedPursuit(dictionary).encode(
            X, n_nonzero=n_nonzero, max_error=max_error, n_threads=n_threads
        )
        codes = as_csr(pursued, pursuit.n_components)
        return (codes, Report.of(pursued)) if return_report else codes
    rule = Rule.parse({"lambda1": lambda1, "n_nonzero": n_nonzero, "max_error": max_error, "max_l1": max_l1})
    prepared = PreparedDictionary(dictionary, rule=rule, lambda2=lambda2, positive=positive, method=method)
    X = check_signals(X)
    variation = Variation.parse(X, mask, missing, weights)
    if which is not None or np.ndim(dictionary) == 3:
        if variation is not None:
            raise ValueError("weights, mask and missing='ignore' need one dictionary: they cannot go with `which`.")
        encoded, n_components = prepared.encode_each(X, which, n_threads=n_threads)
    else:
        encoder, encoded = prepared.encode(X, n_threads=n_threads, variation=variation)
        n_components = encoder.n_components
    codes = as_csr(encoded, n_components)
    if not return_report:
        return codes
    return codes, Report.of(encoded)


def mean_objective(
    X: Any,
    dictionary: NDArray[Any],
    codes: sp.csr_array,
    *,
    lambda1: float,
    lambda2: float,
    observed: NDArray[np.uint8] | None = None,
) -> float:
    """Return the average over the signals of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖², as it stands.

    With `observed`, 1 where a value of X was observed and 0 elsewhere, only those values count.
    """
    rows = max(1, CHUNK_BYTES // (8 * max(1, X.shape[1])))
    total = lambda1 * float(np.abs(codes.data).sum(dtype=np.float64))
    total += lambda2 / 2 * float(np.square(codes.data, dtype=np.float64).sum())
    for start in range(0, X.shape[0], rows):
        chunk = X[start : start + rows]
        error = (chunk.toarray() if sp.issparse(chunk) else chunk) - codes[start : start + rows] @ dictionary
        if observed is not None:
            error = np.where(observed[start : start + rows], error, 0)
        total += 0.5 * float(np.square(error, dtype=np.float64).sum())
    return total / float(X.shape[0])


def encode_with_active_sets(
    X: Any,
    dictionary: ArrayLike,
    *,
    lambda1: float,
    lambda2: float = 0.0,
    positive: bool = False,
    n_threads: int | None = None,
) -> tuple[sp.csr_array, ActiveSets]:
    """Encode like :func:`sparse_encode` and keep the active sets for the gradient; for the learners of this package."""
    rule = Rule.parse({"lambda1": lambda1})
    prepared = PreparedDictionary(dictionary, rule=rule, lambda2=lambda2, positive=positive)
    encoder, encoded = prepared.encode(X, n_threads=n_threads, keep_factors=True)
    assert isinstance(encoder, Encoder)
    return as_csr(encoded, encoder.n_components), ActiveSets(encoder, encoded)


class PreparedDictionary:
    """A dictionary that is prepared for encoding once, when the first signals come.

    The preparation, Gram matrix and scaling, is kept for each dtype of signals, and for dense and sparse ones. It is
    not copied or pickled with the object.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features)
        One atom per row; it must not change.
    rule : Rule
        Which point of its path is the code of a signal.
    lambda2, positive, method
        See :func:`sparse_encode`.
    is_reused : bool
        Whether an unknown number of signals will come, in any number of calls.
    """

    def __init__(
        self,
        dictionary: ArrayLike,
        *,
        rule: Rule,
        lambda2: float = 0.0,
        positive: bool = False,
        method: str = "auto",
        is_reused: bool = False,
    ) -> None:
        if not isinstance(method, str) or method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}.")
        self.dictionary: Any = dictionary
        self.rule = rule
        self.lambda2 = check_penalty("lambda2", lambda2)
        self.positive = check_flag("positive", positive)
        self.method = method
        self._is_reused = is_reused
        self._pursuit: PreparedPursuit | None = None
        if method == "omp":
            given = {rule.name: rule.amounts} if rule.name in ("lambda1", "max_l1") else {}
            refuse_with_omp(**given, lambda2=self.lambda2 or None, positive=self.positive or None)
            self._pursuit = PreparedPursuit(dictionary)
        self._encoders: dict[tuple[np.dtype[Any], bool], Encoder] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_encoders": {}}

    def encode(
        self,
        X: Any,
        *,
        n_threads: int | None = None,
        keep_factors: bool = False,
        variation: Variation | None = None,
    ) -> tuple[Encoder | Pursuit, Encoded]:
        """Return the codes of signals, and the encoder that has found them."""
        if self._pursuit is not None:
            amounts: Any = self.rule.amounts if self.rule.per_signal else self.rule.parameter(self.rule.name)
            return self._pursuit.encode(X, **{self.rule.name: amounts}, n_threads=n_threads)
        X = check_signals(X)
        if variation is not None:
            self._check_variation(variation)
        dtype = dtype_of(X)
        encoder = self._encoder(dtype, X, resolve_threads(n_threads), keep_factors, variation)
        done = 0
        try:
            for chunk in ready_chunks(X, dtype, in_pieces=variation is not None):
                if variation is not None:
                    encoder.encode_varied(chunk, *variation.rows(done, done + chunk.shape[0]))
                elif sp.issparse(chunk):
                    indptr, indices = (
                        chunk.indptr.astype(np.int64, copy=False),
                        chunk.indices.astype(np.int32, copy=False),
                    )
                    encoder.encode_sparse(chunk.data, indptr, indices)
                else:
                    encoder.encode(chunk)
                done += chunk.shape[0]
        except BadSignalError as bad:
            raise not_finite(done + bad.row, ignores_nan=variation is not None and variation.ignores_nan) from None
        return encoder, encoder.release()

    def encode_each(self, X: Any, which: Any, *, n_threads: int | None = None) -> tuple[Encoded, int]:
        """Return the codes of signals, each on one of several dictionaries, and the number of atoms of each."""
        dictionaries = np.asarray(self.dictionary)
        if dictionaries.ndim != 3 or dictionaries.size == 0 or which is None:
            raise ValueError(
                "dictionary must have shape (n_dictionaries, n_components, n_features) with `which`, and `which` must "
                f"name the dictionary of each signal, got shape {dictionaries.shape} and which={which!r}."
            )
        if sp.issparse(X):
            raise TypeError("X must be dense with several dictionaries: call X.toarray() first.")
        if self.method == "homotopy":
            raise ValueError("method must be 'auto' or 'active-set' with several dictionaries.")
        dtype = dtype_of(X)
        dictionaries = check_dictionaries(dictionaries, dtype)
        check_width(X, dictionaries.shape[2])
        self.rule.check_fits(X.shape[0], dictionaries.shape[1])
        try:
            encoded = encode_each(
                dictionaries,
                _check_which(which, X.shape[0], len(dictionaries)),
                np.ascontiguousarray(X, dtype=dtype),
                rule=self.rule,
                lambda2=self.lambda2,
                positive=self.positive,
                n_threads=resolve_threads(n_threads),
            )
        except BadSignalError as bad:
            raise not_finite(bad.row) from None
        return encoded, dictionaries.shape[1]

    def codes(self, X: Any, n_threads: int | None = None, variation: Variation | None = None) -> sp.csr_array:
        """Return the codes of signals as a sparse array."""
        encoder, encoded = self.encode(X, n_threads=n_threads, variation=variation)
        return as_csr(encoded, encoder.n_components)

    def _check_variation(self, variation: Variation) -> None:
        """Raise if a rule cannot be combined with weights."""
        if self.method == "homotopy":
            raise ValueError("method must be 'auto' or 'active-set' with weights, mask or missing='ignore'.")
        if self.rule.name == "lambda1":
            variation.check_penalties(self.rule.amounts)
            return
        if variation.weights is None:
            return
        if variation.has_zero_weights or self.lambda2 > 0:
            which = "zeros in weights" if variation.has_zero_weights else "weights and lambda2 > 0"
            raise ValueError(f"{self.rule.name} cannot be combined with {which}: use lambda1.")
        if variation.range > LARGEST_RANGE:
            raise ValueError(
                f"{self.rule.name} cannot be combined with weights of which the largest is {variation.range:.1e} times "
                f"the least, only up to {LARGEST_RANGE:.0e}: use lambda1, or infinity to exclude atoms."
            )

    def _encoder(
        self, dtype: np.dtype[Any], X: Any, n_threads: int, keep_factors: bool, variation: Variation | None
    ) -> Encoder:
        """Return an encoder for signals of a dtype, with a prepared dictionary that is kept unless it is very large."""
        kind = dtype, sp.issparse(X)
        prepared = self._encoders.get(kind) if variation is None else None
        if prepared is not None:
            check_width(X, prepared.n_features)
            self.rule.check_fits(X.shape[0], prepared.n_components)
            return prepared.for_another_batch(n_threads, keep_factors)
        atoms = check_dictionary(self.dictionary, dtype)
        check_width(X, atoms.shape[1])
        self.rule.check_fits(X.shape[0], len(atoms))
        if variation is not None:
            variation.check_fits(len(atoms))
        is_kept = len(atoms) <= MOST_KEPT_ATOMS and variation is None
        encoder = Encoder(
            atoms,
            rule=self.rule,
            lambda2=self.lambda2,
            positive=self.positive,
            homotopy=self.method == "homotopy",
            sparse=sp.issparse(X),
            keep_factors=keep_factors,
            n_threads=n_threads,
            n_signals=np.inf if is_kept and self._is_reused else X.shape[0],
            varies=variation is not None,
        )
        if is_kept:
            self._encoders[kind] = encoder.for_another_batch(n_threads)
        return encoder


def _check_which(which: Any, n_samples: int, n_dictionaries: int) -> NDArray[np.int32]:
    refuse_masked("which", which)
    numbers = np.asarray(which)
    if numbers.dtype.kind not in "iu" and numbers.size > 0:
        raise TypeError(f"which must hold integers, the numbers of dictionaries, got dtype {numbers.dtype}.")
    if numbers.shape != (n_samples,):
        raise ValueError(f"which must have one number per signal, shape ({n_samples},), got {numbers.shape}.")
    outside = (numbers < 0) | (numbers >= n_dictionaries)
    if outside.any():
        raise ValueError(
            f"which must be from 0 to {n_dictionaries - 1}, as there are {n_dictionaries} dictionaries, got "
            f"{numbers[outside][0]}."
        )
    return np.ascontiguousarray(numbers, np.int32)
