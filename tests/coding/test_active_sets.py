"""The adjoint: (D_ΛᵀD_Λ + λ2 I) β_Λ = g_Λ on the active sets that encoding leaves behind."""

import numpy as np
import pytest

import reference
import taskdict as td
from helpers import DTYPES, HARD_CASES, random_problem
from taskdict._coding.encode import encode_with_active_sets
from taskdict._native import Encoded, Encoder


def solve_and_compare(X, D, lambda1, lambda2, positive, rtol):
    codes, active_sets = encode_with_active_sets(X, D, lambda1=lambda1, lambda2=lambda2, positive=positive)
    g = np.random.default_rng(1).standard_normal(codes.nnz).astype(codes.dtype)
    beta = active_sets.solve(g)
    assert beta.dtype == codes.dtype
    assert np.isfinite(beta).all()
    D = D.astype(np.float64)
    for row in range(codes.shape[0]):
        part = slice(codes.indptr[row], codes.indptr[row + 1])
        atoms = codes.indices[part]
        full, alpha = np.zeros(D.shape[0]), np.zeros(D.shape[0])
        full[atoms], alpha[atoms] = g[part], codes.data[part]
        expected = reference.adjoint(D.T, alpha, full, lambda2)[atoms]
        np.testing.assert_allclose(beta[part], expected, rtol=rtol, atol=rtol * np.abs(expected).max(initial=0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lambda2", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_agrees_with_dense_solves(dtype, lambda2, positive, scale):
    X, D = random_problem(150, 30, 60, dtype=dtype)
    D = D * dtype(scale)
    solve_and_compare(X, D, 0.1 * scale, lambda2 * scale**2, positive, 1e-3 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lambda2", [0.1, 1.0])
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES)
def test_hard_cases(X, D, lambda1, lambda2, dtype):
    solve_and_compare(
        X.astype(dtype),
        D.astype(dtype),
        lambda1,
        lambda2 * np.abs(D).max(initial=1e-3) ** 2,
        False,
        2e-2 if dtype == np.float32 else 1e-9,
    )


def adjoint_of_all_atoms(D, g):
    """Solve with all atoms active, and no inverse left from encoding."""
    k, dtype = len(D), D.dtype
    nothing = np.empty(0, dtype)
    encoder = Encoder(D, lambda1=0.0, lambda2=0.0, positive=False, n_threads=1)
    everything = Encoded(
        values=np.ones(k, dtype),
        indices=np.arange(k, dtype=np.int32),
        indptr=np.array([0, k]),
        status=np.zeros(1, np.uint8),
        kkt=nothing,
        n_steps=np.zeros(1, np.int32),
        factors=np.zeros(k * (k + 1) // 2, dtype),
    )
    return encoder.solve_adjoint(everything, g.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("p", "rank"), [(20, 3), (7, 1), (60, 59), (200, 150)])
def test_singular_active_sets_get_the_solution_of_least_norm(dtype, p, rank):
    rng = np.random.default_rng(0)
    D = (rng.standard_normal((p, rank)) @ rng.standard_normal((rank, rank + 5)) / rank).astype(dtype)
    M = D.astype(np.float64) @ D.T.astype(np.float64)
    g = M @ rng.standard_normal(p) if rank > 50 else np.ones(p)  # rounding leads away from the span if that is large
    beta = adjoint_of_all_atoms(D, g)
    expected = np.linalg.pinv(M, rcond=1e-9 if dtype == np.float32 else 1e-12, hermitian=True) @ g.astype(dtype)
    tolerance = (1e-2 if dtype == np.float32 else 1e-6) * np.abs(expected).max()
    np.testing.assert_allclose(beta, expected, atol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "lambda1", "lambda2", "rtol"), [(np.float32, 1e-5, 1e-3, 5e-3), (np.float64, 1e-2, 0.0, 1e-9)]
)
def test_small_penalties(dtype, lambda1, lambda2, rtol):
    """Condition numbers up to some 1e4, after many atoms have come and gone."""
    for seed in range(40):
        X, D = random_problem(10, 20, 60, seed=seed, dtype=dtype)
        solve_and_compare(X, D, lambda1, lambda2, False, rtol)


def test_codes_are_those_of_sparse_encode():
    X, D = random_problem(100, 10, 25)
    codes, _ = encode_with_active_sets(X, D, lambda1=0.1, lambda2=0.1)
    np.testing.assert_array_equal(codes.toarray(), td.sparse_encode(X, D, lambda1=0.1, lambda2=0.1).toarray())


def test_gradient_of_a_code():
    """β gives the derivative of ⟨g, α*⟩ in the direction of x: that of D_Λᵀ dx."""
    X, D = random_problem(1, 12, 20)
    codes, active_sets = encode_with_active_sets(X, D, lambda1=0.2, lambda2=0.1)
    g = np.arange(1.0, codes.nnz + 1)
    direction = np.random.default_rng(5).standard_normal(12)
    step = 1e-6
    ends = [td.sparse_encode(X + s * step * direction, D, lambda1=0.2, lambda2=0.1) for s in (1, -1)]
    numeric = (ends[0] - ends[1]).toarray()[0, codes.indices] @ g / (2 * step)
    analytic = active_sets.solve(g) @ (D[codes.indices] @ direction)
    assert analytic == pytest.approx(numeric, rel=1e-7)


def test_wrong_right_hand_side():
    X, D = random_problem(5, 6, 7)
    codes, active_sets = encode_with_active_sets(X, D, lambda1=0.1)
    with pytest.raises(ValueError, match=f"g must hold one number per nonzero of the codes, shape \\({codes.nnz},\\)"):
        active_sets.solve(np.ones(codes.nnz + 1))


@pytest.mark.parametrize("seed", range(5))
def test_adjoint_residuals_of_more_atoms_than_features(seed):
    """λ2 is small: the inverse is large in most directions, and what it lacks in the others must not pass."""
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((129, 34)) * (rng.random((129, 1)) < 0.7)
    X = rng.standard_normal((6, 34))
    lambda2 = 1e-6
    encoder = Encoder(D, lambda1=0.0, lambda2=lambda2, positive=False, n_threads=1, keep_factors=True)
    encoder.encode(X)
    encoded = encoder.release()
    g = rng.standard_normal(len(encoded.indices))
    beta = encoder.solve_adjoint(encoded, g)
    for row in range(len(X)):
        part = slice(encoded.indptr[row], encoded.indptr[row + 1])
        wide = D[encoded.indices[part]].astype(np.longdouble)
        M = wide @ wide.T + np.longdouble(lambda2) * np.eye(len(wide), dtype=np.longdouble)
        scale = np.abs(M).sum(axis=1).max() * np.abs(beta[part]).max() + np.abs(g[part]).max()
        assert np.abs(M @ beta[part] - g[part]).max() <= 1e-13 * scale
