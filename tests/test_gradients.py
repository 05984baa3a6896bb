"""Analytic gradients against central differences of the whole objective, codes included."""

import itertools

import numpy as np
import pytest

from helpers import DTYPES, random_problem
from taskdict.gradients import CodedBatch
from taskdict.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from taskdict.models import BilinearModel, LinearModel, evaluate

N, M, P, Q = 12, 9, 14, 3
STEP = 1e-6


def targets(loss, seed=0):
    rng = np.random.default_rng(seed)
    if isinstance(loss, SquaredLoss):
        return rng.standard_normal((N, Q))
    if isinstance(loss, LogisticLoss):
        return rng.choice([-1.0, 1.0], (N, Q))
    return rng.integers(0, Q, N)


def differences(function, array):
    """Central differences of a scalar function of an array."""
    gradient = np.empty_like(array)
    for place in np.ndindex(array.shape):
        values = []
        for sign in (1, -1):
            moved = array.copy()
            moved[place] += sign * STEP
            values.append(function(moved))
        gradient[place] = (values[0] - values[1]) / (2 * STEP)
    return gradient


def assert_close(analytic, numeric):
    assert np.linalg.norm(analytic - numeric) <= 1e-5 * max(np.linalg.norm(numeric), 1e-3)


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), SoftmaxLoss()], ids=lambda loss: type(loss).__name__)
def test_losses(loss):
    y = targets(loss)
    scores = 3 * np.random.default_rng(1).standard_normal((N, Q))
    values, gradient = loss.evaluate(y, scores)
    assert values.shape == (N,)
    assert_close(gradient, differences(lambda s: loss.evaluate(y, s)[0].sum(), scores))
    huge, slopes = loss.evaluate(y, 1e4 * scores)
    assert np.isfinite(huge).all()
    assert np.isfinite(slopes).all()
    single = loss.evaluate(y.astype(np.float32) if y.dtype == float else y, scores.astype(np.float32))
    assert single[1].dtype == np.float32
    np.testing.assert_allclose(single[0], values, rtol=1e-5)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
@pytest.mark.parametrize("model", [LinearModel(), BilinearModel()], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), SoftmaxLoss()], ids=lambda loss: type(loss).__name__)
def test_all_parameters(loss, model, lambda2, positive):
    rng = np.random.default_rng(2)
    signals, D = random_problem(N, 2 * M, P)
    D = random_problem(1, M, P, seed=1)[1]
    Z = rng.standard_normal((M, 2 * M)) / 3
    W = rng.standard_normal(model.shape(Q, P, M))
    b = rng.standard_normal(Q)
    y, weights = targets(loss), rng.uniform(0.5, 2, N)

    def batch_of(D, Z):
        X = np.ascontiguousarray(signals @ Z.T)
        return CodedBatch.encode(X, D, lambda1=0.05, lambda2=lambda2, positive=positive)

    def objective(D=D, W=W, b=b, Z=Z):
        return evaluate(model, loss, batch_of(D, Z), y, W, b, weights).values.sum()

    batch = batch_of(D, Z)
    assert len(batch.encoded.indices) > N
    result = evaluate(model, loss, batch, y, W, b, weights)
    through = batch.through_codes(result.alpha)
    in_x = through.x if result.x is None else through.x + result.x
    assert_close(result.W, differences(lambda W: objective(W=W), W))
    assert_close(result.b, differences(lambda b: objective(b=b), b))
    assert_close(through.D, differences(lambda D: objective(D=D), D))
    assert_close(in_x.T @ signals, differences(lambda Z: objective(Z=Z), Z))


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.1])
def test_reconstruction(lambda2, positive):
    X, D = random_problem(N, M, P)

    def objective(X=X, D=D):
        batch = CodedBatch.encode(X, D, lambda1=0.05, lambda2=lambda2, positive=positive)
        return batch.reconstruction_objectives().sum()

    gradient = CodedBatch.encode(X, D, lambda1=0.05, lambda2=lambda2, positive=positive).of_reconstruction()
    assert_close(gradient.D, differences(lambda D: objective(D=D), D))
    assert_close(gradient.x, differences(lambda X: objective(X=X), X))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_supports_only_is_the_dense_formula(dtype, n_threads):
    """Proposition 1 with dense matrices; large enough for threads, and in the dtype of the data."""
    X, D = random_problem(400, 70, 120, dtype=dtype)
    batch = CodedBatch.encode(X, D, lambda1=0.1, lambda2=0.05, n_threads=n_threads)
    g = np.random.default_rng(0).standard_normal(len(batch.encoded.indices)).astype(dtype)
    gradient = batch.through_codes(g)
    assert gradient.D.dtype == gradient.x.dtype == dtype

    wide = D.astype(float)
    alpha = batch.codes.toarray().astype(float)
    beta = np.zeros_like(alpha)
    ends = batch.encoded.indptr
    for row, (start, end) in enumerate(itertools.pairwise(ends)):
        active = batch.encoded.indices[start:end]
        beta[row, active] = np.linalg.solve(
            wide[active] @ wide[active].T + 0.05 * np.eye(len(active)), g[start:end].astype(float)
        )
    tolerance = {"rtol": 0, "atol": 2e-3 if dtype == np.float32 else 1e-9}
    np.testing.assert_allclose(gradient.x, beta @ wide, **tolerance)
    expected = beta.T @ (X - alpha @ wide) - alpha.T @ (beta @ wide)
    np.testing.assert_allclose(gradient.D, expected, **tolerance)
    np.testing.assert_allclose(batch.residuals, X - alpha @ wide, atol=1e-5 if dtype == np.float32 else 1e-12)
