"""The linear model on the signals that a task-driven model is compared with."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import StandardScaler

from helpers import DTYPES, random_problem
from taskdict._coding.coded_batch import Coding
from taskdict._learning.baseline import LinearBaseline
from taskdict._learning.committee import Committee, Member
from taskdict._learning.models import JointModel, SplitModel
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.sets import Sets
from taskdict.constraints import UnitBall
from taskdict.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from taskdict.streams.pairs import Batch

M, P = 10, 12


class Targets:
    """Targets as the loss takes them."""

    def __init__(self, n_outputs=1, linear_task=None):
        self.n_outputs, self.linear_task = n_outputs, linear_task

    def numbers(self, y):
        return y if self.n_outputs == 1 else np.eye(self.n_outputs)[y]

    def errors(self, y, scores, weights=None):
        return np.square(y - scores).mean(axis=1)

    def linear_errors(self, y, scores, weights=None):
        return (scores.argmax(axis=1) != y).astype(np.float64)


def everything(y):
    return None, y


def committee(loss, n_members=1):
    objective = Objective(SplitModel(), loss, Coding(0.05), nu=1e-3)
    return Committee([Member(objective, Sets(UnitBall()), everything)] * n_members, 1)


def signals(n, dtype=np.float64, seed=0):
    """Columns of very different sizes, away from zero."""
    return (random_problem(n, M, 1, seed=seed)[0] * np.logspace(-3, 3, M) + 7).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ridge_regression_on_standardised_columns(dtype):
    X = signals(300, dtype)
    y = StandardScaler().fit_transform(X)[:, 2:3] + np.random.default_rng(0).standard_normal((300, 1)).astype(dtype)
    kept, others = Batch(X[:200], y[:200]), X[200:]
    (baseline,) = LinearBaseline.candidates(Targets(), committee(SquaredLoss()), kept)
    scaler = StandardScaler().fit(kept.X)
    reference = RidgeCV(alphas=np.array([0.1, 0.3, 1, 3, 10, 30, 100])).fit(scaler.transform(kept.X), kept.y.ravel())
    found, expected = baseline.scores(baseline.fit(kept), others).ravel(), reference.predict(scaler.transform(others))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=0.1 * np.abs(expected - expected.mean()).max())
    assert baseline.is_of_the_task
    assert baseline.losses(y[200:], found[:, None]) == pytest.approx(np.square(y[200:, 0] - found) / 2, rel=1e-3)


def test_columns_as_they_are_where_that_is_better():
    """Standardised columns make the noise of small ones as large as the rest."""
    X = random_problem(60, 40, 1)[0] * np.r_[np.ones(3), np.full(37, 1e-3)]
    y = X[:, :1] + X[:, 1:2] + X[:, 2:3]
    (baseline,) = LinearBaseline.candidates(Targets(), committee(SquaredLoss()), Batch(X, y))
    assert len(np.unique(baseline.columns.factor)) == 1
    unlike = X[:, :1] + 1e3 * X[:, 10:11]
    (baseline,) = LinearBaseline.candidates(Targets(), committee(SquaredLoss()), Batch(X, unlike))
    assert len(np.unique(baseline.columns.factor)) > 1


def test_a_likelihood_has_several_penalties():
    """Two by the best of least squares, and that of LogisticRegression on standardised features."""
    X = signals(200)[:, :7]
    y = np.digitize(X[:, 2], np.quantile(X[:, 2], [0.3, 0.6]))
    batch = Batch(X, y)
    baselines = LinearBaseline.candidates(Targets(3), committee(SoftmaxLoss()), batch)
    nus = [baseline.nu for baseline in baselines]
    assert nus[0] > nus[1]
    assert nus[2] == pytest.approx(1 / (200 * 7))
    losses, linear = [], None
    for baseline in baselines:
        linear = baseline.fit(batch, linear)
        losses.append(baseline.losses(y, baseline.scores(linear, X)).mean())
        features = baseline.columns.of_signals(X)
        reference = LogisticRegression(C=1 / (baseline.nu * 200), max_iter=1000, tol=1e-8).fit(features, y)
        expected = -reference.predict_log_proba(features)[np.arange(200), y].mean()
        assert losses[-1] == pytest.approx(expected, rel=1e-2)
    assert losses[0] > losses[1]
    plain = LogisticRegression().fit(StandardScaler().fit_transform(X), y)
    at_default = -plain.predict_log_proba(StandardScaler().fit_transform(X))[np.arange(200), y].mean()
    assert losses[2] == pytest.approx(at_default, rel=1e-2)


def test_of_more_than_one_model_it_is_one_of_another_kind():
    X = signals(100)
    y = np.arange(100) % 3
    targets = Targets(linear_task=(SoftmaxLoss(), 3))
    targets.numbers = lambda y: np.eye(3)[y]
    baseline, *_ = LinearBaseline.candidates(targets, committee(LogisticLoss(), 3), Batch(X, y))
    assert not baseline.is_of_the_task
    scores = baseline.scores(baseline.fit(Batch(X, y)), X)
    assert scores.shape == (100, 3)
    np.testing.assert_array_equal(baseline.errors(y, scores), scores.argmax(axis=1) != y)


def test_samples_have_weights():
    X = random_problem(100, M, 1)[0]
    y = np.where(X[:, :1] > 0, 1.0, -1.0)
    y[:50] *= -1
    batch = Batch(X, y, np.r_[np.zeros(50), np.full(50, 2.0)])
    for baseline in LinearBaseline.candidates(Targets(), committee(LogisticLoss()), batch):
        scores = baseline.scores(baseline.fit(batch), X)
        assert (np.sign(scores[50:]) == y[50:]).mean() > 0.95


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_of_a_task_driven_model(dtype):
    """As a joint model without weight on the codes it has the same scores."""
    X, D = random_problem(50, M, P, dtype=dtype)
    y = X[:, :1] + 3
    batch = Batch(X, y)
    (baseline,) = LinearBaseline.candidates(Targets(), committee(SquaredLoss()), batch)
    linear = baseline.fit(batch)
    weights = baseline.in_place_of(Weights(D, np.zeros((1, 2 * P), dtype), np.zeros(1, dtype)), linear)
    objective = Objective(JointModel(baseline.columns), SquaredLoss(), Coding(0.05))
    scores = objective.model.scores(objective.encode(weights, X), weights.W, weights.b)
    np.testing.assert_allclose(scores, baseline.scores(linear, X), atol=20 * np.finfo(dtype).eps)
    assert weights.W.dtype == dtype
    assert not weights.W[:, : 2 * P].any()


def test_few_samples_have_a_baseline():
    for n in (1, 2, 9):
        X = signals(n)
        (baseline,) = LinearBaseline.candidates(Targets(), committee(SquaredLoss()), Batch(X, X[:, :1]))
        assert np.isfinite(baseline.scores(baseline.fit(Batch(X, X[:, :1])), X)).all()
