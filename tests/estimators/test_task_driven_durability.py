"""Task-driven training that stops, goes on, is saved, fails, or reads from streams: nothing is lost."""

import subprocess
import sys
import textwrap
import threading
import tracemalloc
from unittest.mock import Mock

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import taskdict as td
from helpers import digits_split, quick
from taskdict._files import storage
from taskdict.constraints import Ball
from taskdict.estimators.task_driven import fitting


@pytest.fixture(scope="module")
def digits():
    return digits_split()


def test_partial_fit(digits):
    X, y, X_test, y_test = digits
    model = quick(30, multi_class="softmax")
    for _ in range(15):
        for k in range(0, 1000, 200):
            model.partial_fit(X[k : k + 200], y[k : k + 200], classes=np.arange(10))
    assert model.n_iter_ == 75
    assert model.score(X_test, y_test) > 0.85
    regressor = td.TaskDrivenRegressor(10, random_state=0)
    for k in range(0, 1000, 100):
        regressor.partial_fit(X[k : k + 100, :32], X[k : k + 100, 32:])
    assert regressor.predict(X[:, :32]).shape == (1000, 32)


def test_an_interrupt_loses_no_batch(digits, tmp_path):
    """The last checkpoint may be 20 seconds old; Ctrl-C writes one with what the callbacks have seen."""
    X, y, *_ = digits
    settings = {"max_iter": 12, "learning_rate": 1.0, "checkpoint": tmp_path / "state"}

    def interrupt(progress):
        if progress.n_iter == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(5, **settings, callbacks=interrupt).fit(X, y)
    seen = []
    quick(5, **settings, callbacks=lambda progress: seen.append(progress.n_iter)).fit(X, y)
    assert seen == list(range(5, 13))  # the callback of the first was interrupted


@pytest.mark.parametrize(
    "parameters",
    [
        {"class_weight": {0: 1, 1: 2.5}},
        {"views": [slice(0, 32), slice(32, 64)]},
        {"views": [[0, 1, 2], list(range(3, 64))], "n_components": (4, 7)},
        {"loss": td.losses.SquaredLoss()},
        {"coef_set": Ball(3.0)},
        {"early_stopping": True, "n_iter_no_change": 3},
        {"decision": "bilinear", "n_measurements": 6, "lambda2": 0.1},
    ],
    ids=lambda parameters: "-".join(parameters),
)
def test_every_parameter_can_be_taken_up_again(digits, tmp_path, parameters):
    X, y, X_test, _ = digits
    y = (y == 3).astype(int)
    settings = {"n_components": 6, "max_iter": 12, **parameters}
    whole = quick(**settings).fit(X, y)

    def stops(progress):
        if progress.n_iter == 3:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        quick(**settings, checkpoint=tmp_path / "state", callbacks=stops).fit(X, y)
    again = quick(**settings, checkpoint=tmp_path / "state").fit(X, y)
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    with pytest.warns(UserWarning, match="is of a finished training"):
        again = quick(**settings, checkpoint=tmp_path / "state").fit(X, y)
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    loaded = td.load(tmp_path / "state")
    np.testing.assert_array_equal(loaded.predict(X_test), whole.predict(X_test))
    for name in parameters:
        if name not in ("loss", "coef_set"):
            assert getattr(loaded, name) == parameters[name]


@pytest.mark.filterwarnings("ignore::taskdict.BaselineWarning")
def test_a_fit_that_was_killed_before_its_comparison(digits, tmp_path, monkeypatch):
    """After the last batch it is compared with the baselines; a checkpoint between the two is not of a finished fit."""
    X, y, *_ = digits
    settings = {"multi_class": "softmax", "early_stopping": True, "max_iter": 12}
    whole = quick(6, **settings).fit(X, y)
    monkeypatch.setattr(fitting, "conclude", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        quick(6, **settings, checkpoint=tmp_path / "state").fit(X, y)
    monkeypatch.undo()
    assert td.load(tmp_path / "state").n_iter_ == 12  # Ctrl-C loses no batch here either
    again = quick(6, **settings, checkpoint=tmp_path / "state").fit(X, y)
    assert again.held_out_scores_ == whole.held_out_scores_
    assert td.load(tmp_path / "state").held_out_scores_ == whole.held_out_scores_
    assert set(whole.held_out_scores_) == {"linear", "unsupervised", "task_driven"}


def test_warm_start_after_an_early_stop(digits):
    X, y, *_ = digits
    model = quick(10, multi_class="softmax", early_stopping=True, n_iter_no_change=1, max_iter=400, warm_start=True)
    before = model.fit(X, y).n_iter_
    model.set_params(early_stopping=False).fit(X, y)
    assert before < 400
    assert model.history_["objective"][before:]


def test_a_stream_is_resumed(digits):
    X, y, *_ = digits
    settings = {"n_components": 5, "multi_class": "softmax", "max_iter": 12, "batch_size": 20}
    whole = quick(**settings).fit(td.stream(X, y, random_state=1))
    source = td.stream(X, y, random_state=1)
    model = quick(**settings, warm_start=True, callbacks=lambda progress: progress.n_iter == 4).fit(source)
    model.set_params(callbacks=None).fit(source)
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def test_blas_has_its_threads_back(digits):
    X, y, *_ = digits
    before = [library["num_threads"] for library in threadpool_info()]
    threads = [threading.Thread(target=lambda: quick(5, max_iter=20).fit(X, y % 2)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [library["num_threads"] for library in threadpool_info()] == before


def test_streams(digits, tmp_path):
    X, y, X_test, y_test = digits
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    from_files = quick(20, multi_class="softmax", max_iter=100).fit(td.stream(tmp_path / "X.npy", tmp_path / "y.npy"))
    assert from_files.score(X_test, y_test) > 0.9

    def pairs():
        rng = np.random.default_rng(0)
        while True:
            rows = rng.integers(0, len(X), 50)
            yield X[rows], y[rows]

    model = quick(20, multi_class="softmax", max_iter=100).fit(td.stream(pairs, "pairs"), classes=range(10))
    assert model.score(X_test, y_test) > 0.9
    hidden = np.where(np.arange(len(y)) % 2, -1, y)
    semi = quick(20, multi_class="softmax", mu=0.5, max_iter=50).fit(td.stream(X, hidden, random_state=0))
    assert semi.classes_.tolist() == list(range(10))
    regressor = td.TaskDrivenRegressor(20, max_iter=30, random_state=0).fit(td.stream(X[:, :32].copy(), X[:, 32:]))
    assert regressor.predict(X[:, :32]).shape == (1000, 32)
    finite = ((X[k : k + 50], y[k : k + 50]) for k in range(0, 1000, 50))
    short = quick(20, multi_class="softmax", max_iter=100)
    with pytest.raises(td.streams.StreamEndedError, match="ended after 5 batches"):
        short.fit(td.stream(finite, "pairs"), classes=range(10))
    assert short.n_iter_ == 5
    assert short.score(X_test, y_test) > 0.8


def test_streams_weights_and_going_on(digits):
    X, y, X_test, y_test = digits
    binary = (y == 8).astype(int)
    plain, heavy = (
        quick(10, max_iter=60, class_weight=weight).fit(td.stream(X, binary, random_state=0)).predict(X_test).mean()
        for weight in (None, {0: 1, 1: 20})
    )
    assert heavy > plain
    balanced = quick(10, max_iter=60, class_weight="balanced").fit(td.stream(X, binary, random_state=0))
    assert balanced.predict(X_test).mean() > plain

    def pairs():
        return ((X[k : k + 50], y[k : k + 50]) for k in range(0, 1000, 50))

    source = td.stream(pairs, "pairs")
    model = quick(20, multi_class="softmax", max_iter=10, warm_start=True).fit(source, classes=range(10))
    model.set_params(max_iter=20).fit(source, classes=range(10))  # an iterator cannot go back: it is read on
    assert model.n_iter_ == 20
    assert model.score(X_test, y_test) > 0.85


@pytest.mark.filterwarnings("ignore::taskdict.BaselineWarning")  # 10 atoms are few
def test_partial_fit_goes_on_from_the_best(digits):
    X, y, *_ = digits
    model = quick(10, multi_class="softmax", early_stopping=True, max_iter=30).fit(X, y)
    before = model.coef_
    model.partial_fit(X, y)
    assert not np.array_equal(model.coef_, before)
    np.testing.assert_allclose(model.coef_, before, atol=0.5)


def test_memory_does_not_grow_with_the_samples(tmp_path):
    rng = np.random.default_rng(0)
    peaks = []
    for n in (30_000, 120_000):
        path = tmp_path / f"{n}.npy"
        X = np.lib.format.open_memmap(path, "w+", np.float32, (n, 32))
        X[:] = rng.standard_normal((n, 32))
        y = (X[:, 0] > 0).astype(np.int8)
        del X
        X = np.load(path, mmap_mode="r")
        tracemalloc.start()
        td.TaskDrivenClassifier(10, max_iter=20, random_state=0, n_threads=1).fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 90_000 * 32  # bytes: a fraction of the 11.5 MB that the new signals take


def test_ctrl_c_ends_a_training():
    script = textwrap.dedent(
        """
        import signal, threading
        import numpy as np, taskdict as td
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
        X = np.random.default_rng(0).standard_normal((20000, 200))
        y = np.arange(20000) % 10
        main = threading.main_thread().ident
        threading.Timer(1.0, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        try:
            td.TaskDrivenClassifier(200, max_iter=10**6).fit(X, y)
        except KeyboardInterrupt:
            print("stopped")
        """
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout == "stopped\n", run.stderr


def test_a_file_whose_sizes_do_not_fit(digits, tmp_path):
    X, y, *_ = digits
    model = quick(5, multi_class="softmax", learning_rate="adaptive", max_iter=3).fit(X, y)
    arrays, document = model._to_file()
    assert arrays["sizes D"].shape == (1, 5, 1)
    for bad in (-arrays["sizes D"], arrays["sizes D"][:, 1:], arrays["sizes D"] * np.nan):
        storage.write(tmp_path / "bad", "TaskDrivenClassifier", {**arrays, "sizes D": bad}, document)
        with pytest.raises(td.ModelFileError, match="its sizes do not fit"):
            td.load(tmp_path / "bad")
