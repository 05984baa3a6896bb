import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.decomposition import sparse_encode as sklearn_encode

import taskdict as td
from helpers import DTYPES, HARD_CASES, TOLERANCE, data_folder, objective, random_problem, relative_kkt
from taskdict import _reference as reference

METHODS = ["active-set", "homotopy"]


def assert_exact(X, D, codes, report, lambda1, lambda2, positive):
    tolerance = TOLERANCE[X.dtype]
    assert codes.dtype == X.dtype
    assert codes.shape == (X.shape[0], D.shape[0])
    assert report.kkt.dtype == X.dtype
    assert report.status.shape == report.kkt.shape == report.n_steps.shape == (X.shape[0],)
    assert not (report.status == td.Status.INEXACT).any()
    assert report.kkt.max(initial=0) <= tolerance
    assert relative_kkt(X, D, codes, lambda1, lambda2, positive).max(initial=0) <= tolerance
    for row in range(X.shape[0]):
        indices = codes.indices[codes.indptr[row] : codes.indptr[row + 1]]
        assert (np.diff(indices) > 0).all()
    assert (codes.data != 0).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES)
def test_hard_cases(X, D, lambda1, lambda2, positive, dtype, method):
    X, D = X.astype(dtype), D.astype(dtype)
    codes, report = td.sparse_encode(
        X, D, lambda1=lambda1, lambda2=lambda2, positive=positive, method=method, return_report=True
    )
    assert_exact(X, D, codes, report, lambda1, lambda2, positive)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("atom_scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("signal_scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES[::3])
def test_scales(X, D, lambda1, signal_scale, atom_scale, dtype):
    X, D = (X * signal_scale).astype(dtype), (D * atom_scale).astype(dtype)
    lambda1, lambda2 = lambda1 * signal_scale * atom_scale, 1e-3 * atom_scale**2
    codes, report = td.sparse_encode(X, D, lambda1=lambda1, lambda2=lambda2, return_report=True)
    assert_exact(X, D, codes, report, lambda1, lambda2, False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-100, -20, 20, 100])
def test_codes_scale_exactly_with_powers_of_two(dtype, exponent):
    X, D = random_problem(50, 12, 30, dtype=dtype)
    exponent = exponent // 4 if dtype == np.float32 else exponent
    factor = dtype(2.0) ** exponent
    expected = td.sparse_encode(X, D, lambda1=0.1)
    scaled = td.sparse_encode(X * factor, D, lambda1=0.1 * float(factor))
    np.testing.assert_array_equal(scaled.toarray(), expected.toarray() * factor)


@pytest.mark.parametrize("dtype", DTYPES)
def test_support_may_exceed_the_number_of_features(dtype):
    X, D = random_problem(100, 8, 40, dtype=dtype)
    codes, report = td.sparse_encode(X, D, lambda1=0.01, lambda2=1.0, return_report=True)
    assert_exact(X, D, codes, report, 0.01, 1.0, False)
    assert np.diff(codes.indptr).max() > 8


@given(
    st.data(),
    st.integers(1, 12),
    st.integers(1, 25),
    st.integers(0, 6),
    st.sampled_from(DTYPES),
    st.sampled_from([0.0, 1e-6, 0.1, 1.0]),
    st.sampled_from([0.0, 1e-2, 2.0]),
    st.booleans(),
    st.sampled_from(METHODS),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_integers(data, m, p, n, dtype, lambda1, lambda2, positive, method):
    """Small integers make ties, duplicates and dependent atoms likely."""
    entries = st.integers(-2, 2)
    X = data.draw(hnp.arrays(np.int8, (n, m), elements=entries)).astype(dtype)
    D = data.draw(hnp.arrays(np.int8, (p, m), elements=entries)).astype(dtype)
    codes, report = td.sparse_encode(
        X, D, lambda1=lambda1, lambda2=lambda2, positive=positive, method=method, return_report=True
    )
    assert_exact(X, D, codes, report, lambda1, lambda2, positive)


@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.integers(1, 80),
    st.sampled_from(DTYPES),
    st.floats(1e-3, 1.0),
    st.sampled_from([0.0, 0.1]),
)
@settings(max_examples=100, deadline=None)
def test_any_random_problem(seed, m, p, dtype, lambda1, lambda2):
    X, D = random_problem(8, m, p, seed=seed, dtype=dtype)
    codes, report = td.sparse_encode(X, D, lambda1=lambda1, lambda2=lambda2, return_report=True)
    assert_exact(X, D, codes, report, lambda1, lambda2, False)


@pytest.mark.parametrize("twin", [reference.active_set, reference.homotopy])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
@pytest.mark.parametrize("method", METHODS)
def test_agrees_with_the_readable_twins(twin, positive, lambda2, method):
    X, D = random_problem(40, 20, 30)
    codes = td.sparse_encode(X, D, lambda1=0.1, lambda2=lambda2, positive=positive, method=method).toarray()
    for x, code in zip(X, codes, strict=True):
        expected = twin(x, D.T, 0.1, lambda2, positive)
        assert reference.kkt(x, D.T, expected, 0.1, lambda2, positive) < 1e-12
        np.testing.assert_allclose(code, expected, atol=1e-12)


@pytest.mark.parametrize("positive", [False, True])
def test_agrees_with_scikit_learn(positive):
    X, D = random_problem(30, 20, 40)
    expected = sklearn_encode(X, D, algorithm="lasso_lars", alpha=0.1, positive=positive)
    codes = td.sparse_encode(X, D, lambda1=0.1, positive=positive)
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-10)


@pytest.mark.parametrize("lambda2", [0.0, 0.5])
@pytest.mark.parametrize("positive", [False, True])
def test_objective_is_no_worse_than_cvxpy(lambda2, positive):
    cvxpy = pytest.importorskip("cvxpy")
    X, D = random_problem(10, 8, 30)
    codes = td.sparse_encode(X, D, lambda1=0.05, lambda2=lambda2, positive=positive)
    for x, reached in zip(X, objective(X, D, codes, 0.05, lambda2), strict=True):
        alpha = cvxpy.Variable(30, nonneg=positive)
        loss = (
            cvxpy.sum_squares(x - D.T @ alpha) / 2 + 0.05 * cvxpy.norm1(alpha) + lambda2 / 2 * cvxpy.sum_squares(alpha)
        )
        best = cvxpy.Problem(cvxpy.Minimize(loss)).solve(solver="CLARABEL")
        assert reached <= best + 1e-9


def test_ridge_has_a_closed_form():
    X, D = random_problem(20, 6, 15)
    codes = td.sparse_encode(X, D, lambda1=0.0, lambda2=0.3)
    expected = np.linalg.solve(D @ D.T + 0.3 * np.eye(15), D @ X.T).T
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-12)


def test_float32_and_float64_agree():
    X, D = random_problem(200, 30, 60)
    X32, D32 = X.astype(np.float32), D.astype(np.float32)
    single = td.sparse_encode(X32, D32, lambda1=0.1, lambda2=0.01)
    double = td.sparse_encode(X32.astype(np.float64), D32.astype(np.float64), lambda1=0.1, lambda2=0.01)
    np.testing.assert_allclose(single.toarray(), double.toarray(), atol=1e-4)


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


def test_a_bad_signal_is_named_whatever_the_threads_do():
    """Also where the caller is done and waits for the thread that has found it."""
    X, D = random_problem(300, 12, 16)
    X[0, 0] = np.nan
    for _ in range(50):
        with pytest.raises(ValueError, match="row 0 contains NaN"):
            td.sparse_encode(X, D, lambda1=0.1, n_threads=2)


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


def test_a_large_support_is_found_in_few_passes():
    codes, report = td.sparse_encode(np.geomspace(1e-2, 1, 1700)[None], np.eye(1700), lambda1=1e-3, return_report=True)
    assert codes.nnz == 1700
    assert report.status[0] == td.Status.CONVERGED
    assert report.n_steps[0] < 100


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


def test_report_reads_well():
    X, D = random_problem(7, 5, 9)
    _, report = td.sparse_encode(X, D, lambda1=0.1, return_report=True)
    assert repr(report).startswith("Report(7 signals: 7 converged, 0 exact, 0 inexact; largest kkt ")
    _, report = td.sparse_encode(X[:0], D, lambda1=0.1, return_report=True)
    assert repr(report) == "Report(0 signals: 0 converged, 0 exact, 0 inexact; largest kkt none)"


def test_fewer_passes_than_path_points():
    X, D = random_problem(300, 100, 200)
    _, descent = td.sparse_encode(X, D, lambda1=0.15, return_report=True)
    _, path = td.sparse_encode(X, D, lambda1=0.15, method="homotopy", return_report=True)
    assert descent.n_steps.mean() < path.n_steps.mean() / 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype, tmp_path):
    X, D = random_problem(101, 12, 20, dtype=dtype)
    expected = td.sparse_encode(X, D, lambda1=0.1)
    wide = np.zeros((202, 36), dtype)
    wide[::2, ::3] = X
    np.save(tmp_path / "X.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    reversed_rows = X[::-1].copy()[::-1]
    unaligned = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(dtype).reshape(X.shape)
    layouts = {
        "fortran": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "memory map": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "read-only": read_only,
        "negative strides": reversed_rows,
        "unaligned": unaligned,
        "byte-swapped": X.astype(X.dtype.newbyteorder()),
        "lists": X.tolist(),
        "fortran dictionary": X,
    }
    for name, layout in layouts.items():
        dictionary = np.asfortranarray(D) if name == "fortran dictionary" else D
        codes = td.sparse_encode(layout, dictionary, lambda1=0.1)
        assert codes.dtype == (np.float64 if name == "lists" else dtype), name
        if codes.dtype == dtype:
            np.testing.assert_array_equal(codes.toarray(), expected.toarray(), err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_sparse_signals(dtype, make):
    X, D = random_problem(60, 30, 20, dtype=dtype)
    X[np.random.default_rng(1).random(X.shape) < 0.8] = 0
    codes, report = td.sparse_encode(make(X), D, lambda1=0.05, return_report=True)
    assert_exact(X, D, codes, report, 0.05, 0.0, False)
    np.testing.assert_allclose(
        codes.toarray(), td.sparse_encode(X, D, lambda1=0.05).toarray(), atol=1e-5 if dtype == np.float32 else 1e-12
    )


def test_sparse_signals_may_be_unsorted_with_duplicates():
    data, indices, indptr = np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])
    X = sp.csr_array((data, indices, indptr), shape=(1, 3))
    np.testing.assert_allclose(td.sparse_encode(X, np.eye(3), lambda1=1.0).toarray(), [[1.0, 0.0, 3.0]], atol=1e-15)
    assert X.nnz == 3  # the input is as it was
    many = sp.csr_array((np.full(10**6, 0.7), np.zeros(10**6, int), np.array([0, 10**6])), shape=(1, 2))
    np.testing.assert_allclose(td.sparse_encode(many, np.eye(2), lambda1=0.999 * 0.7e6).toarray(), [[700.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, bool, np.float16])
def test_other_types_become_float64(dtype):
    X = np.random.default_rng(0).integers(0, 2, (20, 9)).astype(dtype)
    _, D = random_problem(1, 9, 12)
    codes = td.sparse_encode(X, D, lambda1=0.1)
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes.toarray(), td.sparse_encode(X.astype(np.float64), D, lambda1=0.1).toarray())
    sparse = td.sparse_encode(sp.csr_array(X), D, lambda1=0.1) if dtype != np.float16 else codes
    np.testing.assert_allclose(sparse.toarray(), codes.toarray(), atol=1e-12)


def test_conversion_in_blocks(monkeypatch):
    X = np.random.default_rng(0).integers(0, 5, (100, 9))
    _, D = random_problem(1, 9, 12)
    expected = td.sparse_encode(X, D, lambda1=0.1).toarray()
    monkeypatch.setattr("taskdict.coding._CHUNK_BYTES", 7 * 9 * 8)
    np.testing.assert_array_equal(td.sparse_encode(X, D, lambda1=0.1).toarray(), expected)
    np.testing.assert_allclose(td.sparse_encode(sp.csr_array(X), D, lambda1=0.1).toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_few_signals(n, make):
    X, D = random_problem(n, 5, 9)
    codes, report = td.sparse_encode(make(X), D, lambda1=0.1, return_report=True)
    assert_exact(X, D, codes, report, 0.1, 0.0, False)


def test_above_lambda_max_the_code_is_empty():
    X, D = random_problem(20, 5, 9)
    largest = np.abs(X @ D.T).max()
    assert td.sparse_encode(X, D, lambda1=largest * 1.0001).nnz == 0
    assert td.sparse_encode(X, D, lambda1=1e300).nnz == 0
    assert td.sparse_encode(X, D, lambda1=largest * 0.999).nnz == 1


def test_real_halftones_as_atoms():
    folder = data_folder("halftones")
    image_module = pytest.importorskip("PIL.Image", reason="Pillow reads the pictures")
    picture = np.asarray(image_module.open(folder / "xphoon_moon.png"), dtype=np.float64)[300:420, 300:460]
    windows = np.lib.stride_tricks.sliding_window_view(picture, (8, 8)).reshape(-1, 64)
    patches = windows - windows.mean(axis=1, keepdims=True)
    X, D = patches[3::60], patches[::113]
    for dtype in DTYPES:
        codes, report = td.sparse_encode(X.astype(dtype), D.astype(dtype), lambda1=0.6, return_report=True)
        assert_exact(X.astype(dtype), D.astype(dtype), codes, report, 0.6, 0.0, False)


MEMORY_SCRIPT = """
import resource, sys
import numpy as np
import taskdict as td

X = np.load(sys.argv[1], mmap_mode="r")
D = np.random.default_rng(0).standard_normal((200, X.shape[1]))
td.sparse_encode(X[:1000], D, lambda1=4.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
codes = td.sparse_encode(X, D, lambda1=4.0)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
output = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes + 13 * X.shape[0]
print((after - before) * 1024 - output - X.nbytes)
"""


def test_memory_beyond_input_and_output_is_small(tmp_path):
    """A dense n × p array would take 1.6 GB, a float64 copy of X 64 MB."""
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.uint8, shape=(1_000_000, 8))
    X[:] = np.random.default_rng(0).integers(0, 3, X.shape)
    del X
    run = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT, str(tmp_path / "X.npy")], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) < 60e6


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
