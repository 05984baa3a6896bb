"""The convex problem in W against scikit-learn's solvers, and leave-one-out errors against leaving one out."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import taskdict as td
from helpers import DTYPES, random_problem
from taskdict._coding.coded_batch import Coding
from taskdict._learning import convex
from taskdict._learning.convex import Linear, fit_linear, fit_model, leave_one_out
from taskdict._learning.models import Columns, JointModel, SplitModel
from taskdict._learning.objective import Objective, Weights
from taskdict.losses import SoftmaxLoss, SquaredLoss
from taskdict.streams.pairs import Batch

N, M, P, Q = 120, 10, 15, 2


def samples(dtype=np.float64):
    X, D = random_problem(N, M, P, dtype=dtype)
    y = np.random.default_rng(0).standard_normal((N, Q)).astype(dtype) + 3 * np.abs(X[:, :1])
    return X, D, y, np.random.default_rng(1).uniform(0.5, 1.5, N).astype(dtype)


def features(X, D, model):
    codes = td.sparse_encode(X, D, lambda1=0.1).toarray()
    split = np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0)])
    return np.hstack([split, model.columns.of_signals(X)]) if isinstance(model, JointModel) else split


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["split", "joint"])
def test_ridge(kind, fit_intercept):
    X, D, y, shares = samples()
    model = SplitModel() if kind == "split" else JointModel(Columns.of(X, center=fit_intercept))
    start = Weights(D, np.zeros(model.shape(Q, P, M)), np.zeros(Q))
    objective = Objective(model, SquaredLoss(), Coding(0.1), nu=0.03, fit_intercept=fit_intercept)
    fitted = fit_model(objective, start, Batch(X, y, shares))
    reference = Ridge(alpha=0.03 * N, fit_intercept=fit_intercept, tol=1e-12).fit(features(X, D, model), y, shares)
    np.testing.assert_allclose(fitted.W, reference.coef_, atol=1e-9)
    np.testing.assert_allclose(fitted.b, reference.intercept_ if fit_intercept else 0, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["split", "joint"])
def test_ridge_with_many_atoms(kind, fit_intercept, monkeypatch):
    """Without the products of all pairs of features."""
    X, D, y, shares = samples()
    model = SplitModel() if kind == "split" else JointModel(Columns.of(X, center=fit_intercept))
    start = Weights(D, np.zeros(model.shape(Q, P, M)), np.zeros(Q))
    objective = Objective(model, SquaredLoss(), Coding(0.1), nu=0.03, fit_intercept=fit_intercept)
    expected = fit_model(objective, start, Batch(X, y, shares))
    monkeypatch.setattr(convex, "MOST_ATOMS", P - 1)
    monkeypatch.delattr(convex, "ridge")
    fitted = fit_model(objective, start, Batch(X, y, shares))
    np.testing.assert_allclose(fitted.W, expected.W, atol=1e-3)
    np.testing.assert_allclose(fitted.b, expected.b, atol=1e-3)


@pytest.mark.parametrize("kind", ["split", "joint"])
def test_softmax(kind):
    X, D, _, _ = samples()
    y = np.digitize(np.abs(X[:, 0]), [0.1, 0.3])
    model = SplitModel() if kind == "split" else JointModel(Columns.of(X))
    start = Weights(D, np.zeros(model.shape(3, P, M)), np.zeros(3))
    fitted = fit_model(Objective(model, SoftmaxLoss(), Coding(0.1), nu=0.01), start, Batch(X, y))
    reference = LogisticRegression(C=1 / (0.01 * N), tol=1e-10, max_iter=10000).fit(features(X, D, model), y)
    np.testing.assert_allclose(fitted.W - fitted.W.mean(axis=0), reference.coef_, atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("width", [4, 40])  # fewer or more features than samples
def test_leave_one_out(width, fit_intercept, weighted):
    rng = np.random.default_rng(0)
    n, nus = 25, (1.0, 0.1, 0.001)
    F, Y = rng.standard_normal((n, width)) + 1, rng.standard_normal((n, Q)) + 5
    Y += F[:, :1]
    weights = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    shares = weights / weights.sum()
    found = leave_one_out(F, Y, weights if weighted else None, nus, fit_intercept)
    around_mean = shares @ np.square(Y - shares @ Y).sum(axis=1)
    for nu, error in zip(nus, found, strict=True):
        total = 0.0
        for i in range(n):
            others = np.arange(n) != i
            # the others keep their shares of the whole, which the penalty is relative to
            fitted = Ridge(alpha=nu, fit_intercept=fit_intercept, solver="cholesky").fit(
                F[others], Y[others], shares[others]
            )
            total += shares[i] * np.square(Y[i] - fitted.predict(F[i : i + 1])[0]).sum()
        assert error == pytest.approx(total / around_mean, rel=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_leave_one_out_of_features_that_interpolate(dtype):
    """A model that passes through every sample says nothing of others: its leave-one-out error is large."""
    rng = np.random.default_rng(0)
    F, Y = np.eye(20, dtype=dtype), rng.standard_normal((20, 1)).astype(dtype)
    errors = leave_one_out(F, Y, None, (1.0, 1e-9), True)
    assert np.isfinite(errors).all()
    assert errors[1] > 0.99
    assert leave_one_out(np.zeros((20, 3), dtype), Y, None, (0.1,))[0] == pytest.approx((20 / 19) ** 2, rel=1e-5)
    assert np.isfinite(leave_one_out(F, np.ones((20, 1), dtype), None, (0.1,))).all()  # targets without a spread


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_models_are_those_of_scikit_learn(dtype, fit_intercept):
    X, _, y, shares = samples(dtype)
    n = len(X)
    classes = np.digitize(X[:, 0], [-0.1, 0.1])
    none = Linear(np.zeros((3, M), dtype), np.zeros(3, dtype))
    found = fit_linear(X, classes, shares, SoftmaxLoss(), none, 0.01, fit_intercept)
    reference = LogisticRegression(C=1 / (0.01 * n), fit_intercept=fit_intercept, max_iter=1000, tol=1e-8)
    expected = reference.fit(X, classes, shares).decision_function(X)
    scores = X @ found.W.T + found.b
    np.testing.assert_allclose(
        scores - scores.mean(axis=1, keepdims=True), expected, atol=0.02 * np.abs(expected).max()
    )
    first = Linear(np.zeros((Q, M), dtype), np.zeros(Q, dtype))
    ours = fit_linear(X, y, shares, SquaredLoss(), first, 0.03, fit_intercept)
    ridge = Ridge(alpha=0.03 * n, fit_intercept=fit_intercept, tol=1e-12).fit(X, y, shares)
    assert ours.W.dtype == dtype
    np.testing.assert_allclose(X @ ours.W.T + ours.b, ridge.predict(X), atol=50 * np.finfo(dtype).eps * np.abs(y).max())
