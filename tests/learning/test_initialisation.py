"""Where the descent starts, against scikit-learn's solvers."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge

import taskdict as td
from helpers import DTYPES, random_problem
from taskdict._coding.coded_batch import Coding, Part
from taskdict._learning.convex import fit_model
from taskdict._learning.models import BilinearModel, LinearModel
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.start import learn_dictionary, start_transform
from taskdict._native import BadSignalError
from taskdict.constraints import UnitBall
from taskdict.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from taskdict.streams.pairs import Batch

N, M, P = 200, 10, 15


def start(q, dtype=np.float64):
    X, D = random_problem(N, M, P, dtype=dtype)
    return X, Weights(D, np.zeros((q, P), dtype), np.zeros(q, dtype))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge(fit_intercept):
    X, weights = start(2)
    rng = np.random.default_rng(0)
    y, shares = rng.standard_normal((N, 2)) + 3, rng.uniform(0.5, 1.5, N)
    objective = Objective(LinearModel(), SquaredLoss(), Coding(0.1), nu=0.03, fit_intercept=fit_intercept)
    fitted = fit_model(objective, weights, Batch(X, y, shares))
    codes = td.sparse_encode(X, weights.D, lambda1=0.1).toarray()
    reference = Ridge(alpha=0.03 * N, fit_intercept=fit_intercept, tol=1e-12).fit(codes, y, shares)
    np.testing.assert_allclose(fitted.W, reference.coef_, atol=1e-10)
    np.testing.assert_allclose(fitted.b, reference.intercept_ if fit_intercept else 0, atol=1e-10)


def test_ridge_without_penalty_and_unused_atoms():
    X, weights = start(1)
    weights.D[3] = 0  # no code uses it
    y = np.random.default_rng(0).standard_normal((N, 1))
    fitted = fit_model(Objective(LinearModel(), SquaredLoss(), Coding(0.1)), weights, Batch(X, y))
    assert np.isfinite(fitted.W).all()
    assert abs(fitted.W[0, 3]) < 1e-8
    objective = Objective(LinearModel(), SquaredLoss(), Coding(0.1))
    np.testing.assert_allclose(objective.evaluate(fitted, Batch(X, y))[1].W, 0, atol=1e-10)


def test_logistic():
    X, weights = start(1)
    y = np.where(X[:, 0] + 0.3 * np.random.default_rng(0).standard_normal(N) > 0, 1.0, -1.0)
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.1), nu=0.01)
    fitted = fit_model(objective, weights, Batch(X, y[:, None]))
    codes = td.sparse_encode(X, weights.D, lambda1=0.1).toarray()
    reference = LogisticRegression(C=1 / (0.01 * N), tol=1e-10, max_iter=10000).fit(codes, y)
    np.testing.assert_allclose(fitted.W, reference.coef_, atol=1e-3)
    np.testing.assert_allclose(fitted.b, reference.intercept_, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", [LinearModel(), BilinearModel()])
def test_softmax_is_stationary(model, dtype):
    X, weights = start(3, dtype)
    weights = Weights(weights.D, np.zeros(model.shape(3, P, M), dtype), weights.b)
    batch = Batch(X, np.arange(N) % 3)
    objective = Objective(model, SoftmaxLoss(), Coding(0.1), nu=0.01, task=0.4)
    fitted = fit_model(objective, weights, batch)
    assert fitted.W.dtype == dtype
    _, gradient = objective.evaluate(fitted, batch)
    assert max(np.abs(gradient.W).max(), np.abs(gradient.b).max()) < (1e-3 if dtype == np.float32 else 1e-4)


def test_dictionary():
    X, _ = random_problem(500, M, 1)
    coding = Coding(0.1)
    D = learn_dictionary(X, np.zeros((P, M)), coding, UnitBall(), (), seed=0, n_threads=1)
    assert np.linalg.norm(D, axis=1).max() <= 1 + 1e-9
    again = learn_dictionary(X, np.zeros((P, M)), coding, UnitBall(), (), seed=0, n_threads=2)
    np.testing.assert_array_equal(D, again)
    few = learn_dictionary(X[:4], np.zeros((P, M)), coding, UnitBall(positive=True), (), seed=0, n_threads=1)
    assert few.any(axis=1).all()
    assert (few >= 0).all()
    parts = (Part(slice(0, 5), np.arange(4)), Part(slice(5, P), np.arange(4, M)))
    views = learn_dictionary(X, np.zeros((P, M)), coding, UnitBall(), parts, seed=0, n_threads=1)
    assert not views[:5, 4:].any()
    assert not views[5:, :4].any()
    X[321, 3] = np.nan
    with pytest.raises(BadSignalError) as error:
        learn_dictionary(X, np.zeros((P, M)), coding, UnitBall(), (), seed=0, n_threads=1)
    assert error.value.row == 321


def test_transform():
    X = random_problem(300, M, 1)[0] * np.arange(1, M + 1) + 5
    Z = start_transform(X, 4, "pca", seed=0)
    np.testing.assert_allclose(np.abs(Z @ PCA(4).fit(X).components_.T), np.eye(4), atol=1e-8)
    random = start_transform(X, 4000, "random", seed=0)
    assert np.linalg.norm(random @ X[0]) == pytest.approx(np.linalg.norm(X[0]), rel=0.1)
