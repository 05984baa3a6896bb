"""Task-driven training that stops, goes on, is saved, fails, or reads from streams: nothing is lost."""

import pickle
import subprocess
import sys
import textwrap
import threading
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_info

import taskdict as td
from taskdict import storage
from taskdict.constraints import Ball
from taskdict.estimators.task_driven.sources import StreamSource
from test_task_driven import quick


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = td.UnitNorm().fit_transform(X)
    return X[:1000], y[:1000], X[1000:], y[1000:]


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


def test_warm_start_goes_on(digits):
    X, y, *_ = digits
    whole = quick(15, max_iter=60, learning_rate=1.0, average=False).fit(X, y)
    halves = quick(15, max_iter=60, learning_rate=1.0, average=False, warm_start=True)
    halves.set_params(callbacks=lambda progress: progress.n_iter == 25).fit(X, y)
    assert halves.n_iter_ == 25
    halves.set_params(callbacks=None).fit(X, y)
    assert halves.n_iter_ == 60
    np.testing.assert_array_equal(halves.components_, whole.components_)
    np.testing.assert_array_equal(halves.coef_, whole.coef_)


def test_an_interrupt_loses_no_batch(digits, tmp_path):
    """The last checkpoint may be 20 seconds old; Ctrl-C writes one with what the callbacks have seen."""
    X, y, *_ = digits
    settings = {"max_iter": 60, "learning_rate": 1.0, "checkpoint": tmp_path / "state"}

    def interrupt(progress):
        if progress.n_iter == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(15, **settings, callbacks=interrupt).fit(X, y)
    seen = []
    again = quick(15, **settings, callbacks=lambda progress: seen.append(progress.n_iter)).fit(X, y)
    assert seen[0] == 25  # whose callback was interrupted
    whole = quick(15, max_iter=60, learning_rate=1.0).fit(X, y)
    np.testing.assert_array_equal(again.coef_, whole.coef_)


@pytest.mark.parametrize("multi_class", ["ovr", "softmax"])
def test_save_and_load(digits, tmp_path, multi_class):
    X, y, X_test, _ = digits
    names = np.array(list("abcdefghij"))[y]
    model = quick(15, max_iter=40, multi_class=multi_class, mu=(0.5, 0.2), lambda1=None).fit(X, names)
    model.save(tmp_path / "model")
    again = td.load(tmp_path / "model")
    assert again.mu == (0.5, 0.2)
    assert again.history_ == model.history_
    for name in ("components_", "coef_", "intercept_", "classes_", "learning_rate_", "lambda1_", "nu_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.predict(X_test), model.predict(X_test))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_test), model.predict(X_test))
    regressor = td.TaskDrivenRegressor(5, max_iter=5, n_measurements=6, random_state=0).fit(X, X[:, 0])
    regressor.save(tmp_path / "model")
    np.testing.assert_array_equal(td.load(tmp_path / "model").predict(X), regressor.predict(X))


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


def test_warm_start_after_an_early_stop(digits):
    X, y, *_ = digits
    model = quick(10, multi_class="softmax", early_stopping=True, n_iter_no_change=1, max_iter=400, warm_start=True)
    before = model.fit(X, y).n_iter_
    model.set_params(early_stopping=False).fit(X, y)
    assert before < 400
    assert model.history_["objective"][before:]


def test_streams_go_on_and_keep_the_validation_part(digits):
    X, y, *_ = digits
    settings = {"n_components": 5, "multi_class": "softmax", "max_iter": 12, "batch_size": 20}
    whole = quick(**settings).fit(td.stream(X, y, random_state=1))
    source = td.stream(X, y, random_state=1)
    model = quick(**settings, warm_start=True, callbacks=lambda progress: progress.n_iter == 4).fit(source)
    model.set_params(callbacks=None).fit(source)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    for stream in (td.stream(X, y, random_state=0), td.stream(lambda: iter(zip(X, y, strict=True)), "pairs")):
        source = StreamSource(stream, lambda v: v, labels=True, validation=0.1, use_unlabelled=False)
        held = {row.tobytes() for row in source.validation.X}
        for _ in range(15):
            assert not any(row.tobytes() in held for row in source.take(200).X)


def test_blas_has_its_threads_back(digits):
    X, y, *_ = digits
    before = [library["num_threads"] for library in threadpool_info()]
    threads = [threading.Thread(target=lambda: quick(5, max_iter=20).fit(X, y % 2)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [library["num_threads"] for library in threadpool_info()] == before


KILLED = """
import os, signal, sys
import numpy as np
import taskdict as td
from sklearn.datasets import load_digits
from taskdict.estimators.task_driven import learning

learning.CHECKPOINT_SECONDS = 0.0
X, y = load_digits(return_X_y=True)
y = np.where(np.arange(len(y)) % 3 == 0, -1, y) if sys.argv[3] == "semi" else y
mu = (0.9, 0.5) if sys.argv[3] == "semi" else 0.0

def maybe_die(progress):
    if progress.n_iter == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

td.TaskDrivenClassifier(
    12,
    mu=mu,
    max_iter=40,
    learning_rate="adaptive" if sys.argv[3] == "adaptive" else "auto",
    multi_class="softmax",
    random_state=0,
    checkpoint=sys.argv[1],
    callbacks=maybe_die,
).fit(X, y)
"""


@pytest.mark.parametrize("kind", ["plain", "semi", "adaptive"])
def test_killed_training_goes_on_to_the_same_bits(tmp_path, kind):
    def run(name, dies_at):
        command = [sys.executable, "-c", KILLED, tmp_path / name, str(dies_at), kind]
        return subprocess.run(command, capture_output=True, text=True).returncode

    assert run("whole", -1) == 0
    for dies_at in (7, 23, 38):  # the last is in the tenth that is averaged
        assert run("broken", dies_at) == -9
        assert td.load(tmp_path / "broken").n_iter_ == dies_at - 1  # what callbacks have not seen does not count
    assert run("broken", -1) == 0
    whole, broken = td.load(tmp_path / "whole"), td.load(tmp_path / "broken")
    for name in ("components_", "coef_", "intercept_", "learning_rate_"):
        np.testing.assert_array_equal(getattr(broken, name), getattr(whole, name))
    assert whole.history_ == broken.history_
    before = (tmp_path / "broken").stat().st_mtime_ns
    again = td.TaskDrivenClassifier(
        12,
        mu=whole.mu,
        max_iter=40,
        learning_rate=whole.learning_rate,
        multi_class="softmax",
        random_state=0,
        checkpoint=tmp_path / "broken",
    )
    X, y = load_digits(return_X_y=True)
    with pytest.warns(UserWarning, match="checkpoint '.*broken' is of a finished training.* remove the file"):
        again.fit(X, np.where(np.arange(len(y)) % 3 == 0, -1, y) if kind == "semi" else y)
    np.testing.assert_array_equal(again.components_, whole.components_)
    assert before == (tmp_path / "broken").stat().st_mtime_ns


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


def test_a_failed_fit_changes_nothing(digits):
    X, y, X_test, y_test = digits
    model = quick(10, max_iter=5).fit(X, y)
    broken = X[:, :20].copy()
    broken[3] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        model.fit(broken, y % 3)
    assert model.n_features_in_ == 64
    assert len(model.classes_) == 10
    assert model.score(X_test, y_test) > 0.5
    regressor = td.TaskDrivenRegressor(5, max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match="row 3"):
        regressor.fit(broken, X[:, :2])
    assert regressor.predict(X).shape == (1000,)
    stopped = quick(10, max_iter=50, callbacks=lambda progress: progress.n_iter == 3).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        stopped.predict(X[:, :5])


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


def test_ctrl_c_keeps_the_last_whole_batch(digits):
    X, y, X_test, _ = digits

    def interrupt(progress):
        if progress.n_iter == 7:
            raise KeyboardInterrupt

    model = quick(15, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_iter_ == 7
    model.predict(X_test)
    script = textwrap.dedent(
        """
        import os, signal, threading, time
        import numpy as np, taskdict as td
        X = np.random.default_rng(0).standard_normal((20000, 200))
        y = np.arange(20000) % 10
        main = threading.main_thread().ident
        threading.Timer(3.0, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        begin = time.monotonic()
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
