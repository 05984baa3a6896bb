import dataclasses

import numpy as np
import pytest

from helpers import DTYPES, random_problem
from taskdict.constraints import UnitBall
from taskdict.descent import Batch, Descent, DivergedError, LearningRate, Objective, Parameters, Sets, search_rho
from taskdict.gradients import Coding
from taskdict.losses import LogisticLoss, SquaredLoss
from taskdict.models import LinearModel

N, M, R, P, Q = 10, 12, 6, 11, 2


def problem(model=None, transform=False, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    model = model or LinearModel()
    X = random_problem(N, M, 1, seed)[0]
    width = R if transform else M
    parameters = Parameters(
        random_problem(1, width, P, seed + 1)[1],
        rng.standard_normal(model.shape(Q, P, width)),
        rng.standard_normal(Q),
        rng.standard_normal((R, M)) / 2 if transform else None,
    )
    batch = Batch(X, rng.choice([-1.0, 1.0], (N, Q)), rng.uniform(0.5, 1.5, N), random_problem(7, M, 1, seed + 2)[0])
    cast = {f.name: getattr(parameters, f.name) for f in dataclasses.fields(parameters)}
    cast = {name: None if value is None else value.astype(dtype) for name, value in cast.items()}
    arrays = {f.name: getattr(batch, f.name).astype(dtype) for f in dataclasses.fields(batch)}
    return Parameters(**cast), Batch(**arrays)


def test_the_semi_supervised_term_is_that_of_all_signals():
    parameters, batch = problem()
    unsupervised = Objective(LinearModel(), SquaredLoss(), Coding(0.05), task=0.0, reconstruction=1.0)
    alone = dataclasses.replace(batch, unlabelled=None)
    both = Batch(np.concatenate([batch.X, batch.unlabelled]), np.zeros((N + 7, Q)))
    assert unsupervised.evaluate(parameters, batch)[0] == pytest.approx(unsupervised.evaluate(parameters, both)[0])
    assert unsupervised.evaluate(parameters, alone)[0] != pytest.approx(unsupervised.evaluate(parameters, both)[0])


def test_learning_rate():
    rate = LearningRate(rho=2.0, t0=10)
    assert [rate.at(t) for t in (1, 10, 20, 100)] == [2.0, 2.0, 1.0, 0.2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transform", [False, True])
def test_steps_go_down_and_stay_in_the_sets(dtype, transform):
    parameters, batch = problem(transform=transform, dtype=dtype)
    sets = Sets(UnitBall(positive=True), W=UnitBall(), Z=UnitBall())
    objective = Objective(
        LinearModel(), LogisticLoss(), Coding(0.02, 0.05), nu=0.01, nu2=0.01, task=0.8, reconstruction=0.2
    )
    descent = Descent(objective, sets, parameters, LearningRate(0.3, 100))
    values = [descent.step(batch) for _ in range(60)]
    assert values[-1] < 0.9 * values[1]
    assert descent.t == 60
    learned = descent.parameters
    assert (learned.D >= 0).all()
    for array in (learned.D, learned.W) + ((learned.Z,) if transform else ()):
        assert array.dtype == dtype
        assert (np.linalg.norm(array, axis=1) <= 1 + 1e-6).all()


def test_one_step_is_that_of_algorithm_1():
    parameters, batch = problem()
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.02), nu=0.3)
    _, gradient = objective.evaluate(parameters, batch)
    descent = Descent(objective, Sets(UnitBall()), parameters, LearningRate(0.1, 1))
    descent.step(batch)
    np.testing.assert_allclose(descent.parameters.W, parameters.W - 0.1 * gradient.W)
    np.testing.assert_allclose(descent.parameters.D, UnitBall().project(parameters.D - 0.1 * gradient.D))
    before = descent.parameters
    _, gradient = objective.evaluate(before, batch)
    descent.step(batch)  # t = 2 > t0 = 1: half the step
    np.testing.assert_allclose(descent.parameters.b, before.b - 0.05 * gradient.b)


def test_divergence_keeps_the_parameters():
    parameters, batch = problem()
    objective = Objective(LinearModel(), SquaredLoss(), Coding(0.05), nu=1.0)
    descent = Descent(objective, Sets(UnitBall()), parameters, LearningRate(1e200, 1000))
    with np.errstate(all="ignore"):
        descent.step(batch)
        before = descent.parameters
        with pytest.raises(DivergedError, match="Take a smaller learning rate"):
            descent.step(batch)
    assert descent.parameters is before
    assert np.isfinite(before.W).all()
    assert descent.t == 1


@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e3])
def test_search_for_the_learning_rate(weight):
    """A loss that counts more wants smaller steps, in proportion."""
    rng = np.random.default_rng(0)
    start, _ = problem()
    start = dataclasses.replace(start, W=0.01 * start.W)
    signals = random_problem(400, M, 1, 5)[0]
    y = np.sign(signals @ rng.standard_normal((M, Q)))
    weights = np.full(400, weight)
    batches = [Batch(signals[k : k + 20], y[k : k + 20], weights[k : k + 20]) for k in range(0, 300, 20)]
    held_out = Batch(signals[300:], y[300:], weights[300:])
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.02))
    rho = search_rho(objective, Sets(UnitBall()), start, batches, held_out)
    descent = Descent(objective, Sets(UnitBall()), start, LearningRate(rho, 15))
    for batch in batches:
        descent.step(batch)
    assert objective.evaluate(descent.parameters, held_out)[0] < 0.95 * objective.evaluate(start, held_out)[0]
    unweighted = [dataclasses.replace(batch, weights=None) for batch in batches]
    alone = search_rho(objective, Sets(UnitBall()), start, unweighted, dataclasses.replace(held_out, weights=None))
    assert rho == pytest.approx(alone / weight, rel=1e-6)


def test_search_gives_up_when_everything_diverges():
    parameters, batch = problem()

    class Hopeless:
        def evaluate(self, y, scores):
            return np.full(len(scores), np.inf), np.full_like(scores, np.inf)

    with pytest.raises(DivergedError, match="every learning rate diverges"), np.errstate(all="ignore"):
        search_rho(Objective(LinearModel(), Hopeless(), Coding(0.05)), Sets(UnitBall()), parameters, [batch] * 5, batch)


def test_search_stays_near_an_optimum():
    parameters, batch = problem()
    objective = Objective(LinearModel(), SquaredLoss(), Coding(100.0))  # all codes are zero
    optimum = dataclasses.replace(parameters, b=np.average(batch.y, axis=0, weights=batch.weights))
    rho = search_rho(objective, Sets(UnitBall()), optimum, [batch] * 5, batch)
    assert 0 < rho < 10


def test_a_batch_without_targets_moves_the_dictionary_only():
    parameters, batch = problem()
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05), task=0.5, reconstruction=0.5)
    empty = dataclasses.replace(batch, X=batch.X[:0], y=batch.y[:0], weights=batch.weights[:0])
    _, gradient = objective.evaluate(parameters, empty)
    assert gradient.D.any()
    assert not gradient.W.any()
    _, gradient = objective.evaluate(parameters, dataclasses.replace(empty, unlabelled=None))
    assert not gradient.D.any()
