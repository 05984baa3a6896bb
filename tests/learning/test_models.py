"""Models: scores from codes, and what they are in the units of the signals."""

import numpy as np
import pytest

from helpers import DTYPES, random_problem
from taskdict._coding.coded_batch import CodedBatch, Coding, Part
from taskdict._learning.models import MODELS, Columns, JointModel, LinearModel, SplitModel, model_named
from taskdict._learning.objective import Weights
from taskdict._learning.scaling import Scaling
from taskdict._learning.sets import ScaledSet
from taskdict.constraints import Ball, NonNegative

N, M, P, Q = 30, 8, 12, 3
PARTS = (Part(slice(0, 5)), Part(slice(5, P)))


def coded(parts=(), dtype=np.float64, positive=False):
    X, D = random_problem(N, M, P, dtype=dtype)
    return CodedBatch(X, D, Coding(0.05, 0.02, positive), parts)


def weights(model, dtype=np.float64):
    rng = np.random.default_rng(1)
    return rng.standard_normal(model.shape(Q, P, M)).astype(dtype), rng.standard_normal(Q).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parts", [(), PARTS], ids=["one", "two"])
def test_scores_are_what_they_say(parts, dtype):
    batch = coded(parts, dtype)
    codes = batch.codes.toarray()
    apart = np.concatenate([np.maximum(codes, 0), np.maximum(-codes, 0)], axis=1)
    tolerance = {"rtol": 0, "atol": 1e-4 if dtype == np.float32 else 1e-12}
    for model, features in ((LinearModel(), codes), (SplitModel(), apart), (JointModel(), np.hstack([apart, batch.X]))):
        W, b = weights(model, dtype)
        scores = model.scores(batch, W, b)
        assert scores.dtype == dtype
        np.testing.assert_allclose(scores, features @ W.T + b, **tolerance)


def test_a_split_model_can_give_a_signal_and_its_opposite_the_same_score():
    X, D = random_problem(N, M, P)
    W, b = weights(SplitModel())
    W[:, P:] = W[:, :P]  # |α|
    batches = [CodedBatch(sign * X, D, Coding(0.05)) for sign in (1, -1)]
    one, other = (SplitModel().scores(batch, W, b) for batch in batches)
    np.testing.assert_allclose(one, other, atol=1e-12)
    W[:, P:] = -W[:, :P]  # α
    np.testing.assert_allclose(
        SplitModel().scores(batches[0], W, b), LinearModel().scores(batches[0], W[:, :P], b), atol=1e-12
    )


def test_non_negative_codes_have_no_negative_part():
    split = coded(positive=True).split
    assert split.indices.max() < P


def test_columns():
    X = random_problem(200, M, 1)[0] * np.linspace(1, 1e6, M) + 100
    X[:, 3] = 1e8 / 3  # constant, but for rounding
    columns = Columns.of(X)
    features = columns.of_signals(X)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-7)
    sizes = np.square(features).mean(axis=0)
    np.testing.assert_allclose(sizes, [1 / 7] * 3 + [0] + [1 / 7] * 4, rtol=1e-6)
    assert np.square(features).sum(axis=1).mean() == pytest.approx(1)
    assert (Columns.of(X, center=False).mean == 0).all()
    assert (Columns.of(np.zeros((3, M))).factor == 0).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_joint_model_in_the_units_of_the_signals(fit_intercept):
    """What was learned with columns, from signals divided by c, is a model of the signals as they are."""
    batch = coded()
    columns = Columns.of(3 * batch.X + 1, center=fit_intercept)
    model = JointModel(columns)
    W, b = weights(model)
    scaling = Scaling(2.0, (0.5,), (1.0,) * Q, columns=columns)
    learned = Weights(batch.D, W, b)
    used = scaling.outside(learned)
    inside = model.scores(batch, W, b)
    outside = CodedBatch(2 * batch.X, batch.D, Coding(2 * 0.05, 0.02))
    np.testing.assert_allclose(JointModel().scores(outside, used.W, used.b), 0.5 * inside + 1.0, atol=1e-10)


@pytest.mark.parametrize("kept", [Ball(0.7), NonNegative()])
def test_a_set_holds_for_the_weights_of_the_user(kept):
    columns = Columns(np.zeros(M), np.array([0.0, 0.1, 0.5, 1, 2, 3, 4, 5]))
    scaling = Scaling(3.0, (0.5,), columns=columns)
    W, b = weights(JointModel())
    projected = scaling.coef_set(kept).project(W)
    used = scaling.outside(Weights(np.zeros((P, M)), projected, b)).W
    np.testing.assert_allclose(kept.project(used), used, atol=1e-12)
    assert not projected[:, 2 * P].any()  # a column that does not change
    inside = ScaledSet(kept, np.ones(1)).project(W)
    np.testing.assert_allclose(ScaledSet(kept, np.ones(1), np.ones(M)).project(W), inside, atol=1e-12)


def test_names():
    assert set(MODELS) == {"linear", "split", "joint", "bilinear"}
    columns = Columns(np.zeros(M), np.ones(M))
    assert model_named("joint", columns).columns is columns
    assert isinstance(model_named("split", columns), SplitModel)
