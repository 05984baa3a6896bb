"""The adjoint on active sets and the gradients that follow from it, multiplied back in extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from campaign_kinds.case import Kind, Outcome
from campaign_kinds.problems import DICTIONARIES, Floats, Problem, Rng, draw
from taskdict._native import Encoded, Encoder

# What β may be off by, relative to the sizes of what is summed: (M β − g), and M (M β − g) where M may be singular.
REGULAR = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}
SINGULAR = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-9}
# The solution of least norm, relative to its size, where the rank of M is beyond doubt.
LEAST_NORM = {np.dtype(np.float32): 3e-2, np.dtype(np.float64): 1e-6}
SUMS = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}


def _norm(values: Any) -> float:
    return float(np.abs(values).max(initial=0))


def _check_adjoint(D: Floats, lambda2: float, atoms: Floats, g: Floats, beta: Floats, outcome: Outcome) -> str:
    """Return what is wrong with β for one active set, or nothing."""
    outcome.tried += 1
    if not np.isfinite(beta).all():
        return "β is not finite"
    wide = D[atoms].astype(np.longdouble)
    M = wide @ wide.T + np.longdouble(lambda2) * np.eye(len(atoms), dtype=np.longdouble)
    size = float(np.abs(M).sum(axis=1).max())
    if size == 0:
        return ""
    # By singular values: eigenvalues of M are known only to ε, but may matter down to that of the wider arithmetic.
    vectors, singular, _ = np.linalg.svd(D[atoms].astype(np.float64) / np.sqrt(size))
    eigenvalues = np.pad(singular**2, (0, max(0, len(atoms) - len(singular)))) + lambda2 / size
    top = eigenvalues.max()
    residual = M @ beta.astype(np.longdouble) - g.astype(np.longdouble)
    dtype = beta.dtype
    eps, smallest = float(np.finfo(dtype).eps), float(np.finfo(dtype).smallest_normal)
    scale = size * max(_norm(beta), smallest) + _norm(g)  # β may be below what the dtype can hold
    regular = eigenvalues.min() > 10 * len(atoms) * eps * top
    if regular:
        off = _norm(residual) / scale
        outcome.see(f"residual of regular sets, {dtype}", off, f"{len(atoms)} atoms")
        return f"M β − g is {off:.2g} of its terms" if off > REGULAR[dtype] else ""
    off = _norm(M @ residual) / (size * scale)
    outcome.see(f"residual of singular sets, {dtype}", off, f"{len(atoms)} atoms")
    if off > SINGULAR[dtype]:
        return f"M (M β − g) is {off:.2g} of its terms, M being singular"
    # What counts as zero without doubt: what is left where dependent atoms were rounded to the dtype.
    zero = eigenvalues <= (1e-13 if dtype == np.float32 else 1e-19) * top
    clear = eigenvalues >= (1e-3 if dtype == np.float32 else 1e-6) * top
    norms = np.linalg.norm(D[atoms].astype(np.float64), axis=1)  # small atoms beside large ones are not dependent
    if (zero | clear).all() and norms.max() <= 1e3 * norms.min():
        inside = vectors[:, clear]
        expected = inside @ ((inside.T @ g.astype(np.float64)) / (eigenvalues[clear] * size))
        off = _norm(beta - expected) / max(_norm(expected), np.finfo(float).tiny)
        outcome.see(f"distance from the solution of least norm, {dtype}", off, f"{len(atoms)} atoms")
        if off > LEAST_NORM[dtype]:
            return f"β is {off:.2g} from the solution of least norm"
    return ""


def _encoded(problem: Problem, D: Floats, X: Floats) -> tuple[Encoder, Encoded]:
    """Encode signals and keep the inverses on their active sets."""
    encoder = Encoder(
        D,
        lambda1=problem.lambda1,
        lambda2=problem.lambda2,
        positive=problem.positive,
        n_threads=1,
        keep_factors=True,
    )
    encoder.encode(X)
    return encoder, encoder.release()


def _some_sets(rng: Rng, D: Floats, n: int) -> Encoded:
    """Return codes on random active sets, whose inverses encoding did not leave."""
    sizes = rng.integers(0, len(D) + 1, n)
    sets = [np.sort(rng.choice(len(D), k, replace=False)) for k in sizes]
    indices = np.concatenate([*sets, np.zeros(0, int)]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    factors = np.zeros(int((sizes * (sizes + 1) // 2).sum()), D.dtype)
    values = rng.standard_normal(len(indices)).astype(D.dtype)
    return Encoded(values, indices, indptr, np.zeros(n, np.uint8), np.zeros(n, D.dtype), np.zeros(n, np.int32), factors)


def run(rng: np.random.Generator) -> Outcome:
    """Solve on the active sets of one dictionary."""
    outcome = Outcome()
    if rng.random() < 0.5:
        problem = draw(rng, fewer=20)
        while problem.X.shape[1] > 1000 or "hundreds" in problem.label:
            problem = draw(rng, fewer=20)
        X = np.ascontiguousarray(problem.dense[:60])
        D = np.ascontiguousarray(problem.D)
        encoder, encoded = _encoded(problem, D, X)
        lambda2, label = problem.lambda2, problem.describe()
    else:
        D, lambda2, label = _dictionary(rng)
        n = int(rng.integers(1, 8))
        X = rng.standard_normal((n, D.shape[1])).astype(D.dtype)
        encoder = Encoder(D, lambda1=0.1, lambda2=lambda2, positive=False, n_threads=1, keep_factors=True)
        encoded = _some_sets(rng, D, n)
    g = rng.standard_normal(len(encoded.indices)).astype(D.dtype)
    kept = {"D": D, "X": X, "g": g, "lambda2": lambda2, "indices": encoded.indices, "indptr": encoded.indptr}
    with np.errstate(all="ignore"):
        beta = encoder.solve_adjoint(encoded, g)
        for row in range(len(X)):
            part = slice(encoded.indptr[row], encoded.indptr[row + 1])
            if part.start < part.stop and encoded.status[row] != 2:
                wrong = _check_adjoint(D, lambda2, encoded.indices[part], g[part], beta[part], outcome)
                if wrong:
                    outcome.fail(f"{wrong} ({part.stop - part.start} atoms); {label}", row=row, beta=beta, **kept)
        wrong = _check_gradient(encoder, encoded, X, D, g, beta, outcome)
    if wrong:
        outcome.fail(f"{wrong}; {label}", beta=beta, alpha=encoded.values, **kept)
    return outcome


def _dictionary(rng: Rng) -> tuple[Floats, float, str]:
    names = [name for name in DICTIONARIES if "decades" not in name]
    name = str(rng.choice(names))
    largest = 200 if rng.random() < 0.1 else 40
    p, m = int(rng.integers(1, largest)), int(rng.integers(1, largest))
    dtype = np.dtype(rng.choice(["float32", "float64"]))
    D = np.ascontiguousarray(DICTIONARIES[name](rng, p, m), dtype=dtype)
    lambda2 = float(rng.choice([0.0, 0.0, 10.0 ** -rng.uniform(0, 6)]))
    return D, lambda2, f"{name}, {m} features, {p} atoms, {dtype}, lambda2={lambda2!r}"


def _check_gradient(
    encoder: Encoder, encoded: Encoded, X: Floats, D: Floats, g: Floats, beta: Floats, outcome: Outcome
) -> str:
    """Return what is wrong with the gradients, or nothing."""
    if not np.isfinite(beta).all():
        return ""  # reported already
    beyond = np.repeat(encoded.status == 2, np.diff(encoded.indptr)) & ~np.isfinite(encoded.values)
    if beyond.any():
        outcome.counts["codes beyond the dtype, marked"] += 1
        return ""
    in_D, in_x = encoder.gradient(encoded, g, D, X, 0.25)
    encoder.n_threads = 3
    again = encoder.gradient(encoded, g, D, X, 0.25)
    if in_D.tobytes() != again[0].tobytes() or in_x.tobytes() != again[1].tobytes():
        return "the gradients have other bits with 3 threads"
    if encoder.solve_adjoint(encoded, g).tobytes() != beta.tobytes():
        return "the adjoint has other bits with 3 threads"
    A, B = (np.zeros((len(X), len(D)), np.longdouble) for _ in range(2))
    rows = np.repeat(np.arange(len(X)), np.diff(encoded.indptr))
    A[rows, encoded.indices], B[rows, encoded.indices] = encoded.values, beta
    wide, signals = D.astype(np.longdouble), X.astype(np.longdouble)
    residuals = signals - A @ wide
    expected_x = B @ wide + residuals / 4
    expected_D = B.T @ residuals - A.T @ expected_x
    # Relative to the sizes of all that is summed.
    sizes = np.abs(signals) + np.abs(A) @ np.abs(wide)
    size_x = np.abs(B) @ np.abs(wide) + sizes / 4
    size_D = np.abs(B).T @ sizes + np.abs(A).T @ size_x
    largest = np.finfo(D.dtype).max / 1e3
    if 0 < _norm(X) < np.finfo(D.dtype).tiny * 1e6:  # residuals below what the dtype can hold, times a β of any size
        outcome.counts["gradients of denormal signals, not judged"] += 1
        return ""
    for name, found, expected, size in (("x", in_x, expected_x, size_x), ("D", in_D, expected_D, size_D)):
        if _norm(size) > largest:
            outcome.counts["gradients beyond the dtype"] += 1
            continue
        tiny = np.finfo(D.dtype).tiny * 1e3 * max(1.0, _norm(B))  # residuals below that have few digits
        off = _norm((found - expected) / (size + tiny))
        outcome.see(f"error of the gradients, {D.dtype}", off, f"in {name}")
        if not off <= SUMS[D.dtype]:
            return f"the gradient in {name} is off by {off:.2g} of its terms"
    return ""


KIND = Kind("gradients", "active sets", run, share=0.08, limit=240, promise="residual 1e-13 (float64), 1e-5 (float32)")
