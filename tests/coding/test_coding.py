"""Codes are exact: Lemma 1 on hard cases, readable twins, other solvers, closed forms."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.decomposition import sparse_encode as sklearn_encode

import reference
import taskdict as td
from helpers import DTYPES, HARD_CASES, assert_exact, data_folder, objective, random_problem

METHODS = ["active-set", "homotopy"]


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


def test_a_bad_signal_is_named_whatever_the_threads_do():
    """Also where the caller is done and waits for the thread that has found it."""
    X, D = random_problem(300, 12, 16)
    X[0, 0] = np.nan
    for _ in range(50):
        with pytest.raises(ValueError, match="row 0 contains NaN"):
            td.sparse_encode(X, D, lambda1=0.1, n_threads=2)


def test_a_large_support_is_found_in_few_passes():
    codes, report = td.sparse_encode(np.geomspace(1e-2, 1, 1700)[None], np.eye(1700), lambda1=1e-3, return_report=True)
    assert codes.nnz == 1700
    assert report.status[0] == td.Status.CONVERGED
    assert report.n_steps[0] < 100


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
