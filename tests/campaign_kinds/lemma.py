"""An independent check of codes: bounds on the violation of Lemma 1 that hold whatever the rounding.

With ρ = Dᵀ(x − Dα) − λ2 α, the violation is |ρ_j − λ1 sign(α_j)| where α_j ≠ 0 and max(|ρ_j| − λ1, 0) elsewhere, the
largest over the atoms, relative to max(λ1, ‖Dᵀx‖∞). It is computed in float64 with a bound on the error of every sum
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1: a sum of n products in any order is off by at most
γ_n Σ|a||b|). Signals that the bounds do not decide are computed again in extended precision, and those that are still
open with fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

PROMISE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}
_SAFETY = 1.01  # the bounds themselves are computed with rounding
_MOST_FRACTIONS = 60_000_000  # products of one signal; beyond, an open case stays open


@dataclass(frozen=True)
class Lasso:
    """The elastic net of some signals: min ½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖², with α ≥ 0 if `positive`."""

    X: NDArray[Any]
    D: NDArray[Any]
    lambda1: float
    lambda2: float
    positive: bool


def kkt_bounds(lasso: Lasso, codes: NDArray[Any], dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a lower and an upper bound on the relative violation of each signal, from arithmetic in `dtype`."""
    info = np.finfo(dtype)
    unit, smallest = dtype(info.eps) / 2, dtype(info.smallest_subnormal)
    X, D, A = (np.asarray(a, dtype) for a in (lasso.X, lasso.D, codes))
    lambda1, lambda2 = dtype(lasso.lambda1), dtype(lasso.lambda2)
    m = D.shape[1]
    most = int((A != 0).sum(axis=1).max(initial=0))

    def gamma(n: int) -> Any:
        return dtype(_SAFETY) * n * unit / (1 - n * unit)

    with np.errstate(all="ignore"):
        size_D = np.abs(D)
        R = X - A @ D
        error_R = gamma(most + 2) * (np.abs(X) + np.abs(A) @ size_D) + (most + 2) * smallest
        products = X @ D.T
        error_products = gamma(m + 1) * (np.abs(X) @ size_D.T) + (m + 1) * smallest
        products, error_products = np.abs(products), np.where((X != 0).any(axis=1)[:, None], error_products, 0)
        rho = R @ D.T - lambda2 * A
        error = gamma(m + 2) * (np.abs(R) @ size_D.T) + (1 + gamma(m)) * (error_R @ size_D.T)
        error += gamma(3) * (lambda2 * np.abs(A) + np.abs(rho) + lambda1) + (m + 4) * smallest
        inside = np.maximum((rho if lasso.positive else np.abs(rho)) - lambda1, 0)
        violation = np.where(A != 0, np.abs(rho - lambda1 * np.sign(A)), inside)
        at_least = np.maximum(violation - error, 0).max(axis=1, initial=0)
        # An atom outside of the code may be far below λ1: its error does not matter then.
        above = np.where(
            A != 0, violation + error, np.maximum((rho if lasso.positive else np.abs(rho)) - lambda1 + error, 0)
        )
        at_most = above.max(axis=1, initial=0)
        scale_least = np.maximum(lambda1, (products - error_products).max(axis=1, initial=0))
        scale_most = np.maximum(lambda1, (products + error_products).max(axis=1, initial=0))
        low = np.where(at_least > 0, at_least / scale_most, 0)
        high = np.where(at_most > 0, at_most / scale_least, 0)
    nothing = ~(X != 0).any(axis=1) & ~(A != 0).any(axis=1)
    low, high = np.where(np.isnan(low) | nothing, 0, low), np.where(np.isnan(high), np.inf, high)
    high = np.where(nothing, 0, high)
    if lasso.positive:
        negative = (A < 0).any(axis=1)
        low, high = np.where(negative, np.inf, low), np.where(negative, np.inf, high)
    return low, high


def exact_kkt(lasso: Lasso, row: int, code: NDArray[Any]) -> Fraction | None:
    """Return the violation of one signal without any rounding; None if it is infinite (no scale to compare with)."""
    x = [Fraction(float(v)) for v in lasso.X[row]]
    active = np.flatnonzero(code)
    alpha = {int(j): Fraction(float(code[j])) for j in active}
    lambda1, lambda2 = Fraction(lasso.lambda1), Fraction(lasso.lambda2)
    if lasso.positive and any(value < 0 for value in alpha.values()):
        return None
    columns = [[Fraction(float(v)) for v in atom] for atom in lasso.D]
    residual = list(x)
    for j, value in alpha.items():
        residual = [r - value * d for r, d in zip(residual, columns[j], strict=True)]
    worst, scale = Fraction(0), lambda1
    for j, atom in enumerate(columns):
        scale = max(scale, abs(sum((a * b for a, b in zip(x, atom, strict=True)), Fraction(0))))
        rho = sum((a * b for a, b in zip(residual, atom, strict=True)), Fraction(0)) - lambda2 * alpha.get(j, 0)
        if j in alpha:
            violation = abs(rho - lambda1 * (1 if alpha[j] > 0 else -1))
        else:
            violation = max((rho if lasso.positive else abs(rho)) - lambda1, Fraction(0))
        worst = max(worst, violation)
    if worst == 0:
        return Fraction(0)
    return worst / scale if scale else None


@dataclass(frozen=True)
class Verdict:
    """What is known of the codes of some signals."""

    wrong: NDArray[np.bool_]
    """Whether the violation is above the promise, for certain."""
    open: NDArray[np.bool_]
    """Whether that could not be decided, for want of time."""
    kkt: NDArray[np.float64]
    """An upper bound on the violation."""


def judge(lasso: Lasso, codes: NDArray[Any], promise: float) -> Verdict:
    """Decide for each signal whether its code violates Lemma 1 by more than `promise`."""
    low, high = kkt_bounds(lasso, codes, np.float64)
    # What float64 finds to be wrong is looked at again: an accusation has to be beyond doubt.
    again = np.flatnonzero(~(high <= promise))
    wrong = np.zeros(len(low), bool)
    undecided = np.zeros(len(low), bool)
    if again.size:
        part = Lasso(lasso.X[again], lasso.D, lasso.lambda1, lasso.lambda2, lasso.positive)
        low_wide, high_wide = kkt_bounds(part, codes[again], np.longdouble)
        high = high.astype(np.longdouble)
        high[again] = high_wide
        wrong[again] = low_wide > promise
        for place, row in enumerate(again):
            if low_wide[place] <= promise < high_wide[place]:
                if (np.count_nonzero(codes[row]) + 2 * len(lasso.D)) * lasso.D.shape[1] > _MOST_FRACTIONS:
                    undecided[row] = True
                    continue
                exact = exact_kkt(lasso, row, codes[row])
                high[row] = np.inf if exact is None else float(exact)
                wrong[row] = exact is None or exact > Fraction(promise)
    return Verdict(wrong, undecided, np.asarray(high, np.float64))


@dataclass(frozen=True)
class Complaint:
    """What is wrong with the codes of some signals."""

    what: str
    rows: NDArray[np.intp]


def check_codes(
    X: Any, D: NDArray[Any], codes: sp.csr_array, report: Any, lambda1: float, lambda2: float, positive: bool
) -> tuple[list[Complaint], NDArray[np.float64]]:
    """Return all that is wrong with the codes, and an upper bound on the violation of each (−1 where marked)."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    n, dtype, promise = X.shape[0], X.dtype, PROMISE[np.dtype(X.dtype)]
    everything = np.arange(n)
    if codes.shape != (n, len(D)) or not len(report.status) == len(report.kkt) == n:
        return [Complaint(f"codes have shape {codes.shape}, {len(report.status)} states", everything)], np.full(
            n, np.inf
        )
    complaints = []
    if codes.dtype != dtype or report.kkt.dtype != dtype:
        complaints.append(
            Complaint(f"codes of {codes.dtype}, kkt of {report.kkt.dtype} for signals of {dtype}", everything)
        )
    rows = np.repeat(everything, np.diff(codes.indptr))
    inexact = report.status == 2
    bad = np.isnan(codes.data) | (np.isinf(codes.data) & ~inexact[rows])
    entries = {
        "stored zeros": codes.data == 0,
        "coefficients that are not finite": bad,
        "indices out of range": (codes.indices < 0) | (codes.indices >= len(D)),
    }
    if positive:
        entries["negative coefficients"] = codes.data < 0
    falling = np.zeros(len(rows), bool)
    if len(rows):
        falling[1:] = (np.diff(codes.indices) <= 0) & (rows[1:] == rows[:-1])
    entries["indices that do not rise"] = falling
    complaints += [Complaint(what, np.unique(rows[which])) for what, which in entries.items() if which.any()]
    if entries["indices out of range"].any():
        return complaints, np.full(n, np.inf)
    dense = np.zeros((n, len(D)), dtype)
    dense[rows, codes.indices] = np.where(np.isfinite(codes.data), codes.data, 0)
    verdict = judge(Lasso(X, D, lambda1, lambda2, positive), dense, promise)
    claims = ~inexact | (report.kkt <= promise)
    states = {
        f"codes that violate Lemma 1 by more than {promise:g} and are not marked": verdict.wrong & claims & ~inexact,
        f"codes marked as inexact with a reported kkt below {promise:g} but a true one above": verdict.wrong
        & claims
        & inexact,
        "codes with a reported kkt that is not a number": np.isnan(report.kkt),
        f"codes with a reported kkt above {promise:g} that are not marked": ~inexact & (report.kkt > promise),
        "codes that could not be judged": verdict.open & claims,
    }
    complaints += [Complaint(what, np.flatnonzero(which)) for what, which in states.items() if which.any()]
    return complaints, np.where(inexact, -1.0, verdict.kkt)
