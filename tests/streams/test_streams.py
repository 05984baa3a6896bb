import json
import os
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from taskdict._common.permutation import permuted
from taskdict.streams import FileStream, IteratorStream, Stream, StreamEndedError


def rows_of(n, m=3):
    """Signals whose first entry is their number."""
    return np.arange(n)[:, None] + np.linspace(0, 0.5, m)


def numbers(batch):
    return np.floor(batch[:, 0]).astype(int)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 10, 97, 8192, 20_001])
def test_permutation(n):
    for epoch in range(3):
        assert sorted(permuted(np.arange(n), n, [7, epoch])) == list(range(n))
    first, second = (permuted(np.arange(n), n, [7, epoch]) for epoch in (0, 1))
    assert n < 10 or not (first == second).all()
    middle = np.arange(n // 3, n)
    np.testing.assert_array_equal(permuted(middle, n, [7, 0]), first[middle])


def test_permutation_is_fair():
    """Each number comes to each place, and each pair to neighbouring places, about equally often."""
    n, repeats = 6, 6000
    orders = np.array([permuted(np.arange(n), n, [seed, 0]) for seed in range(repeats)])
    places = np.array([np.bincount(orders[:, k], minlength=n) for k in range(n)])
    pairs = np.bincount(orders[:, 0] * n + orders[:, 1], minlength=n * n).reshape(n, n)[~np.eye(n, dtype=bool)]
    for counts in (places, pairs):
        assert abs(counts - counts.mean()).max() < 5 * np.sqrt(counts.mean())


@pytest.fixture(params=["array", "fortran", "sparse", "memmap", "path", "fortran path", "swapped path", "files"])
def source(request, tmp_path):
    """The same 50 signals from every kind of source that can be shuffled."""
    X = rows_of(50)
    np.save(tmp_path / "all.npy", X)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(X))
    np.save(tmp_path / "swapped.npy", X.astype(X.dtype.newbyteorder()))
    parts = [tmp_path / f"{k}.npy" for k in range(3)]
    for path, part in zip(parts, np.split(X, [0, 30]), strict=True):  # the first file is empty
        np.save(path, part)
    return {
        "array": X,
        "fortran": np.asfortranarray(X),
        "sparse": sp.csr_array(X),
        "memmap": np.load(tmp_path / "all.npy", mmap_mode="r"),
        "path": str(tmp_path / "all.npy"),
        "fortran path": tmp_path / "fortran.npy",
        "swapped path": tmp_path / "swapped.npy",
        "files": parts,
    }[request.param]


def test_each_round_has_every_signal_once(source):
    stream = td.stream(source, random_state=0)
    assert stream.n_signals == 50
    rounds = [numbers(np.concatenate([stream.take(size) for size in (20, 7, 23)])) for _ in range(3)]
    for seen in rounds:
        np.testing.assert_array_equal(np.sort(seen), np.arange(50))
    assert not (rounds[0] == rounds[1]).all()
    np.testing.assert_array_equal(numbers(td.stream(source, random_state=0).take(50)), rounds[0])
    assert not (numbers(td.stream(source, random_state=1).take(50)) == rounds[0]).all()


def test_rows_are_whole(source):
    X = rows_of(50)
    batch = td.stream(source, random_state=0).take(120)
    assert batch.flags.c_contiguous
    np.testing.assert_array_equal(batch, X[numbers(batch)])


def test_state_goes_through_json(source):
    stream = td.stream(source, random_state=3)
    stream.take(np.int64(70))
    state = json.loads(json.dumps(stream.state()))
    expected = stream.take(90)
    other = td.stream(source, random_state=4)
    other.restore(state)
    np.testing.assert_array_equal(other.take(90), expected)
    stream.restore(state)
    np.testing.assert_array_equal(stream.take(90), expected)


def test_batch_sizes_do_not_change_the_order():
    streams = [td.stream(rows_of(9000, 1), random_state=0) for _ in range(2)]
    parts = [streams[0].take(size) for size in (1, 8191, 2, 5000, 6806)]
    np.testing.assert_array_equal(np.concatenate(parts), streams[1].take(20_000))


def test_dtypes():
    assert td.stream(rows_of(5).astype(np.float32)).take(2).dtype == np.float32
    assert td.stream(rows_of(5).astype(np.uint8)).take(2).dtype == np.float64
    assert td.stream(rows_of(5).astype(">f8")).take(2).dtype == np.dtype("=f8")


def test_preprocess():
    stream = td.stream(rows_of(10), preprocess=lambda batch: batch[numbers(batch) % 2 == 0] * 2)
    batch = stream.take(10)
    assert sorted(numbers(batch)) == [0, 4, 8, 12, 16]
    with pytest.raises(TypeError, match="preprocess must be a function"):
        td.stream(rows_of(10), preprocess=3)


def test_iterator_of_signals_and_blocks():
    X = rows_of(20)
    stream = td.stream(iter([X[0], X[1:8], X[8:8], X[8:19], X[19]]))
    assert stream.n_signals is None
    np.testing.assert_array_equal(stream.take(5), X[:5])
    np.testing.assert_array_equal(stream.take(10), X[5:15])
    np.testing.assert_array_equal(stream.take(10), X[15:])  # what is left
    with pytest.raises(StreamEndedError, match="ended after 20 signals"):
        stream.take(1)


def test_iterables_start_again():
    class Source:
        def __iter__(self):
            return iter(rows_of(4))

    for source in (Source(), list(rows_of(4)), lambda: iter(rows_of(4)), lambda: list(rows_of(4))):
        stream = IteratorStream(source)
        assert list(numbers(stream.take(10))) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert list(IteratorStream([]).batches(3)) == []


def test_iterator_state():
    stream = td.stream(iter(rows_of(30)))
    stream.take(11)
    state = json.loads(json.dumps(stream.state()))
    expected = stream.take(5)
    other = td.stream(rows_of(30)[k : k + 4] for k in range(0, 30, 4))
    other.restore(state)
    np.testing.assert_array_equal(other.take(5), expected)
    with pytest.raises(ValueError, match="cannot go back to 11"):
        other.restore(state)


def test_an_iterator_that_fails_loses_nothing():
    fails = [True]

    class Source:
        def __init__(self):
            self.k = -1

        def __iter__(self):
            return self

        def __next__(self):
            if self.k == 14 and fails.pop():
                fails.append(False)
                raise OSError("try again")
            self.k += 1
            return rows_of(40)[self.k]

    stream = td.stream(Source())
    assert list(numbers(stream.take(10))) == list(range(10))
    with pytest.raises(OSError, match="try again"):
        stream.take(10)
    assert stream.state()["position"] == 10
    assert list(numbers(stream.take(10))) == list(range(10, 20))


def test_a_source_may_use_its_memory_again():
    def refill():
        block = np.empty((2, 2))
        for k in range(5):
            block[:] = k
            yield block

    assert list(td.stream(refill()).take(6)[:, 0]) == [0, 0, 1, 1, 2, 2]


def test_preprocess_does_not_change_the_source():
    def double(batch):
        batch *= 2
        return batch

    for make in (list, np.array):
        X = rows_of(4)
        td.stream(make(X), preprocess=double).take(4)
        np.testing.assert_array_equal(X, rows_of(4))


def test_sparse_blocks():
    stream = td.stream([sp.csr_array(rows_of(5)), sp.coo_array(rows_of(5))])
    np.testing.assert_array_equal(stream.take(10), np.tile(rows_of(5), (2, 1)))


def test_views_are_not_copied_as_a_whole():
    X = np.zeros((100_000, 40))
    for view in (X[:, ::2], X[::2], X[::-1], np.asfortranarray(X[:, :20])):
        stream = td.stream(view)
        stream.take(1)
        tracemalloc.start()
        stream.take(10)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000


def test_repr():
    assert "ArrayStream" in repr(td.stream(rows_of(3)))
    assert "'position': 0" in repr(td.stream(iter(rows_of(3))))


def test_batches():
    sizes = [len(batch) for batch in td.stream(iter(rows_of(10))).batches(4)]
    assert sizes == [4, 4, 2]
    endless = td.stream(rows_of(3)).batches(2)
    assert [len(next(endless)) for _ in range(10)] == [2] * 10


def test_bad_sources(tmp_path):
    np.save(tmp_path / "wide.npy", rows_of(3, 4))
    np.save(tmp_path / "narrow.npy", rows_of(3, 2))
    np.save(tmp_path / "flat.npy", np.arange(3.0))
    np.savez(tmp_path / "many.npz", a=rows_of(3))
    (tmp_path / "text.npy").write_text("no numbers here")
    with pytest.raises(ValueError, match=r"narrow.npy' has 2 features per signal, but .*wide.npy' has 4"):
        td.stream([tmp_path / "wide.npy", tmp_path / "narrow.npy"])
    with pytest.raises(ValueError, match=r"flat.npy' must have two dimensions"):
        td.stream(tmp_path / "flat.npy")
    with pytest.raises(ValueError, match=r"text.npy' is not a .npy file"):
        td.stream(tmp_path / "text.npy")
    with pytest.raises(ValueError, match=r"many.npz' must be a .npy file with one array"):
        td.stream(tmp_path / "many.npz")
    with pytest.raises(FileNotFoundError):
        td.stream(tmp_path / "absent.npy")
    with pytest.raises(ValueError, match="at least one path"):
        FileStream([])
    with pytest.raises(ValueError, match="n_samples=0"):
        td.stream(np.zeros((0, 3)))
    for source in (5, b"X.npy"):
        with pytest.raises(TypeError, match="source must be an array"):
            td.stream(source)
    with pytest.raises(ValueError, match="at least one feature"):
        td.stream(np.zeros((5, 0))).take(1)
    with pytest.raises(TypeError, match=r"the iterator gives paths .* make a list of them"):
        td.stream(tmp_path.glob("wide*")).take(1)
    with pytest.raises(ValueError, match="what preprocess returned must have two dimensions"):
        td.stream(rows_of(3), preprocess=lambda batch: batch[0]).take(1)
    with pytest.raises(TypeError, match="source is a stream already"):
        td.stream(td.stream(rows_of(3)))
    with pytest.raises(ValueError, match="different widths near signal 0: 2, 3 features"):
        td.stream(iter([np.zeros(2), np.zeros(3)])).take(2)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        td.stream(rows_of(3)).take(0)


def test_bad_states():
    stream = td.stream(rows_of(5))
    for state in (None, {}, {"kind": "iterator", "position": 3}, {**stream.state(), "place": -1}):
        with pytest.raises(ValueError, match="state must come from"):
            stream.restore(state)
    with pytest.raises(ValueError, match="stream of 6 signals, but this one has 5"):
        stream.restore(td.stream(rows_of(6)).state())
    with pytest.raises(ValueError, match="state must come from"):
        td.stream(iter([])).restore(stream.state())


def test_own_source():
    """What the module says of new sources is true."""

    class Noise(Stream):
        def __init__(self):
            super().__init__()
            self.rng = np.random.default_rng(0)

        def _read(self, n):
            return self.rng.standard_normal((n, 6))

        def state(self):
            return {"kind": "noise"}

        def restore(self, state):
            pass

    model = td.DictionaryLearning(4, lambda1=0.1, max_iter=3, batch_size=20).fit(Noise())
    assert model.n_iter_ == 3


CUT_SCRIPT = """
import os, sys
import taskdict as td

path, targets = sys.argv[1:]
stream = td.stream(path, targets, random_state=0)
stream.take_pairs(100)
os.truncate(sys.argv[int(os.environ["CUT"])], 5000)
try:
    for _ in range(1000):
        stream.take_pairs(100)
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("cut", ["X.npy", "y.npy"])
def test_a_file_that_is_cut_while_it_is_read(tmp_path, order, cut):
    """Behind a memory map, the system would end the process."""
    for name in ("X.npy", "y.npy"):
        np.save(tmp_path / name, np.asarray(rows_of(5000, 20), order=order))
    arguments = [str(tmp_path / "X.npy"), str(tmp_path / "y.npy")]
    environment = {**os.environ, "CUT": "1" if cut == "X.npy" else "2"}
    run = subprocess.run(
        [sys.executable, "-c", CUT_SCRIPT, *arguments], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, (run.returncode, run.stderr)
    size = (tmp_path / ("y.npy" if cut == "X.npy" else "X.npy")).stat().st_size
    assert f"{str(tmp_path / cut)!r} has been cut while it was in use: it has 5000 bytes, but had {size}" in run.stdout


def test_targets_of_files(tmp_path):
    X = rows_of(50)
    np.save(tmp_path / "X.npy", X)
    for name, y in {"numbers": X[:, 0], "labels": X[:, 0].astype(int).astype(str), "outputs": 2 * X}.items():
        np.save(tmp_path / f"{name}.npy", y)
        signals, targets = td.stream(X, y, random_state=0).take_pairs(70)
        found = td.stream(tmp_path / "X.npy", tmp_path / f"{name}.npy", random_state=0).take_pairs(70)
        np.testing.assert_array_equal(found[0], signals)
        np.testing.assert_array_equal(found[1], targets)
        assert found[1].dtype == y.dtype


def test_streams_of_files_in_other_processes(tmp_path):
    np.save(tmp_path / "X.npy", rows_of(50))
    stream = td.stream(tmp_path / "X.npy", random_state=0)
    other = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(other.take(70), stream.take(70))
