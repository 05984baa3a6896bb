"""Learning from a window of signals, without p × p statistics."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from test_unsupervised import TOLERANCE, dense, encode

import reference as _reference
import taskdict as td
from helpers import DTYPES, random_problem
from taskdict import _native
from taskdict._learning import statistics
from taskdict._learning.online import DictionaryProblem, OnlineLearner, OnlineState, fading
from taskdict._learning.statistics import FullStatistics, WindowStatistics
from taskdict.constraints import UnitBall


def learner(D, kind=WindowStatistics, lambda1=0.1, lambda2=0.0, positive_code=False, positive=False, n_threads=1):
    problem = DictionaryProblem(lambda1, lambda2, positive_code, UnitBall(positive))
    return OnlineLearner(problem, OnlineState.start(D, kind.start(D)), n_threads)


def pattern_of(codes):
    """Return dense codes in compressed rows."""
    rows, columns = np.nonzero(codes)
    ends = np.searchsorted(rows, np.arange(len(codes) + 1))
    return statistics.WindowCodes(codes[rows, columns], columns.astype(np.int32), ends.astype(np.int64))


@pytest.fixture
def small_windows(monkeypatch):
    """Let dictionaries of any size learn from a window."""
    monkeypatch.setattr(statistics, "FULL_ATOMS", 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    ("n", "m", "p"), [(1, 1, 1), (9, 3, 5), (50, 17, 24), (200, 64, 100), (150, 300, 61), (0, 4, 3)]
)
def test_update_atoms_on_window(n, m, p, positive, dtype):
    rng = np.random.default_rng(0)
    D = UnitBall(positive).project(rng.standard_normal((p, m))).astype(dtype)
    codes = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.3)
    targets, curvatures = rng.standard_normal((p, m)), rng.random(p)
    curvatures[p // 2] = 0
    codes[:, -1] = curvatures[-1] = 0  # an atom that is not used stays
    X, weights = rng.standard_normal((n, m)), rng.random(n)
    X, codes, weights, targets, curvatures = (a.astype(dtype) for a in (X, codes, weights, targets, curvatures))
    wide = [a.astype(float) for a in (D.T, codes.T, X.T, weights, targets.T, curvatures)]
    expected = _reference.update_atoms_on_window(*wide, positive).T
    pattern = pattern_of(codes)
    results = []
    for n_threads in (1, 2, 5):
        updated = D.copy()
        _native.update_atoms_on_window(
            updated, pattern, pattern.values, weights, X, targets, curvatures, positive, n_threads
        )
        results.append(updated)
    np.testing.assert_allclose(results[0], expected, atol=100 * TOLERANCE[dtype])
    np.testing.assert_array_equal(results[0][-1], D[-1])
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_the_same_bits_with_threads_that_come_and_go():
    """Large enough for helpers to be started."""
    X, D = random_problem(3000, 300, 400, dtype=np.float32)
    results = []
    for n_threads in (1, 4, 4, 4):
        mine = learner(D, lambda1=0.15, n_threads=n_threads)
        for batch in np.split(X, 3):
            mine.step(batch)
        results.append(mine.state)
    for other in results[1:]:
        for name, array in results[0].statistics.arrays().items():
            np.testing.assert_array_equal(other.statistics.arrays()[name], array, name)
        np.testing.assert_array_equal(other.dictionary, results[0].dictionary)


@pytest.mark.parametrize("positive", [False, True])
def test_a_window_of_all_signals_is_as_good_as_full_statistics(positive, monkeypatch):
    """While no signal has left the window, both ways compute the same."""
    X, D = random_problem(300, 6, 9)
    X, D = (np.abs(X), np.abs(D)) if positive else (X, D)
    monkeypatch.setattr(statistics, "WINDOW", 100)
    mine, other = (learner(D, kind, positive=positive) for kind in (WindowStatistics, FullStatistics))
    for batch in np.split(X, [10, 40, 41, 170]):
        assert mine.step(batch).objective == pytest.approx(other.step(batch).objective, rel=1e-9)
        np.testing.assert_allclose(mine.state.dictionary, other.state.dictionary, atol=1e-9)
    assert not mine.state.statistics.curvatures.any()


def test_steps_are_those_of_the_reference():
    X, D = random_problem(120, 6, 9)
    mine = learner(D, lambda2=0.05)
    expected, targets, curvatures = D.T, np.zeros((6, 9)), np.zeros(9)
    held = (np.zeros((6, 0)), np.zeros((9, 0)), np.zeros(0))
    seen = 0
    for batch in np.split(X, [10, 40, 41, 50]):  # of unequal sizes; the last is larger than the window
        fade = fading(seen, seen + len(batch), 9) if seen else 0.0
        codes = np.stack([_reference.active_set(x, expected, 0.1, 0.05) for x in batch], axis=1)
        signals, codes, weights = (
            np.concatenate(pair, axis=-1) for pair in zip(held, (batch.T, codes, np.ones(len(batch))), strict=True)
        )
        weights[: len(weights) - len(batch)] *= fade
        leaving = max(0, len(weights) - statistics.WINDOW * 9)
        targets, curvatures = _reference.leave_window(
            expected,
            codes[:, :leaving],
            signals[:, :leaving],
            weights[:leaving],
            fade * targets,
            fade * curvatures,
        )
        held = signals[:, leaving:], codes[:, leaving:], weights[leaving:]
        expected = _reference.update_atoms_on_window(expected, held[1], held[0], held[2], targets, curvatures)
        mine.step(batch)
        seen += len(batch)
        found = mine.state.statistics
        np.testing.assert_allclose(mine.state.dictionary, expected.T, atol=1e-10)
        np.testing.assert_allclose(found.targets, targets.T, atol=1e-10)
        np.testing.assert_allclose(found.curvatures, curvatures, atol=1e-10)
        np.testing.assert_allclose(found.weights, held[2], atol=1e-12)
    assert curvatures.any()


def test_weights_are_those_of_signals(monkeypatch):
    """However the signals come, earlier ones have the same weight in the end, in the window and after it."""
    X, D = random_problem(600, 6, 9)
    monkeypatch.setattr(statistics, "WINDOW", 30)
    first = {}
    for size in (1, 20, 133):
        mine = learner(D)
        mine.step(X[:200])
        mine.problem = DictionaryProblem(100.0, 0.0, False, UnitBall())  # no code has a nonzero: nothing else changes
        total = [mine.state.statistics.largest_curvature()]
        for stop in (300, 600):  # some, then all signals of the first batch have left the window
            while mine.state.n_signals < stop:
                seen = mine.state.n_signals
                mine.step(X[seen : min(stop, seen + size)])
            total.append(mine.state.statistics.largest_curvature())
        first[size] = total
        assert not mine.state.statistics.codes.values.any()
        assert mine.state.statistics.curvatures.any()
    for total in first.values():
        np.testing.assert_allclose(total, first[1], rtol=1e-10)
    assert first[1][0] > 1.1 * first[1][1] > 1.1 * first[1][2] > 0


def objective(X, D, lambda1):
    codes = td.sparse_encode(X, D, lambda1=lambda1)
    return (0.5 * np.square(X - codes @ D).sum() + lambda1 * np.abs(codes.data).sum()) / len(X)


@pytest.mark.parametrize("size", [64, 600])
def test_within_a_percent_of_full_statistics(size):
    X = load_digits().data
    X = X[np.random.default_rng(0).permutation(len(X))]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    train, held_out = X[:1500], X[1500:]
    found = {}
    for kind in (FullStatistics, WindowStatistics):
        mine = learner(np.zeros((100, 64)), kind)
        for start in range(0, 9000, size):
            mine.step(train[np.arange(start, start + size) % 1500])
        found[kind] = objective(held_out, mine.state.dictionary, 0.1)
    start = objective(held_out, train[:100], 0.1)
    assert found[FullStatistics] < 0.91 * start  # the problem is such that learning matters
    assert found[WindowStatistics] < 1.01 * found[FullStatistics]


def test_duplicates_are_replaced_by_badly_coded_signals():
    X, D = random_problem(100, 20, 10)
    D[7] = -D[2]
    mine = learner(D, lambda1=0.3)
    encoder, encoded = encode(X, D, 0.3)
    worst = X[np.argmax(encoder.objectives(encoded, X))]
    assert mine.step(X).n_replaced == 1
    np.testing.assert_allclose(mine.state.dictionary[7], worst, atol=1e-12)
    found = mine.state.statistics
    assert not found.targets[7].any()
    assert found.curvatures[7] == 0
    assert not dense(found.codes, 10)[:, 7].any()
    assert mine.step(X).n_replaced == 0
    assert learner(D, lambda1=0.3, positive_code=True).step(X).n_replaced == 0  # d and −d are two atoms then


def test_dead_atoms_are_replaced():
    X, D = random_problem(200, 20, 10)
    X[:, 0] = 0
    D[:, 0] = 0
    D[4] = np.eye(20)[0]  # orthogonal to every signal and atom
    mine = learner(D, lambda1=0.05)
    replaced = [mine.step(batch).n_replaced for batch in np.split(X, 20)]
    assert sum(replaced) == 1
    assert replaced.index(1) >= 5
    assert abs(mine.state.dictionary[4, 0]) < 1e-12


def test_a_bad_signal_changes_nothing():
    X, D = random_problem(50, 6, 9)
    mine = learner(np.zeros_like(D))
    mine.step(X)
    before = mine.state
    kept = {name: array.copy() for name, array in before.statistics.arrays().items()}
    X = X.copy()
    X[17, 3] = np.nan
    with pytest.raises(_native.BadSignalError):
        mine.step(X)
    assert mine.state is before
    mine.step(X[:17])
    for name, array in before.statistics.arrays().items():
        np.testing.assert_array_equal(array, kept[name])


def test_constraints(small_windows):
    X = np.abs(random_problem(300, 8, 1)[0])
    model = td.DictionaryLearning(12, lambda1=0.05, positive_code=True, positive_dictionary=True, max_iter=20).fit(X)
    assert (model.components_ >= 0).all()
    assert (np.linalg.norm(model.components_, axis=1) <= 1 + 1e-12).all()
    assert (model.transform(X).data > 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_files(dtype, small_windows, tmp_path):
    """A model resumes from its file to the same bits."""
    X = random_problem(500, 8, 1, dtype=dtype)[0]
    model = td.DictionaryLearning(12, lambda1=0.1, max_iter=20, batch_size=50, random_state=0, tol=0)
    whole = clone(model).fit(X)
    half = clone(model).set_params(max_iter=9).fit(X)
    assert isinstance(half._learner.state.statistics, WindowStatistics)
    half.save(tmp_path / "model")
    loaded = td.load(tmp_path / "model").set_params(max_iter=20, warm_start=True).fit(X)
    np.testing.assert_array_equal(loaded.components_, whole.components_)
    assert loaded.history_ == whole.history_


def test_files_with_full_statistics_stay_so(tmp_path, monkeypatch):
    X, _ = random_problem(500, 8, 1)
    model = td.DictionaryLearning(12, lambda1=0.1, max_iter=9, batch_size=50, random_state=0, tol=0).fit(X)
    model.save(tmp_path / "model")
    monkeypatch.setattr(statistics, "FULL_ATOMS", 0)
    loaded = td.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.partial_fit(X).components_, model.partial_fit(X).components_)


def test_unsound_arrays_are_refused():
    X, D = random_problem(50, 6, 9)
    mine = learner(D)
    mine.step(X)
    sound = mine.state.statistics.arrays()
    assert WindowStatistics.from_arrays(sound, D).codes.values is sound["window values"]
    indices, indptr = sound["window indices"], sound["window indptr"]
    backwards = indptr.copy()
    backwards[[3, 4]] = indptr[-1], 0
    changes = [
        ("window X", sound["window X"][1:], "fit"),
        ("window X", sound["window X"][:, 1:].copy(), "fit"),
        ("window X", np.full_like(sound["window X"], np.inf), "finite"),
        ("window values", sound["window values"][1:], "fit"),
        ("window values", sound["window values"].astype(np.float32), "fit"),
        ("window indices", indices.astype(np.int64), "fit"),
        ("window indices", indices + 1, "codes make no sense"),
        ("window indices", indices - 1, "codes make no sense"),
        ("window indptr", indptr[1:], "fit"),
        ("window indptr", indptr + 1, "codes make no sense"),
        ("window indptr", backwards, "codes make no sense"),
        ("window weights", -sound["window weights"], "weights make no sense"),
        ("targets", sound["targets"].T.copy(), "fit"),
        ("curvatures", sound["curvatures"][1:], "fit"),
        ("curvatures", -1 - sound["curvatures"], "weights make no sense"),
    ]
    for name, array, message in changes:
        with pytest.raises(ValueError, match=message):
            WindowStatistics.from_arrays({**sound, name: array}, D)


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_any_threads(dtype, small_windows):
    X = random_problem(3000, 60, 1, dtype=dtype)[0]
    models = [
        td.DictionaryLearning(80, lambda1=0.1, max_iter=8, random_state=0, n_threads=n).fit(X) for n in (2, 2, 1, 5)
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.components_, models[0].components_)
        assert model.history_ == models[0].history_


def test_partial_fit_with_unequal_batches(small_windows):
    X = load_digits().data
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = {}
    for name, sizes in {"even": [100] * 30, "uneven": [1, 199] * 15, "growing": range(1, 78)}.items():
        model = td.DictionaryLearning(30, lambda1=0.1)
        at = 0
        for size in sizes:
            model.partial_fit(X[np.arange(at, at + size) % len(X)])
            at += size
        scores[name] = -model.score(X)
    assert max(scores.values()) < 1.05 * min(scores.values())


def test_memory_is_of_the_order_of_the_dictionary():
    """Nothing that learning allocates, births of all atoms included, has p × p numbers."""
    p, m = 3000, 12
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, m)).astype(np.float32)
    assert p > statistics.FULL_ATOMS
    learning = OnlineLearner(
        DictionaryProblem(0.8, 0.0, False, UnitBall()), OnlineState.start(np.zeros((p, m), np.float32)), 1
    )
    tracemalloc.start()
    for batch in np.split(X, 6):
        learning.step(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not learning.state.unborn().any()
    kept = learning.state.statistics.arrays()
    assert len(kept["window X"]) == statistics.WINDOW * p
    assert sum(array.nbytes for array in kept.values()) < 8 * p * m * 4
    assert peak < 40 * p * m * 4 < p * p * 4


def test_ctrl_c_keeps_the_model():
    script = """
import os, signal, threading
import numpy as np
import taskdict as td
from taskdict._learning import statistics
statistics.FULL_ATOMS = 0
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
X = np.random.default_rng(0).standard_normal((4000, 100)).astype(np.float32)
settings = {"lambda1": 0.5, "batch_size": 500, "tol": 0, "random_state": 0}
model = td.DictionaryLearning(150, max_iter=10**6, **settings)
def press(progress):
    if progress.n_iter == 3:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    model.set_params(callbacks=press).fit(X)
except KeyboardInterrupt:
    n = model.n_iter_
    model.set_params(callbacks=None, max_iter=n + 2, warm_start=True).fit(X)
    whole = td.DictionaryLearning(150, max_iter=n + 2, **settings).fit(X)
    print("the same" if (whole.components_ == model.components_).all() else "another")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.strip() == "the same", run.stderr


def test_bindings_refuse_other_shapes():
    X, D = random_problem(5, 6, 9)
    codes = statistics.WindowCodes(np.ones(5), np.arange(5, dtype=np.int32), np.arange(6))
    sound = [D.copy(), codes, codes.values, np.ones(5), X, np.zeros((9, 6)), np.zeros(9)]
    for place, name in {2: "values", 3: "weights", 4: "signals", 5: "targets", 6: "curvatures"}.items():
        changed = list(sound)
        changed[place] = changed[place][1:]
        with pytest.raises(ValueError, match=f"{name} has shape"):
            _native.update_atoms_on_window(*changed, False, 1)


def test_a_task_starts_from_a_window(small_windows):
    X, y = load_digits(return_X_y=True)
    model = td.TaskDrivenClassifier(20, max_iter=20, random_state=0).fit(X[:600], y[:600])
    assert model.score(X[600:900], y[600:900]) > 0.7
