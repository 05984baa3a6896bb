"""Fingerprints: a training is resumed only with the data that it was begun with, to the last number."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import taskdict as td
from taskdict._files import storage
from taskdict._files.fingerprint import fingerprint


def classifier(**parameters):
    settings = {"lambda1": 0.1, "max_iter": 2, "batch_size": 10, "random_state": 0, **parameters}
    return td.TaskDrivenClassifier(6, **settings)


def signals(n=300):
    X = np.random.default_rng(0).standard_normal((n, 4))
    return X, (X[:, 0] > 0).astype(int)


def test_a_checkpoint_sees_every_number_of_the_data(tmp_path):
    """Of 60,000 rows, one number is changed; of the weights, too."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 4), np.float32)
    y, weights = (X[:, 0] > 0).astype(int), np.ones(len(X))
    model = classifier(checkpoint=tmp_path / "state", max_iter=2)
    model.fit(X, y, weights)
    with pytest.warns(UserWarning, match="is of a finished training"):
        clone(model).fit(X, y, weights)
    for changed in (0, 1, 2):
        data = [X.copy(), y.copy(), weights.copy()]
        data[changed][41_234] = [0.5, 1 - y[41_234], 0.5][changed]
        with pytest.raises(ValueError, match="belongs to a training on other data"):
            clone(model).fit(*data)


def stored(tmp_path, X, y):
    """Return the same data in all forms that fit takes."""
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    csr = sp.csr_array(np.where(X > 0.5, X, 0))
    return {
        "array": (X, y),
        "columns first": (np.asfortranarray(X), y),
        "every second": (np.repeat(X, 2, axis=0)[::2], y),
        "memory-mapped": (mapped, y),
        "CSR": (csr, y),
        "stream": (td.stream(X, y, random_state=0),),
        "stream of CSR": (td.stream(csr, y, random_state=0),),
        "files": (td.stream([tmp_path / "X.npy"] * 2, np.tile(y, 2), random_state=0),),
        "targets in a file": (td.stream(X, tmp_path / "y.npy", random_state=0),),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "array",
        "columns first",
        "every second",
        "memory-mapped",
        "CSR",
        "stream",
        "stream of CSR",
        "files",
        "targets in a file",
    ],
)
def test_every_form_of_data_has_a_fingerprint(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("taskdict.streams.pairs.SAMPLE_SIGNALS", 100)  # the last rows are not in the sample
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1000, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    model = classifier(checkpoint=tmp_path / "state", max_iter=2)
    model.fit(*stored(tmp_path, X, y)[kind])
    with pytest.warns(UserWarning, match="is of a finished training"):
        clone(model).fit(*stored(tmp_path, X, y)[kind])
    if kind == "targets in a file":
        y[-1] = 1 - y[-1]
    else:
        X[-1, 0] = 7
    with pytest.raises(ValueError, match="belongs to a training on other data"):
        clone(model).fit(*stored(tmp_path, X, y)[kind])


def test_a_fingerprint_does_not_depend_on_threads_or_memory_order(monkeypatch):
    monkeypatch.setattr("taskdict._files.fingerprint.BLOCK", 1000)
    X = np.random.default_rng(0).standard_normal((500, 7))
    expected = fingerprint([X, "a", None])
    assert expected.startswith("sha256:")
    for same in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.astype(np.longdouble)):
        assert fingerprint([same, "a", None], 3) == expected
    for other in (X.T, X.reshape(7, 500), X[::-1], X[:-1], X.astype(np.float32), np.array(X, object)):
        assert fingerprint([other, "a", None]) != expected
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert fingerprint([wide]) == fingerprint([sp.csr_array(X)]) != expected
    assert fingerprint([np.zeros((0, 3))]) != fingerprint([np.zeros((3, 0))])


def test_a_fingerprint_takes_little_memory(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((1 << 23, 8), np.float32))  # 256 MB
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    tracemalloc.start()
    fingerprint([X, X[::2]], 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 26


def test_no_fingerprint_without_a_need_for_one(monkeypatch):
    def never(*_):
        raise AssertionError("the data were read")

    monkeypatch.setattr("taskdict.streams.pairs.fingerprint", never)
    model = classifier(max_iter=3).fit(*signals())
    assert model._learned.training.fingerprint == ""
    model.partial_fit(*signals())


def test_a_checkpoint_of_an_earlier_version_is_refused(tmp_path):
    model = classifier(checkpoint=tmp_path / "state")
    model.fit(*signals())
    arrays, document = storage.read(tmp_path / "state")
    document["learned"]["fingerprint"] = "0123456789abcdef"
    rest = {name: document[name] for name in document if name not in ("format", "taskdict", "class")}
    storage.write(tmp_path / "state", document["class"], arrays, rest)
    with pytest.raises(ValueError, match=r"no fingerprint of all of its data.*earlier version.*Remove the file"):
        clone(model).fit(*signals())
    assert td.load(tmp_path / "state").n_iter_ == 2  # as a model it is fine
