import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

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
from helpers import random_problem
from taskdict._coding.encode import PreparedDictionary
from taskdict._coding.rules import Rule
from taskdict._native import Encoder


def test_is_sparse_encode():
    X, D = random_problem(20, 6, 9)
    coder = td.SparseCoder(D, lambda1=0.2, lambda2=0.1, positive_code=True, method="homotopy", n_threads=1)
    expected = td.sparse_encode(X, D, lambda1=0.2, lambda2=0.1, positive=True, method="homotopy", n_threads=1)
    np.testing.assert_array_equal(coder.fit_transform(X).toarray(), expected.toarray())
    np.testing.assert_array_equal(clone(coder).fit(X).transform(X).toarray(), expected.toarray())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse_transform(dtype):
    X, D = random_problem(20, 6, 9, dtype=dtype)
    coder = td.SparseCoder(D, lambda1=0.01).fit(X)
    codes = coder.transform(X)
    signals = coder.inverse_transform(codes)
    assert signals.dtype == dtype
    np.testing.assert_allclose(signals, codes.toarray() @ D, atol=1e-6)
    assert np.linalg.norm(signals - X) < 0.1 * np.linalg.norm(X)
    with pytest.raises(ValueError, match="codes must have 9 columns, one per atom, got 8"):
        coder.inverse_transform(codes[:, :8])


def test_inverse_transform_of_integers_and_lists():
    X, D = random_problem(20, 6, 9)
    coder = td.SparseCoder(D).fit(X)
    np.testing.assert_array_equal(coder.inverse_transform(np.eye(9, dtype=int)), D)
    np.testing.assert_array_equal(coder.inverse_transform(np.eye(9).tolist()), D)
    np.testing.assert_array_equal(coder.inverse_transform(sp.eye_array(9, dtype=bool, format="csr")), D)


def test_the_dictionary_is_copied():
    X, D = random_problem(20, 6, 9)
    coder = td.SparseCoder(D).fit(X)
    before = coder.transform(X).toarray()
    D[:] = 0
    np.testing.assert_array_equal(coder.transform(X).toarray(), before)


def test_feature_names():
    X, D = random_problem(20, 6, 3)
    coder = td.SparseCoder(D).fit(X)
    assert list(coder.get_feature_names_out()) == ["sparsecoder0", "sparsecoder1", "sparsecoder2"]


def test_grid_search_in_a_pipeline():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    pipeline = make_pipeline(
        Normalizer(), td.SparseCoder(Normalizer().transform(X[:40])), LogisticRegression(max_iter=1000)
    )
    search = GridSearchCV(pipeline, {"sparsecoder__lambda1": [0.05, 0.9]}, cv=3, n_jobs=2).fit(X, y)
    assert search.best_params_ == {"sparsecoder__lambda1": 0.05}
    assert search.best_score_ > 0.9


def test_parameters_are_checked_in_fit():
    X, D = random_problem(20, 6, 9)
    for wrong, message in (({"lambda1": -1}, "lambda1"), ({"method": "x"}, "method"), ({"n_threads": 0}, "n_threads")):
        with pytest.raises(ValueError, match=message):
            td.SparseCoder(D, **wrong).fit(X)
    with pytest.raises(ValueError, match="6 features per signal, but the atoms of dictionary have 5"):
        td.SparseCoder(D[:, :5]).fit(X)


# The prepared dictionary ----------------------------------------------------------------------------------------------


@pytest.fixture
def preparations(monkeypatch):
    """The dtypes of the dictionaries that were prepared."""
    found = []

    class Counted(Encoder):
        def __init__(self, dictionary, **settings):
            found.append(dictionary.dtype.name)
            super().__init__(dictionary, **settings)

    monkeypatch.setattr("taskdict._coding.encode.Encoder", Counted)
    return found


def test_the_dictionary_is_prepared_once_for_each_kind_of_signals(preparations):
    X, D = random_problem(20, 6, 9)
    coder = td.SparseCoder(D, lambda1=0.1).fit(X)
    narrow, few = X.astype(np.float32), sp.csr_array(X)
    for signals in (X, narrow, few, X[:3], narrow, few, X.tolist(), X.astype(">f8")):
        expected = td.sparse_encode(signals, D, lambda1=0.1)
        codes = coder.transform(signals)
        assert codes.dtype == expected.dtype
        np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    of_functions = 8
    assert len(preparations) == of_functions + 3
    coder.fit(X)
    assert len(preparations) == of_functions + 4


def test_a_large_dictionary_is_not_kept(preparations, monkeypatch):
    monkeypatch.setattr("taskdict._coding.encode.MOST_KEPT_ATOMS", 8)
    X, D = random_problem(20, 6, 9)
    coder = td.SparseCoder(D).fit(X)
    np.testing.assert_array_equal(coder.transform(X).toarray(), coder.transform(X).toarray())
    assert len(preparations) == 3


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda coder: pickle.loads(pickle.dumps(coder))])
def test_the_preparation_is_not_copied(duplicate, preparations):
    X, D = random_problem(20, 6, 900)
    coder = td.SparseCoder(D).fit(X)
    other = duplicate(coder)
    assert len(pickle.dumps(coder)) < 3 * D.nbytes  # a parameter, and as fitted; the Gram matrix is far larger
    assert len(preparations) == 1
    np.testing.assert_array_equal(other.transform(X).toarray(), coder.transform(X).toarray())
    assert len(preparations) == 2


def test_threads_share_the_preparation(preparations):
    X, D = random_problem(400, 20, 60)
    coder = td.SparseCoder(D, lambda1=0.05, n_threads=1).fit(X)
    parts = [X[k : k + 50] for k in range(0, 400, 50)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(coder.transform, parts))
    np.testing.assert_array_equal(sp.vstack(found).toarray(), coder.transform(X).toarray())
    assert len(preparations) == 1


def test_signals_that_do_not_fit_a_prepared_dictionary():
    X, D = random_problem(20, 6, 9)
    prepared = PreparedDictionary(D, rule=Rule.parse({"lambda1": 0.1}))
    expected = prepared.codes(X).toarray()
    with pytest.raises(ValueError, match="X has 5 features per signal, but the atoms of dictionary have 6"):
        prepared.codes(X[:, :5])
    with pytest.raises(ValueError, match="row 3 contains NaN or infinity"):
        prepared.codes(np.where(np.arange(20)[:, None] == 3, np.nan, X))
    np.testing.assert_array_equal(prepared.codes(X).toarray(), expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "n_nonzero or max_error must be given with method='omp', got neither of them"),
        ({"max_l1": 2.0}, "n_nonzero or max_error must be given with method='omp', got max_l1=2"),
        ({"n_nonzero": 2, "positive_code": True}, "positive_code must be False with method='omp', got True: leave out"),
        ({"n_nonzero": 2, "lambda2": 0.1}, "lambda2 cannot be used with method='omp'"),
    ],
)
def test_a_pursuit_names_the_parameters_that_it_refuses(given, message):
    X, D = random_problem(20, 6, 9)
    with pytest.raises(ValueError, match=message):
        td.SparseCoder(D, method="omp", **given).fit(X)
