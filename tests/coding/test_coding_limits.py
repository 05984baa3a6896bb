"""Where rounding, underflow or nearly dependent atoms make exact codes hard, and what the report says then."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from helpers import DTYPES, TOLERANCE, assert_exact, random_problem, relative_kkt

METHODS = ["active-set", "homotopy"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_limits_of_the_dtype_are_reported(dtype):
    """Monomials on [0, 1]: the condition number is beyond both dtypes, so that the rounding of the code alone violates
    Lemma 1 by some √eps. The report must say so, and no more than that may be lost."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 30)).astype(dtype)
    D = np.vander(np.linspace(0, 1, 30), 25, increasing=True).T.astype(dtype)
    codes, report = td.sparse_encode(X, D, lambda1=0.0, return_report=True)
    violation = relative_kkt(X, D, codes, 0.0)
    np.testing.assert_allclose(report.kkt, violation, rtol=1e-2, atol=TOLERANCE[X.dtype] / 100)
    np.testing.assert_array_equal(report.status == td.Status.INEXACT, violation > TOLERANCE[X.dtype])
    assert violation.max() < 4 * np.sqrt(np.finfo(dtype).eps)


def nearly_orthogonal(n, m, p, dtype, size=1e-10):
    """Signals whose products with the atoms are smaller by `size` than their norms allow."""
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((n, m)), rng.standard_normal((p, m)).astype(dtype)
    basis = np.linalg.qr(D.T.astype(np.float64))[0]
    return (X - (X @ basis) @ basis.T * (1 - size)).astype(dtype), D


def exact_violation(x, atoms, code, lambda1):
    """The relative violation of Lemma 1 in rational arithmetic."""
    x, code = [Fraction(float(v)) for v in x], [Fraction(float(v)) for v in code]
    atoms = [[Fraction(float(v)) for v in atom] for atom in atoms]
    residual = [v - sum(a * atom[i] for a, atom in zip(code, atoms, strict=True) if a) for i, v in enumerate(x)]
    scale, worst, bound = Fraction(lambda1), Fraction(0), Fraction(lambda1)
    for a, atom in zip(code, atoms, strict=True):
        scale = max(scale, abs(sum(d * v for d, v in zip(atom, x, strict=True))))
        rho = sum(d * v for d, v in zip(atom, residual, strict=True))
        worst = max(worst, abs(rho - (bound if a > 0 else -bound)) if a else abs(rho) - bound)
    return float(worst / scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_signals_nearly_orthogonal_to_all_atoms(dtype):
    """Rounding in wider arithmetic is larger than what is promised; the report says who solved them."""
    X, D = nearly_orthogonal(6, 12, 5, dtype)
    lambda1 = 1e-11
    codes, report = td.sparse_encode(X, D, lambda1=lambda1, return_report=True)
    assert codes.nnz > 0
    assert (report.status == td.Status.EXACT).all()
    for x, code, kkt in zip(X, codes.toarray(), report.kkt, strict=True):
        violation = exact_violation(x, D, code, lambda1)
        assert violation <= TOLERANCE[X.dtype]
        np.testing.assert_allclose(kkt, violation, rtol=1e-3, atol=1e-15)


def test_whole_numbers_orthogonal_to_all_atoms_are_certified():
    """Their products are exactly zero, which only an error bound that knows of exact sums can tell from rounding."""
    X, D = np.array([[1.0, 1.0, 1.0, 1.0]]), np.array([[1.0, -1.0, 0.0, 0.0], [1.0, 1.0, -3.0, 1.0]])
    codes, report = td.sparse_encode(X, D, lambda1=1e-25, return_report=True)
    assert codes.nnz == 0
    assert report.status[0] != td.Status.INEXACT


@pytest.mark.parametrize(
    ("x", "atoms", "lambda1", "lambda2", "expected"),
    [
        ([0, 1e-10, 1e150], [[1e150, 0, 0], [0, 1e-150, 0]], 0.5e-160, 0.0, [0, 5e139]),
        ([0, 1e-10, 1e150], [[1e150, 0, 0], [0, 1e-150, 0]], 0.0, 0.0, [0, 1e140]),
        ([0, 1], [[1e150, 0], [0, 1e-20]], 0.0, 1e-20, [0, 1]),
    ],
)
def test_products_and_penalties_too_small_after_scaling(x, atoms, lambda1, lambda2, expected):
    codes, report = td.sparse_encode([x], atoms, lambda1=lambda1, lambda2=lambda2, return_report=True)
    np.testing.assert_allclose(codes.toarray()[0], expected, rtol=1e-12)
    assert report.status[0] == td.Status.EXACT


def test_codes_are_finite_on_nearly_equal_large_atoms():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        D = (1e15 * (1 + 1e-3 * rng.standard_normal((17, 10)))).astype(np.float32)
        X = rng.standard_normal((100, 10)).astype(np.float32)
        codes, report = td.sparse_encode(X, D, lambda1=0.0, return_report=True)
        assert np.isfinite(codes.data).all()
        assert report.kkt.max() < 1e-2


def test_least_squares_of_signals_orthogonal_to_all_atoms():
    """Rounding must not be taken for a signal: the code is zero, and marked unless the products are exactly zero."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        half, A = rng.standard_normal(13), rng.standard_normal((3, 13))
        X, D = np.concatenate([half, half])[None], np.concatenate([A, -A], axis=1)
        assert td.sparse_encode(X, D, lambda1=0.0).nnz == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
def test_lambda1_just_below_its_largest_value(dtype, positive):
    """The first atoms to become active; each signal by itself and after others gives the same bits."""
    X, D = random_problem(100, 20, 50, dtype=dtype)
    before = np.concatenate([10 * X[::-1], X])
    top = (X.astype(np.float64) @ D.T.astype(np.float64)).max(axis=1) if positive else np.abs(X @ D.T).max(axis=1)
    for gap in 10.0 ** -np.arange(4, 15):
        for i in (0, 37, 99):
            lambda1 = float(top[i]) * (1 - gap)
            alone, report = td.sparse_encode(X[i : i + 1], D, lambda1=lambda1, positive=positive, return_report=True)
            assert_exact(X[i : i + 1], D, alone, report, lambda1, 0.0, positive)
            after = td.sparse_encode(before, D, lambda1=lambda1, positive=positive, n_threads=1)[[100 + i]]
            np.testing.assert_array_equal(after.toarray(), alone.toarray())


def test_small_codes_beside_large_products():
    assert td.sparse_encode(np.array([[1.000001]]), np.eye(1), lambda1=1.0).toarray() == pytest.approx(1e-6)
    codes = td.sparse_encode(np.array([[1.5, -1e6]]), np.eye(2), lambda1=1.0, positive=True)
    np.testing.assert_array_equal(codes.toarray(), [[0.5, 0.0]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_sparse_rows(dtype):
    """Sums of many equal terms lose the most by rounding."""
    rng = np.random.default_rng(0)
    m, nonzeros = 200_000, 180_000
    rows = np.stack([np.isin(np.arange(m), rng.choice(m, nonzeros, replace=False)) for _ in range(20)])
    rows = rows.astype(dtype) / dtype(np.sqrt(nonzeros))
    X, D = rows[:10], rows[10:]
    codes, report = td.sparse_encode(sp.csr_array(X), D, lambda1=0.09, return_report=True)
    assert codes.nnz > 0
    assert_exact(X, D, codes, report, 0.09, 0.0, False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ratio", [1e-2, 1e-4, 1e-6, 0.0])
@pytest.mark.parametrize("kind", ["Gaussian", "cosines"])
def test_small_penalties_on_large_dictionaries(dtype, ratio, kind):
    """As many active atoms as features: what the descent cannot solve, the path does, not the third line.

    The third line may leave more active atoms than features, and takes hundreds of times as long.
    """
    rng = np.random.default_rng(0)
    m, p = 100, 250
    D = rng.standard_normal((p, m)) if kind == "Gaussian" else np.cos(np.outer(np.arange(p), np.arange(m)) * np.pi / p)
    D = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)
    X = rng.standard_normal((4, m)).astype(dtype)
    lambda1 = ratio * float(np.abs(X @ D.T).max(axis=1).min())
    codes, report = td.sparse_encode(X, D, lambda1=lambda1, return_report=True)
    assert_exact(X, D, codes, report, lambda1, 0.0, False)
    if ratio > 0:  # with λ1 = 0, any solution of the least squares will do
        assert np.diff(codes.indptr).max() <= m + 5


@pytest.mark.parametrize("m", [6000, 10**6])
def test_long_sums_in_float32(m):
    """Sums of many equal terms lose the most by rounding."""
    X, D = np.full((1, m), 0.7, np.float32), np.full((1, m), 0.1, np.float32)
    codes, report = td.sparse_encode(X, D, lambda1=0.0, return_report=True)
    assert relative_kkt(X, D, codes, 0.0).max() <= 1e-4
    np.testing.assert_allclose(codes.toarray(), [[7.0]], rtol=1e-4)
    assert report.status[0] != td.Status.INEXACT


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("noise", [0.1, 0.01])
def test_nearly_parallel_atoms(dtype, noise):
    """Large coefficients that nearly cancel: rounding them one by one would violate Lemma 1."""
    rng = np.random.default_rng(2)
    for p in (4, 30):
        D = rng.standard_normal(15) + noise * rng.standard_normal((p, 15))
        X, D = rng.standard_normal((20, 15)).astype(dtype), D.astype(dtype)
        for lambda1 in (0.0, 1e-5):
            codes, report = td.sparse_encode(X, D, lambda1=lambda1, return_report=True)
            assert_exact(X, D, codes, report, lambda1, 0.0, False)


@pytest.mark.parametrize("method", METHODS)
def test_positive_codes_of_a_single_feature(method):
    X = np.array([[0.8928333520889282]], np.float32)
    D = np.array([[0.0004993330803699791], [1904.458740234375]], np.float32)
    codes = td.sparse_encode(X, D, lambda1=1e-7, lambda2=0.1, positive=True, method=method)
    assert (codes.data > 0).all()
    codes = td.sparse_encode(
        [[2.0, 2.0]], [[-1.0, 0], [2, 1], [2, 2], [0, -2]], lambda1=0, lambda2=1, positive=True, method=method
    )
    assert (codes.data > 0).all()


@pytest.mark.parametrize(
    ("X", "D", "expected"),
    [
        ([[1e300, 1e-20]], [[0, 1.0]], [[1e-20]]),
        ([[1e250, 1e-80]], [[0, 1.0]], [[1e-80]]),
        ([[0, 1.0]], [[1e250, 0], [0, 1e-100]], [[0, 1e100]]),
        ([[1e160, 0]], [[1e-160, 0], [0, 1e-160]], [[0.9, 0]]),
    ],
)
def test_many_magnitudes_in_one_vector(X, D, expected):
    lambda1, lambda2 = (0.1, 1.0) if expected[0][0] == 0.9 else (0.0, 0.0)
    codes, report = td.sparse_encode(X, D, lambda1=lambda1, lambda2=lambda2, return_report=True)
    np.testing.assert_allclose(codes.toarray(), expected, rtol=1e-12)
    assert report.status[0] == td.Status.EXACT


def test_codes_that_underflow_are_certified_as_they_are():
    X, D = np.array([[1.3e-13]], np.float32), np.array([[1e30]], np.float32)
    codes, report = td.sparse_encode(X, D, lambda1=0.0, return_report=True)
    assert report.status[0] == td.Status.INEXACT  # 1.3e-43 has two digits
    assert report.kkt[0] == pytest.approx(relative_kkt(X, D, codes, 0.0)[0], rel=1e-3)


def test_nearly_parallel_atoms_are_exchanged_even_for_the_only_one():
    """An exchange once ended with an empty support, and began again."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal(152) + 1e-9 * rng.standard_normal((667, 152))
    x = rng.standard_normal((1, 152)) * 10.0 ** rng.uniform(-12, 12, (1, 152))
    lambda1 = 3e-6 * np.abs(D @ x[0]).max()
    code, report = td.sparse_encode(x, D, lambda1=lambda1, n_threads=1, return_report=True)
    assert relative_kkt(x, D, code, lambda1).max() <= 1e-10
    assert report.n_steps[0] < 100


@pytest.mark.parametrize("method", ["auto", "homotopy"])
@pytest.mark.parametrize("ratio", [1e-4, 1e-6, 1e-8])
def test_many_removals_leave_the_inverse_its_digits(method, ratio):
    """Atoms far from the origin: κ(DᵀD) is up to 1e14, and the path removes dozens of them."""
    rng = np.random.default_rng(3)
    D = 1000 + rng.standard_normal((504, 110))
    x = np.where(rng.random((1, 110)) < 0.1, rng.standard_normal((1, 110)), 0.0)
    lambda1 = ratio * np.abs(D @ x[0]).max()
    code, report = td.sparse_encode(x, D, lambda1=lambda1, method=method, n_threads=1, return_report=True)
    assert report.status[0] != td.Status.INEXACT
    assert relative_kkt(x, D, code, lambda1).max() <= 1e-10
    assert code.nnz <= 110


def test_float32_signals_over_many_decades_take_double_precision():
    rng = np.random.default_rng(5)
    D = (1000 + rng.standard_normal((671, 21))).astype(np.float32)
    x = (rng.standard_normal((1, 21)) * 10.0 ** rng.uniform(-37, 30, (1, 21))).astype(np.float32)
    lambda1 = float(1e-2 * np.abs(D @ x[0].astype(float)).max())
    code, report = td.sparse_encode(x, D, lambda1=lambda1, n_threads=1, return_report=True)
    assert report.status[0] != td.Status.INEXACT
    assert relative_kkt(x, D, code, lambda1).max() <= 1e-4
    assert code.nnz <= 21
