"""The comparison with baselines, and the trial before a training."""

import numpy as np
import pytest

from helpers import random_problem
from taskdict._coding.coded_batch import Coding
from taskdict._learning import trial
from taskdict._learning.committee import Committee, Member
from taskdict._learning.comparison import LINEAR, TASK_DRIVEN, UNSUPERVISED, Comparison, clearly_less, compare_start
from taskdict._learning.convex import LinearTask
from taskdict._learning.models import LinearModel, SplitModel
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.schedule import Schedule
from taskdict._learning.sets import Sets
from taskdict._learning.trainer import Trainer
from taskdict._learning.trial import hold_trial
from taskdict.constraints import UnitBall
from taskdict.losses import SoftmaxLoss, SquaredLoss
from taskdict.streams.pairs import Batch

N, M, P = 200, 10, 12
X, D = random_problem(N, M, P)


class Numbers:
    """Targets that are numbers."""

    linear_task = LinearTask(SquaredLoss(), 1)

    def errors(self, y, scores):
        return np.square(y - scores).mean(axis=1).astype(np.float64)

    linear_errors = errors


class Classes:
    """Targets that are numbers of three classes."""

    linear_task = LinearTask(SoftmaxLoss(), 3)

    def errors(self, y, scores):
        return (scores.argmax(axis=1) != y).astype(np.float64)

    linear_errors = errors


def everything(y):
    return None, y


def trainer(y, model=None, loss=None, *, max_iter=30, rho=None, nu=1e-3):
    objective = Objective(model or SplitModel(), loss or SquaredLoss(), Coding(0.05, 0.05), nu=nu)
    schedule = Schedule(max_iter, rho=rho, adaptive=rho is None)
    return Trainer(Committee([Member(objective, Sets(UnitBall()), everything)], 1), schedule, Batch(X, y), None, 50, 3)


def start(outputs=1, model=None):
    return [Weights(D, np.zeros((model or SplitModel()).shape(outputs, P, M)), np.zeros(outputs))]


def test_scores_and_order():
    errors = {LINEAR: np.tile([0.0, 1, 0, 0], 10), UNSUPERVISED: np.zeros(40), TASK_DRIVEN: np.tile([1.0, 0], 20)}
    comparison = Comparison(errors)
    assert comparison.scores == {LINEAR: 0.75, UNSUPERVISED: 1.0, TASK_DRIVEN: 0.5}
    assert comparison.n_samples == 40
    assert comparison.beaten_by() == [UNSUPERVISED, LINEAR]
    assert Comparison({name: errors[name] for name in (LINEAR, UNSUPERVISED)}).beaten_by() == []
    assert comparison.with_task(np.zeros(40)).beaten_by() == []


@pytest.mark.parametrize("n", [2, 5, 20, 1000, 99_991])
def test_one_sample_is_not_clear(n):
    none, one, two = np.zeros(n), np.zeros(n), np.zeros(n)
    one[0] = two[:2] = 1
    assert not clearly_less(none, one)
    assert not clearly_less(one, none)
    assert not clearly_less(none, none)
    if n > 2:
        assert clearly_less(none, two)
        assert not clearly_less(two, none)


def test_a_difference_of_one_number_is_never_clear():
    assert not clearly_less(np.zeros(1), np.ones(1))


def test_the_baselines():
    y = X @ np.ones((M, 1))
    committee = trainer(y).committee
    comparison = compare_start(Numbers(), committee.scores, start(), Batch(X[:150], y[:150]), Batch(X[150:], y[150:]))
    assert comparison.errors[LINEAR].mean() < 0.01 * np.square(y).mean()
    np.testing.assert_allclose(comparison.errors[UNSUPERVISED], np.square(y[150:, 0]))  # W = 0


def test_a_trial_where_the_task_helps():
    y = np.abs(td_codes() @ np.random.default_rng(0).standard_normal((P, 1)))
    found = hold_trial(trainer(y, nu=1e-2), Numbers(), start(), None)
    assert found.gains
    assert found.comparison.n_samples == 40
    errors = {name: each.mean() for name, each in found.comparison.errors.items()}
    assert errors[TASK_DRIVEN] < errors[UNSUPERVISED]
    assert np.abs(found.start[0].W).sum() > 0  # fitted to the part that was learned from


def td_codes():
    import taskdict as td

    return td.sparse_encode(X, random_problem(1, M, P, 9)[1], lambda1=0.1).toarray()


def test_a_trial_of_noise_shows_that_there_is_nothing_to_learn():
    y = np.random.default_rng(0).standard_normal((N, 1))
    found = hold_trial(trainer(y, nu=1e-4, max_iter=200), Numbers(), start(), None)
    assert not found.gains


def test_every_class_is_in_both_parts(monkeypatch):
    y = np.repeat([0, 1, 2], [100, 90, 10])
    parts = []
    original = trial._split
    monkeypatch.setattr(trial, "_split", lambda *arguments: parts.append(original(*arguments)) or parts[-1])
    found = hold_trial(trainer(y, loss=SoftmaxLoss()), Classes(), start(3), y)
    assert found is not None
    kept, held = parts[0]
    assert np.bincount(y[held]).tolist() == [20, 18, 2]
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), np.arange(N))
    y[-10:-1] = 0  # one sample is in one part only
    assert hold_trial(trainer(y, loss=SoftmaxLoss()), Classes(), start(3), y) is not None


def test_no_trial_of_few_samples():
    y = X[:, :1]
    few = trainer(y)
    few.sample = Batch(X[:45], y[:45])
    assert hold_trial(few, Numbers(), start(), None) is None


def test_no_trial_without_a_learning_rate(monkeypatch):
    y = X[:, :1]
    assert hold_trial(trainer(y, rho=1e9), Numbers(), start(), None) is None  # the training itself will raise
    monkeypatch.setattr(Trainer, "start", lambda self, weights: None)  # a search has found none
    assert hold_trial(trainer(y), Numbers(), start(), None) is None


def test_losses_are_those_of_all_members():
    """One-versus-one: a sample counts in the models that learn from it."""
    y = np.arange(N) % 3

    def pair(first, second):
        def select(y):
            rows = np.flatnonzero((y == first) | (y == second))
            return rows, np.where(y[rows] == first, 1.0, -1.0)[:, None]

        return select

    objective = Objective(LinearModel(), SquaredLoss(), Coding(0.05))
    members = [Member(objective, Sets(UnitBall()), pair(*each)) for each in ((0, 1), (0, 2))]
    losses = Committee(members, 2).losses(start(model=LinearModel()) * 2, Batch(X, y))
    np.testing.assert_allclose(losses, np.where(y == 0, 1.0, 0.5))  # W = 0: ½ for each
