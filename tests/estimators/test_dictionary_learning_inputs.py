"""Bad input: clear errors, and nothing is lost."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import taskdict as td
from helpers import DTYPES, random_problem
from taskdict._learning import statistics
from taskdict.streams import StreamEndedError


def test_nan_in_the_middle_of_a_stream():
    X, _ = random_problem(400, 8, 1)
    X[250, 3] = np.nan
    model = td.DictionaryLearning(6, lambda1=0.1, batch_size=40, max_iter=10)
    with pytest.raises(ValueError, match=r"signal 250 of the stream contains NaN or infinity \(batch 7\)"):
        model.fit(td.stream(iter(X)))
    assert model.n_iter_ == 6
    expected = clone(model).set_params(max_iter=6).fit(td.stream(iter(X)))
    np.testing.assert_array_equal(model.components_, expected.components_)
    model.transform(X[:200])
    with pytest.raises(ValueError, match=r"row 250 contains NaN or infinity \(batch 7\)"):
        model.partial_fit(X)
    assert model.n_iter_ == 6


def test_nan_is_named_by_its_row(tmp_path):
    X, _ = random_problem(400, 8, 1)
    X[250, 3] = np.inf
    model = td.DictionaryLearning(6, lambda1=0.1, batch_size=40)
    with pytest.raises(ValueError, match="row 250 of the source contains NaN or infinity"):
        model.fit(X)
    with pytest.raises(ValueError, match="row 250 of the source contains NaN or infinity"):
        clone(model).fit(td.stream(sp.csr_array(X), random_state=3))
    np.save(tmp_path / "a.npy", X[:200])
    np.save(tmp_path / "b.npy", X[200:])
    with pytest.raises(ValueError, match=r"row 50 of '.*b.npy' contains NaN or infinity"):
        clone(model).fit(td.stream([tmp_path / "a.npy", tmp_path / "b.npy"]))
    with pytest.raises(ValueError, match=r"signal \d+ of the batch contains NaN"):
        clone(model).fit(td.stream(X, preprocess=lambda batch: batch[1:]))


def test_nan_in_the_first_batch():
    X, _ = random_problem(50, 8, 1)
    for row in (0, 3, 20, 49):
        bad = X.copy()
        bad[row, 2] = np.nan
        for method in ("fit", "partial_fit"):
            model = td.DictionaryLearning(6, lambda1=0.1, random_state=0)
            with pytest.raises(ValueError, match=f"row {row} .*contains NaN"):
                getattr(model, method)(bad)
            assert not hasattr(model, "components_")


def test_a_failed_fit_leaves_the_model_as_it_was(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(random_problem(100, 4, 1)[0], columns=list("abcd"))
    bad = np.full((50, 5000), np.nan)
    model = td.DictionaryLearning(6, lambda1=0.1, max_iter=3, random_state=0).fit(X)
    before = model.components_.copy()
    for source in (bad, bad[:3], np.zeros((50, 7)), td.stream(bad), td.stream(iter([]))):
        with pytest.raises(ValueError, match=r"NaN|fewer|only 0 are|no signals"):
            clone(model).fit(source)
        if isinstance(source, np.ndarray) and not source.any():
            continue  # all were read, so there is a new model, if a useless one
        with pytest.raises(ValueError, match=r"NaN|fewer|no signals"):
            model.fit(source)
        assert model.n_features_in_ == 4
        assert list(model.feature_names_in_) == list("abcd")
        np.testing.assert_array_equal(model.components_, before)
        with pytest.raises(ValueError, match="feature names"):
            model.partial_fit(pandas.DataFrame(np.ones((5, 5000)), columns=[f"x{k}" for k in range(5000)]))
        model.save(tmp_path / "model")
        td.load(tmp_path / "model").transform(X)


def test_a_failed_first_fit_leaves_nothing():
    model = td.DictionaryLearning(6, lambda1=0.1)
    with pytest.raises(ValueError, match="fewer signals"):
        model.fit(np.ones((3, 4)))
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(ValueError, match="not fitted yet"):
        model.transform(np.ones((3, 4)))
    with pytest.raises(ValueError, match="at least one feature"):
        model.fit(td.stream(np.zeros((50, 0))))


@pytest.mark.parametrize("most", [0, 100])  # atoms of which full statistics are kept
def test_read_only_models_learn_on(most, monkeypatch):
    monkeypatch.setattr(statistics, "FULL_ATOMS", most)
    X, _ = random_problem(100, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1, max_iter=3, random_state=0).fit(X)
    other = pickle.loads(pickle.dumps(model))
    state = other._learner.state
    for array in (state.dictionary, *state.statistics.arrays().values()):
        array.flags.writeable = False
    for _ in range(3):
        np.testing.assert_array_equal(other.partial_fit(X).components_, model.partial_fit(X).components_)


def test_masked_arrays_are_refused():
    X = np.ma.masked_array(random_problem(100, 8, 1)[0])
    with pytest.raises(TypeError, match="must not be a masked array"):
        td.DictionaryLearning(6, lambda1=0.1).fit(X)


def test_integers_are_converted_batch_by_batch():
    X = np.random.default_rng(0).integers(0, 9, (100, 8)).astype(np.uint8)
    model = td.DictionaryLearning(6, lambda1=1.0, max_iter=3, random_state=0)
    np.testing.assert_array_equal(clone(model).fit(X).components_, clone(model).fit(X.astype(float)).components_)
    swapped = X.astype(">f4")
    assert clone(model).fit(swapped).components_.dtype == np.float32


def test_positive_atoms_for_negative_signals():
    X = np.abs(random_problem(100, 8, 1)[0])
    model = td.DictionaryLearning(6, lambda1=0.1, positive_dictionary=True, max_iter=5, random_state=0)
    expected = clone(model).fit(X)
    opposite = clone(model).fit(-X)
    np.testing.assert_allclose(opposite.components_, expected.components_, atol=1e-10)
    assert (opposite.transform(-X).toarray().sum(axis=1) < 0).all()


def test_atoms_are_born_from_the_signals_of_this_fit():
    X, _ = random_problem(300, 8, 1)
    model = td.DictionaryLearning(10, lambda1=0.1, warm_start=True, batch_size=5, max_iter=100)
    assert model.partial_fit(np.zeros((500, 8))).fit(X).n_iter_ == 100


def test_more_atoms_than_signals_where_it_can_work():
    X, D = random_problem(10, 64, 20)
    with pytest.raises(ValueError, match="fewer signals than there are atoms"):
        td.DictionaryLearning(20, lambda1=0.1, max_iter=3).fit(X)
    model = td.DictionaryLearning(20, lambda1=0.1, dictionary_init=D, max_iter=3).fit(X)
    used = model.transform(X).toarray().any(axis=0)
    moved = np.abs(model.components_ - D).max(axis=1) > 1e-3
    assert moved[used].all()
    assert used.sum() >= 10
    pieces = td.stream(X, preprocess=lambda batch: batch.reshape(-1, 4))
    model = td.DictionaryLearning(50, lambda1=0.01, batch_size=4, max_iter=3).fit(pieces)
    norms = np.linalg.norm(model.components_, axis=1)
    assert norms.min() > 0.5  # a signal was found for every atom
    assert norms.max() < 1 + 1e-6
    assert len(np.unique(model.components_.round(6), axis=0)) == 50


@pytest.mark.parametrize("dtype", DTYPES)
def test_signals_of_any_reasonable_size(dtype):
    X, _ = random_problem(200, 8, 1, dtype=dtype)
    model = td.DictionaryLearning(12, lambda1=0.1, random_state=0, max_iter=20).fit(X)
    for scale in (1e-12, 1e12) if dtype == np.float32 else (1e-100, 1e100):
        scaled = td.DictionaryLearning(12, lambda1=0.1 * scale, random_state=0, max_iter=20).fit(X * dtype(scale))
        np.testing.assert_allclose(scaled.components_, model.components_, atol=1e-4 if dtype == np.float32 else 1e-8)
    huge = dtype(1e30 if dtype == np.float32 else 1e200)
    for positive in (False, True):
        model = td.DictionaryLearning(12, lambda1=0.1 * float(huge), positive_dictionary=positive)
        with pytest.raises(ValueError, match=r"overflow float.*: divide the signals"):
            model.fit(X * huge)
        tiny = td.DictionaryLearning(12, lambda1=0.1 / float(huge), positive_dictionary=positive)
        with pytest.raises(ValueError, match=r"underflow float.*: divide the signals"):
            tiny.fit(X / huge)


def test_batches_of_which_nothing_is_left():
    X, _ = random_problem(100, 8, 1)
    calls = []

    def drop_some(batch):
        calls.append(len(batch))
        return batch[: len(batch) * (len(calls) % 2)]

    model = td.DictionaryLearning(6, lambda1=0.1, batch_size=10, max_iter=8)
    assert model.fit(td.stream(X, preprocess=drop_some)).n_iter_ == 8
    assert len(calls) == 15
    with pytest.raises(ValueError, match="left no signal of 1000 batches in a row"):
        model.fit(td.stream(X, preprocess=lambda batch: batch[:0]))


def test_a_stream_that_ends_early():
    X, _ = random_problem(100, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1, batch_size=40, max_iter=10)
    with pytest.raises(StreamEndedError, match=r"ended after 3 batches \(100 signals\), before max_iter=10"):
        model.fit(td.stream(iter(X)))
    assert model.n_iter_ == 3
    model.transform(X)
    with pytest.raises(StreamEndedError, match="has no signals"):
        clone(model).fit(td.stream(iter([])))
    whole = clone(model).set_params(max_iter=None).fit(td.stream(iter(X)))
    assert whole.n_iter_ == 3
    np.testing.assert_array_equal(whole.components_, model.components_)
    again = clone(model).fit(td.stream(lambda: iter(X)))  # a function that is called again
    assert again.n_iter_ == 10


def test_what_is_not_an_array_is_sent_to_stream(tmp_path):
    X, _ = random_problem(100, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1, max_iter=2)
    for source in (iter(X), "X.npy", [tmp_path / "X.npy"]):
        with pytest.raises(TypeError, match=r"fit\(taskdict.stream\(X\)\) reads it"):
            model.fit(source)
    stream = td.stream(X)
    with pytest.raises(TypeError, match=r"partial_fit\(stream.take\(n\)\)"):
        model.partial_fit(stream)
    model.fit(stream)
    for method in (model.transform, model.score):
        with pytest.raises(TypeError, match=r"got a stream: pass stream.take\(n\)"):
            method(stream)


def test_not_fitted():
    model = td.DictionaryLearning(6, lambda1=0.1)
    for name in ("objective_", "history_", "stream_state_", "components_", "n_iter_"):
        assert not hasattr(model, name)
    with pytest.raises(ValueError, match="not fitted yet"):
        _ = model.objective_


def test_a_callback_may_end_fit():
    X, _ = random_problem(100, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1, callbacks=lambda progress: progress.n_iter == 5).fit(X)
    assert model.n_iter_ == 5


def test_nothing_is_done_after_the_end():
    X, _ = random_problem(60, 6, 1)
    model = td.DictionaryLearning(4, lambda1=0.1, tol=0.1, warm_start=True).fit(X)
    n_iter = model.n_iter_
    assert n_iter < 1000
    with pytest.warns(UserWarning, match="raise max_iter or lower tol"):
        assert model.fit(X).n_iter_ == n_iter
    assert model.set_params(tol=0, max_iter=n_iter + 3).fit(X).n_iter_ == n_iter + 3


def test_widths_that_change():
    X, _ = random_problem(100, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1, batch_size=10, max_iter=10).partial_fit(X)
    before = model.components_.copy()
    with pytest.raises(ValueError, match="X has 7 features, but DictionaryLearning is expecting 8"):
        model.partial_fit(X[:, :7])
    np.testing.assert_array_equal(model.components_, before)
    with pytest.raises(ValueError, match="batch 3 of the stream has 7 features per signal, but those before had 8"):
        model.fit(td.stream(iter([X[:20], X[:20, :7]])))
    assert model.n_iter_ == 2


def test_too_few_signals():
    X, _ = random_problem(5, 8, 1)
    with pytest.raises(ValueError, match=r"fewer signals than there are atoms \(n_samples=5, n_components=6\)"):
        td.DictionaryLearning(6, lambda1=0.1).fit(X)
    with pytest.raises(ValueError, match=r"of 50 signals .* only 5 are: lower n_components"):
        td.DictionaryLearning(6, lambda1=0.1).fit(np.tile(X, (10, 1)))
    with pytest.raises(ValueError, match="only 0 are"):
        td.DictionaryLearning(6, lambda1=0.1).fit(np.zeros((20, 4)))
    with pytest.raises(ValueError, match="only 1 are"):
        td.DictionaryLearning(6, lambda1=0.1).fit(np.ones((20, 4)))
    with pytest.raises(ValueError, match="of norm above lambda1=2"):
        td.DictionaryLearning(3, lambda1=2).fit(X)
    with pytest.raises(ValueError, match="only 5 are"):
        td.DictionaryLearning(6, lambda1=0.1, max_iter=2, batch_size=10).fit(td.stream(iter(np.tile(X, (10, 1)))))


def test_zero_signals_among_others_are_harmless():
    X, _ = random_problem(200, 8, 1)
    X[::3] = 0
    model = td.DictionaryLearning(6, lambda1=0.1, max_iter=20).fit(X)
    assert np.isfinite(model.components_).all()
    assert (np.linalg.norm(model.components_, axis=1) > 0.5).all()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be a positive integer, got 0"),
        ({"n_components": 2.5}, TypeError, "n_components must be a positive integer, got 2.5"),
        ({"lambda1": -1}, ValueError, "lambda1 must be finite and at least 0"),
        ({"lambda2": "a"}, TypeError, "lambda2 must be a real number"),
        ({"batch_size": 0}, ValueError, "batch_size must be a positive integer"),
        ({"max_iter": 1.5}, TypeError, "max_iter must be a positive integer"),
        ({"verbose": -1}, ValueError, "verbose must be 0"),
        ({"tol": -1}, ValueError, "tol must be finite and at least 0"),
        ({"positive_code": 1}, TypeError, "positive_code must be True or False"),
        ({"positive_dictionary": None}, TypeError, "positive_dictionary must be True or False"),
        ({"warm_start": "yes"}, TypeError, "warm_start must be True or False"),
        ({"n_threads": 0}, ValueError, "n_threads must be None or a positive integer"),
        ({"callbacks": 3}, TypeError, "callbacks must be a function"),
    ],
)
def test_bad_parameters(changes, error, message):
    X, _ = random_problem(50, 8, 1)
    model = td.DictionaryLearning(6, lambda1=0.1).set_params(**changes)
    with pytest.raises(error, match=message):
        model.fit(X)
    assert not hasattr(model, "components_")
