"""Orthogonal matching pursuit: a readable twin, the greedy rule, certificates, hard cases, all forms of signals."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
import taskdict as td
from helpers import DTYPES, HARD_CASES, TOLERANCE, random_problem
from taskdict._coding.pursuit import PreparedPursuit, matching_pursuit

UNMET = 3
# Dictionaries of this many atoms have no Gram matrix.
MANY = 9000


def assert_certified(X, D, codes, report, n_nonzero=None, max_error=None):
    """Assert that codes are sound and optimal on their supports, in extended precision, and that the report is true."""
    n, p = X.shape[0], D.shape[0]
    assert codes.dtype == X.dtype
    assert codes.shape == (n, p)
    assert report.kkt.dtype == X.dtype
    assert report.status.shape == report.kkt.shape == report.n_steps.shape == (n,)
    for row in range(n):
        indices = codes.indices[codes.indptr[row] : codes.indptr[row + 1]]
        assert (np.diff(indices) > 0).all()
    assert (codes.data != 0).all()
    assert not (report.status == td.Status.INEXACT).any()
    nonzeros = np.diff(codes.indptr)
    assert (nonzeros <= report.n_steps).all()
    Xl, Dl, A = (np.asarray(a, dtype=np.longdouble) for a in (X, D, codes.toarray()))
    R = Xl - A @ Dl
    violation = np.where(A != 0, np.abs(R @ Dl.T), 0).max(axis=1, initial=0)
    scale = np.abs(Xl @ Dl.T).max(axis=1, initial=0)
    scale[scale == 0] = 1
    measured = violation / scale
    assert (measured <= TOLERANCE[X.dtype]).all()
    assert report.kkt.max(initial=0) <= TOLERANCE[X.dtype]
    if n_nonzero is not None:
        assert (report.n_steps <= n_nonzero).all()
    if max_error is None:
        assert (report.status != UNMET).all()
    else:
        np.testing.assert_array_equal((R**2).sum(axis=1) > np.asarray(max_error, np.longdouble), report.status == UNMET)


def assert_greedy(X, D, codes, tolerance):
    for x, row in zip(X.astype(np.float64), codes.toarray(), strict=True):
        assert reference.is_greedy(x, D.T.astype(np.float64), set(np.flatnonzero(row).tolist()), tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_nonzero", [0, 1, 5, 12])
def test_agrees_with_the_readable_twin(dtype, n_nonzero):
    X, D = random_problem(60, 30, 70, dtype=dtype)
    codes, report = matching_pursuit(X, D, n_nonzero=n_nonzero)
    assert_certified(X, D, codes, report, n_nonzero)
    assert (report.n_steps == n_nonzero).all()
    for x, row in zip(X, codes.toarray(), strict=True):
        support, alpha = reference.matching_pursuit(x.astype(float), D.T.astype(float), n_nonzero)
        assert sorted(support) == np.flatnonzero(row).tolist()
        np.testing.assert_allclose(row, alpha, atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("max_error", [0.5, 0.05, 1e-4])
def test_max_error_agrees_with_the_readable_twin(dtype, max_error):
    X, D = random_problem(60, 30, 70, dtype=dtype)
    codes, report = matching_pursuit(X, D, max_error=max_error)
    assert_certified(X, D, codes, report, max_error=max_error)
    for x, row in zip(X, codes.toarray(), strict=True):
        support, alpha = reference.matching_pursuit(x.astype(float), D.T.astype(float), 30, max_error)
        assert sorted(support) == np.flatnonzero(row).tolist()
        np.testing.assert_allclose(row, alpha, atol=2e-4 if dtype == np.float32 else 1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_a_gram_matrix(dtype):
    X, D = random_problem(30, 24, MANY, dtype=dtype)
    X[3] = 0
    for rules in ({"n_nonzero": 6}, {"max_error": 0.01}, {"n_nonzero": 4, "max_error": 0.1}):
        codes, report = matching_pursuit(X, D, **rules)
        assert_certified(X, D, codes, report, **rules)
        sparse, _ = matching_pursuit(sp.csr_array(X), D, **rules)
        np.testing.assert_array_equal(sparse.toarray(), codes.toarray())
        for x, row in zip(X, codes.toarray(), strict=True):
            most, error = rules.get("n_nonzero", 24), rules.get("max_error", -1.0)
            support, _ = reference.matching_pursuit(x.astype(float), D.T.astype(float), most, error)
            assert sorted(support) == np.flatnonzero(row).tolist()


def test_both_ways_choose_the_same_atoms():
    X, D = random_problem(50, 40, 300)
    beyond = np.zeros((MANY, 40))
    beyond[:300] = D
    small, large = matching_pursuit(X, D, n_nonzero=8)[0], matching_pursuit(X, beyond, n_nonzero=8)[0]
    np.testing.assert_array_equal(small.indices, large.indices)
    np.testing.assert_allclose(small.data, large.data, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES[::2])
def test_hard_cases(X, D, lambda1, dtype):
    X, D = X.astype(dtype), D.astype(dtype)
    n_nonzero = min(4, len(D))
    codes, report = matching_pursuit(X, D, n_nonzero=n_nonzero)
    assert_certified(X, D, codes, report, n_nonzero)
    assert_greedy(X, D, codes, 1e-4 if dtype == np.float32 else 1e-9)
    bound = 0.01 * (X.astype(float) ** 2).sum(axis=1)
    codes, report = matching_pursuit(X, D, max_error=bound)
    assert_certified(X, D, codes, report, max_error=bound)


@given(st.data(), st.integers(1, 8), st.integers(1, 14), st.integers(0, 5), st.sampled_from(DTYPES), st.integers(0, 14))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_integers(data, m, p, n, dtype, n_nonzero):
    """Small integers make ties, duplicates, dependent and zero atoms likely."""
    entries = st.integers(-2, 2)
    X = data.draw(hnp.arrays(np.int8, (n, m), elements=entries)).astype(dtype)
    D = data.draw(hnp.arrays(np.int8, (p, m), elements=entries)).astype(dtype)
    n_nonzero = min(n_nonzero, p)
    codes, report = matching_pursuit(X, D, n_nonzero=n_nonzero)
    assert_certified(X, D, codes, report, n_nonzero)
    if n_nonzero <= 4:
        assert_greedy(X, D, codes, 1e-5 if dtype == np.float32 else 1e-12)
    rank = np.linalg.matrix_rank(D.astype(float))
    assert report.n_steps.max(initial=0) <= rank
    bounds = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 9.0]), min_size=n, max_size=n)))
    codes, report = matching_pursuit(X, D, max_error=bounds)
    assert_certified(X, D, codes, report, max_error=bounds)
    for x, bound, status in zip(X.astype(float), bounds, report.status, strict=True):
        left = x - D.T.astype(float) @ np.linalg.lstsq(D.T.astype(float), x, rcond=None)[0]
        if left @ left < bound - 1e-6:  # with all atoms the bound is met
            assert status != UNMET


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 60), st.sampled_from(DTYPES), st.integers(0, 8))
@settings(max_examples=100, deadline=None)
def test_any_random_problem(seed, m, p, dtype, n_nonzero):
    X, D = random_problem(6, m, p, seed=seed, dtype=dtype)
    n_nonzero = min(n_nonzero, p)
    codes, report = matching_pursuit(X, D, n_nonzero=n_nonzero)
    assert_certified(X, D, codes, report, n_nonzero)
    assert_greedy(X, D, codes, 1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_go_to_the_first_atom(dtype):
    X, D = np.full((3, 6), 0.5, dtype), np.eye(6, dtype=dtype)
    codes, _ = matching_pursuit(X, D, n_nonzero=2)
    np.testing.assert_array_equal(codes.toarray(), np.tile(np.array([0.5, 0.5, 0, 0, 0, 0], dtype), (3, 1)))
    X, D = random_problem(20, 10, 15, dtype=dtype)
    twice = np.concatenate([D, -D, D * 4])
    codes, report = matching_pursuit(X, twice, n_nonzero=5)
    expected, _ = matching_pursuit(X, D, n_nonzero=5)
    assert_certified(X, twice, codes, report, 5)
    assert codes.indices.max() < 15
    np.testing.assert_array_equal(codes.indices, expected.indices)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dependent_atoms_are_never_chosen(dtype):
    rng = np.random.default_rng(3)
    D = (rng.standard_normal((40, 4)) @ rng.standard_normal((4, 12))).astype(dtype)
    X = rng.standard_normal((20, 12)).astype(dtype)
    codes, report = matching_pursuit(X, D, n_nonzero=10)
    assert (report.n_steps == 4).all()
    assert_certified(X, D, codes, report, 4)
    near = np.concatenate([D, D[:3] * dtype(1.5) + np.finfo(dtype).eps * rng.standard_normal((3, 12)).astype(dtype)])
    _, report = matching_pursuit(X, near, n_nonzero=10)
    assert (report.n_steps == 4).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_atoms_than_features(dtype):
    X, D = random_problem(20, 8, 40, dtype=dtype)
    codes, report = matching_pursuit(X, D, n_nonzero=30)
    assert_certified(X, D, codes, report, 30)
    assert report.n_steps.max() <= 8
    error = ((X - codes @ D).astype(float) ** 2).sum(axis=1)
    assert error.max() <= (1e-9 if dtype == np.float32 else 1e-25)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_pursuit_ends_where_the_signal_is_explained(dtype):
    """Signals of three atoms, with seven allowed: what is left is rounding."""
    rng = np.random.default_rng(5)
    D = rng.integers(-3, 4, (50, 20)).astype(dtype)
    A = np.zeros((30, 50), dtype)
    for row in A:
        row[rng.choice(50, 3, replace=False)] = rng.integers(5, 9, 3)
    X = A @ D
    codes, report = matching_pursuit(X, D, n_nonzero=7)
    assert_certified(X, D, codes, report, 7)
    short = report.n_steps == 3
    assert short.sum() > 15  # the others began with a wrong atom
    np.testing.assert_allclose(codes.toarray()[short], A[short], rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("signal_scale", [1e-12, 1e12])
@pytest.mark.parametrize("atom_scale", [1e-12, 1e12])
def test_scales(dtype, signal_scale, atom_scale):
    X, D = random_problem(40, 12, 30, dtype=dtype)
    spread = 10.0 ** np.random.default_rng(1).integers(-3, 4, (30, 1))
    X, D = (X * signal_scale).astype(dtype), (D * atom_scale * spread).astype(dtype)
    codes, report = matching_pursuit(X, D, n_nonzero=5)
    assert_certified(X, D, codes, report, 5)
    assert_greedy(X / signal_scale, D / atom_scale, codes, 1e-5 if dtype == np.float32 else 1e-12)
    bound = 0.1 * signal_scale**2
    codes, report = matching_pursuit(X, D, max_error=bound)
    assert (report.status != UNMET).all()
    assert_certified(X, D, codes, report, max_error=bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-100, -20, 20, 100])
def test_codes_scale_exactly_with_powers_of_two(dtype, exponent):
    X, D = random_problem(50, 12, 30, dtype=dtype)
    factor = dtype(2.0) ** (exponent // 4 if dtype == np.float32 else exponent)
    expected = matching_pursuit(X, D, n_nonzero=4)[0].toarray()
    np.testing.assert_array_equal(matching_pursuit(X * factor, D, n_nonzero=4)[0].toarray(), expected * factor)
    np.testing.assert_array_equal(matching_pursuit(X, D * factor, n_nonzero=4)[0].toarray(), expected / factor)


def test_entries_over_hundreds_of_magnitudes():
    rng = np.random.default_rng(2)
    D = rng.standard_normal((10, 6)) * 10.0 ** rng.uniform(-300, 0, (10, 6))
    X = rng.standard_normal((5, 6)) * 10.0 ** rng.uniform(-300, 300, (5, 6))
    codes, report = matching_pursuit(X, D, n_nonzero=2)
    assert np.isfinite(codes.data).all() or (report.status == td.Status.INEXACT).any()
    certified = report.status != td.Status.INEXACT
    assert (report.kkt[certified] <= 1e-10).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_rules(dtype):
    X, D = random_problem(80, 20, 50, dtype=dtype)
    codes, report = matching_pursuit(X, D, n_nonzero=5, max_error=0.2)
    assert_certified(X, D, codes, report, 5, 0.2)
    assert 0 < (report.status == UNMET).sum() < 80
    assert (report.n_steps[report.status == UNMET] == 5).all()
    error = ((X - codes @ D).astype(float) ** 2).sum(axis=1)
    assert (error[report.status != UNMET] <= 0.2).all()


def test_rules_for_each_signal():
    X, D = random_problem(60, 20, 50)
    counts, bounds = np.arange(60) % 7, np.linspace(0, 1.2, 60)
    codes, report = matching_pursuit(X, D, n_nonzero=counts)
    np.testing.assert_array_equal(report.n_steps, counts)
    by_error, of_error = matching_pursuit(X, D, max_error=bounds)
    assert_certified(X, D, by_error, of_error, max_error=bounds)
    for row in range(60):
        one, _ = matching_pursuit(X[row : row + 1], D, n_nonzero=int(counts[row]))
        np.testing.assert_array_equal(one.toarray()[0], codes.toarray()[row])
        one, _ = matching_pursuit(X[row : row + 1], D, max_error=float(bounds[row]))
        np.testing.assert_array_equal(one.toarray()[0], by_error.toarray()[row])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bound_of_zero(dtype):
    X, D = random_problem(10, 6, 6, dtype=dtype)
    X[0] = 4 * D[2]
    codes, report = matching_pursuit(X, D, max_error=0)
    assert_certified(X, D, codes, report, max_error=0)
    assert report.status[0] != UNMET
    assert codes[[0]].indices.tolist() == [2]
    x, atoms = np.eye(1, 4, dtype=dtype), 1 - np.eye(3, 4, k=0, dtype=dtype)[[0, 1, 2]]
    atoms[2] = 1
    codes, report = matching_pursuit(x, atoms, max_error=0)
    np.testing.assert_array_equal(codes.toarray(), [[-1, 0, 1]])
    assert report.status[0] == td.Status.EXACT
    flat = np.zeros((2, 6), dtype)
    codes, report = matching_pursuit(flat, D, max_error=0)
    assert codes.nnz == 0
    assert (report.status == td.Status.CONVERGED).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_nearly_dependent_supports_are_certified(dtype):
    """Atoms so close that the kernels leave the signals to wider arithmetic."""
    rng = np.random.default_rng(4)
    gap = 3e-3 if dtype == np.float32 else 1e-5
    base = rng.standard_normal((6, 30))
    D = np.concatenate([base, base + gap * rng.standard_normal((6, 30))]).astype(dtype)
    X = (rng.standard_normal((25, 12)) @ D).astype(dtype)
    codes, report = matching_pursuit(X, D, n_nonzero=10)
    assert_certified(X, D, codes, report, 10)
    assert (report.status == td.Status.EXACT).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [60, MANY])
def test_the_same_bits_for_every_number_of_threads(dtype, p):
    X, D = random_problem(700, 20, p, dtype=dtype)
    expected, report = matching_pursuit(X, D, n_nonzero=6, max_error=0.05, n_threads=1)
    for n_threads in (2, 3, 5):
        codes, other = matching_pursuit(X, D, n_nonzero=6, max_error=0.05, n_threads=n_threads)
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(codes, name), getattr(expected, name))
        np.testing.assert_array_equal(other.kkt, report.kkt)
    parts = [matching_pursuit(part, D, n_nonzero=6, max_error=0.05)[0] for part in (X[:1], X[1:300], X[300:])]
    np.testing.assert_array_equal(sp.vstack(parts).toarray(), expected.toarray())


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype, tmp_path):
    X, D = random_problem(101, 12, 20, dtype=dtype)
    expected = matching_pursuit(X, D, n_nonzero=4)[0].toarray()
    wide = np.zeros((202, 36), dtype)
    wide[::2, ::3] = X
    np.save(tmp_path / "X.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    layouts = {
        "fortran": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "memory map": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "read-only": read_only,
        "negative strides": X[::-1].copy()[::-1],
        "unaligned": np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(dtype).reshape(X.shape),
        "byte-swapped": X.astype(X.dtype.newbyteorder()),
    }
    for name, layout in layouts.items():
        codes, _ = matching_pursuit(layout, np.asfortranarray(D), n_nonzero=4)
        np.testing.assert_array_equal(codes.toarray(), expected, err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_signals(dtype):
    X, D = random_problem(60, 30, 40, dtype=dtype)
    X[np.random.default_rng(1).random(X.shape) < 0.8] = 0
    codes, report = matching_pursuit(sp.csr_array(X), D, n_nonzero=4)
    assert_certified(X, D, codes, report, 4)
    dense, _ = matching_pursuit(X, D, n_nonzero=4)
    np.testing.assert_array_equal(codes.indices, dense.indices)
    np.testing.assert_allclose(codes.data, dense.data, atol=1e-5 if dtype == np.float32 else 1e-13)


def test_other_types_in_blocks_with_rules_for_each_signal(monkeypatch):
    X = np.random.default_rng(0).integers(0, 5, (100, 9))
    _, D = random_problem(1, 9, 12)
    counts = np.arange(100) % 4
    expected = matching_pursuit(X.astype(float), D, n_nonzero=counts)[0].toarray()
    monkeypatch.setattr("taskdict._coding.reading.CHUNK_BYTES", 7 * 9 * 8)
    np.testing.assert_array_equal(matching_pursuit(X, D, n_nonzero=counts)[0].toarray(), expected)
    sparse = matching_pursuit(sp.csr_array(X), D, n_nonzero=counts)[0].toarray()
    np.testing.assert_allclose(sparse, expected, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_few_signals(n, make):
    X, D = random_problem(n, 5, 9)
    codes, report = matching_pursuit(make(X), D, n_nonzero=3, max_error=np.full(n, 0.1))
    assert_certified(X, D, codes, report, 3, 0.1)


def test_large_supports():
    X, D = random_problem(4, 150, 400)
    codes, report = matching_pursuit(X, D, n_nonzero=120)
    assert_certified(X, D, codes, report, 120)
    assert (np.diff(codes.indptr) == 120).all()


def test_a_prepared_dictionary_gives_the_same_bits():
    X, D = random_problem(50, 12, 30)
    prepared = PreparedPursuit(D)
    for signals in (X, X[:7], X.astype(np.float32), sp.csr_array(X)):
        expected, _ = matching_pursuit(signals, D, n_nonzero=3)
        np.testing.assert_array_equal(prepared.encode(signals, n_nonzero=3)[1].values, expected.data)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_signal_that_is_not_finite_is_named(make):
    X, D = random_problem(300, 12, 16)
    X[217, 3] = np.nan
    with pytest.raises(ValueError, match="row 217 contains NaN or infinity"):
        matching_pursuit(make(X), D, n_nonzero=2)


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({}, ValueError, "give n_nonzero, max_error, or both"),
        ({"n_nonzero": -1}, ValueError, "n_nonzero must be an integer from 0 to the number of atoms, 16.*got -1"),
        ({"n_nonzero": 17}, ValueError, "n_nonzero must .* got 17"),
        ({"n_nonzero": 2.5}, TypeError, "n_nonzero must .* got 2.5"),
        ({"n_nonzero": True}, TypeError, "n_nonzero must .* got True"),
        ({"n_nonzero": "3"}, TypeError, "n_nonzero must .* got '3'"),
        ({"n_nonzero": 2**70}, ValueError, f"n_nonzero must .* got {2**70}"),
        ({"n_nonzero": [1.0, 2.0]}, TypeError, "n_nonzero must .* array of dtype float64"),
        ({"n_nonzero": [1, 2]}, ValueError, r"n_nonzero must be .* shape \(5,\).*got shape \(2,\)"),
        ({"n_nonzero": [1, 2, -3, 4, 5]}, ValueError, "got -3 for signal 2"),
        ({"n_nonzero": [[1, 2]]}, ValueError, r"got shape \(1, 2\)"),
        ({"max_error": -0.5}, ValueError, "max_error must be finite and at least 0.*got -0.5"),
        ({"max_error": np.nan}, ValueError, "max_error must .* got nan"),
        ({"max_error": np.inf}, ValueError, "max_error must .* got inf"),
        ({"max_error": "small"}, TypeError, "max_error must be a real number, got 'small'"),
        ({"max_error": [0.1, 0.2]}, ValueError, r"max_error must be .* shape \(5,\).*got shape \(2,\)"),
        ({"max_error": [0.1, 0.2, 0.3, np.nan, 1]}, ValueError, "got nan for signal 3"),
        ({"max_error": ["a"] * 5}, TypeError, "max_error must .* array of dtype <U1"),
        ({"max_error": np.ma.masked_array([0.1] * 5)}, TypeError, "max_error must"),
    ],
)
def test_bad_rules(rules, error, message):
    X, D = random_problem(5, 12, 16)
    with pytest.raises(error, match=message):
        matching_pursuit(X, D, **rules)


def test_bad_shapes():
    X, D = random_problem(5, 12, 16)
    with pytest.raises(ValueError, match="X has 11 features per signal, but the atoms of dictionary have 12"):
        matching_pursuit(X[:, :11], D, n_nonzero=2)
    with pytest.raises(ValueError, match="dictionary must be finite"):
        matching_pursuit(X, D * np.nan, n_nonzero=2)
    with pytest.raises(TypeError, match="CSR"):
        matching_pursuit(sp.csc_array(X), D, n_nonzero=2)
