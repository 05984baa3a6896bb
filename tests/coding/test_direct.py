"""The encoder without a Gram matrix: the same promise as with one, on dictionaries of any size."""

import _thread
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
import taskdict as td
from helpers import DTYPES, HARD_CASES, TOLERANCE, assert_exact, halftone, random_problem, relative_kkt
from taskdict import _native
from taskdict._coding.coded_batch import CodedBatch, Coding
from taskdict._coding.encode import encode_with_active_sets
from taskdict._native import Encoder, needs_no_gram

RULES = ("n_nonzero", "max_error", "max_l1")


@pytest.fixture
def forced(monkeypatch):
    """Make all dictionaries large enough for the encoder without a Gram matrix."""
    monkeypatch.setattr(_native, "needs_no_gram", lambda n_signals, dictionary: True)


def encode_direct(X, D, **arguments):
    """Return codes and report of `sparse_encode` without a Gram matrix."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "needs_no_gram", lambda n_signals, dictionary: True)
        return td.sparse_encode(X, D, **arguments, return_report=True)


def same_bits(first, second):
    """Assert that codes and reports are the same bits."""
    for (codes, report), (others, seen) in [(first, second)]:
        np.testing.assert_array_equal(codes.indptr, others.indptr)
        np.testing.assert_array_equal(codes.indices, others.indices)
        assert codes.data.tobytes() == others.data.tobytes()
        for name in ("status", "kkt", "n_steps", "lambda1"):
            np.testing.assert_array_equal(getattr(report, name), getattr(seen, name))


def rows_of(result, rows):
    """Return a part of codes with their report."""
    codes, report = result
    return codes[rows], td.Report(*(getattr(report, name)[rows] for name in ("status", "kkt", "n_steps", "lambda1")))


def structured(kind, p, m_side, seed=0, n=12):
    """Signals and large dictionaries of some structure."""
    rng = np.random.default_rng(seed)
    picture = halftone((90, 110), seed) + 0.3 * rng.random((90, 110))
    windows = np.lib.stride_tricks.sliding_window_view(picture, (m_side, m_side)).reshape(-1, m_side**2)
    chosen = windows[rng.permutation(len(windows))[: p + n]]
    D, X = chosen[n:].copy(), chosen[:n].copy()
    if kind == "centred patches":
        D -= D.mean(axis=1, keepdims=True)
        X -= X.mean(axis=1, keepdims=True)
    elif kind == "near-duplicates":
        D = np.repeat(D[: p // 8], 8, axis=0) + 1e-6 * rng.standard_normal((p // 8 * 8, D.shape[1]))
    elif kind == "duplicates":
        D = np.tile(D[: p // 4], (4, 1)) * np.repeat([1.0, -1.0, 1.0, 2.0], p // 4)[:, None]
    elif kind == "very different norms":
        D *= 10.0 ** rng.integers(-4, 4, (len(D), 1))
    return X, D


STRUCTURES = ("patches", "centred patches", "near-duplicates", "duplicates", "very different norms")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES)
def test_hard_cases(X, D, lambda1, lambda2, positive, dtype):
    X, D = X.astype(dtype), D.astype(dtype)
    codes, report = encode_direct(X, D, lambda1=lambda1, lambda2=lambda2, positive=positive)
    assert_exact(X, D, codes, report, lambda1, lambda2, positive)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("atom_scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("signal_scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("X", "D", "lambda1"), HARD_CASES[::3])
def test_scales(X, D, lambda1, signal_scale, atom_scale, dtype):
    X, D = (X * signal_scale).astype(dtype), (D * atom_scale).astype(dtype)
    lambda1, lambda2 = lambda1 * signal_scale * atom_scale, 1e-3 * atom_scale**2
    codes, report = encode_direct(X, D, lambda1=lambda1, lambda2=lambda2)
    assert_exact(X, D, codes, report, lambda1, lambda2, False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.999, 0.3, 0.03])
@pytest.mark.parametrize("kind", STRUCTURES)
def test_structured_dictionaries(kind, share, dtype):
    X, D = (a.astype(dtype) for a in structured(kind, 3000, 6, n=5))
    top = np.abs(X.astype(np.float64) @ D.T.astype(np.float64)).max(axis=1)
    assert needs_no_gram(len(X), D)
    for row, lambda1 in enumerate(share * top):
        codes, report = td.sparse_encode(X[row : row + 1], D, lambda1=lambda1, return_report=True)
        assert_exact(X[row : row + 1], D, codes, report, lambda1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [1e-6, 0.0])
@pytest.mark.parametrize(("lambda2", "p"), [(0.0, 1500), (1e-3, 250)])
def test_hardly_any_penalty(lambda2, p, share, dtype):
    """With λ2 > 0 most atoms are active."""
    X, D = random_problem(3, 40, p, dtype=dtype)
    codes, report = encode_direct(X, D, lambda1=share, lambda2=lambda2)
    assert_exact(X, D, codes, report, share, lambda2)


@given(
    st.data(),
    st.integers(1, 12),
    st.integers(1, 25),
    st.integers(0, 6),
    st.sampled_from(DTYPES),
    st.sampled_from([0.0, 1e-6, 0.1, 1.0]),
    st.sampled_from([0.0, 1e-2, 2.0]),
    st.booleans(),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_small_integers(data, m, p, n, dtype, lambda1, lambda2, positive):
    """Small integers make ties, duplicates and dependent atoms likely."""
    entries = st.integers(-2, 2)
    X = data.draw(hnp.arrays(np.int8, (n, m), elements=entries)).astype(dtype)
    D = data.draw(hnp.arrays(np.int8, (p, m), elements=entries)).astype(dtype)
    codes, report = encode_direct(X, D, lambda1=lambda1, lambda2=lambda2, positive=positive)
    assert_exact(X, D, codes, report, lambda1, lambda2, positive)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
def test_agrees_with_the_gram_matrix(lambda2, positive, dtype):
    X, D = random_problem(40, 60, 300, dtype=dtype)
    with_gram = td.sparse_encode(X, D, lambda1=0.1, lambda2=lambda2, positive=positive)
    codes, _ = encode_direct(X, D, lambda1=0.1, lambda2=lambda2, positive=positive)
    atol = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(codes.toarray(), with_gram.toarray(), atol=atol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["patches", "duplicates"])
def test_same_bits_for_threads_orders_and_parts(forced, kind, dtype):
    X, D = (a.astype(dtype) for a in structured(kind, 1200, 5, n=70))

    def encode(signals, n_threads=1):
        return td.sparse_encode(signals, D, lambda1=0.4, n_threads=n_threads, return_report=True)

    expected = encode(X)
    assert expected[0].nnz > len(X)
    for n_threads in (2, 3, 5):
        same_bits(encode(X, n_threads), expected)
    order = np.random.default_rng(0).permutation(len(X))
    same_bits(encode(X[order], 2), rows_of(expected, order))
    for part in (slice(0, 13), slice(13, 70), slice(40, 41), slice(69, 70)):
        same_bits(encode(X[part]), rows_of(expected, np.arange(70)[part]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_forms(dtype, tmp_path):
    X, D = random_problem(30, 20, 2500, dtype=dtype)
    assert needs_no_gram(len(X), D)
    expected = td.sparse_encode(X, D, lambda1=0.2)
    wide = np.zeros((60, 60), dtype)
    wide[::2, ::3] = X
    np.save(tmp_path / "X.npy", X)
    read_only, atoms = X.copy(), D.copy()
    read_only.flags.writeable = atoms.flags.writeable = False
    forms = {
        "fortran": (np.asfortranarray(X), np.asfortranarray(D)),
        "strided": (wide[::2, ::3], D),
        "reversed": (X[::-1, ::-1].copy()[::-1, ::-1], D),
        "memory map": (np.load(tmp_path / "X.npy", mmap_mode="r"), D),
        "read-only": (read_only, atoms),
        "sparse": (sp.csr_array(X), D),
    }
    for name, (signals, dictionary) in forms.items():
        codes = td.sparse_encode(signals, dictionary, lambda1=0.2)
        assert codes.dtype == dtype
        np.testing.assert_array_equal(codes.toarray(), expected.toarray(), err_msg=name)


def test_bad_signals_are_named(forced):
    X, D = random_problem(60, 5, 9)
    X[33, 2] = np.inf
    for signals in (X, sp.csr_array(X)):
        with pytest.raises(ValueError, match="row 33 contains NaN or infinity"):
            td.sparse_encode(signals, D, lambda1=0.1)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_few_signals(n, make):
    X, D = random_problem(n, 5, 9)
    codes, report = encode_direct(make(X), D, lambda1=0.1)
    assert_exact(X, D, codes, report, 0.1)


@pytest.mark.parametrize("rule", [{"lambda1": 0.05}, {"n_nonzero": 60}])
def test_interrupts(rule):
    X, D = random_problem(20_000, 128, 2048, dtype=np.float32)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        td.sparse_encode(X, D, **rule, n_threads=2)
    timer.join()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("m", "p"), [(12, 30), (30, 400), (20, 2500)])
def test_rules(m, p, positive, dtype):
    """By their definition, and as with a Gram matrix."""
    X, D = random_problem(6, m, p, dtype=dtype)
    X64, D64 = X.astype(np.float64), D.astype(np.float64)
    products = X64 @ D64.T
    tops = products.max(axis=1) if positive else np.abs(products).max(axis=1)
    there = td.sparse_encode(X64, D64, lambda1=0.4 * tops, positive=positive).toarray()
    amounts = {
        "n_nonzero": np.count_nonzero(there, axis=1),
        "max_error": ((X64 - there @ D64) ** 2).sum(axis=1),
        "max_l1": np.abs(there).sum(axis=1),
    }
    for rule in RULES:
        codes, report = encode_direct(X, D, **{rule: amounts[rule]}, positive=positive)
        kkt = [
            relative_kkt(X[r : r + 1], D, codes[[r]], report.lambda1[r], positive=positive)[0] for r in range(len(X))
        ]
        assert max(kkt) <= TOLERANCE[np.dtype(dtype)]
        A = codes.toarray().astype(np.float64)
        tolerance = 1e-4 if dtype == np.float32 else 1e-10
        if rule == "n_nonzero":
            assert (np.count_nonzero(A, axis=1) <= amounts[rule]).all()
        elif rule == "max_error":
            errors = ((X64 - A @ D64) ** 2).sum(axis=1)
            np.testing.assert_allclose(errors, amounts[rule], atol=tolerance)
        else:
            np.testing.assert_allclose(np.abs(A).sum(axis=1), amounts[rule], rtol=tolerance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_native, "needs_no_gram", lambda n_signals, dictionary: False)
            with_gram = td.sparse_encode(X, D, **{rule: amounts[rule]}, positive=positive)
        np.testing.assert_allclose(A, with_gram.toarray(), atol=1e-3 if dtype == np.float32 else 1e-8)


@pytest.mark.parametrize("lambda2", [0.0, 0.1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_adjoints(lambda2, dtype):
    X, D = random_problem(20, 30, 1500, dtype=dtype)
    assert needs_no_gram(len(X), D)
    codes, active_sets = encode_with_active_sets(X, D, lambda1=0.2, lambda2=lambda2)
    g = np.random.default_rng(1).standard_normal(codes.nnz).astype(dtype)
    beta = active_sets.solve(g)
    assert codes.nnz > 2 * len(X)
    for row in range(len(X)):
        part = slice(codes.indptr[row], codes.indptr[row + 1])
        full, alpha = np.zeros(len(D)), np.zeros(len(D))
        full[codes.indices[part]], alpha[codes.indices[part]] = g[part], codes.data[part]
        expected = reference.adjoint(D.T.astype(np.float64), alpha, full, lambda2)[codes.indices[part]]
        rtol = 1e-3 if dtype == np.float32 else 1e-9
        np.testing.assert_allclose(beta[part], expected, rtol=rtol, atol=rtol * np.abs(expected).max(initial=0))


@pytest.mark.parametrize("lambda2", [0.0, 0.1])
def test_gradients_are_central_differences(lambda2):
    """Of Σ w_ij α_ij, along random directions of the dictionary and of the signals."""
    X, D = random_problem(8, 20, 1100)
    assert needs_no_gram(len(X), D)
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((len(X), len(D)))
    coding, step = Coding(0.3, lambda2), 1e-6

    def value(signals, dictionary):
        codes = td.sparse_encode(signals, dictionary, lambda1=0.3, lambda2=lambda2)
        return float((codes.multiply(weights)).sum())

    batch = CodedBatch(X, D, coding, n_threads=2)
    g = weights[batch.rows, batch.encoded.indices]
    assert len(g) > 2 * len(X)
    gradient = batch.through_codes(g)
    for _ in range(3):
        in_D, in_X = rng.standard_normal(D.shape), rng.standard_normal(X.shape)
        in_D /= np.linalg.norm(in_D, axis=1, keepdims=True)
        moved = (value(X, D + step * in_D) - value(X, D - step * in_D)) / (2 * step)
        np.testing.assert_allclose((gradient.D * in_D).sum(), moved, rtol=1e-5)
        moved = (value(X + step * in_X, D) - value(X - step * in_X, D)) / (2 * step)
        np.testing.assert_allclose((gradient.x * in_X).sum(), moved, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("cosine", [0.9, 0.999, 0.999999])
def test_duplicates(cosine, positive, dtype):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((60, 6))
    D = np.concatenate([D, D[:10], -D[10:20], 3 * D[20:30], D[30:40] + 1e-3 * rng.standard_normal((10, 6)), D[:3] * 0])
    D = D[rng.permutation(len(D))].astype(dtype)
    encoder = Encoder(D, lambda1=0.1, lambda2=0.0, positive=positive, n_threads=1, varies=True)
    wide = D.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1)
    products = wide @ wide.T if positive else np.abs(wide @ wide.T)
    alike = (products > 0) & (products >= cosine * np.outer(norms, norms))
    expected = [j for j in range(len(D)) if alike[j, :j].any()]
    assert encoder.duplicates(cosine).tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [16, 256, 2048])
def test_the_choice_of_the_path(m, dtype):
    """Small dictionaries have a Gram matrix, very large ones none, others from some number of signals on."""

    def choice(n_signals, p):
        return needs_no_gram(n_signals, np.broadcast_to(dtype(1), (p, m)))

    assert not any(choice(n, p) for n in (0, 1, 1e9) for p in (1, 100, 1023))
    assert all(choice(n, 65_536) for n in (1, 1e9, np.inf))
    for p in (1024, 2048, 8192, 16_384):
        without = [choice(n, p) for n in (1, 10, 100, 1e3, 1e4, 1e5, 1e6, np.inf)]
        assert without[0]
        assert without == sorted(without, reverse=True)
