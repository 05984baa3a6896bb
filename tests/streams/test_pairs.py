"""Sources of training batches: every sample in its turn, none of those kept for validation, back to the same bits."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from taskdict.streams.base import rewind
from taskdict.streams.pairs import ArrayPairs, Batch, StreamPairs, check_weights, sample_size

N = 60
X = np.arange(N * 3.0).reshape(N, 3)  # the first entry tells which row it is
LABELS = np.arange(N) % 3


def arrays(X=X, y=LABELS, weights=None, labels=True, validation=0.0, use_unlabelled=False, seed=0):
    return ArrayPairs(X, y, weights, labels=labels, validation=validation, use_unlabelled=use_unlabelled, seed=seed)


def streamed(stream=None, labels=True, validation=0.0, use_unlabelled=False, **parameters):
    stream = td.stream(X, LABELS, random_state=0) if stream is None else stream
    return StreamPairs(
        stream, np.asarray, labels=labels, validation=validation, use_unlabelled=use_unlabelled, **parameters
    )


SOURCES = {"array": arrays, "stream": streamed}


def rows_of(signals):
    return (signals[:, 0] / 3).astype(int).tolist()


def test_rows_of_a_batch():
    batch = Batch(X, LABELS, np.ones(N), X[:2])
    some = batch.rows(np.array([4, 2]), X[:0])
    assert rows_of(some.X) == [4, 2]
    assert some.y.tolist() == [1, 2]
    assert some.weights.tolist() == [1, 1]
    assert some.unlabelled is None
    assert len(some.others) == 0
    assert not some.is_empty
    assert Batch(X[:0], LABELS[:0]).is_empty
    assert not Batch(X[:0], LABELS[:0], None, X[:1]).is_empty


@pytest.mark.parametrize("kind", SOURCES)
def test_each_round_has_every_sample_with_its_target(kind):
    source = SOURCES[kind]()
    assert (source.n_features, source.n_labelled, source.validation) == (3, N, None)
    orders = []
    for _ in range(2):
        seen = []
        while len(seen) < N:
            batch = source.take(20)
            np.testing.assert_array_equal(batch.y, np.array(rows_of(batch.X)) % 3)
            assert batch.unlabelled is None
            seen += rows_of(batch.X)
        assert sorted(seen) == list(range(N))
        orders.append(seen)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_sample_takes_nothing_away(kind, monkeypatch):
    monkeypatch.setattr("taskdict.streams.pairs.sample_size", lambda width: 25)
    source, other = SOURCES[kind](), SOURCES[kind]()
    sample = source.sample()
    assert len(sample.X) == 25
    assert rows_of(source.take(10).X) == rows_of(other.take(10).X)
    np.testing.assert_array_equal(source.sample().X, sample.X)


@pytest.mark.parametrize("before", [0, 1, 4, 9])
@pytest.mark.parametrize("kind", SOURCES)
def test_back_to_where_it_was(kind, before, monkeypatch):
    """In the sample, at its end, and after it."""
    monkeypatch.setattr("taskdict.streams.pairs.sample_size", lambda width: 40)
    source = SOURCES[kind]()
    for _ in range(before):
        source.take(10)
    state = json.loads(json.dumps(source.state()))
    expected = [source.take(10) for _ in range(8)]
    assert source.reads_like(state)
    source.restore(state)
    position = {"position": state} if kind == "stream" else {}
    fresh = SOURCES[kind](**position)
    assert fresh.reads_like(state)
    fresh.restore(state)
    for each in (source, fresh):
        for batch in expected:
            again = each.take(10)
            np.testing.assert_array_equal(again.X, batch.X)
            np.testing.assert_array_equal(again.y, batch.y)


def test_states_of_other_sources():
    array, stream = arrays(), streamed()
    hidden = np.where(LABELS == 2, -1, LABELS)
    other_seed = streamed(td.stream(X, LABELS, random_state=1))
    for source, states in {
        array: (stream.state(), None, 3, {}, arrays(seed=1).state(), arrays(X[1:], LABELS[1:]).state()),
        stream: (array.state(), None, "a", {"kind": "stream"}, other_seed.state()),
        arrays(y=hidden, use_unlabelled=True): (arrays(y=hidden).state(),),
    }.items():
        assert source.reads_like(source.state())
        assert not any(source.reads_like(state) for state in states)


@pytest.mark.parametrize("kind", SOURCES)
def test_samples_for_validation_are_never_given(kind):
    source = SOURCES[kind](validation=0.2)
    held = set(rows_of(source.validation.X))
    assert len(held) == N // 5
    np.testing.assert_array_equal(source.validation.y, np.array(rows_of(source.validation.X)) % 3)
    given = [row for _ in range(10) for row in rows_of(source.take(20).X)]
    assert set(given) == set(range(N)) - held
    assert set(rows_of(source.sample().X)) == set(range(N)) - held


def test_an_iterable_that_starts_again_keeps_the_validation_part_apart():
    source = streamed(td.stream(lambda: iter(zip(X, LABELS, strict=True)), "pairs"), validation=0.2)
    held = set(rows_of(source.validation.X))
    assert len(source.sample().X) == N - len(held)  # what has come again is not counted
    given = [row for _ in range(20) for row in rows_of(source.take(20).X)]
    assert set(given) == set(range(N)) - held


def test_classes_are_in_both_parts_where_possible():
    y = np.r_[np.zeros(50, int), np.ones(10, int)]
    source = arrays(y=y, validation=0.2)
    assert np.bincount(source.validation.y).tolist() == [10, 2]
    rare = arrays(y=np.r_[np.zeros(59, int), 1], validation=0.2)  # of which one part must do without
    assert len(rare.validation.X) == 12
    with pytest.raises(ValueError, match=r"validation_fraction=0.9 of 1 samples with targets leaves none on one side"):
        arrays(X[:1], LABELS[:1], validation=0.9)


@pytest.mark.parametrize("kind", SOURCES)
def test_signals_without_labels(kind):
    hidden = np.where(np.arange(N) % 2, -1, LABELS)
    made = {"y": hidden} if kind == "array" else {"stream": td.stream(X, hidden, random_state=0)}
    source = SOURCES[kind](**made, use_unlabelled=True)
    assert source.n_labelled == N // 2
    labelled, others = [], []
    for _ in range(3):
        batch = source.take(20)
        labelled += rows_of(batch.X)
        others += rows_of(batch.others)
    assert set(labelled) == set(range(0, N, 2))
    assert set(others) == set(range(1, N, 2))
    without = SOURCES[kind](**({"y": hidden} if kind == "array" else {"stream": td.stream(X, hidden)}))
    assert all(len(without.take(20).others) == 0 for _ in range(5))


def test_a_stream_without_any_label():
    with pytest.raises(ValueError, match=r"the first 60 signals of the stream are all unlabelled \(-1\)"):
        streamed(td.stream(X, np.full(N, -1)))


def test_batches_of_unlabelled_signals_are_passed_over():
    hidden = np.where(np.arange(N) < 10, LABELS, -1)
    blocks = [(X[k : k + 10], hidden[k : k + 10]) for k in range(0, N, 10)]
    source = streamed(td.stream(blocks, "pairs"))
    assert all(len(source.take(10).X) == 10 for _ in range(3))


@pytest.mark.parametrize("kind", SOURCES)
def test_weights_have_mean_one(kind):
    by_class = np.array([1.0, 2.0, 6.0])
    made = {"weights": by_class[LABELS]} if kind == "array" else {"weigh": by_class.__getitem__}
    source = SOURCES[kind](**made)
    batch = source.take(N)
    np.testing.assert_allclose(batch.weights, by_class[batch.y] / 3)
    assert batch.weights.dtype == batch.X.dtype


def test_samples_of_weight_zero_are_left_out():
    source = arrays(weights=np.where(np.arange(N) < 30, 0.0, 2.0))
    assert source.n_labelled == 30
    batch = source.take(N)
    assert sorted(rows_of(batch.X)) == list(range(30, N))
    assert set(batch.weights) == {1.0}


def test_columns_of_numbers():
    y = np.stack([X[:, 0], -X[:, 1]], axis=1) - 50
    for source in (
        arrays(y=y, labels=False, validation=0.1),
        streamed(td.stream(X, y, random_state=0), labels=False, validation=0.1),
    ):
        batch = source.take(10)
        np.testing.assert_array_equal(batch.y, np.stack([batch.X[:, 0], -batch.X[:, 1]], axis=1) - 50)
        assert len(source.validation.y) == 6


def test_sparse_signals():
    dense, sparse = arrays(validation=0.1), arrays(sp.csr_array(X), validation=0.1)
    np.testing.assert_array_equal(sparse.take(10).X, dense.take(10).X)
    np.testing.assert_array_equal(sparse.validation.X, dense.validation.X)


def test_names_of_signals():
    hidden = np.where(np.arange(N) % 2, -1, LABELS)
    source = arrays(y=hidden, use_unlabelled=True)
    batch = source.take(5)
    assert [source.name(k, False) for k in range(5)] == [f"row {row}" for row in rows_of(batch.X)]
    assert [source.name(k, True) for k in range(5)] == [f"row {row}" for row in rows_of(batch.others)]
    assert streamed().name(3, True) == "unlabelled signal 3 of a batch of the stream"


def test_widths_that_change(monkeypatch):
    monkeypatch.setattr("taskdict.streams.pairs.sample_size", lambda width: 10)
    source = streamed(td.stream([(X[:10], LABELS[:10]), (X[:10, :2], LABELS[:10])], "pairs"))
    source.take(10)
    with pytest.raises(ValueError, match="a batch of the stream has 2 features per signal, but those before had 3"):
        source.take(10)


def test_fingerprints_are_of_all_data():
    y = LABELS.astype(float)[:, None]
    weights = np.ones(N)
    settings = {"labels": False}
    expected = arrays(y=y, weights=weights, **settings).fingerprint(1)
    assert arrays(X.copy(), y.copy(), weights.copy(), seed=5, **settings).fingerprint(2) == expected
    changed = [X.copy(), y.copy(), weights.copy()]
    for k, array in enumerate(changed):
        array[-1] += 1
        others = [X, y, weights]
        others[k] = array
        assert arrays(*others, **settings).fingerprint(1) != expected
    stream = streamed().fingerprint(1)
    assert streamed().fingerprint(1) == stream
    assert streamed(td.stream(changed[0], LABELS, random_state=0)).fingerprint(1) != stream
    assert streamed(td.stream(X, LABELS, random_state=1)).fingerprint(1) != stream


def test_size_of_a_sample():
    assert sample_size(0) == sample_size(10) == 20_000
    assert sample_size(10_000) == (1 << 28) // 80_000
    assert sample_size(10**9) == 100


def test_rewind():
    stream = td.stream(X, random_state=0)
    first = stream.state()
    expected = stream.take(5)
    assert rewind(stream, first)
    np.testing.assert_array_equal(stream.take(5), expected)
    here = stream.state()
    iterator = td.stream(iter(X))
    iterator.take(3)
    for other in (None, {}, iterator.state(), {**first, "n_signals": 7}, {**first, "place": "a"}, 3):
        assert not rewind(stream, other)
        assert stream.state() == here


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones(3), ValueError, r"sample_weight must have shape \(n_samples,\) = \(4,\), got \(3,\)"),
        (np.ones((4, 1)), ValueError, r"sample_weight must have shape .*got \(4, 1\)"),
        ([1, 1, 1, -1], ValueError, "sample_weight must be finite, not negative, and not all zero"),
        ([1, 1, 1, np.inf], ValueError, "sample_weight must be finite"),
        (np.zeros(4), ValueError, "sample_weight must be finite, not negative, and not all zero"),
        (["a"] * 4, TypeError, "sample_weight must hold real numbers, got dtype <U1"),
    ],
)
def test_bad_weights(weights, error, message):
    with pytest.raises(error, match=message):
        check_weights(weights, 4)


def test_weights_of_any_size():
    assert check_weights(None, 4) is None
    assert check_weights([2, 1, 0, 1], 4).tolist() == [1, 0.5, 0, 0.5]
    np.testing.assert_array_equal(check_weights(np.array([1e300, 1e-300]), 2), [1, 0])
