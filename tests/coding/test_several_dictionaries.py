"""A dictionary for each signal or group of signals: as if each group were encoded by itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import taskdict as td
from helpers import DTYPES, HARD_CASES, TOLERANCE, random_problem, relative_kkt

RULES = ("lambda1", "n_nonzero", "max_error", "max_l1")


def several(k, p, m, dtype=np.float64):
    return np.stack([random_problem(1, m, p, seed, dtype)[1] for seed in range(1, k + 1)])


def assert_as_one_by_one(X, dictionaries, which, atol, **arguments):
    codes, report = td.sparse_encode(X, dictionaries, which=which, **arguments, return_report=True)
    assert codes.dtype == X.dtype
    assert codes.shape == (len(X), dictionaries.shape[1])
    assert not (report.status == td.Status.INEXACT).any()
    for row, number in enumerate(which):
        own = {name: value[row : row + 1] if np.ndim(value) else value for name, value in arguments.items()}
        alone, seen = td.sparse_encode(X[row : row + 1], dictionaries[number], **own, return_report=True)
        np.testing.assert_allclose(codes[[row]].toarray(), alone.toarray(), atol=atol)
        np.testing.assert_allclose(report.lambda1[row], seen.lambda1[0], rtol=1e-4 if X.dtype == np.float32 else 1e-8)
    return codes, report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
@pytest.mark.parametrize("k", [1, 2, 50])
def test_equals_one_call_per_dictionary(k, lambda2, positive, dtype):
    """In any order, with dictionaries that no signal uses."""
    X, _ = random_problem(60, 15, 1, dtype=dtype)
    dictionaries = several(k, 25, 15, dtype)
    which = np.random.default_rng(0).integers(0, k, 60)
    if k == 50:
        assert len(np.unique(which)) < k
    atol = 3e-5 if dtype == np.float32 else 1e-11
    assert_as_one_by_one(X, dictionaries, which, atol, lambda1=0.1, lambda2=lambda2, positive=positive)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rules_of_each_signal(rule, dtype):
    X, _ = random_problem(30, 12, 1, dtype=dtype)
    which = np.random.default_rng(1).integers(0, 4, 30)
    amounts = {
        "lambda1": np.linspace(0.01, 0.5, 30),
        "n_nonzero": np.arange(30) % 8,
        "max_error": np.linspace(0.01, 1.1, 30),
        "max_l1": np.linspace(0, 2, 30),
    }[rule]
    atol = 1e-3 if dtype == np.float32 else 1e-8
    assert_as_one_by_one(X, several(4, 20, 12, dtype), which, atol, **{rule: amounts})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 300, 700])
def test_any_share_of_signals(n, dtype):
    """Few and many signals of a dictionary take different products; the codes are those of each by itself."""
    X, _ = random_problem(n, 10, 1, dtype=dtype)
    dictionaries = several(3, 18, 10, dtype)
    which = np.minimum(np.arange(n) % 40, 2)  # 1/40 for the first and the second, the rest for the third
    codes, report = td.sparse_encode(X, dictionaries, lambda1=0.1, which=which, return_report=True)
    assert not (report.status == td.Status.INEXACT).any()
    for number in np.unique(which):
        rows = which == number
        violation = relative_kkt(X[rows], dictionaries[number], codes[np.flatnonzero(rows)], 0.1)
        assert violation.max() <= TOLERANCE[np.dtype(dtype)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_cases_side_by_side(dtype):
    """Each with itself in several orders of atoms and scales."""
    for case in HARD_CASES:
        X, D, lambda1 = case.values
        X = X[:9].astype(dtype)
        dictionaries = np.stack([D, D[::-1], -D, 2 * D]).astype(dtype)
        which = np.arange(len(X)) % 4
        codes, report = td.sparse_encode(X, dictionaries, lambda1=lambda1, which=which, return_report=True)
        assert not (report.status == td.Status.INEXACT).any(), case.id
        for row, number in enumerate(which):
            violation = relative_kkt(X[row : row + 1], dictionaries[number], codes[[row]], lambda1)[0]
            assert violation <= TOLERANCE[np.dtype(dtype)], case.id


@given(
    st.data(),
    st.integers(1, 4),
    st.integers(1, 8),
    st.integers(1, 10),
    st.integers(0, 8),
    st.sampled_from(DTYPES),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_integers(data, k, m, p, n, dtype, lambda1, positive):
    X = data.draw(hnp.arrays(np.int8, (n, m), elements=st.integers(-2, 2))).astype(dtype)
    D = data.draw(hnp.arrays(np.int8, (k, p, m), elements=st.integers(-2, 2))).astype(dtype)
    which = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))
    codes, report = td.sparse_encode(X, D, lambda1=lambda1, which=which, positive=positive, return_report=True)
    assert not (report.status == td.Status.INEXACT).any()
    for row, number in enumerate(which):
        violation = relative_kkt(X[row : row + 1], D[number], codes[[row]], lambda1, positive=positive)[0]
        assert violation <= TOLERANCE[np.dtype(dtype)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_threads_and_orders(dtype):
    X, _ = random_problem(900, 10, 1, dtype=dtype)
    dictionaries = several(30, 18, 10, dtype)
    which = np.random.default_rng(0).integers(0, 30, 900)

    def encode(rows, n_threads):
        codes, report = td.sparse_encode(
            X[rows], dictionaries, lambda1=0.1, which=which[rows], n_threads=n_threads, return_report=True
        )
        return codes.toarray().tobytes() + report.kkt.tobytes() + report.n_steps.tobytes()

    everything, order = np.arange(900), np.random.default_rng(1).permutation(900)
    expected = encode(everything, 1)
    for n_threads in (2, 3, 5):
        assert encode(everything, n_threads) == expected
        assert encode(order, n_threads) == encode(order, 1)


def test_forms():
    X, _ = random_problem(20, 10, 1)
    dictionaries = several(3, 15, 10)
    which = np.arange(20) % 3
    expected = td.sparse_encode(X, dictionaries, lambda1=0.1, which=which).toarray()
    wide = np.zeros((6, 30, 20))
    wide[::2, ::2, ::2] = dictionaries
    read_only = dictionaries.copy()
    read_only.flags.writeable = False
    for atoms in (wide[::2, ::2, ::2], np.asfortranarray(dictionaries), read_only, dictionaries.tolist()):
        for signals in (X, np.asfortranarray(X), X[::-1].copy()[::-1]):
            for numbers in (which, which.astype(np.uint8), which.tolist(), np.repeat(which, 2)[::2]):
                codes = td.sparse_encode(signals, atoms, lambda1=0.1, which=numbers)
                np.testing.assert_array_equal(codes.toarray(), expected)


def test_no_signals():
    for which in (np.empty(0, int), []):
        codes, report = td.sparse_encode(
            np.empty((0, 10)), several(3, 15, 10), lambda1=0.1, which=which, return_report=True
        )
        assert codes.shape == (0, 15)
        assert report.status.shape == (0,)


X1, D1 = random_problem(4, 3, 5)
BAD = [
    ({"which": None}, ValueError, "dictionary must have shape .* with `which`"),
    ({"which": [0, 1, 2, 0]}, ValueError, "which must be from 0 to 1, as there are 2 dictionaries, got 2"),
    ({"which": [0, -1, 0, 0]}, ValueError, "which must be from 0 to 1.*got -1"),
    ({"which": [0, 1]}, ValueError, r"which must have one number per signal, shape \(4,\), got \(2,\)"),
    ({"which": 0}, ValueError, "which must have one number per signal"),
    ({"which": [0.0, 1.0, 0.0, 1.0]}, TypeError, "which must hold integers.*float64"),
    ({"which": [True] * 4}, TypeError, "which must hold integers.*bool"),
    ({"which": np.ma.masked_array([0, 0, 0, 0])}, TypeError, "which must not be a masked array"),
    ({"which": [0] * 4, "method": "homotopy"}, ValueError, "method must be 'auto' or 'active-set' with several"),
    ({"which": [0] * 4, "weights": np.ones(5)}, ValueError, "one dictionary"),
    ({"which": [0] * 4, "mask": np.ones((4, 3), bool)}, ValueError, "one dictionary"),
    ({"which": [0] * 4, "missing": "ignore"}, ValueError, "one dictionary"),
]


@pytest.mark.parametrize(("arguments", "error", "words"), BAD)
def test_bad_input(arguments, error, words):
    with pytest.raises(error, match=words):
        td.sparse_encode(X1, np.stack([D1, D1]), lambda1=0.1, **arguments)


def test_bad_dictionaries():
    with pytest.raises(ValueError, match=r"dictionary must have shape .*got shape \(5, 3\)"):
        td.sparse_encode(X1, D1, lambda1=0.1, which=[0] * 4)
    bad = np.stack([D1, D1])
    bad[1, 1, 0] = np.nan
    with pytest.raises(ValueError, match="dictionary must be finite, but atom 6"):
        td.sparse_encode(X1, bad, lambda1=0.1, which=[0] * 4)
    with pytest.raises(ValueError, match="X has 3 features per signal, but the atoms of dictionary have 2"):
        td.sparse_encode(X1, np.ones((2, 5, 2)), lambda1=0.1, which=[0] * 4)
    with pytest.raises(TypeError, match=r"X must be dense with several dictionaries: call X.toarray\(\)"):
        td.sparse_encode(sp.csr_array(X1), np.stack([D1, D1]), lambda1=0.1, which=[0] * 4)
    with pytest.raises(ValueError, match="n_nonzero must be at most the number of atoms, 5, got 6"):
        td.sparse_encode(X1, np.stack([D1, D1]), n_nonzero=6, which=[0] * 4)


def test_bad_signals_are_named():
    X = np.ones((500, 3))
    X[321, 1] = np.nan
    with pytest.raises(ValueError, match="row 321 contains NaN"):
        td.sparse_encode(X, np.stack([D1, D1]), lambda1=0.1, which=np.arange(500)[::-1] % 2)
