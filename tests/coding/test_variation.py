"""Weights of the ℓ1 norm, and missing values: codes of what was observed, exactly."""

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import taskdict as td
from helpers import DTYPES, HARD_CASES, TOLERANCE, random_problem

RULES = ("n_nonzero", "max_error", "max_l1")


def weighted_kkt(X, D, codes, lambda1, weights=1.0, lambda2=0.0, positive=False, mask=None):
    """Violation of Lemma 1 for each row, relative to max(λ1 max w, ‖Dᵀx‖∞), in extended precision.

    Atoms of infinite weight are left out; a code that uses one is infinitely wrong.
    """
    X, D, A = (np.asarray(a, np.longdouble) for a in (X, D, codes.toarray()))
    W = np.broadcast_to(np.asarray(weights, np.longdouble), A.shape)
    penalties = np.asarray(lambda1, np.longdouble).reshape(-1, 1)
    used = np.isfinite(W)
    penalties = penalties * np.where(used, W, 0)
    seen = np.ones(X.shape, bool) if mask is None else mask
    X = np.where(seen, X, 0)
    R = np.where(seen, X - A @ D, 0)
    rho = R @ D.T - lambda2 * A
    outside = np.maximum((rho if positive else np.abs(rho)) - penalties, 0)
    violation = np.where(A != 0, np.abs(rho - penalties * np.sign(A)), outside)
    violation = np.where(used, violation, np.where(A != 0, np.inf, 0))
    if positive:
        violation = np.where(A < 0, np.inf, violation)
    products = np.where(used, np.abs(X @ D.T), 0)
    scale = np.maximum(penalties.max(axis=1, initial=0), products.max(axis=1, initial=0))
    scale[scale == 0] = 1
    return (violation.max(axis=1, initial=0) / scale).astype(float)


def assert_optimal(X, D, lambda1, weights=None, lambda2=0.0, positive=False, **arguments):
    """Assert Lemma 1 with weights; return codes and report."""
    codes, report = td.sparse_encode(
        X, D, lambda1=lambda1, weights=weights, lambda2=lambda2, positive=positive, **arguments, return_report=True
    )
    dense = 1.0 if weights is None else weights.toarray() if sp.issparse(weights) else weights
    tolerance = TOLERANCE[codes.dtype]
    violation = weighted_kkt(X, D, codes, lambda1, dense, lambda2, positive, arguments.get("mask"))
    assert not (report.status == td.Status.INEXACT).any(), report
    assert violation.max(initial=0) <= tolerance, violation
    assert report.kkt.max(initial=0) <= tolerance
    assert (codes.data != 0).all()
    return codes, report


def some_weights(kind, n, p, seed=0):
    """Weights of each signal and atom."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 3, (n, p))
    if kind == "zeros":
        weights[rng.random((n, p)) < min(0.2, 3 / p)] = 0
    elif kind == "infinities":
        weights[rng.random((n, p)) < 0.5] = np.inf
    elif kind == "ties":
        weights = rng.choice([0.5, 1.0, 2.0], (n, p))
    elif kind == "decades":
        weights = 10.0 ** rng.uniform(-3, 3, (n, p))
    elif kind == "all kinds":
        weights[rng.random((n, p)) < min(0.2, 2 / p)] = 0
        weights[rng.random((n, p)) < 0.3] = np.inf
    return weights


KINDS = ("plain", "zeros", "infinities", "ties", "decades", "all kinds")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["per atom", "per signal", "sparse"])
def test_weights(form, kind, lambda2, positive, dtype):
    X, D = random_problem(12, 20, 50, dtype=dtype)
    weights = some_weights(kind, 1 if form == "per atom" else 12, 50)
    lambda1 = np.linspace(0.01, 0.4, 12)
    if form == "per atom":
        weights = weights[0]
    if form == "sparse":
        weights = sp.csr_array(weights)
    assert_optimal(X, D, lambda1, weights, lambda2, positive)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("kind", ["ties", "zeros", "infinities"])
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES)
def test_hard_cases(X, D, lambda1, kind, positive, dtype):
    X, D = X[:8].astype(dtype), D.astype(dtype)
    assert_optimal(X, D, lambda1, some_weights(kind, len(X), len(D)), 0.0, positive)


@given(
    st.data(),
    st.integers(1, 8),
    st.integers(1, 14),
    st.integers(1, 4),
    st.sampled_from(DTYPES),
    st.sampled_from([0.0, 1e-3, 0.5, 1.0]),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_integers(data, m, p, n, dtype, lambda1, lambda2, positive):
    """Small integers make ties, duplicates and dependent atoms likely, and features are missing at random."""
    X = data.draw(hnp.arrays(np.int8, (n, m), elements=st.integers(-2, 2))).astype(dtype)
    D = data.draw(hnp.arrays(np.int8, (p, m), elements=st.integers(-2, 2))).astype(dtype)
    weights = data.draw(hnp.arrays(float, (n, p), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0, np.inf])))
    mask = data.draw(hnp.arrays(bool, (n, m)))
    assert_optimal(X, D, lambda1, weights, lambda2, positive, mask=mask)


@pytest.mark.parametrize("lambda2", [0.0, 0.3])
@pytest.mark.parametrize("positive", [False, True])
def test_objective_is_no_worse_than_cvxpy(lambda2, positive):
    X, D = random_problem(6, 8, 25)
    weights, mask = some_weights("zeros", 6, 25), np.random.default_rng(1).random(X.shape) < 0.7
    codes = td.sparse_encode(X, D, lambda1=0.1, lambda2=lambda2, positive=positive, weights=weights, mask=mask)
    for x, code, w, seen in zip(X, codes.toarray(), weights, mask, strict=True):

        def objective(alpha, norm, squares, x=x, w=w, seen=seen):
            return squares(x[seen] - D.T[seen] @ alpha) / 2 + 0.1 * norm(w, alpha) + lambda2 / 2 * squares(alpha)

        alpha = cvxpy.Variable(25, nonneg=positive)
        best = cvxpy.Problem(cvxpy.Minimize(objective(alpha, lambda w, a: w @ cvxpy.abs(a), cvxpy.sum_squares))).solve(
            solver="CLARABEL"
        )
        assert objective(code, lambda w, a: w @ np.abs(a), lambda a: a @ a) <= best + 1e-8


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 7.0])
def test_equal_weights_are_a_factor_of_lambda1(size, dtype):
    X, D = random_problem(20, 15, 40, dtype=dtype)
    expected = td.sparse_encode(X, D, lambda1=0.1 * size).toarray()
    for weights in (np.full(40, size), np.full((20, 40), size)):
        codes = td.sparse_encode(X, D, lambda1=0.1, weights=weights).toarray()
        np.testing.assert_allclose(codes, expected, atol=1e-3 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
def test_infinite_weights_are_a_smaller_dictionary(positive, dtype):
    X, D = random_problem(10, 15, 40, dtype=dtype)
    weights = some_weights("infinities", 10, 40)
    codes = td.sparse_encode(X, D, lambda1=0.1, weights=weights, positive=positive).toarray()
    for x, w, code in zip(X, weights, codes, strict=True):
        kept = np.isfinite(w)
        smaller = td.sparse_encode(x[None], D[kept], lambda1=0.1, weights=w[kept], positive=positive).toarray()[0]
        np.testing.assert_allclose(code[kept], smaller, atol=3e-5 if dtype == np.float32 else 1e-11)
        assert (code[~kept] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["per atom", "per signal"])
def test_all_weights_infinite(form, dtype):
    X, D = random_problem(5, 6, 9, dtype=dtype)
    codes, _ = assert_optimal(X, D, 0.1, np.full((5, 9) if form == "per signal" else 9, np.inf))
    assert codes.nnz == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_penalty_at_all_is_least_squares(dtype):
    X, D = random_problem(7, 20, 9, dtype=dtype)
    expected = np.linalg.lstsq(D.T.astype(float), X.T.astype(float), rcond=None)[0].T
    for arguments in ({"lambda1": 0.3, "weights": np.zeros(9)}, {"lambda1": 0.0, "weights": np.full(9, 2.0)}):
        codes, _ = assert_optimal(X, D, arguments["lambda1"], arguments["weights"])
        np.testing.assert_allclose(codes.toarray(), expected, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [1e6, 1e12, 1e30])
@pytest.mark.parametrize("positive", [False, True])
def test_weights_that_exclude_an_atom_in_effect(largest, positive, dtype):
    """A very large weight must not become the measure for the codes of the others."""
    X, D = random_problem(10, 15, 40, dtype=dtype)
    weights, excluded = some_weights("plain", 10, 40), some_weights("plain", 10, 40)
    large = np.random.default_rng(0).random((10, 40)) < 0.4
    weights[large], excluded[large] = largest, np.inf
    codes, report = td.sparse_encode(X, D, lambda1=0.05, weights=weights, positive=positive, return_report=True)
    assert not (report.status == td.Status.INEXACT).any()
    assert weighted_kkt(X, D, codes, 0.05, excluded, 0.0, positive).max() <= TOLERANCE[np.dtype(dtype)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_reweighting(dtype):
    """w = 1/(abs(α) + ε), as in the adaptive Lasso: weights from 1 to 10⁶."""
    X, D = random_problem(20, 30, 60, dtype=dtype)
    codes = td.sparse_encode(X, D, lambda1=0.1)
    for _ in range(3):
        weights = 1 / (np.abs(codes.toarray()) + 1e-6)
        codes, _ = assert_optimal(X, D, 0.01, weights)
        used = np.where(0.01 * weights < 1, weights, np.inf)  # ‖d‖ = ‖x‖ = 1: no other atom can be used
        assert weighted_kkt(X, D, codes, 0.01, used).max() <= TOLERANCE[np.dtype(dtype)]
        assert codes.nnz > len(X)


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e200, 1e307])
def test_weights_of_extreme_size(size):
    """Only the products with λ1 matter."""
    X, D = random_problem(5, 12, 20)
    weights = np.linspace(1, 2, 20)
    lambda1 = 0.1 / size if size > 1e-308 else 1e308
    expected = td.sparse_encode(X, D, lambda1=lambda1 * size, weights=weights).toarray()
    codes, report = td.sparse_encode(X, D, lambda1=lambda1, weights=weights * size, return_report=True)
    assert not (report.status == td.Status.INEXACT).any()
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
def test_rules_with_weights_and_masks(rule, positive, dtype):
    X, D = random_problem(8, 20, 40, dtype=dtype)
    weights, mask = some_weights("infinities", 8, 40), np.random.default_rng(1).random(X.shape) < 0.7
    there = td.sparse_encode(X, D, lambda1=0.1, weights=weights, mask=mask, positive=positive).toarray()
    X64, D64 = X.astype(float), D.astype(float)
    finite = np.where(np.isfinite(weights), weights, 0)
    amounts = {
        "n_nonzero": np.count_nonzero(there, axis=1),
        "max_error": (np.where(mask, X64 - there @ D64, 0) ** 2).sum(axis=1),
        "max_l1": (finite * np.abs(there)).sum(axis=1).astype(float),
    }[rule]
    codes, report = td.sparse_encode(
        X, D, **{rule: amounts}, weights=weights, mask=mask, positive=positive, return_report=True
    )
    tolerance = TOLERANCE[np.dtype(dtype)]
    assert not np.isin(report.status, [td.Status.INEXACT, td.Status.UNMET]).any()
    assert weighted_kkt(X, D, codes, report.lambda1, weights, 0.0, positive, mask).max() <= tolerance
    A = codes.toarray().astype(float)
    if rule == "n_nonzero":
        assert (np.count_nonzero(A, axis=1) <= amounts).all()
    elif rule == "max_error":
        np.testing.assert_allclose((np.where(mask, X64 - A @ D64, 0) ** 2).sum(axis=1), amounts, atol=tolerance)
    else:
        np.testing.assert_allclose((finite * np.abs(A)).sum(axis=1), amounts, rtol=tolerance)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rules_with_weights_over_decades_are_exact_or_marked(rule, dtype):
    """The path is followed on atoms d/w: what holds there to rounding need not hold for the code."""
    n_exact = 0
    for seed in range(30):
        X, D = random_problem(10, 8, 20, seed, dtype)
        weights = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, (10, 20))
        amounts = {"n_nonzero": np.arange(10), "max_error": np.linspace(0, 1, 10), "max_l1": np.logspace(-3, 3, 10)}
        codes, report = td.sparse_encode(X, D, **{rule: amounts[rule]}, weights=weights, return_report=True)
        violation = weighted_kkt(
            X, D, codes, report.lambda1, np.where(report.lambda1[:, None] * weights < 2, weights, np.inf)
        )
        exact = report.status != td.Status.INEXACT
        n_exact += exact.sum()
        assert violation[exact].max() <= TOLERANCE[np.dtype(dtype)]
        if rule == "n_nonzero":
            assert (np.diff(codes.indptr) <= amounts[rule]).all()
    assert n_exact > 100


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_weight_counts_but_those_of_usable_atoms(dtype):
    """Nothing is penalised, so that λ1 is no measure of the code; nor are atoms that are excluded."""
    X, D = random_problem(6, 8, 5, dtype=dtype)
    weights = np.array([0, 0, np.inf, 0, 0])
    D[2] *= dtype(1e6)
    codes, _ = assert_optimal(X, D, 1e14, weights)
    kept = [0, 1, 3, 4]
    expected = np.linalg.lstsq(D[kept].T.astype(float), X.T.astype(float), rcond=None)[0].T
    np.testing.assert_allclose(codes.toarray()[:, kept], expected, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
@pytest.mark.parametrize("how", ["mask", "NaN", "both", "sparse"])
def test_missing_values_are_a_smaller_problem(how, lambda2, positive, dtype):
    X, D = random_problem(15, 12, 30, dtype=dtype)
    mask = np.random.default_rng(2).random(X.shape) < np.linspace(0, 1, 15)[:, None]
    signals = X.copy()
    arguments = {"lambda2": lambda2, "positive": positive, "lambda1": 0.05}
    if how == "mask":
        signals[~mask] = np.random.default_rng(3).choice([1e6, np.nan, np.inf], (~mask).sum())  # never looked at
        arguments["mask"] = mask
    elif how == "NaN":
        signals[~mask] = np.nan
        arguments["missing"] = "ignore"
    elif how == "both":
        first = ~mask & (np.random.default_rng(4).random(X.shape) < 0.5)
        signals[first] = np.nan
        arguments |= {"mask": mask | first, "missing": "ignore"}
    else:
        signals = sp.csr_array(X)
        arguments["mask"] = mask
    codes, report = td.sparse_encode(signals, D, **arguments, return_report=True)
    assert not mask[0].any()
    for row in range(len(X)):
        seen = mask[row]
        if not seen.any():
            assert report.status[row] == td.Status.UNOBSERVED
            assert codes[[row]].nnz == 0
            continue
        assert report.status[row] in (td.Status.CONVERGED, td.Status.EXACT)
        del arguments["lambda1"]
        smaller = td.sparse_encode(X[row : row + 1, seen], D[:, seen], lambda1=0.05, lambda2=lambda2, positive=positive)
        arguments["lambda1"] = 0.05
        np.testing.assert_allclose(
            codes[[row]].toarray(), smaller.toarray(), atol=1e-3 if dtype == np.float32 else 1e-9
        )
    assert (report.status == td.Status.UNOBSERVED).sum() == (~mask.any(axis=1)).sum()


@pytest.mark.parametrize("rule", [{"lambda1": 0.1}, {"n_nonzero": 2}, {"max_error": 0.1}, {"max_l1": 0.4}])
@pytest.mark.parametrize("scale", [1.0, 1e-170, 1e170])
def test_nothing_observed(rule, scale):
    X, D = random_problem(3, 5, 8)
    X[1] = np.nan
    codes, report = td.sparse_encode(X, D * scale, **rule, missing="ignore", return_report=True)
    assert report.status.tolist()[1] == td.Status.UNOBSERVED
    assert (report.status[[0, 2]] != td.Status.UNOBSERVED).all()
    assert codes[[1]].nnz == 0


def test_nan_in_sparse_signals():
    """A stored NaN is a missing value, an entry that is not stored is zero."""
    X, D = random_problem(20, 8, 12)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0
    holes = np.random.default_rng(1).random(X.shape) < 0.2
    X[holes] = np.nan
    expected = td.sparse_encode(X, D, lambda1=0.05, missing="ignore").toarray()
    found = td.sparse_encode(sp.csr_array(X), D, lambda1=0.05, missing="ignore").toarray()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    masked = td.sparse_encode(sp.csr_array(X), D, lambda1=0.05, mask=~holes).toarray()
    np.testing.assert_allclose(masked, expected, atol=1e-12)


def test_infinity_beside_nan_is_refused():
    X, D = random_problem(9, 5, 8)
    X[2, 1], X[6, 3] = np.nan, np.inf
    for signals in (X, sp.csr_array(X)):
        with pytest.raises(ValueError, match=r"row 6 contains infinity.*mask") as caught:
            td.sparse_encode(signals, D, lambda1=0.1, missing="ignore")
        assert "missing='ignore'" not in str(caught.value).split("row 6")[1]


def test_without_missing_values_nothing_changes():
    X, D = random_problem(30, 10, 20)
    expected = td.sparse_encode(X, D, lambda1=0.1).toarray()
    for arguments in ({"missing": "ignore"}, {"mask": np.ones(X.shape, bool)}, {"weights": np.ones(20)}):
        np.testing.assert_allclose(td.sparse_encode(X, D, lambda1=0.1, **arguments).toarray(), expected, atol=1e-12)
    whole = np.random.default_rng(0).integers(0, 3, (10, 10))
    np.testing.assert_allclose(
        td.sparse_encode(whole, D, lambda1=0.1, missing="ignore").toarray(),
        td.sparse_encode(whole, D, lambda1=0.1).toarray(),
        atol=1e-12,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_threads_orders_and_parts(dtype, monkeypatch):
    X, D = random_problem(60, 12, 40, dtype=dtype)
    weights, mask = some_weights("all kinds", 60, 40), np.random.default_rng(1).random(X.shape) < 0.7
    everything = np.arange(60)

    def encode(rows, n_threads=1):
        codes = td.sparse_encode(X[rows], D, lambda1=0.05, weights=weights[rows], mask=mask[rows], n_threads=n_threads)
        return codes.toarray().tobytes()

    def part(rows):
        return td.sparse_encode(X, D, lambda1=0.05, weights=weights, mask=mask).toarray()[rows].tobytes()

    for n_threads in (1, 2, 3, 5):
        assert encode(everything, n_threads) == part(everything)
    order = np.random.default_rng(2).permutation(60)
    assert encode(order, 2) == part(order)
    for row in (0, 17, 59):
        assert encode([row]) == part([row])
    expected = part(everything)
    monkeypatch.setattr("taskdict._coding.reading.CHUNK_BYTES", 7 * 12 * X.itemsize)
    assert part(everything) == expected


def test_no_signals():
    X, D = np.empty((0, 5)), random_problem(1, 5, 8)[1]
    for arguments in (
        {"weights": np.ones(8)},
        {"weights": np.ones((0, 8))},
        {"mask": np.ones((0, 5), bool)},
        {"missing": "ignore"},
    ):
        codes, report = td.sparse_encode(X, D, lambda1=0.1, **arguments, return_report=True)
        assert codes.shape == (0, 8)
        assert report.status.shape == (0,)


X1, D1 = random_problem(4, 3, 5)
ONES = np.ones(5)
BAD = [
    ({"weights": -ONES}, ValueError, "weights must be at least 0, or infinite to exclude an atom, got -1.0"),
    ({"weights": ONES * np.nan}, ValueError, "weights must be at least 0, .*got nan"),
    (
        {"weights": np.ones(4)},
        ValueError,
        r"weights must have one column per atom of dictionary, 5, got shape \(1, 4\)",
    ),
    ({"weights": np.ones((3, 5))}, ValueError, r"weights must have shape .*one row per signal \(4\), got \(3, 5\)"),
    ({"weights": np.ones((1, 4, 5))}, ValueError, "weights must have shape"),
    ({"weights": 2.0}, ValueError, "weights must have shape"),
    ({"weights": ["a"] * 5}, TypeError, "weights must hold real numbers"),
    ({"weights": ONES * 1j}, TypeError, "weights must hold real numbers"),
    ({"weights": np.ma.masked_array(ONES)}, TypeError, "weights must not be a masked array: fill"),
    ({"weights": sp.csc_array(np.ones((4, 5)))}, TypeError, r"weights must be .*CSR.*weights.tocsr\(\)"),
    ({"weights": sp.csr_array(-np.ones((4, 5)))}, ValueError, "weights must be at least 0"),
    ({"mask": np.ones((4, 3))}, TypeError, r"mask must hold booleans.*float64.*mask.astype\(bool\)"),
    ({"mask": np.ones((4, 3), int)}, TypeError, "mask must hold booleans"),
    ({"mask": np.ones((3, 4), bool)}, ValueError, r"mask must have the shape of X, \(4, 3\), got \(3, 4\)"),
    ({"mask": np.ones(3, bool)}, ValueError, "mask must have the shape of X"),
    ({"mask": sp.csr_array(np.ones((4, 3), bool))}, TypeError, r"mask must be dense.*toarray"),
    ({"mask": np.ma.masked_array(np.ones((4, 3), bool))}, TypeError, "mask must not be a masked array"),
    ({"missing": "drop"}, ValueError, "missing must be .*'drop'"),
    ({"missing": None}, ValueError, "missing must be .*None"),
    ({"weights": ONES, "method": "homotopy"}, ValueError, "method must be 'auto' or 'active-set' with weights"),
    ({"mask": np.ones((4, 3), bool), "method": "homotopy"}, ValueError, "method must be 'auto' or 'active-set'"),
]


@pytest.mark.parametrize(("arguments", "error", "words"), BAD)
def test_bad_input(arguments, error, words):
    with pytest.raises(error, match=words):
        td.sparse_encode(X1, D1, lambda1=0.1, **arguments)


@pytest.mark.parametrize("rule", RULES)
def test_rules_take_weights_up_to_a_range(rule):
    weights = np.array([1e-3, *np.ones(D1.shape[0] - 2), np.inf])
    td.sparse_encode(X1, D1, **{rule: 1}, weights=weights * 1e3)
    weights[0] = 1e-7
    with pytest.raises(
        ValueError, match=f"{rule} cannot be combined with weights of which the largest is 1.0e\\+07 times"
    ):
        td.sparse_encode(X1, D1, **{rule: 1}, weights=weights)
    td.sparse_encode(X1, D1, lambda1=0.1, weights=weights)


@pytest.mark.parametrize("rule", RULES)
def test_rules_that_cannot_be_combined(rule):
    zeros = ONES * [0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match=f"{rule} cannot be combined with zeros in weights: use lambda1"):
        td.sparse_encode(X1, D1, **{rule: 1}, weights=zeros)
    with pytest.raises(ValueError, match=f"{rule} cannot be combined with zeros in weights"):
        td.sparse_encode(X1, D1, **{rule: 1}, weights=sp.csr_array(np.tile(zeros, (4, 1))))
    twice = sp.csr_array((np.ones(20), np.tile([1, 1, 2, 3, 4], 4), np.arange(0, 21, 5)), shape=(4, 5))
    with pytest.raises(ValueError, match=f"{rule} cannot be combined with zeros in weights"):
        td.sparse_encode(X1, D1, **{rule: 1}, weights=twice)
    with pytest.raises(ValueError, match=f"{rule} cannot be combined with weights and lambda2 > 0: use lambda1"):
        td.sparse_encode(X1, D1, **{rule: 1}, weights=ONES, lambda2=0.1)


def test_a_penalty_that_overflows_is_refused():
    with pytest.raises(ValueError, match=r"lambda1 .*weights.*1e\+200"):
        td.sparse_encode(X1, D1, lambda1=1e200, weights=ONES * 1e200)
