"""A training that ends at any moment, for any reason, and is resumed, ends with the same bits as one that does not."""

import errno
import itertools
import os
import socket
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits

import taskdict as td
from taskdict import storage, training
from taskdict._fingerprint import fingerprint
from taskdict.estimators.task_driven import learning


def outliers(n=300):
    """Return signals and targets of which some are so large that a step on them leads astray."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 6))
    Y = X[:, :2] + 0.1 * rng.standard_normal((n, 2))
    Y[::25] *= 30
    return X, Y


LEARNED = ("components_", "coef_", "intercept_", "learning_rate_")


def assert_same(one, other):
    for name in LEARNED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.history_ == other.history_


def classifier(n_components=6, **parameters):
    settings = {"lambda1": 0.1, "max_iter": 14, "batch_size": 10, "random_state": 0, **parameters}
    return td.TaskDrivenClassifier(n_components, **settings)


def regressor(n_components=5, **parameters):
    settings = {"lambda1": 0.1, "max_iter": 24, "batch_size": 4, "random_state": 0, **parameters}
    return td.TaskDrivenRegressor(n_components, **settings)


def rare_outliers(n=6000):
    """Return a stream of signals and targets, of which some of the first are very large."""
    X, Y = outliers(n)
    Y = X[:, :2] + 0.1
    Y[[8, 15]] *= 1e6
    return (td.stream(lambda: iter([(X, Y)]), "pairs"),)


def four_digits():
    X, y = (array[:400] for array in load_digits(return_X_y=True))
    return td.UnitNorm().fit_transform(X)[y < 4], y[y < 4]


GUARDED = {  # limit of the guard (1e3 in use; less, so that it acts a few times), model, data
    "searched regressor": (0.5, regressor(learning_rate="auto"), outliers),
    "adaptive regressor": (0.5, regressor(learning_rate=("adaptive", 0.5)), outliers),
    "regressor with Z": (0.5, regressor(learning_rate="auto", n_measurements=4), outliers),
    "stream": (training.DIVERGED, regressor(learning_rate="auto", batch_size=1, max_iter=20), rare_outliers),
    "searched classifier": (0.15, classifier(multi_class="softmax", learning_rate="auto"), four_digits),
    "adaptive classifier": (0.12, classifier(multi_class="softmax", learning_rate=("adaptive", 0.1)), four_digits),
    "committee": (0.3, classifier(multi_class="ovo", learning_rate="auto"), four_digits),
    "adaptive committee": (0.3, classifier(multi_class="ovr", learning_rate=("adaptive", 0.1)), four_digits),
    "several mu": (1.0, classifier(multi_class="softmax", learning_rate="auto", mu=(1.0, 0.5)), four_digits),
    "early stopping": (
        0.08,
        classifier(multi_class="softmax", learning_rate="auto", early_stopping=True, n_iter_no_change=20),
        four_digits,
    ),
}


@pytest.mark.parametrize("kind", GUARDED)
def test_a_guarded_training_broken_off_at_every_batch(tmp_path, monkeypatch, kind):
    """The guard against divergence goes back one batch and lowers the learning rates: both are in the checkpoint."""
    diverged, model, data = GUARDED[kind]
    monkeypatch.setattr(training, "DIVERGED", diverged)
    rates = []

    def keep(progress):
        rates.append(np.array(progress.model.learning_rate_))
        progress.model.save(tmp_path / str(progress.n_iter))

    model.set_params(checkpoint=tmp_path / "whole", callbacks=keep)
    whole = model.fit(*data())
    acted = sum((after < before).any() for before, after in itertools.pairwise(rates))
    assert 2 <= acted < len(rates) - 1
    for n in range(1, len(rates)):
        again = clone(model).set_params(checkpoint=tmp_path / str(n), callbacks=None).fit(*data())
        assert_same(again, whole)


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
    monkeypatch.setattr("taskdict.estimators.task_driven.sources.SAMPLE", 100)  # the last rows are not in the sample
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
    monkeypatch.setattr("taskdict._fingerprint.BLOCK", 1000)
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

    monkeypatch.setattr("taskdict.estimators.task_driven.sources.fingerprint", never)
    model = classifier(max_iter=3).fit(*four_digits())
    assert model._training.fingerprint == ""
    model.partial_fit(*four_digits())


def images():
    rng = np.random.default_rng(0)
    return [np.clip(np.tile(rng.random((24, 1)), (1, 26)) + 0.1 * rng.random((24, 26)), 0, 1) for _ in range(4)]


def wrapped(kind, path, **parameters):
    """Return an estimator with a checkpoint, its data, and the same data with a change that the first signals lack."""
    inner = {"max_iter": 6, "batch_size": 20, "random_state": 0, **parameters}
    X, y = four_digits()
    if kind == "CompressedSensing":
        model = td.CompressedSensing(5, 12, checkpoint=path, **inner)
        return model, (X,), (np.concatenate([X[:-1], 2 * X[-1:]]),)
    if kind == "ImageClassifier":
        model = td.ImageClassifier(td.TaskDrivenClassifier(6, checkpoint=path, **inner), random_state=0)
        pictures = X.reshape(-1, 8, 8)
        return model, (pictures, y), (pictures, y[::-1])
    pictures = images()
    other = [*pictures[:3], 1 - pictures[3]]
    if kind == "PatchVotingClassifier":
        learner = td.TaskDrivenClassifier(6, checkpoint=path, **inner)
        model = td.PatchVotingClassifier(learner, patch_size=5, n_patches=100, random_state=0)
        return model, (pictures, [0, 0, 1, 1]), (other, [0, 0, 1, 1])
    refine = {"refine": 0.05} if kind == "refined ImageRestorer" else {}
    model = td.ImageRestorer(5, 12, checkpoint=path, **refine, **inner)
    half = td.images.degrade.floyd_steinberg
    return model, ([(half(p), p) for p in pictures],), ([(half(p), p) for p in other],)


WRAPPERS = ["CompressedSensing", "ImageClassifier", "PatchVotingClassifier", "ImageRestorer", "refined ImageRestorer"]


@pytest.mark.parametrize("kind", WRAPPERS)
def test_wrappers_refuse_other_data_and_say_when_nothing_is_learned(tmp_path, kind):
    model, data, other = wrapped(kind, tmp_path / "state")
    model.fit(*data)
    refined = kind == "refined ImageRestorer"
    with pytest.warns(UserWarning, match="checkpoint '.*' is of a finished training") as caught:
        wrapped(kind, tmp_path / "state")[0].fit(*data)
    assert [str(warning.message).split("'")[1].endswith("state.refine") for warning in caught] == [refined]
    belongs = (
        "with another array" if kind == "CompressedSensing" else "training on other data"
    )  # the first Z is of data
    with pytest.raises(ValueError, match=f"belongs to a .*{belongs}"):
        wrapped(kind, tmp_path / "state")[0].fit(*other)
    if refined:
        (tmp_path / "state.refine").unlink()
        wrapped(kind, tmp_path / "state")[0].fit(*data)  # learns: nothing to warn of


def test_a_checkpoint_of_an_earlier_version_is_refused(tmp_path):
    model = classifier(checkpoint=tmp_path / "state")
    model.fit(*four_digits())
    arrays, document = storage.read(tmp_path / "state")
    document["learned"]["fingerprint"] = "0123456789abcdef"
    rest = {name: document[name] for name in document if name not in ("format", "taskdict", "class")}
    storage.write(tmp_path / "state", document["class"], arrays, rest)
    with pytest.raises(ValueError, match=r"no fingerprint of all of its data.*earlier version.*Remove the file"):
        clone(model).fit(*four_digits())
    assert td.load(tmp_path / "state").n_iter_ == 14  # as a model it is fine


def test_warm_start_with_other_data_forgets_the_limits(monkeypatch):
    """Limits of the guard come from the data: kept for others, they would lower the learning rate at each batch."""
    monkeypatch.setattr(training, "DIVERGED", 50.0)
    X, Y = outliers()
    Y = X[:, :2]
    settings = {"learning_rate": ("adaptive", 0.01), "warm_start": True}
    model = regressor(**settings, callbacks=lambda progress: progress.n_iter == 5).fit(X, Y)
    assert model._training.state.limits is not None
    model.set_params(callbacks=None).fit(X, 100 * Y)
    assert model.learning_rate_ == 0.01
    assert model._training.state.limits is None  # complete


class Disk:
    """A disk that is full at some of the times that something is written."""

    def __init__(self, full):
        self.full, self.writes = full, 0

    def __call__(self, descriptor):
        self.writes += 1
        if self.full(self.writes):
            raise OSError(errno.ENOSPC, "No space left on device")


def fit_on(disk, monkeypatch, tmp_path, **parameters):
    """Return a model that was trained with a checkpoint after each batch on this disk, and the warnings."""
    monkeypatch.setattr(learning, "CHECKPOINT_SECONDS", 0.0)
    with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patched.setattr(os, "fsync", disk)
        model = classifier(checkpoint=tmp_path / "state", **parameters).fit(*four_digits())
    assert all(warning.category is RuntimeWarning for warning in caught)
    return model, [str(warning.message) for warning in caught]


def test_a_full_disk_ends_no_training(tmp_path, monkeypatch):
    whole = classifier().fit(*four_digits())
    model, said = fit_on(Disk(lambda n: n in (4, 5, 6, 9)), monkeypatch, tmp_path)  # 0, then after each batch
    assert_same(model, whole)
    assert len(said) == 2  # one for each time that the disk was full
    assert "state' could not be written after 3 batches: [Errno 28] No space left on device. The training" in said[0]
    assert "after 8 batches" in said[1]
    assert td.load(tmp_path / "state").n_iter_ == 14
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_disk_that_stays_full(tmp_path, monkeypatch):
    whole = classifier().fit(*four_digits())
    model, said = fit_on(Disk(lambda n: n > 4), monkeypatch, tmp_path)
    assert_same(model, whole)
    assert len(said) == 2
    assert "at the end, after 14 batches" in said[1]
    assert said[1].endswith("the file holds an earlier state.")
    again = classifier(checkpoint=tmp_path / "state").fit(*four_digits())
    assert_same(again, whole)
    (tmp_path / "state").unlink()
    model, said = fit_on(Disk(lambda n: True), monkeypatch, tmp_path)
    assert_same(model, whole)
    assert len(said) == 2
    assert "after 0 batches" in said[0]
    assert said[1].endswith("the file does not exist.")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_on_a_full_disk_stays_an_interrupt(tmp_path, monkeypatch):
    def interrupt(progress):
        monkeypatch.setattr(os, "fsync", Disk(lambda n: True))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        classifier(checkpoint=tmp_path / "state", callbacks=interrupt).fit(*four_digits())
    assert "state' could not be written: [Errno 28]" in caught.value.__notes__[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="checkpoint must be the path of a file that can be written"):
        classifier(checkpoint=tmp_path / "state").fit(*four_digits())


def no_files(tmp_path):
    """Return paths of what is there but no file."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    server.close()
    return {
        "FIFO": [tmp_path / "fifo"],
        "device": ["/dev/zero", "/dev/full", "/dev/null", tmp_path / "link"],
        "socket": [tmp_path / "socket"],
        "directory": [tmp_path],
    }


@pytest.mark.parametrize("kind", ["TaskDrivenClassifier", *WRAPPERS])
def test_checkpoints_that_are_no_files_are_refused_at_once(tmp_path, kind):
    """Before anything is read: a FIFO would wait for a writer, /dev/zero does not end."""
    for what, paths in no_files(tmp_path).items():
        for path in paths:
            if kind == "TaskDrivenClassifier":
                model, data = classifier(checkpoint=path), four_digits()
            else:
                model, data, _ = wrapped(kind, path)
            with pytest.raises(OSError, match=f"checkpoint must be the path of a regular file, but .* is a {what}"):
                model.fit(*data)
    assert not (tmp_path / "fifo").is_file()


def test_the_second_checkpoint_of_a_restorer_must_be_a_file(tmp_path):
    os.mkfifo(tmp_path / "state.refine")
    model, data, _ = wrapped("refined ImageRestorer", tmp_path / "state")
    with pytest.raises(OSError, match=r"checkpoint must be the path of a regular file, but .*state\.refine' is a FIFO"):
        model.fit(*data)


SAVING = """
import os, sys
from taskdict import storage

def wait(descriptor):
    print("writing", flush=True)
    sys.stdin.read()

os.fsync = wait
storage.replace_file(sys.argv[1], lambda: b"other")
"""


def start_saving(path):
    """Start a process that is in the middle of saving a file until its input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    return process


@pytest.mark.parametrize("name", ["state", "x" * 250, "a.b [c]*?"])
def test_only_stale_part_files_of_the_same_file_are_removed(tmp_path, name):
    path = tmp_path / name
    with start_saving(path) as writer:
        (live,) = tmp_path.iterdir()
        with start_saving(path) as killed:
            killed.kill()
        (stale,) = set(tmp_path.iterdir()) - {live}
        others = {tmp_path / f".{kin}.{'0' * 16}.part" for kin in ("other", "state.y")} | {tmp_path / ".state.part"}
        for other in others:
            other.write_bytes(b"")
        storage.replace_file(path, lambda: b"mine")
        assert not stale.exists()
        assert set(tmp_path.iterdir()) == {path, live, *others}
    assert writer.returncode == 0
    assert path.read_bytes() == b"other"  # the last one wins, whole
    assert set(tmp_path.iterdir()) == {path, *others}


def test_a_resumed_training_removes_what_a_kill_has_left(tmp_path):
    for name in ("state", "state.refine"):
        (tmp_path / f".{name}.0123456789abcdef.part").write_bytes(b"half")
    model, data, _ = wrapped("refined ImageRestorer", tmp_path / "state")
    model.fit(*data)
    assert {path.name for path in tmp_path.iterdir()} == {"state", "state.refine"}
    (tmp_path / ".state.0123456789abcdef.part").write_bytes(b"half")
    with pytest.warns(UserWarning, match="is of a finished training"):
        clone(model).fit(*data)
    assert {path.name for path in tmp_path.iterdir()} == {"state", "state.refine"}


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)], ids=["unseeded", "generator"])
def test_an_unseeded_dictionary_is_resumed_in_the_same_order(tmp_path, random_state):
    X = np.random.default_rng(0).standard_normal((200, 6))
    model = td.DictionaryLearning(5, lambda1=0.1, batch_size=20, max_iter=12, tol=0, random_state=random_state)

    def keep(progress):
        progress.model.save(tmp_path / str(progress.n_iter))

    whole = model.set_params(callback=keep).fit(X)
    for n in range(1, 12):
        again = td.load(tmp_path / str(n)).set_params(warm_start=True).fit(X)
        np.testing.assert_array_equal(again.components_, whole.components_)
        assert again.history_ == whole.history_
