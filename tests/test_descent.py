import dataclasses

import numpy as np
import pytest

from helpers import DTYPES, random_problem
from taskdict.constraints import UnitBall
from taskdict.descent import (
    MOST,
    AdaptiveRate,
    Batch,
    Descent,
    DivergedError,
    LearningRate,
    Objective,
    Parameters,
    Sets,
    search_rho,
)
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


def gradient_of(scale, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    rows = np.array(scale)[:, None]
    arrays = (rows * rng.standard_normal((len(rows), 5)), rng.standard_normal((2, 3)), rng.standard_normal(2))
    return Parameters(*(array.astype(dtype) for array in arrays), rng.standard_normal((4, 6)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_adaptive_steps_have_the_same_length_for_large_and_small_gradients(dtype):
    rate = AdaptiveRate(0.2, 1000)
    moves, sizes = rate.moves(gradient_of([1e-8, 1.0, 1e8], dtype=dtype), None, 1)
    np.testing.assert_allclose(np.linalg.norm(moves.D, axis=1), 0.2, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(moves.Z, axis=1), 0.2, rtol=1e-5)
    np.testing.assert_allclose(np.abs(moves.W), 0.2, rtol=1e-5)
    np.testing.assert_allclose(np.abs(moves.b), 0.2, rtol=1e-5)
    assert all(array.dtype == dtype for array in vars(moves).values())
    assert (sizes.D.shape, sizes.Z.shape, sizes.W.shape, sizes.b.shape) == ((3, 1), (4, 1), (2, 3), (2,))
    still, _ = rate.moves(gradient_of([0.0, 0.0, 0.0], dtype=dtype), None, 1)
    assert (still.D == 0).all()


def test_adaptive_sizes_are_means_over_the_last_batches():
    rate = AdaptiveRate(0.1, 10_000)
    sizes = None
    squares = []
    for t in range(1, 51):
        gradient = gradient_of([1.0, 3.0], seed=t)
        moves, sizes = rate.moves(gradient, sizes, t)
        squares.append(np.square(gradient.D).sum(axis=1))
    np.testing.assert_allclose(sizes.D[:, 0], np.mean(squares, axis=0))
    expected = rate.at(50) * gradient.D / np.sqrt(sizes.D)
    np.testing.assert_allclose(moves.D, expected)
    for t in range(51, 3000):  # what was long ago is forgotten
        _, sizes = rate.moves(gradient_of([1e-3, 1e-3], seed=t), sizes, t)
    assert (sizes.D < 1e-4).all()


def test_a_rare_gradient_does_not_take_an_atom_away():
    rate = AdaptiveRate(0.1, 10**9)
    sizes = None
    for t in range(1, 2000):
        _, sizes = rate.moves(gradient_of([0.0, 1.0]), sizes, t)
    moves, _ = rate.moves(gradient_of([5.0, 1.0]), sizes, 2000)
    np.testing.assert_allclose(np.linalg.norm(moves.D[0]), MOST * 0.1, rtol=1e-6)


def test_adaptive_rate_falls_to_zero():
    rate = AdaptiveRate(0.4, 100)
    assert rate.at(1) == 0.4
    assert rate.at(51) == pytest.approx(0.2)
    assert rate.at(101) == rate.at(200) == pytest.approx(0)


@pytest.mark.parametrize("transform", [False, True])
def test_adaptive_steps_go_down_and_stay_in_the_sets(transform):
    parameters, batch = problem(transform=transform)
    sets = Sets(UnitBall(), W=UnitBall(), Z=UnitBall())
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.02, 0.05), nu=0.01, task=0.8, reconstruction=0.2)
    descent = Descent(objective, sets, parameters, AdaptiveRate(0.03, 200))
    values = [descent.step(batch) for _ in range(200)]
    assert values[-1] < 0.8 * values[1]
    assert abs(values[-1] - values[-20]) < 0.01 * values[-1]  # it comes to rest
    for name in ("D", "W", "Z"):
        array = getattr(descent.parameters, name)
        assert array is None or np.linalg.norm(array, axis=1).max() <= 1 + 1e-12


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
