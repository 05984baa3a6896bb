"""Readable twins of the native kernels in NumPy; used only by the tests.

Notation of the paper: atoms are the columns of D, M = DᵀD + λ2 I, c = Dᵀx, ρ = c − Mα.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def objective(x: Vector, D: Matrix, alpha: Vector, lambda1: float, lambda2: float) -> float:
    """½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖²."""
    error = x - D @ alpha
    return float(0.5 * error @ error + lambda1 * np.abs(alpha).sum() + 0.5 * lambda2 * alpha @ alpha)


def kkt(x: Any, D: Any, alpha: Any, lambda1: float, lambda2: float, positive: bool = False) -> float:
    """Return the largest violation of Lemma 1 relative to max(λ1, ‖Dᵀx‖∞), in extended precision."""
    x, D, alpha = (np.asarray(a, dtype=np.longdouble) for a in (x, D, alpha))
    rho = D.T @ (x - D @ alpha) - lambda2 * alpha
    outside = np.maximum((rho if positive else np.abs(rho)) - lambda1, 0)
    violation = np.where(alpha != 0, np.abs(rho - lambda1 * np.sign(alpha)), outside)
    if positive and (alpha < 0).any():
        return np.inf
    scale = max(lambda1, np.abs(D.T @ x).max(initial=0))
    return float(violation.max(initial=0) / scale) if scale > 0 else 0.0


def active_set(
    x: Vector, D: Matrix, lambda1: float, lambda2: float = 0.0, positive: bool = False, fraction: float = 0.5
) -> Vector:
    """Minimise by the active-set descent of `native/core/active_set.hpp`; needs independent active atoms."""
    p = D.shape[1]
    M = D.T @ D + lambda2 * np.eye(p)
    c = D.T @ x
    tolerance = 1e-12 * max(lambda1, np.abs(c).max(initial=0))
    alpha, sign = np.zeros(p), np.zeros(p)  # sign is nonzero on the support
    for _ in range(100 * (p + 1)):
        rho = c - M @ alpha
        violation = np.where(sign == 0, (rho if positive else np.abs(rho)) - lambda1, 0)
        largest = violation.max()
        if largest <= tolerance:
            return alpha
        joins = (violation >= max(fraction * largest, tolerance)) & (sign == 0)
        sign[joins] = np.sign(rho[joins])
        while True:
            support = np.flatnonzero(sign)
            target = np.zeros(p)
            target[support] = np.linalg.solve(M[np.ix_(support, support)], c[support] - lambda1 * sign[support])
            leaving = [j for j in support if target[j] * sign[j] <= 0] if lambda1 > 0 or positive else []
            if not leaving:
                alpha = target
                break
            steps = [alpha[j] / (alpha[j] - target[j]) if alpha[j] != 0 else 0.0 for j in leaving]
            first = int(np.argmin(steps))
            alpha = alpha + steps[first] * (target - alpha)
            alpha[leaving[first]] = sign[leaving[first]] = 0
    raise RuntimeError("the active-set descent did not end")


def homotopy(x: Vector, D: Matrix, lambda1: float, lambda2: float = 0.0, positive: bool = False) -> Vector:
    """Minimise by following the path of solutions from λ = ‖c‖∞ to λ1 (LARS with drops); needs a path without ties."""
    p = D.shape[1]
    M = D.T @ D + lambda2 * np.eye(p)
    c = D.T @ x
    size = c if positive else np.abs(c)
    alpha, sign = np.zeros(p), np.zeros(p)
    lam = size.max()
    if lam <= lambda1:
        return alpha
    j = int(size.argmax())
    sign[j] = np.sign(c[j])
    blocked = -1  # an atom that has just left does not come back at once
    while True:
        support = np.flatnonzero(sign)
        direction = np.zeros(p)
        direction[support] = np.linalg.solve(M[np.ix_(support, support)], sign[support])
        rho, slope = c - M @ alpha, M @ direction
        # ρ_j − γ a_j reaches ±(λ − γ) outside the support; α_j + γ d_j reaches 0 inside; λ − γ reaches λ1.
        events = [(lam - lambda1, -1)]
        for j in range(p):
            if sign[j] != 0:
                if alpha[j] * direction[j] < 0:
                    events.append((-alpha[j] / direction[j], j))
            elif j != blocked:
                if slope[j] < 1:
                    events.append((max((lam - rho[j]) / (1 - slope[j]), 0), j))
                if not positive and slope[j] > -1:
                    events.append((max((lam + rho[j]) / (1 + slope[j]), 0), j))
        gamma, j = min(events)
        alpha = alpha + gamma * direction
        lam -= gamma
        if j < 0:
            return np.asarray(alpha)
        blocked = -1
        if sign[j] != 0:
            alpha[j] = sign[j] = 0
            blocked = j
        else:
            sign[j] = np.sign((c - M @ alpha)[j])


def follow_path(
    x: Vector, D: Matrix, rule: str, amount: float, lambda2: float = 0.0, positive: bool = False
) -> tuple[Vector, float]:
    """Return the code at the point of the path that a rule chooses, and its λ1; needs a path without ties.

    At each bend the direction is solved for anew, and α is computed in closed form, so that nothing adds up.
    """
    p = D.shape[1]
    M, c = D.T @ D + lambda2 * np.eye(p), D.T @ x
    sign = np.zeros(p)
    lam = float((c if positive else np.abs(c)).max())
    if lam <= 0 or (x @ x <= amount if rule == "max_error" else amount == 0):
        return np.zeros(p), max(lam, 0.0)
    joins, blocked = int((c if positive else np.abs(c)).argmax()), -1
    for _ in range(100 * p):
        if joins >= 0:
            if rule == "n_nonzero" and np.count_nonzero(sign) == amount:
                return _on_segment(M, c, sign, lam), lam
            rho = c - M @ _on_segment(M, c, sign, lam)
            sign[joins] = np.sign(rho[joins])
        start, end = _on_segment(M, c, sign, lam), _on_segment(M, c, sign, 0.0)
        direction = (end - start) / lam  # as λ falls by one
        rho, slope = c - M @ start, M @ direction
        events = [(lam, "end", -1)]
        for j in range(p):
            if sign[j] != 0:
                if j != joins and start[j] * direction[j] < 0:  # one that has just joined is zero up to rounding
                    events.append((-start[j] / direction[j], "leaves", j))
            else:  # one that has just left may come back with the other sign only
                if slope[j] < 1 and not (j == blocked and rho[j] > 0):
                    events.append((max((lam - rho[j]) / (1 - slope[j]), 0.0), "joins", j))
                if not positive and slope[j] > -1 and not (j == blocked and rho[j] < 0):
                    events.append((max((lam + rho[j]) / (1 + slope[j]), 0.0), "joins", j))
        if np.count_nonzero(sign) >= min(D.shape) and lambda2 == 0:  # Λ spans all signals: nothing joins
            events = [event for event in events if event[1] != "joins"]
        if rule == "max_error":
            error, move = x - D @ start, D @ direction
            a, b, d = move @ move, -2 * error @ move, error @ error - amount
            roots = np.roots([a, b, d])
            events += [(float(root.real), "stop", -1) for root in roots if abs(root.imag) < 1e-12 and root.real >= 0]
        elif rule == "max_l1":
            grows = float(sign @ direction)
            events.append(((amount - float(np.abs(start).sum())) / grows, "stop", -1))
        gamma, what, j = min(events)
        if what in ("end", "stop"):
            lam = 0.0 if what == "end" else lam - gamma
            return _on_segment(M, c, sign, lam), lam
        lam -= gamma
        joins, blocked = (j, -1) if what == "joins" else (-1, j)
        if what == "leaves":
            sign[j] = 0
    raise RuntimeError("the path did not end")


def _on_segment(M: Matrix, c: Vector, sign: Vector, lam: float) -> Vector:
    """Return α with M_ΛΛ α_Λ = c_Λ − λ s on the support of the signs, zero elsewhere."""
    alpha, support = np.zeros(len(c)), np.flatnonzero(sign)
    alpha[support] = np.linalg.solve(M[np.ix_(support, support)], c[support] - lam * sign[support])
    return alpha


def adjoint(D: Matrix, alpha: Vector, g: Vector, lambda2: float) -> Vector:
    """β with (D_ΛᵀD_Λ + λ2 I) β_Λ = g_Λ and zeros elsewhere (`eq:beta`); of least norm if that is singular."""
    support = np.flatnonzero(alpha)
    beta = np.zeros_like(g)
    M = D[:, support].T @ D[:, support] + lambda2 * np.eye(len(support))
    beta[support] = np.linalg.lstsq(M, g[support], rcond=None)[0]
    return beta


def update_atoms(D: Matrix, A: Matrix, B: Matrix, positive: bool = False) -> Matrix:
    """Return D (atoms as columns) after one pass of block-coordinate descent on ½ tr(DᵀD A) − tr(DᵀB)."""
    D = D.copy()
    for j in np.flatnonzero(np.diag(A) > 0):
        u = D[:, j] + (B[:, j] - D @ A[:, j]) / A[j, j]
        if positive:
            u = np.maximum(u, 0)
        D[:, j] = u / max(1.0, float(np.linalg.norm(u)))
    return D


def update_atoms_on_window(
    D: Matrix,
    codes: Matrix,
    X: Matrix,
    weights: Vector,
    targets: Matrix,
    curvatures: Vector,
    positive: bool = False,
) -> Matrix:
    """Return D after one pass of block-coordinate descent on Σ w ½‖x − Dα‖² + Σ (½ a‖d‖² − ⟨t, d⟩).

    Signals, codes, targets t and atoms d are columns; weights w belong to signals, curvatures a to atoms.
    """
    D = D.copy()
    R = X - D @ codes
    for j in range(D.shape[1]):
        curvature = weights @ codes[j] ** 2 + curvatures[j]
        if curvature == 0:
            continue
        u = D[:, j] + (R @ (weights * codes[j]) + targets[:, j] - curvatures[j] * D[:, j]) / curvature
        if positive:
            u = np.maximum(u, 0)
        u /= max(1.0, float(np.linalg.norm(u)))
        R -= np.outer(u - D[:, j], codes[j])
        D[:, j] = u
    return D


def update_atoms_on_masked_window(
    D: Matrix,
    codes: Matrix,
    X: Matrix,
    observed: Matrix,
    weights: Vector,
    targets: Matrix,
    curvatures: Matrix,
    positive: bool = False,
) -> Matrix:
    """Return D after one pass of block-coordinate descent on Σ w ½‖o ∘ (x − Dα)‖² + Σ (½⟨a, d ∘ d⟩ − ⟨t, d⟩).

    As `update_atoms_on_window`, but o says what was observed of a signal, and curvatures belong to entries of atoms.
    """
    D = D.copy()
    for j in range(D.shape[1]):
        R = observed * (X - D @ codes)
        c = observed @ (weights * codes[j] ** 2) + curvatures[:, j]
        b = R @ (weights * codes[j]) + targets[:, j] - curvatures[:, j] * D[:, j] + c * D[:, j]
        D[:, j] = _least_in_ball(c, np.maximum(b, 0) if positive else b, D[:, j])
    return D


def _least_in_ball(c: Vector, b: Vector, old: Vector) -> Vector:
    """Return the minimiser v of Σ ½ c v² − b v in the unit ball; where c is zero, `old` as far as there is room."""
    used = c > 0
    d = old.copy()

    def at(mu: float) -> Vector:
        return b[used] / (c[used] + mu)

    if np.linalg.norm(at(0)) > 1:
        d[~used] = 0
        bound = float(np.linalg.norm(b[used]))
        d[used] = at(brentq(lambda mu: np.linalg.norm(at(mu)) - 1, 0, bound, xtol=1e-14 * bound, rtol=1e-14))
        return d
    d[used] = at(0)
    room, free = np.sqrt(max(0.0, 1 - d[used] @ d[used])), np.linalg.norm(d[~used])
    if free > room:
        d[~used] *= room / free
    return d


def leave_masked_window(
    D: Matrix, codes: Matrix, X: Matrix, observed: Matrix, weights: Vector, targets: Matrix, curvatures: Matrix
) -> tuple[Matrix, Matrix]:
    """Return targets and curvatures after signals with missing values, columns of X, have left the window."""
    targets, curvatures = targets.copy(), curvatures.copy()
    for x, o, alpha, weight in zip(X.T, observed.T, codes.T, weights, strict=True):
        for j in np.flatnonzero(alpha):
            targets[:, j] += weight * alpha[j] * o * (x - D @ alpha + alpha[j] * D[:, j])
            curvatures[:, j] += weight * alpha[j] ** 2 * o
    return targets, curvatures


def leave_window(
    D: Matrix, codes: Matrix, X: Matrix, weights: Vector, targets: Matrix, curvatures: Vector
) -> tuple[Matrix, Vector]:
    """Return targets and curvatures after signals, columns of X, have left the window."""
    targets, curvatures = targets.copy(), curvatures.copy()
    for x, alpha, weight in zip(X.T, codes.T, weights, strict=True):
        r = x - D @ alpha
        for j in np.flatnonzero(alpha):
            targets[:, j] += weight * alpha[j] * (r + alpha[j] * D[:, j])
            curvatures[j] += weight * alpha[j] ** 2
    return targets, curvatures


def online_step(
    D: Matrix, A: Matrix, B: Matrix, X: Matrix, fade: float, lambda1: float, lambda2: float = 0.0
) -> tuple[Matrix, Matrix, Matrix]:
    """Return D, A, B after a batch of signals, the columns of X: encode, fade and add, update the atoms."""
    codes = np.stack([active_set(x, D, lambda1, lambda2) for x in X.T], axis=1)
    A = fade * A + codes @ codes.T
    B = fade * B + X @ codes.T
    return update_atoms(D, A, B), A, B


def matching_pursuit(
    x: Vector, D: Matrix, n_nonzero: int, max_error: float = -1.0, epsilon: float = float(np.finfo(np.float64).eps)
) -> tuple[list[int], Vector]:
    """Orthogonal matching pursuit: the atoms as they are chosen, and the code; `epsilon` is that of the dtype."""
    norms = np.linalg.norm(D, axis=0)
    support: list[int] = []
    alpha = np.zeros(D.shape[1])
    dependent = norms == 0
    while len(support) < n_nonzero:
        residual = x - D @ alpha
        level = 4 * epsilon * (np.linalg.norm(x) + np.abs(alpha) @ norms)
        if residual @ residual <= max_error or np.linalg.norm(residual) <= level:
            break
        scores = np.abs(D.T @ residual) / np.where(dependent, np.inf, norms)
        scores[support] = 0
        j = int(np.argmax(scores))
        if scores[j] <= level:
            break
        if distance_from_span(D[:, support], D[:, j]) <= np.sqrt(epsilon) * norms[j]:
            dependent[j] = True
            continue
        support.append(j)
        alpha[support] = np.linalg.lstsq(D[:, support], x, rcond=None)[0]
    return support, alpha


def distance_from_span(vectors: Matrix, vector: Vector) -> float:
    """The distance of a vector from the span of some columns."""
    Q = np.linalg.qr(vectors)[0]
    for _ in range(2):
        vector = vector - Q @ (Q.T @ vector)
    return float(np.linalg.norm(vector))


def is_greedy(x: Vector, D: Matrix, support: set[int], tolerance: float) -> bool:
    """Whether a pursuit may choose these atoms in some order, if scores that agree up to `tolerance` · ‖x‖ are tied."""
    norms = np.where(np.linalg.norm(D, axis=0) > 0, np.linalg.norm(D, axis=0), np.inf)
    near = 1e-3

    def from_here(chosen: list[int]) -> bool:
        if len(chosen) == len(support):
            return True
        alpha = np.linalg.lstsq(D[:, chosen], x, rcond=None)[0]
        scores = np.abs(D.T @ (x - D[:, chosen] @ alpha)) / norms
        for j in np.flatnonzero(scores > 0):
            if j not in support and distance_from_span(D[:, chosen], D[:, j]) <= near * norms[j]:
                scores[j] = 0
        best = scores.max() - tolerance * np.linalg.norm(x)
        return any(scores[j] >= best and from_here([*chosen, j]) for j in support - set(chosen))

    return from_here([])
