"""The trainer: its steps are those of Algorithm 1, its state is all there is."""

import copy
import dataclasses

import numpy as np
import pytest

from helpers import random_problem
from taskdict._coding.coded_batch import Coding
from taskdict._common.threads import in_parallel
from taskdict._learning.committee import Committee, Member
from taskdict._learning.convex import fit_model
from taskdict._learning.descent import descend
from taskdict._learning.models import LinearModel
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.rates import DecayingRate
from taskdict._learning.schedule import Schedule
from taskdict._learning.sets import Sets
from taskdict._learning.state import Outcome
from taskdict._learning.trainer import Trainer
from taskdict.constraints import UnitBall
from taskdict.losses import LogisticLoss, SquaredLoss
from taskdict.streams.pairs import Batch

N, M, P = 300, 10, 12
SETS = Sets(UnitBall())


def everything(y):
    return None, y


def samples(seed=0):
    X = random_problem(N, M, 1, seed)[0]
    return Batch(X, np.sign(X[:, :1] + 0.1 * X[:, 1:2]))


class Walk:
    """A trainer with its state, which each step replaces."""

    def __init__(self, schedule, members=None, validation=None, n_threads=1):
        objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.01), nu=1e-3)
        self.members = members or [Member(objective, SETS, everything)]
        self.trainer = Trainer(Committee(self.members, n_threads), schedule, samples(), validation, 50, seed=0)
        self.start = Weights(random_problem(1, M, P, 1)[1], np.zeros((1, P)), np.zeros(1))
        self.state = self.trainer.start([self.start] * len(self.members))

    @property
    def weights(self):
        return self.state.weights

    @property
    def done(self):
        return self.trainer.is_done(self.state)

    def step(self, batch):
        self.state, step = self.trainer.step(self.state, batch)
        return step


def batches(count):
    whole = samples()
    for k in range(count):
        rows = np.random.default_rng(k).choice(N, 50, replace=False)
        yield Batch(np.ascontiguousarray(whole.X[rows]), whole.y[rows])


def test_schedule():
    schedule = Schedule(100, (0.5, 0.2))
    assert schedule.total == 200
    assert [schedule.stage(t) for t in (0, 99, 100, 199, 200)] == [0, 0, 1, 1, 1]
    assert [schedule.tail(t) for t in (1, 90, 91, 100, 101, 191, 200)] == [0, 0, 1, 10, 0, 1, 10]
    assert Schedule(3).tail(3) == 1
    assert Schedule(1).tail(1) == 1


def test_steps_are_those_of_algorithm_1():
    made = Walk(Schedule(30, rho=0.7, average=False))
    objective = made.members[0].objective
    by_hand = SETS.project(fit_model(objective, made.start, samples()))
    for t, batch in enumerate(batches(30), 1):
        move = descend(objective, SETS, by_hand, batch, DecayingRate(0.7, 3), t)
        by_hand = move.weights
        step = made.step(batch)
        assert (step.objective, step.outcome) == (move.value, Outcome.MOVED)
    for name in ("D", "W", "b"):
        np.testing.assert_array_equal(getattr(made.weights[0], name), getattr(by_hand, name))
    assert made.done


@pytest.mark.parametrize(("rho", "better"), [(30.0, True), (0.1, False)])
def test_average_of_the_last_tenth_where_it_is_better(rho, better):
    last = Walk(Schedule(40, rho=rho, average=False))
    mean = Walk(Schedule(40, rho=rho))
    seen = []
    for batch in batches(40):
        last.step(batch)
        mean.step(batch)
        seen.append(last.weights[0])
    assert mean.state.mean is None
    average = Weights(*(np.mean([getattr(p, name) for p in seen[-4:]], axis=0) for name in ("D", "W", "b")))
    objective = mean.members[0].objective
    values = [objective.evaluate(weights, samples())[0] for weights in (average, seen[-1])]
    assert (values[0] < values[1]) == better
    np.testing.assert_allclose(mean.state.chosen[0].W, average.W if better else seen[-1].W, atol=1e-12)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_members_are_independent(n_threads):
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.01), nu=1e-3)

    def half(y):
        rows = np.flatnonzero(np.arange(len(y)) % 2)
        return rows, y[rows]

    members = [Member(objective, SETS, everything), Member(objective, SETS, half)]
    both = Walk(Schedule(10), members, n_threads=n_threads)
    alone = Walk(Schedule(10), members[:1])
    for batch in batches(10):
        both.step(batch)
        alone.step(batch)
    np.testing.assert_array_equal(both.weights[0].D, alone.weights[0].D)
    assert not np.array_equal(both.weights[1].D, alone.weights[0].D)


class Breaks:
    """A loss that is infinite once it has been evaluated so many times."""

    def __init__(self, at, times):
        self.left, self.times = at, times

    def evaluate(self, y, scores):
        self.left -= 1
        values, slopes = SquaredLoss().evaluate(y, scores)
        if self.left < 0 and self.times > 0:
            self.times -= 1
            return np.full_like(values, np.inf), slopes
        return values, slopes


def test_a_searched_rate_that_diverges_later_is_lowered():
    loss = Breaks(10**9, times=2)
    objective = Objective(LinearModel(), loss, Coding(0.05, 0.01), nu=1e-3)
    made = Walk(Schedule(10), [Member(objective, SETS, everything)])
    rho = made.state.rhos[0]
    loss.left = 6  # four of them to see what is usual
    for batch in batches(10):
        made.step(batch)
    assert made.state.rhos[0] == pytest.approx(rho / 10)


def test_a_given_rate_that_diverges_is_an_outcome_and_the_last_good_weights_are_kept():
    loss = Breaks(10**9, times=10**9)
    objective = Objective(LinearModel(), loss, Coding(0.05, 0.01), nu=1e-3)
    made = Walk(Schedule(10, rho=0.1), [Member(objective, SETS, everything)])
    loss.left = 6  # four of them to see what is usual
    todo = list(batches(3))
    made.step(todo[0])
    before = made.weights
    made.step(todo[1])
    step = made.step(todo[2])
    assert step.outcome is Outcome.DIVERGED
    assert "leads out of the finite numbers" in step.message
    assert made.weights is before
    assert made.state.t == 2


def test_an_objective_that_explodes_is_noticed_while_it_is_finite():
    made = Walk(Schedule(50, rho=1e5))
    first = made.weights[0]
    steps = (made.step(batch) for batch in batches(50))
    diverged = next(step for step in steps if step.outcome is Outcome.DIVERGED)
    assert "the objective is" in diverged.message
    assert np.abs(made.weights[0].W).max() < 1e6 * np.abs(first.W).max()


def test_path_in_mu():
    """With μ = 1 only the dictionary moves, then W is fitted; the best on the validation part is kept."""
    made = Walk(Schedule(10, (1.0, 0.5), rho=0.2), validation=samples(3))
    first = made.weights[0]
    steps = [made.step(batch) for batch in batches(20)]
    checks = [step.validation for step in steps if step.validation is not None]
    assert made.done
    assert len(checks) == 11  # at the end of μ = 1, then after each batch
    assert made.state.best_value == min(checks)
    assert not np.array_equal(made.state.chosen[0].D, first.D)
    only = Walk(Schedule(10, (1.0,), rho=0.2))
    for batch in list(batches(10))[:9]:
        only.step(batch)
        np.testing.assert_array_equal(only.weights[0].W, first.W)
    only.step(next(batches(1)))
    assert not np.array_equal(only.weights[0].W, first.W)


def test_early_stopping_and_the_next_mu():
    rate = 30.0  # far too large: no check is better than the first
    made = Walk(Schedule(100, (0.3, 0.0), rho=rate, patience=3), validation=samples(3))
    count = 0
    for batch in batches(200):
        if made.done:
            break
        made.step(batch)
        count += 1
    assert made.state.stopped
    assert count < 100
    assert made.state.best is not None


def test_an_empty_batch_for_a_member_changes_nothing():
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.01))
    nobody = Member(objective, SETS, lambda y: (np.flatnonzero(y[:, 0] > 5), y[y[:, 0] > 5]))
    made = Walk(Schedule(5, rho=0.1), [nobody])
    before = made.weights[0]
    step = made.step(next(batches(1)))
    assert step.outcome is Outcome.EMPTY
    assert np.isnan(step.objective)
    assert made.weights[0] is before
    np.testing.assert_allclose(before.D, made.start.D)


def test_in_parallel():
    assert in_parallel(lambda i: i * i, range(20), 3) == [i * i for i in range(20)]

    def fails(i):
        if i == 7:
            raise ValueError("seven")
        return i

    with pytest.raises(ValueError, match="seven"):
        in_parallel(fails, range(20), 3)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_step_leaves_the_state_before_it_as_it_was(adaptive):
    """Others may use that state meanwhile, and an interrupted step comes back to it."""
    made = Walk(Schedule(20, adaptive=adaptive), validation=samples(1))
    for batch in batches(19):
        before, kept = made.state, copy.deepcopy(made.state)
        made.step(batch)
        assert made.state is not before
        assert not np.array_equal(made.weights[0].D, before.weights[0].D)
        for name in ("weights", "moments", "mean", "best"):
            for old, copied in zip(getattr(before, name) or (), getattr(kept, name) or (), strict=True):
                for array, expected in zip(vars(old).values(), vars(copied).values(), strict=True):
                    np.testing.assert_array_equal(array, expected)
        assert before.t == kept.t == made.state.t - 1
        assert before.rhos == kept.rhos
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.state.t = 5


def test_rare_heavy_samples_are_no_divergence():
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.01), nu=1e-3)
    made = Walk(Schedule(20), [Member(objective, SETS, everything)])
    weights = np.full(N, 1e-6)
    weights[7] = 1.0
    made.trainer.sample = dataclasses.replace(made.trainer.sample, weights=weights)
    rho = made.state.rhos[0]
    light, heavy = np.arange(10, 60), np.arange(0, 50)
    whole = made.trainer.sample
    for rows in (light, light, heavy, light, heavy):
        made.step(Batch(np.ascontiguousarray(whole.X[rows]), whole.y[rows], weights[rows]))
    assert made.state.rhos[0] == rho
