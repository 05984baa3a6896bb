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
