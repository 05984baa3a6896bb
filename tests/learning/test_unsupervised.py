import numpy as np
import pytest

import reference as _reference
from helpers import DTYPES, random_problem
from taskdict import _native
from taskdict._learning.online import DictionaryProblem, OnlineLearner, OnlineState, fading, has_converged
from taskdict._learning.statistics import FullStatistics
from taskdict.constraints import UnitBall

TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def encode(X, D, lambda1, lambda2=0.0, n_threads=1):
    encoder = _native.Encoder(
        D,
        lambda1=lambda1,
        lambda2=lambda2,
        positive=False,
        n_threads=n_threads,
    )
    encoder.encode(X)
    return encoder, encoder.release()


def dense(encoded, p):
    codes = np.zeros((len(encoded.indptr) - 1, p), np.float64)
    for row, (start, end) in enumerate(zip(encoded.indptr[:-1], encoded.indptr[1:], strict=True)):
        codes[row, encoded.indices[start:end]] = encoded.values[start:end]
    return codes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(("n", "m", "p"), [(1, 1, 1), (7, 3, 5), (40, 9, 33), (300, 130, 70), (500, 67, 200)])
def test_sums(n, m, p, n_threads, dtype):
    X, D = random_problem(n, m, p, dtype=dtype)
    encoder, encoded = encode(X, D, 0.1, 0.02)
    codes = dense(encoded, p)
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((p, p)).astype(dtype), rng.standard_normal((p, m)).astype(dtype)
    for fade in (0.0, 0.7):
        before_A, before_B = (A, B) if fade else (np.full_like(A, np.nan), np.full_like(B, np.nan))
        after_A, after_B = np.full_like(A, np.nan), np.full_like(B, np.nan)
        _native.sum_outer_sparse(encoded, fade, before_A, after_A, n_threads)
        _native.sum_outer(encoded, encoded.values, X, fade, before_B, after_B, n_threads)
        scale = 1 + abs(codes).sum()
        np.testing.assert_allclose(after_A, fade * A + codes.T @ codes, atol=TOLERANCE[dtype] * scale)
        np.testing.assert_allclose(after_B, fade * B + codes.T @ X, atol=TOLERANCE[dtype] * scale)
    expected = [_reference.objective(x, D.T.astype(float), code, 0.1, 0.02) for x, code in zip(X, codes, strict=True)]
    np.testing.assert_allclose(encoder.objectives(encoded, X), expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("m", "p"), [(1, 1), (3, 5), (17, 24), (40, 100), (300, 61)])
def test_update_atoms(m, p, positive, dtype):
    rng = np.random.default_rng(0)
    D = UnitBall(positive).project(rng.standard_normal((p, m))).astype(dtype)
    codes = rng.standard_normal((2 * p, p)) * (rng.random((2 * p, p)) < 0.3)
    codes[:, 0] = 0 if p > 1 else 1  # an atom that is not used stays
    A = (codes.T @ codes).astype(dtype)
    B = (codes.T @ rng.standard_normal((2 * p, m))).astype(dtype)
    expected = _reference.update_atoms(D.T.astype(float), A.astype(float), B.T.astype(float), positive).T
    results = []
    for n_threads in (1, 2, 5):
        updated = D.copy()
        _native.update_atoms(updated, A, B, positive, n_threads)
        results.append(updated)
    np.testing.assert_allclose(results[0], expected, atol=100 * TOLERANCE[dtype])
    if p > 1:
        np.testing.assert_array_equal(results[0][0], D[0])
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_update_atoms_with_threads_that_come_and_go():
    """Large enough for helpers to be started; the same bits every time."""
    rng = np.random.default_rng(0)
    p, m = 300, 500
    codes = rng.standard_normal((600, p)) * (rng.random((600, p)) < 0.1)
    A, B = codes.T @ codes, codes.T @ rng.standard_normal((600, m))
    start = UnitBall().project(rng.standard_normal((p, m)))
    expected = start.copy()
    _native.update_atoms(expected, A, B, False, 1)
    for _ in range(10):
        updated = start.copy()
        _native.update_atoms(updated, A, B, False, 4)
        np.testing.assert_array_equal(updated, expected)


def learner(D, lambda1=0.1, lambda2=0.0, positive_code=False, positive=False):
    return OnlineLearner(
        DictionaryProblem(lambda1, lambda2, positive_code, UnitBall(positive)), OnlineState.start(D), 1
    )


def test_steps_are_those_of_the_reference():
    X, D = random_problem(90, 6, 9)
    mine = learner(D, lambda2=0.05)
    expected, A, B = D.T, np.zeros((9, 9)), np.zeros((6, 9))
    seen = 0
    for batch in np.split(X, [10, 40, 41, 70]):  # of unequal sizes
        fade = fading(seen, seen + len(batch), 9)
        expected, A, B = _reference.online_step(expected, A, B, batch.T, fade, 0.1, 0.05)
        mine.step(batch)
        seen += len(batch)
        np.testing.assert_allclose(mine.state.dictionary, expected.T, atol=1e-10)
        np.testing.assert_allclose(mine.state.statistics.A, A, atol=1e-10)
        np.testing.assert_allclose(mine.state.statistics.B, B.T, atol=1e-10)
    assert (mine.state.n_batches, mine.state.n_signals) == (5, 90)


def test_weights_are_those_of_signals():
    """However the signals come, the last of them have the same weight in the statistics as a whole."""
    X, D = random_problem(400, 6, 9)
    weights = []
    for size in (1, 20, 400 // 3):
        mine = learner(D, lambda1=100.0)  # no code has a nonzero: nothing but the weights changes
        mine.step(X[:200])
        state = mine.state
        mine.state = OnlineState(
            state.dictionary, FullStatistics(np.eye(9), state.statistics.B), state.last_used, 1, 200
        )
        for start in range(200, 400, size):
            mine.step(X[start : min(400, start + size)])
        weights.append(mine.state.statistics.A[0, 0])
    np.testing.assert_allclose(weights, weights[0], rtol=1e-12)
    assert 0 < weights[0] < 1


def test_step_reports_the_objective_before_it():
    X, D = random_problem(50, 6, 9)
    mine = learner(D)
    encoded = dense(encode(X, D, 0.1)[1], 9)
    step = mine.step(X)
    expected = np.mean([_reference.objective(x, D.T, code, 0.1, 0.0) for x, code in zip(X, encoded, strict=True)])
    assert step.objective == pytest.approx(expected, rel=1e-12)
    assert step.nonzeros == np.count_nonzero(encoded) / 50
    again = mine.step(X)
    assert again.objective < step.objective


def test_objective_falls():
    """With all signals in each batch, each step can only lower the objective once the weights have settled."""
    X, D = random_problem(200, 10, 20)
    mine = learner(D)
    objectives = [mine.step(X).objective for _ in range(60)]
    assert objectives[-1] < 0.85 * objectives[0]
    assert (np.diff(objectives[5:]) < 1e-4 * objectives[0]).all()


def test_a_bad_signal_changes_nothing():
    X, D = random_problem(50, 6, 9)
    mine = learner(np.zeros_like(D))
    mine.step(X)
    before = mine.state
    A, B = before.statistics.A.copy(), before.statistics.B.copy()
    X = X.copy()
    X[17, 3] = np.nan
    with pytest.raises(_native.BadSignalError):
        mine.step(X)
    assert mine.state is before
    np.testing.assert_array_equal(mine.state.statistics.A, A)
    np.testing.assert_array_equal(mine.state.statistics.B, B)


def test_zero_atoms_become_signals():
    X, _ = random_problem(50, 6, 9)
    X[3] = 0
    X[4] = -2 * X[0]  # a multiple of one that is there
    X[5] *= 0.01  # too short for λ1
    mine = learner(np.zeros((9, 6)), lambda1=0.1)
    state, rows = mine._give_birth(X)
    assert list(rows) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    np.testing.assert_allclose(state.dictionary, X[rows], atol=1e-15)
    state, rows = learner(np.zeros((9, 6)), positive_code=True)._give_birth(X)
    assert rows[3] == 4  # with another sign it is another atom
    np.testing.assert_allclose(state.dictionary[3], X[4] / 2, atol=1e-15)


def test_signals_that_became_atoms_do_not_teach():
    X, _ = random_problem(50, 6, 9)
    mine, other = learner(np.zeros((9, 6))), learner(X[:9])
    mine.step(X)
    other.step(X[9:])
    np.testing.assert_allclose(mine.state.dictionary, other.state.dictionary, atol=1e-12)
    assert (mine.state.n_signals, other.state.n_signals) == (50, 41)


def test_one_signal_at_a_time():
    X, _ = random_problem(300, 6, 1)
    mine = learner(np.zeros((9, 6)))
    for k, x in enumerate(X):
        mine.step(x[None])
        assert mine.state.unborn().sum() == max(0, 8 - k)
    norms = np.linalg.norm(mine.state.dictionary, axis=1)
    assert (norms > 0.5).all()
    assert (norms <= 1 + 1e-12).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_duplicates_are_replaced_by_badly_coded_signals(sign):
    X, D = random_problem(100, 20, 10)
    D[7] = sign * D[2]
    mine = learner(D, lambda1=0.3)
    encoder, encoded = encode(X, D, 0.3)
    worst = X[np.argmax(encoder.objectives(encoded, X))]
    assert mine.step(X).n_replaced == 1
    np.testing.assert_allclose(mine.state.dictionary[7], worst, atol=1e-12)
    assert not mine.state.statistics.A[7].any()
    assert not mine.state.statistics.A[:, 7].any()
    assert not mine.state.statistics.B[7].any()
    assert mine.step(X).n_replaced == 0
    kept = learner(D, lambda1=0.3, positive_code=True).step(X).n_replaced
    assert kept == (sign == 1)  # d and −d are two atoms if codes are non-negative


def test_dead_atoms_are_replaced():
    X, D = random_problem(200, 20, 10)
    X[:, 0] = 0
    D[:, 0] = 0
    D[4] = np.eye(20)[0]  # orthogonal to every signal and atom
    mine = learner(D, lambda1=0.05)
    replaced = [mine.step(batch).n_replaced for batch in np.split(X, 20)]
    assert sum(replaced) == 1
    assert replaced.index(1) >= 5  # not at once: an atom may be rare
    assert abs(mine.state.dictionary[4, 0]) < 1e-12


def test_positive_dictionary():
    X, _ = random_problem(200, 10, 1)
    mine = learner(np.zeros((12, 10)), positive=True, positive_code=True)
    for _ in range(20):
        mine.step(np.abs(X))
    assert (mine.state.dictionary >= 0).all()
    assert (np.linalg.norm(mine.state.dictionary, axis=1) <= 1 + 1e-12).all()


def test_has_converged():
    rng = np.random.default_rng(0)
    steps = np.arange(1, 401)
    assert not has_converged(list(1 + 1 / steps[:20]), 1e-3)  # too few to tell
    assert not has_converged(list(1 + 1 / steps**0.3), 1e-3)
    assert has_converged(list(1 + 1 / steps**2), 1e-3)
    assert not has_converged(list(1 + 0.2 * rng.standard_normal(400)), 1e-3)  # too noisy to tell
    assert has_converged(list(1 + 1e-4 * rng.standard_normal(400)), 1e-3)
