"""Rules: each code is the point of its path that the rule names, exactly, and the report proves it."""

import _thread
import threading

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
import taskdict as td
from helpers import DTYPES, HARD_CASES, TOLERANCE, random_problem, relative_kkt

RULES = ("n_nonzero", "max_error", "max_l1")


def longdouble(array):
    return np.asarray(array.toarray() if sp.issparse(array) else array, np.longdouble)


def squared_errors(X, D, codes):
    return ((longdouble(X) - longdouble(codes) @ longdouble(D)) ** 2).sum(axis=1)


def assert_rule(X, D, codes, report, rule, amount, lambda2=0.0, positive=False):
    """Assert Lemma 1 at the reported λ1, and the rule itself, in extended precision."""
    tolerance = TOLERANCE[X.dtype]
    assert codes.dtype == X.dtype
    assert report.lambda1.dtype == np.float64
    assert report.lambda1.shape == report.status.shape == (len(X),)
    assert not (report.status == td.Status.INEXACT).any(), report
    amounts = np.broadcast_to(np.asarray(amount, np.float64), len(X))
    for row in range(len(X)):
        one = slice(row, row + 1)
        assert relative_kkt(X[one], D, codes[one], report.lambda1[row], lambda2, positive)[0] <= tolerance
        assert report.kkt[row] <= tolerance
    unmet = report.status == td.Status.UNMET
    assert (report.lambda1[unmet] == 0).all()
    at_end = report.lambda1 == 0
    if rule == "n_nonzero":
        assert not unmet.any()
        assert (np.diff(codes.indptr) <= amounts).all()
    elif rule == "max_error":
        squares = (longdouble(X) ** 2).sum(axis=1)
        off = squared_errors(X, D, codes) - amounts
        zero = np.diff(codes.indptr) == 0
        met = (abs(off) <= tolerance * squares) | (zero & (off <= 0))
        assert (met | unmet).all()
        assert (off[unmet] > 0).all()
    else:
        assert not unmet.any()
        norms = abs(longdouble(codes)).sum(axis=1)
        small = norms <= amounts * (1 + tolerance)
        # Where many codes without an ℓ1 penalty are optimal, the norm falls short of τ however small λ1 is.
        tiny = report.lambda1 <= 1e-13 * np.maximum(abs(longdouble(X) @ longdouble(D).T).max(axis=1), 0)
        assert (small & (at_end | tiny | (norms >= amounts * (1 - tolerance)))).all()


def amounts_on_path(X, D, lambda2=0.0, positive=False, share=0.4):
    """Return amounts of each rule that lie on the path of every signal, from codes at a share of λmax."""
    products = longdouble(X) @ longdouble(D).T
    top = np.maximum(products.max(axis=1) if positive else abs(products).max(axis=1), 0).astype(float)
    codes = td.sparse_encode(X, D, lambda1=share * top, lambda2=lambda2, positive=positive)
    return {
        "n_nonzero": np.minimum(np.diff(codes.indptr), 7),
        "max_error": squared_errors(X, D, codes).astype(float),
        "max_l1": abs(longdouble(codes)).sum(axis=1).astype(float),
    }


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES[::2])
def test_hard_cases(X, D, lambda1, lambda2, positive, dtype, rule):
    X, D = X[:12].astype(dtype), D.astype(dtype)
    amount = amounts_on_path(X, D, lambda2, positive)[rule]
    codes, report = td.sparse_encode(X, D, **{rule: amount}, lambda2=lambda2, positive=positive, return_report=True)
    assert_rule(X, D, codes, report, rule, amount, lambda2, positive)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("atom_scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("signal_scale", [1e-12, 1.0, 1e12])
def test_scales(signal_scale, atom_scale, dtype, rule):
    X, D = random_problem(15, 12, 30)
    lambda2 = 0.05
    amount = amounts_on_path(X, D, lambda2)[rule]
    expected = td.sparse_encode(X, D, **{rule: amount}, lambda2=lambda2).toarray()
    amount = amount * {"n_nonzero": 1, "max_error": signal_scale**2, "max_l1": signal_scale / atom_scale}[rule]
    X, D = (X * signal_scale).astype(dtype), (D * atom_scale).astype(dtype)
    lambda2 *= atom_scale**2
    codes, report = td.sparse_encode(X, D, **{rule: amount}, lambda2=lambda2, return_report=True)
    assert_rule(X, D, codes, report, rule, amount, lambda2)
    size = signal_scale / atom_scale
    np.testing.assert_allclose(codes.toarray() / size, expected, atol=1e-4 if dtype == np.float32 else 1e-9)


@given(
    st.data(),
    st.integers(1, 10),
    st.integers(1, 20),
    st.integers(1, 5),
    st.sampled_from(DTYPES),
    st.sampled_from([0.0, 1e-2, 2.0]),
    st.booleans(),
    st.sampled_from(RULES),
    st.integers(0, 20).map(lambda twentieths: twentieths / 20),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_integers(data, m, p, n, dtype, lambda2, positive, rule, share):
    """Small integers make ties, duplicates and dependent atoms likely."""
    entries = st.integers(-2, 2)
    X = data.draw(hnp.arrays(np.int8, (n, m), elements=entries)).astype(dtype)
    D = data.draw(hnp.arrays(np.int8, (p, m), elements=entries)).astype(dtype)
    amount = {"n_nonzero": int(share * p), "max_error": share * 2 * m, "max_l1": share * 3}[rule]
    codes, report = td.sparse_encode(X, D, **{rule: amount}, lambda2=lambda2, positive=positive, return_report=True)
    assert_rule(X, D, codes, report, rule, amount, lambda2, positive)


@given(
    st.integers(0, 2**32),
    st.integers(1, 30),
    st.integers(1, 60),
    st.sampled_from(DTYPES),
    st.sampled_from([0.0, 0.1]),
    st.booleans(),
    st.floats(0.02, 0.95),
)
@settings(max_examples=100, deadline=None)
def test_any_random_problem(seed, m, p, dtype, lambda2, positive, share):
    X, D = random_problem(5, m, p, seed=seed, dtype=dtype)
    for rule, amount in amounts_on_path(X, D, lambda2, positive, share).items():
        codes, report = td.sparse_encode(X, D, **{rule: amount}, lambda2=lambda2, positive=positive, return_report=True)
        assert_rule(X, D, codes, report, rule, amount, lambda2, positive)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(20, 30), (30, 12), (6, 40)])
def test_agrees_with_the_readable_path(shape, lambda2, positive, dtype):
    X, D = random_problem(12, *shape, dtype=dtype)
    most = min(shape) - 1
    for rule, amounts in (
        ("n_nonzero", [0, 1, 3, most]),
        ("max_error", [0.9, 0.5, 0.1, 2.0]),
        ("max_l1", [0.0, 0.3, 1.0]),
    ):
        for amount in amounts:
            codes, report = td.sparse_encode(
                X, D, **{rule: amount}, lambda2=lambda2, positive=positive, return_report=True
            )
            assert_rule(X, D, codes, report, rule, amount, lambda2, positive)
            for x, code, lambda1 in zip(X, codes.toarray(), report.lambda1, strict=True):
                expected, at = reference.follow_path(
                    x.astype(float), D.T.astype(float), rule, amount, lambda2, positive
                )
                close = 1e-9 if dtype == np.float64 else 2e-3
                assert abs(lambda1 - at) <= close / 10
                np.testing.assert_allclose(code, expected, atol=close)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.3])
def test_agrees_with_cvxpy(lambda2, positive):
    """The programs as they are stated: least ℓ1 norm with a bound on the error, least error with one on the norm."""
    X, D = random_problem(4, 8, 12)
    for x in X:
        alpha = cvxpy.Variable(len(D), nonneg=positive)
        error = cvxpy.sum_squares(x - D.T @ alpha)
        if lambda2 == 0:
            least = cvxpy.Problem(cvxpy.Minimize(cvxpy.norm1(alpha)), [error <= 0.4])
            codes, report = td.sparse_encode(x[None], D, max_error=0.4, positive=positive, return_report=True)
            value = least.solve(cvxpy.CLARABEL)  # infinite if no code has so small an error
            assert np.isinf(value) == (report.status[0] == td.Status.UNMET)
            assert np.isinf(value) or value == pytest.approx(abs(codes).sum(), abs=1e-5)
        ridge = lambda2 * cvxpy.sum_squares(alpha)
        problem = cvxpy.Problem(cvxpy.Minimize(error + ridge), [cvxpy.norm1(alpha) <= 0.7])
        codes = td.sparse_encode(x[None], D, max_l1=0.7, lambda2=lambda2, positive=positive)
        value = float(squared_errors(x[None], D, codes)[0]) + lambda2 * float((codes.toarray() ** 2).sum())
        assert problem.solve(cvxpy.CLARABEL) == pytest.approx(value, abs=1e-6)


def test_atoms_that_leave_make_room():
    """On this path an atom leaves before the fourth joins, so the last point with three nonzeros comes later."""
    found = 0
    for seed in range(40):
        X, D = random_problem(10, 8, 20, seed=seed)
        codes, report = td.sparse_encode(X, D, n_nonzero=4, return_report=True)
        for x, code, lambda1, steps in zip(X, codes.toarray(), report.lambda1, report.n_steps, strict=True):
            expected, at = reference.follow_path(x, D.T, "n_nonzero", 4, 0.0, False)
            np.testing.assert_allclose(code, expected, atol=1e-9)
            assert lambda1 == pytest.approx(at, abs=1e-10)
            found += steps > 7
    assert found > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_ends_of_the_path(dtype):
    X, D = random_problem(20, 10, 6, dtype=dtype)
    top = abs(longdouble(X) @ longdouble(D).T).max(axis=1)
    squares = (longdouble(X) ** 2).sum(axis=1).astype(float)
    for zero in ({"n_nonzero": 0}, {"max_l1": 0.0}, {"max_error": squares * (1 + 1e-6)}):
        codes, report = td.sparse_encode(X, D, **zero, return_report=True)
        assert codes.nnz == 0
        assert (report.status == td.Status.CONVERGED).all()
        np.testing.assert_allclose(report.lambda1, top.astype(float), rtol=1e-6 if dtype == np.float32 else 1e-14)
    least_squares, exact = td.sparse_encode(X, D, lambda1=0.0, return_report=True)
    assert (exact.lambda1 == 0).all()
    for end in ({"n_nonzero": 6}, {"max_l1": 1e3}, {"max_error": 0.0}):
        codes, report = td.sparse_encode(X, D, **end, return_report=True)
        assert (report.lambda1 == 0).all()
        np.testing.assert_allclose(codes.toarray(), least_squares.toarray(), atol=TOLERANCE[X.dtype])
        expected = td.Status.UNMET if "max_error" in end else td.Status.CONVERGED
        assert (report.status == expected).mean() > 0.9
        assert not (report.status == td.Status.INEXACT).any()


def test_zero_and_opposite_signals():
    D = np.eye(3)
    X = np.array([[0.0, 0, 0], [-1, -2, -3]])
    for rule, amount in (("n_nonzero", 2), ("max_error", 0.5), ("max_l1", 1.0)):
        codes, report = td.sparse_encode(X, D, **{rule: amount}, positive=True, return_report=True)
        assert codes.nnz == 0
        assert (report.lambda1 == 0).all()
        assert report.status[0] == td.Status.CONVERGED
        assert (report.status[1] == td.Status.UNMET) == (rule == "max_error")
    assert "1 unmet" in repr(td.sparse_encode(X, D, max_error=0.5, positive=True, return_report=True)[1])


@pytest.mark.parametrize("rule", [*RULES, "lambda1"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_number_per_signal(rule, dtype):
    X, D = random_problem(300, 16, 24, dtype=dtype)
    rng = np.random.default_rng(0)
    amounts = {
        "lambda1": rng.random(300),
        "n_nonzero": rng.integers(0, 12, 300),
        "max_error": rng.random(300),
        "max_l1": rng.random(300),
    }[rule]
    codes, report = td.sparse_encode(X, D, **{rule: amounts}, return_report=True, n_threads=1)
    if rule == "lambda1":
        np.testing.assert_array_equal(report.lambda1, amounts)
    else:
        assert_rule(X, D, codes, report, rule, amounts)
    order = rng.permutation(300)
    for threads, rows in ((2, np.arange(300)), (5, order), (3, order[:71])):
        other, seen = td.sparse_encode(X[rows], D, **{rule: amounts[rows]}, return_report=True, n_threads=threads)
        np.testing.assert_array_equal(other.toarray(), codes.toarray()[rows])
        for name in ("status", "kkt", "n_steps", "lambda1"):
            np.testing.assert_array_equal(getattr(seen, name), getattr(report, name)[rows])
    for row in range(5):
        alone = td.sparse_encode(X[[row]], D, **{rule: amounts[row]})
        np.testing.assert_array_equal(alone.toarray(), codes[[row]].toarray())


def test_chunks_and_sparse_signals_keep_their_numbers():
    X, D = random_problem(50, 16, 24)
    amounts = np.linspace(0.01, 0.9, 50)
    expected = td.sparse_encode(X, D, max_error=amounts)
    other = td.sparse_encode(sp.csr_array(X), D, max_error=list(amounts))
    np.testing.assert_allclose(other.toarray(), expected.toarray(), atol=1e-9)
    whole = np.round(X * 100).astype(np.int64)  # converted in chunks
    np.testing.assert_array_equal(
        td.sparse_encode(whole, D, n_nonzero=np.arange(50) % 9).toarray(),
        td.sparse_encode(whole.astype(float), D, n_nonzero=np.arange(50) % 9).toarray(),
    )


def test_the_methods_agree():
    X, D = random_problem(40, 12, 30)
    for rule, amount in (("n_nonzero", 5), ("max_error", 0.2), ("max_l1", 1.0)):
        one, other = (td.sparse_encode(X, D, **{rule: amount}, method=m).toarray() for m in ("auto", "homotopy"))
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_signals_of_few_atoms(dtype):
    """A signal that is made of three atoms exactly: the path ends there."""
    rng = np.random.default_rng(3)
    _, D = random_problem(1, 30, 40, dtype=dtype)
    alpha = np.zeros((20, 40))
    for row in alpha:
        row[rng.choice(40, 3, replace=False)] = rng.choice([-1, 1], 3) * (1 + rng.random(3))
    X = (alpha @ D.astype(float)).astype(dtype)
    codes, report = td.sparse_encode(X, D, n_nonzero=12, return_report=True)
    assert_rule(X, D, codes, report, "n_nonzero", 12)
    np.testing.assert_allclose(codes.toarray(), alpha, atol=1e-3 if dtype == np.float32 else 1e-9)


X1, D1 = np.ones((3, 2)), np.eye(2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "exactly one of lambda1, n_nonzero, max_error, max_l1 must be given, got none"),
        ({"lambda1": 0.1, "n_nonzero": 2}, "got lambda1=0.1 and n_nonzero=2: leave out"),
        ({"max_l1": 0.1, "max_error": np.ones(3)}, r"got max_error=an array of shape \(3,\) and max_l1=0.1"),
        ({"n_nonzero": -1}, "n_nonzero must be finite and at least 0, .* got -1"),
        ({"n_nonzero": 3}, "n_nonzero must be at most the number of atoms, 2, got 3: lower it"),
        ({"n_nonzero": [1, 2, 3]}, "n_nonzero must be at most the number of atoms, 2, got 3"),
        ({"max_error": -1.0}, "max_error must be finite and at least 0, .* got -1.0"),
        ({"max_l1": float("nan")}, "max_l1 must be finite and at least 0, .* got nan"),
        ({"max_l1": float("inf")}, "max_l1 must be finite and at least 0, .* got inf"),
        ({"max_error": [1.0, float("nan"), 1.0]}, "max_error must be finite .* but entry 1 is nan"),
        ({"max_error": [1.0, 2.0]}, r"max_error must be one number, or one per signal, shape \(3,\), got shape \(2,\)"),
        ({"lambda1": np.ones((3, 1))}, r"lambda1 must be one number, or one per signal, got shape \(3, 1\)"),
        ({"lambda1": []}, r"lambda1 must be one number, or one per signal, shape \(3,\), got shape \(0,\)"),
    ],
)
def test_amounts_that_make_no_sense(arguments, words):
    with pytest.raises(ValueError, match=words):
        td.sparse_encode(X1, D1, **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_nonzero": 2.0}, "n_nonzero must be an integer, .* got 2.0"),
        ({"n_nonzero": True}, "n_nonzero must be an integer, .* got True"),
        ({"n_nonzero": [1.0, 2.0, 1.0]}, "n_nonzero must hold integers, .* got dtype float64"),
        ({"max_error": "little"}, "max_error must be a real number, got 'little'"),
        ({"max_l1": ["a", "b", "c"]}, "max_l1 must hold real numbers"),
        ({"lambda1": np.ma.masked_array(np.ones(3), [0, 1, 0])}, "lambda1 must not be a masked array"),
    ],
)
def test_amounts_of_other_types(arguments, words):
    with pytest.raises(TypeError, match=words):
        td.sparse_encode(X1, D1, **arguments)


def test_no_signals():
    for rule in RULES:
        codes, report = td.sparse_encode(np.empty((0, 2)), D1, **{rule: 1}, return_report=True)
        assert codes.shape == (0, 2)
        assert report.lambda1.shape == (0,)
        td.sparse_encode(np.empty((0, 2)), D1, **{rule: np.empty(0, int)})


@pytest.mark.parametrize("rule", [{"n_nonzero": 300}, {"max_error": 1e-6}, {"max_l1": 1e9}])
def test_interrupts(rule):
    X, D = random_problem(100_000, 350, 600, dtype=np.float32)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        td.sparse_encode(X, D, **rule, n_threads=2)
    timer.join()
