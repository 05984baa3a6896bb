"""Algorithm 1: its objective, its steps, its learning rates, and the search for one."""

import dataclasses

import numpy as np
import pytest

from helpers import DTYPES, random_problem
from taskdict._coding.coded_batch import Coding
from taskdict._learning.descent import descend
from taskdict._learning.models import LinearModel
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.rate_search import search_rho
from taskdict._learning.rates import GRADIENT_CLIP, AdaptiveRate, DecayingRate
from taskdict._learning.sets import Sets
from taskdict.constraints import UnitBall
from taskdict.losses import LogisticLoss, SquaredLoss
from taskdict.streams.pairs import Batch

N, M, R, P, Q = 10, 12, 6, 11, 2


def problem(model=None, transform=False, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    model = model or LinearModel()
    X = random_problem(N, M, 1, seed)[0]
    width = R if transform else M
    weights = Weights(
        random_problem(1, width, P, seed + 1)[1],
        rng.standard_normal(model.shape(Q, P, width)),
        rng.standard_normal(Q),
        rng.standard_normal((R, M)) / 2 if transform else None,
    )
    batch = Batch(X, rng.choice([-1.0, 1.0], (N, Q)), rng.uniform(0.5, 1.5, N), random_problem(7, M, 1, seed + 2)[0])
    cast = {f.name: getattr(weights, f.name) for f in dataclasses.fields(weights)}
    cast = {name: None if value is None else value.astype(dtype) for name, value in cast.items()}
    arrays = {f.name: getattr(batch, f.name).astype(dtype) for f in dataclasses.fields(batch)}
    return Weights(**cast), Batch(**arrays)


def walk(objective, sets, weights, batches, rate):
    """Take one step for each batch; return all moves, which are finite."""
    moves, moments = [], None
    for t, batch in enumerate(batches, 1):
        move = descend(objective, sets, weights, batch, rate, t, moments)
        assert move.finite
        moves.append(move)
        weights, moments = move.weights, move.moments
    return moves


def test_the_semi_supervised_term_is_that_of_all_signals():
    weights, batch = problem()
    unsupervised = Objective(LinearModel(), SquaredLoss(), Coding(0.05), task=0.0, reconstruction=1.0)
    alone = dataclasses.replace(batch, unlabelled=None)
    both = Batch(np.concatenate([batch.X, batch.unlabelled]), np.zeros((N + 7, Q)))
    assert unsupervised.evaluate(weights, batch)[0] == pytest.approx(unsupervised.evaluate(weights, both)[0])
    assert unsupervised.evaluate(weights, alone)[0] != pytest.approx(unsupervised.evaluate(weights, both)[0])


def test_learning_rate():
    rate = DecayingRate(rho=2.0, t0=10)
    assert [rate.at(t) for t in (1, 10, 20, 100)] == [2.0, 2.0, 1.0, 0.2]


def gradient_of(scale, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    rows = np.array(scale)[:, None]
    arrays = (rows * rng.standard_normal((len(rows), 5)), rng.standard_normal((2, 3)), rng.standard_normal(2))
    return Weights(*(array.astype(dtype) for array in arrays), rng.standard_normal((4, 6)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_adaptive_steps_have_the_same_length_for_large_and_small_gradients(dtype):
    rate = AdaptiveRate(0.2, 1000)
    moves, moments = rate.moves(gradient_of([1e-8, 1.0, 1e8], dtype=dtype), None, 1)
    np.testing.assert_allclose(np.linalg.norm(moves.D, axis=1), 0.2, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(moves.Z, axis=1), 0.2, rtol=1e-5)
    np.testing.assert_allclose(np.abs(moves.W), 0.2, rtol=1e-5)
    np.testing.assert_allclose(np.abs(moves.b), 0.2, rtol=1e-5)
    assert all(array.dtype == dtype for array in vars(moves).values())
    assert (moments.D.shape, moments.Z.shape, moments.W.shape, moments.b.shape) == ((3, 1), (4, 1), (2, 3), (2,))
    still, _ = rate.moves(gradient_of([0.0, 0.0, 0.0], dtype=dtype), None, 1)
    assert (still.D == 0).all()


def test_adaptive_moments_are_means_over_the_last_batches():
    rate = AdaptiveRate(0.1, 10_000)
    moments = None
    squares = []
    for t in range(1, 51):
        gradient = gradient_of([1.0, 3.0], seed=t)
        moves, moments = rate.moves(gradient, moments, t)
        squares.append(np.square(gradient.D).sum(axis=1))
    np.testing.assert_allclose(moments.D[:, 0], np.mean(squares, axis=0))
    expected = rate.at(50) * gradient.D / np.sqrt(moments.D)
    np.testing.assert_allclose(moves.D, expected)
    for t in range(51, 3000):  # what was long ago is forgotten
        _, moments = rate.moves(gradient_of([1e-3, 1e-3], seed=t), moments, t)
    assert (moments.D < 1e-4).all()


def test_a_rare_gradient_does_not_take_an_atom_away():
    rate = AdaptiveRate(0.1, 10**9)
    moments = None
    for t in range(1, 2000):
        _, moments = rate.moves(gradient_of([0.0, 1.0]), moments, t)
    moves, _ = rate.moves(gradient_of([5.0, 1.0]), moments, 2000)
    np.testing.assert_allclose(np.linalg.norm(moves.D[0]), GRADIENT_CLIP * 0.1, rtol=1e-6)


def test_adaptive_rate_falls_to_zero():
    rate = AdaptiveRate(0.4, 100)
    assert rate.at(1) == 0.4
    assert rate.at(51) == pytest.approx(0.2)
    assert rate.at(101) == rate.at(200) == pytest.approx(0)


@pytest.mark.parametrize("transform", [False, True])
def test_adaptive_steps_go_down_and_stay_in_the_sets(transform):
    weights, batch = problem(transform=transform)
    sets = Sets(UnitBall(), W=UnitBall(), Z=UnitBall())
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.02, 0.05), nu=0.01, task=0.8, reconstruction=0.2)
    moves = walk(objective, sets, weights, [batch] * 200, AdaptiveRate(0.03, 200))
    values = [move.value for move in moves]
    assert values[-1] < 0.8 * values[1]
    assert abs(values[-1] - values[-20]) < 0.01 * values[-1]  # it comes to rest
    for name in ("D", "W", "Z"):
        array = getattr(moves[-1].weights, name)
        assert array is None or np.linalg.norm(array, axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transform", [False, True])
def test_steps_go_down_and_stay_in_the_sets(dtype, transform):
    weights, batch = problem(transform=transform, dtype=dtype)
    sets = Sets(UnitBall(positive=True), W=UnitBall(), Z=UnitBall())
    objective = Objective(
        LinearModel(), LogisticLoss(), Coding(0.02, 0.05), nu=0.01, nu2=0.01, task=0.8, reconstruction=0.2
    )
    moves = walk(objective, sets, weights, [batch] * 60, DecayingRate(0.3, 100))
    assert moves[-1].value < 0.9 * moves[1].value
    learned = moves[-1].weights
    assert (learned.D >= 0).all()
    for array in (learned.D, learned.W) + ((learned.Z,) if transform else ()):
        assert array.dtype == dtype
        assert (np.linalg.norm(array, axis=1) <= 1 + 1e-6).all()


def test_one_step_is_that_of_algorithm_1():
    weights, batch = problem()
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.02), nu=0.3)
    value, gradient = objective.evaluate(weights, batch)
    first, second = walk(objective, Sets(UnitBall()), weights, [batch] * 2, DecayingRate(0.1, 1))
    assert first.value == value
    np.testing.assert_allclose(first.weights.W, weights.W - 0.1 * gradient.W)
    np.testing.assert_allclose(first.weights.D, UnitBall().project(weights.D - 0.1 * gradient.D))
    _, gradient = objective.evaluate(first.weights, batch)  # t = 2 > t0 = 1: half the step
    np.testing.assert_allclose(second.weights.b, first.weights.b - 0.05 * gradient.b)


def test_divergence_is_an_outcome():
    weights, batch = problem()
    objective = Objective(LinearModel(), SquaredLoss(), Coding(0.05), nu=1.0)
    rate = DecayingRate(1e200, 1000)
    (first,) = walk(objective, Sets(UnitBall()), weights, [batch], rate)
    assert np.isfinite(first.weights.W).all()
    with np.errstate(all="raise"):  # it is reported by the value alone
        assert not descend(objective, Sets(UnitBall()), first.weights, batch, rate, 2).finite


@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e3])
def test_search_for_the_learning_rate(weight):
    """A loss that counts more wants smaller steps, in proportion."""
    rng = np.random.default_rng(0)
    start, _ = problem()
    start = dataclasses.replace(start, W=0.01 * start.W)
    signals = random_problem(400, M, 1, 5)[0]
    y = np.sign(signals @ rng.standard_normal((M, Q)))
    shares = np.full(400, weight)
    batches = [Batch(signals[k : k + 20], y[k : k + 20], shares[k : k + 20]) for k in range(0, 300, 20)]
    held_out = Batch(signals[300:], y[300:], shares[300:])
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05, 0.02))
    rho = search_rho(objective, Sets(UnitBall()), start, batches, held_out)
    end = walk(objective, Sets(UnitBall()), start, batches, DecayingRate(rho, 15))[-1].weights
    assert objective.evaluate(end, held_out)[0] < 0.95 * objective.evaluate(start, held_out)[0]
    unweighted = [dataclasses.replace(batch, weights=None) for batch in batches]
    alone = search_rho(objective, Sets(UnitBall()), start, unweighted, dataclasses.replace(held_out, weights=None))
    assert rho == pytest.approx(alone / weight, rel=1e-6)


def test_search_gives_up_when_everything_diverges():
    weights, batch = problem()

    class Hopeless:
        def evaluate(self, y, scores):
            return np.full(len(scores), np.inf), np.full_like(scores, np.inf)

    hopeless = Objective(LinearModel(), Hopeless(), Coding(0.05))
    with np.errstate(all="ignore"):
        assert search_rho(hopeless, Sets(UnitBall()), weights, [batch] * 5, batch) is None


def test_search_stays_near_an_optimum():
    weights, batch = problem()
    objective = Objective(LinearModel(), SquaredLoss(), Coding(100.0))  # all codes are zero
    optimum = dataclasses.replace(weights, b=np.average(batch.y, axis=0, weights=batch.weights))
    rho = search_rho(objective, Sets(UnitBall()), optimum, [batch] * 5, batch)
    assert 0 < rho < 10


def test_a_batch_without_targets_moves_the_dictionary_only():
    weights, batch = problem()
    objective = Objective(LinearModel(), LogisticLoss(), Coding(0.05), task=0.5, reconstruction=0.5)
    empty = dataclasses.replace(batch, X=batch.X[:0], y=batch.y[:0], weights=batch.weights[:0])
    _, gradient = objective.evaluate(weights, empty)
    assert gradient.D.any()
    assert not gradient.W.any()
    _, gradient = objective.evaluate(weights, dataclasses.replace(empty, unlabelled=None))
    assert not gradient.D.any()
