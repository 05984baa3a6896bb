import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import taskdict as td
from helpers import DTYPES, objective, random_problem


def planted(n=3000, m=20, p=30, dtype=np.float64, seed=0):
    """Signals made of three atoms each of a dictionary that is to be found, with a little noise."""
    rng = np.random.default_rng(seed)
    D = random_problem(1, m, p, seed)[1]
    codes = np.zeros((n, p))
    for code in codes:
        code[rng.choice(p, 3, replace=False)] = rng.uniform(0.5, 1.5, 3) * rng.choice([-1, 1], 3)
    X = codes @ D + 0.01 * rng.standard_normal((n, m))
    return X.astype(dtype), D


@pytest.mark.parametrize("dtype", DTYPES)
def test_finds_a_planted_dictionary(dtype):
    X, D = planted(dtype=dtype)
    model = td.DictionaryLearning(30, lambda1=0.1, random_state=0, batch_size=256, tol=0).fit(X)
    assert model.components_.dtype == dtype
    found = np.abs(D @ model.components_.T).max(axis=1)
    assert (found > 0.98).mean() > 0.9
    assert (np.linalg.norm(model.components_, axis=1) <= 1 + 1e-6).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_score_is_minus_the_objective(dtype):
    X, _ = random_problem(80, 8, 1, dtype=dtype)
    model = td.DictionaryLearning(6, lambda1=0.1, lambda2=0.03, max_iter=3).fit(X)
    codes = model.transform(X)
    expected = objective(X, model.components_, codes, 0.1, 0.03).mean()
    assert model.score(X) == pytest.approx(-expected, rel=1e-6 if dtype == np.float32 else 1e-13)
    assert model.score(sp.csr_array(X)) == pytest.approx(model.score(X), rel=1e-6)
    model = td.DictionaryLearning(6, lambda1=0.1, lambda2=0.03, max_iter=60, tol=0).fit(X)
    assert model.objective_ == pytest.approx(-model.score(X), rel=0.02)


def test_transform_and_back():
    X, _ = random_problem(80, 8, 1)
    model = td.DictionaryLearning(12, lambda1=0.02, lambda2=0.01, positive_code=True, random_state=0, max_iter=30)
    codes = model.fit_transform(X)
    expected = td.sparse_encode(X, model.components_, lambda1=0.02, lambda2=0.01, positive=True)
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    np.testing.assert_allclose(model.inverse_transform(codes), codes @ model.components_)
    assert list(model.get_feature_names_out()[:2]) == ["dictionarylearning0", "dictionarylearning1"]


def test_constraints():
    X = np.abs(random_problem(100, 8, 1)[0])
    model = td.DictionaryLearning(6, lambda1=0.05, positive_code=True, positive_dictionary=True, max_iter=20).fit(X)
    assert (model.components_ >= 0).all()
    assert (model.transform(X).data > 0).all()
    assert (td.DictionaryLearning(6, lambda1=0.05, max_iter=20).fit(X).components_ < 0).any()


def test_history():
    X, _ = random_problem(100, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.05, max_iter=25, batch_size=30, tol=0, random_state=0).fit(X)
    assert model.n_iter_ == 25
    assert {name: len(values) for name, values in model.history_.items()} == {
        "objective": 25,
        "nonzeros": 25,
        "replaced": 25,
    }
    assert model.objective_ == pytest.approx(np.mean(model.history_["objective"][5:]))
    model.partial_fit(X)
    assert model.n_iter_ == len(model.history_["objective"]) == 26


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_the_same_seed_and_any_threads(dtype):
    X, _ = random_problem(3000, 60, 1, dtype=dtype)
    models = [
        td.DictionaryLearning(80, lambda1=0.1, max_iter=8, random_state=seed, n_threads=n).fit(X)
        for seed, n in ((0, 2), (0, 2), (0, 1), (0, 5), (1, 2))
    ]
    for model in models[1:4]:
        np.testing.assert_array_equal(model.components_, models[0].components_)
        assert model.history_ == models[0].history_
    assert not (models[4].components_ == models[0].components_).all()


def test_a_stream_is_as_good_as_its_array(tmp_path):
    X, _ = random_problem(300, 8, 1)
    np.save(tmp_path / "X.npy", X)
    model = td.DictionaryLearning(6, lambda1=0.05, max_iter=10, batch_size=64, random_state=0)
    expected = clone(model).fit(X).components_
    for source in (X, tmp_path / "X.npy", sp.csr_array(X)):
        result = clone(model).fit(td.stream(source, random_state=0))
        np.testing.assert_array_equal(result.components_, expected)
        assert result.n_features_in_ == 8
    np.testing.assert_array_equal(clone(model).fit(sp.csr_array(X)).components_, expected)


def test_memory_does_not_grow_with_the_signals(tmp_path):
    peaks = []
    for n in (20_000, 400_000):
        path = tmp_path / f"{n}.npy"
        signals = np.lib.format.open_memmap(path, "w+", np.float32, (n, 16))
        signals[:] = random_problem(20_000, 16, 1, dtype=np.float32)[0][np.arange(n) % 20_000]
        del signals
        model = td.DictionaryLearning(20, lambda1=0.1, batch_size=256, max_iter=40, tol=0)
        tracemalloc.start()
        model.fit(td.stream(path, random_state=0))
        peaks.append(tracemalloc.get_traced_memory()[1])
        model = clone(model).fit(np.load(path, mmap_mode="r"))
        peaks[-1] = max(peaks[-1], tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]
    assert peaks[1] < 4_000_000  # the larger file has 25.6 MB


def test_partial_fit_with_unequal_batches():
    """Learning in batches of any sizes gets as far as with even ones."""
    X, _ = planted()
    scores = {}
    for name, sizes in {"even": [100] * 30, "uneven": [1, 199] * 15, "growing": range(1, 78)}.items():
        model = td.DictionaryLearning(30, lambda1=0.1)
        at = 0
        for size in sizes:
            model.partial_fit(X[at : at + size])
            at += size
        scores[name] = -model.score(X)
        assert not (model.components_ == 0).all(axis=1).any()
    assert max(scores.values()) < 1.1 * min(scores.values())


def test_partial_fit_one_signal_at_a_time():
    X, _ = planted(n=2000)
    one, many = (td.DictionaryLearning(30, lambda1=0.1) for _ in range(2))
    for x in X:
        one.partial_fit(x[None])
    for batch in np.split(X, 40):
        many.partial_fit(batch)
    assert one.n_iter_ == 2000
    assert one.score(X) > 1.15 * many.score(X)


def test_partial_fit_goes_on_after_fit():
    X, _ = planted()
    model = td.DictionaryLearning(30, lambda1=0.1, max_iter=10, random_state=0).fit(X)
    before = model.score(X)
    for _ in range(20):
        model.partial_fit(X[:500])
    assert model.score(X) > before - 0.01
    assert model.n_iter_ == 30


def test_dictionary_init():
    X, D = random_problem(100, 8, 6)
    init = D.astype(np.float32) * np.float32(3)
    model = td.DictionaryLearning(6, lambda1=10.0, dictionary_init=init, max_iter=1).fit(X)
    np.testing.assert_allclose(model.components_, D, atol=1e-6)  # of norm one; nothing is learned with this λ1
    assert model.components_.dtype == np.float64
    np.testing.assert_array_equal(init, D.astype(np.float32) * np.float32(3))
    with pytest.raises(ValueError, match=r"dictionary_init must have shape \(n_components, n_features\) = \(6, 8\)"):
        td.DictionaryLearning(6, lambda1=0.1, dictionary_init=D[:5]).fit(X)
    with pytest.raises(ValueError, match="dictionary_init must be finite, but atom 2"):
        td.DictionaryLearning(6, lambda1=0.1, dictionary_init=np.where(np.eye(6, 8, -2), np.nan, D)).fit(X)


def test_tol_ends_early():
    X, _ = planted(n=500)
    early = td.DictionaryLearning(30, lambda1=0.1, random_state=0, tol=0.02).fit(X)
    late = td.DictionaryLearning(30, lambda1=0.1, random_state=0, tol=0.002).fit(X)
    full = td.DictionaryLearning(30, lambda1=0.1, random_state=0, tol=0.0, max_iter=late.n_iter_ + 40).fit(X)
    assert 40 <= early.n_iter_ < late.n_iter_ < full.n_iter_ == full.max_iter
    assert early.score(X) < late.score(X) <= full.score(X)


class StopError(Exception):
    pass


def stop_at(n_iter):
    def callback(progress):
        if progress.n_iter == n_iter:
            raise StopError

    return callback


@pytest.mark.parametrize("through_a_file", [False, True])
@pytest.mark.parametrize("kind", ["stream", "iterator"])
def test_interrupted_training_goes_on_to_the_same_bits(tmp_path, kind, through_a_file):
    X, _ = random_problem(500, 8, 1)

    def source():
        if kind == "iterator":
            return td.stream(iter(np.tile(X, (10, 1))))
        return td.stream(X, random_state=7)

    model = td.DictionaryLearning(6, lambda1=0.1, random_state=0, batch_size=100, max_iter=30, tol=0)
    expected = clone(model).fit(source())
    part = clone(model).set_params(callbacks=stop_at(13), warm_start=True)
    with pytest.raises(StopError):
        part.fit(source())
    assert part.n_iter_ == 13
    if through_a_file:
        part.save(tmp_path / "model")
        part = td.load(tmp_path / "model")
    rest = source()
    if kind == "iterator":
        rest.restore(part.stream_state_)  # by hand: another iterator may well be meant to be read from its start
    part.set_params(callbacks=None, warm_start=True).fit(rest)
    assert part.n_iter_ == 30
    np.testing.assert_array_equal(part.components_, expected.components_)
    assert part.history_ == expected.history_
    with pytest.warns(UserWarning, match="complete after 30 batches .* nothing was learned now"):
        assert part.fit(source()).n_iter_ == 30
    assert part.set_params(max_iter=32).fit(source()).n_iter_ == 32
    assert part.set_params(warm_start=False, max_iter=5).fit(source()).n_iter_ == 5


def test_warm_start_with_other_signals():
    X, _ = random_problem(500, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1, max_iter=5, warm_start=True, batch_size=50).fit(X)
    assert model.set_params(max_iter=8).fit(X[:300]).n_iter_ == 8
    signals = td.stream(iter(X[:60]))
    assert model.set_params(max_iter=9).fit(signals).n_iter_ == 9
    assert len(signals.take(100)) == 10  # nothing was skipped
    other = td.stream(X, random_state=5)
    model.set_params(max_iter=10).fit(other)
    assert other.state() == {
        "kind": "shuffled",
        "n_signals": 500,
        "seed": other.state()["seed"],
        "epoch": 0,
        "place": 50,
    }
    with pytest.raises(ValueError, match="X has 7 features, but DictionaryLearning is expecting 8"):
        model.set_params(max_iter=11).fit(X[:, :7])
    with pytest.raises(ValueError, match="n_components is 5, but the model has 6 atoms"):
        model.set_params(n_components=5).fit(X)


def test_ctrl_c_keeps_the_model():
    script = """
import os, signal, sys, threading
import numpy as np
import taskdict as td
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
    assert n >= 3 and len(model.history_["objective"]) == n, n
    model.set_params(callbacks=None, max_iter=n + 2, warm_start=True).fit(X)
    whole = td.DictionaryLearning(150, max_iter=n + 2, **settings).fit(X)
    print("the same" if (whole.components_ == model.components_).all() else "another")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.strip() == "the same", run.stderr


def test_callback_may_save(tmp_path):
    X, _ = random_problem(100, 8, 1)
    seen = []

    def callback(progress):
        progress.model.save(tmp_path / "model")
        seen.append((progress.n_iter, progress.n_signals, progress.done, td.load(tmp_path / "model").n_iter_))

    td.DictionaryLearning(6, lambda1=0.1, max_iter=3, batch_size=50, callbacks=callback).fit(X)
    assert seen == [(1, 50, False, 1), (2, 100, False, 2), (3, 150, True, 3)]


def test_components_that_were_kept_do_not_change():
    X, _ = random_problem(100, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1, max_iter=3).fit(X)
    kept = model.components_
    before = kept.copy()
    for _ in range(3):
        model.partial_fit(X)
    np.testing.assert_array_equal(kept, before)


def test_in_a_pipeline_and_a_search():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    pipeline = make_pipeline(
        Normalizer(),
        td.DictionaryLearning(40, lambda1=0.1, max_iter=30, random_state=0),
        LogisticRegression(C=100, max_iter=2000),
    )
    search = GridSearchCV(pipeline, {"dictionarylearning__lambda1": [0.05, 0.2]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.85


def test_learners_in_threads():
    X, _ = random_problem(2000, 30, 1)
    model = td.DictionaryLearning(40, lambda1=0.1, max_iter=10, random_state=0, n_threads=2)
    expected = clone(model).fit(X).components_
    models = [clone(model) for _ in range(4)]
    threads = [threading.Thread(target=one.fit, args=(X,)) for one in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in models:
        np.testing.assert_array_equal(one.components_, expected)
