"""The comparison with baselines, and the trial before a training."""

import numpy as np
import pytest

import taskdict as td
from helpers import random_problem
from taskdict._coding.coded_batch import Coding
from taskdict._learning import trial
from taskdict._learning.baseline import LinearBaseline
from taskdict._learning.committee import Committee, Member
from taskdict._learning.comparison import LINEAR, TASK_DRIVEN, UNSUPERVISED, Comparison, clearly_less, weighed
from taskdict._learning.convex import fit_model
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

    linear_task = SquaredLoss(), 1
    n_outputs = 1

    def numbers(self, y):
        return y

    def errors(self, y, scores, weights=None):
        return weighed(np.square(y - scores).mean(axis=1).astype(np.float64), weights)

    linear_errors = errors


class Classes:
    """Targets that are numbers of three classes."""

    linear_task = SoftmaxLoss(), 3
    n_outputs = 3

    def numbers(self, y):
        return np.eye(3)[y]

    def errors(self, y, scores, weights=None):
        return weighed((scores.argmax(axis=1) != y).astype(np.float64), weights)

    linear_errors = errors


def everything(y):
    return None, y


def trainer(y, model=None, loss=None, *, signals=X, max_iter=30, rho=None, nu=1e-3):
    objective = Objective(model or SplitModel(), loss or SquaredLoss(), Coding(0.05, 0.05), nu=nu)
    schedule = Schedule(max_iter, rho=rho, adaptive=rho is None)
    committee = Committee([Member(objective, Sets(UnitBall()), everything)], 1)
    return Trainer(committee, schedule, Batch(signals, y), None, 50, 3)


def start(outputs=1, model=None):
    return [Weights(D, np.zeros((model or SplitModel()).shape(outputs, P, M)), np.zeros(outputs))]


def held(trained, judge, classes=None, *, may_be_linear=True):
    baselines = LinearBaseline.candidates(judge, trained.committee, trained.sample)
    return hold_trial(
        trained, lambda kept: start(judge.n_outputs), baselines, classes, 50, may_be_linear, lambda said: None
    )


def task(n=N, noise=0.0, seed=0):
    """A target that is no linear function of the signals: of the absolute values of their codes."""
    signals = random_problem(n, M, P, seed=seed)[0]
    atoms = random_problem(1, M, P, 9)[1]
    rng = np.random.default_rng(0)
    y = np.abs(td.sparse_encode(signals, atoms, lambda1=0.1).toarray() @ rng.standard_normal((P, 1)))
    return signals, y + noise * rng.standard_normal(y.shape)


def test_scores_and_order():
    errors = {LINEAR: np.tile([0.0, 1, 0, 0], 10), UNSUPERVISED: np.zeros(40), TASK_DRIVEN: np.tile([1.0, 0], 20)}
    comparison = Comparison(errors)
    assert comparison.scores == {LINEAR: 0.75, UNSUPERVISED: 1.0, TASK_DRIVEN: 0.5}
    assert comparison.n_samples == 40
    assert comparison.is_complete
    assert comparison.best_baseline() == UNSUPERVISED
    assert comparison.is_clearly_better(UNSUPERVISED, TASK_DRIVEN)
    assert comparison.is_clearly_better(LINEAR, TASK_DRIVEN)
    assert not comparison.with_errors(**{TASK_DRIVEN: np.zeros(40)}).is_clearly_better(UNSUPERVISED, TASK_DRIVEN)
    part = Comparison({UNSUPERVISED: errors[UNSUPERVISED]}, of_trial=True)
    assert not part.is_complete
    assert part.with_errors(**{LINEAR: errors[LINEAR], TASK_DRIVEN: errors[TASK_DRIVEN]}).is_complete
    assert part.with_errors(**{LINEAR: errors[LINEAR]}).of_trial


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


def test_errors_count_by_the_weights_of_the_samples():
    errors, weights = np.array([1.0, 0, 1, 0]), np.array([3.0, 1, 0, 0], np.float32)
    assert weighed(errors, weights).mean() == pytest.approx(0.75)
    assert weighed(errors, None) is errors


def test_a_trial_where_the_task_helps():
    signals, y = task(1500, noise=0.01)
    found = held(trainer(y, signals=signals, nu=1e-3, max_iter=100), Numbers())
    assert found.best == TASK_DRIVEN
    assert found.comparison.n_samples == 300  # one part of five
    errors = {name: each.mean() for name, each in found.comparison.errors.items()}
    assert errors[TASK_DRIVEN] < errors[UNSUPERVISED]
    assert errors[TASK_DRIVEN] < errors[LINEAR]
    assert np.abs(found.start[0].W).sum() > 0  # fitted to the part that was learned from


def test_a_trial_of_a_linear_task():
    y = X @ np.ones((M, 1)) + 0.1 * np.random.default_rng(0).standard_normal((N, 1))
    found = held(trainer(y), Numbers())
    assert found.best == LINEAR
    assert found.comparison.scores[LINEAR] > found.comparison.scores[TASK_DRIVEN]
    assert found.comparison.n_samples == N  # there are few, so each was held out
    only = held(trainer(y), Numbers(), may_be_linear=False)
    assert only.best != LINEAR
    assert only.comparison.scores[LINEAR] == found.comparison.scores[LINEAR]  # compared all the same


def test_a_trial_of_noise_shows_that_there_is_nothing_to_learn():
    y = np.random.default_rng(0).standard_normal((N, 1))
    found = held(trainer(y, nu=1e-4, max_iter=200), Numbers(), may_be_linear=False)
    assert found.best == UNSUPERVISED


def test_every_sample_is_held_out_by_models_that_have_not_learned_from_it(monkeypatch):
    """The errors of the unsupervised codes are those of a loop over the five parts."""
    signals, y = task(60)
    parts = []
    original = trial._parts
    monkeypatch.setattr(trial, "_parts", lambda *arguments: parts.append(original(*arguments)) or parts[-1])
    trained = trainer(y, signals=signals, max_iter=3)
    found = held(trained, Numbers())
    (part_of,) = parts
    assert np.bincount(part_of).tolist() == [12] * 5
    objective = trained.committee.members[0].objective
    errors = []
    for k in range(5):
        kept, rest = (
            trained.sample.rows(np.flatnonzero(rows), trained.sample.others) for rows in (part_of != k, part_of == k)
        )
        fitted = fit_model(objective, start()[0], kept)
        errors.append(np.square(rest.y - trained.committee.scores([fitted], rest.X)).mean(axis=1))
    np.testing.assert_allclose(found.comparison.errors[UNSUPERVISED], np.concatenate(errors), rtol=1e-6)


def test_every_class_is_in_all_parts():
    y = np.repeat([0, 1, 2], [100, 90, 10])
    for n_parts, seed in ((5, 0), (5, 1)):
        part_of = trial._parts(N, y, seed)
        for k in range(n_parts):
            assert np.bincount(y[part_of == k]).tolist() == [20, 18, 2]
    assert not np.array_equal(trial._parts(N, y, 0), trial._parts(N, y, 1))
    assert held(trainer(y, loss=SoftmaxLoss()), Classes(), y) is not None
    y[-10:-1] = 0  # a class of one sample is in one part only
    assert held(trainer(y, loss=SoftmaxLoss()), Classes(), y) is not None


def test_no_trial_of_few_samples():
    assert held(trainer(X[:9, :1], signals=X[:9]), Numbers()) is None
    assert held(trainer(X[:10, :1], signals=X[:10]), Numbers()) is not None


def test_no_trial_without_a_learning_rate(monkeypatch):
    y = X[:, :1]
    assert held(trainer(y, rho=1e9), Numbers()) is None  # the training itself will raise
    monkeypatch.setattr(Trainer, "start", lambda self, weights: None)  # a search has found none
    assert held(trainer(y), Numbers()) is None


def test_of_few_samples_only_a_clear_gain_counts():
    """A model that is better by chance is not taken in the place of a linear one."""
    few, many = np.zeros(100), np.zeros(1000)
    for none, expected in ((few, LINEAR), (many, TASK_DRIVEN)):
        one = none.copy()
        one[0] = 1
        losses = errors = {LINEAR: one, UNSUPERVISED: one, TASK_DRIVEN: none}
        assert trial._best(losses, errors) == expected
        assert trial._best({**losses, LINEAR: one + 1}, {**errors, LINEAR: one + 1}) == TASK_DRIVEN


def test_a_baseline_needs_a_lower_loss_and_no_lower_score():
    low, high = np.zeros(1000), np.ones(1000)
    either = {UNSUPERVISED: high, TASK_DRIVEN: low}, {UNSUPERVISED: low, TASK_DRIVEN: high}
    for losses, errors in (either, either[::-1]):
        assert trial._best(losses, errors) == TASK_DRIVEN
    assert trial._best(either[1], either[1]) == UNSUPERVISED


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
