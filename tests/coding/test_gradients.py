"""Analytic gradients against central differences of the whole objective, codes included."""

import dataclasses
import itertools

import numpy as np
import pytest
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

from helpers import DTYPES, random_problem
from taskdict._coding.coded_batch import CodedBatch, Coding, Part
from taskdict._learning.models import BilinearModel, Columns, JointModel, LinearModel, SplitModel
from taskdict._learning.objective import Objective, Weights
from taskdict.losses import LogisticLoss, SoftmaxLoss, SquaredLoss, Terms
from taskdict.streams.pairs import Batch

N, R, M, P, Q = 12, 9, 16, 14, 3
STEP = 1e-6


class DecodingLoss:
    """½‖y − Dα‖² + ½‖x‖² + ½‖s‖²: depends on everything, explicitly too."""

    def evaluate_codes(self, y, scores, batch, weights):
        error = batch.decode() - y
        values = 0.5 * (np.square(error).sum(axis=1) + np.square(batch.X).sum(axis=1) + np.square(scores).sum(axis=1))
        weighted = weights[:, None] * error
        in_alpha = np.einsum("ij,ij->i", weighted[batch.rows], batch.D[batch.encoded.indices])
        return Terms(
            weights * values,
            weights[:, None] * scores,
            alpha=in_alpha,
            D=batch.codes.T @ weighted,
            x=weights[:, None] * batch.X,
        )


LOSSES = [SquaredLoss(), LogisticLoss(), SoftmaxLoss()]
MODELS = [LinearModel(), SplitModel(), BilinearModel()]
PARTS = {
    "one": (),
    "two": (Part(slice(0, 6)), Part(slice(6, P))),
    "views": (Part(slice(0, 6), np.array([0, 2, 4, 5])), Part(slice(6, P), np.array([1, 3, 6, 7, 8]))),
}


def kind(value):
    return type(value).__name__


def targets(loss, n=N, seed=0):
    rng = np.random.default_rng(seed)
    if isinstance(loss, SquaredLoss):
        return rng.standard_normal((n, Q))
    if isinstance(loss, LogisticLoss):
        return rng.choice([-1.0, 1.0], (n, Q))
    if isinstance(loss, DecodingLoss):
        return rng.standard_normal((n, R))
    return rng.integers(0, Q, n)


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


def patches(n, seed):
    """Patches of a photograph, centred, of norm one."""
    image = load_sample_image("china.jpg").mean(axis=2)
    signals = extract_patches_2d(image, (4, 4), max_patches=n, random_state=seed).reshape(n, -1)
    signals = signals - signals.mean(axis=1, keepdims=True) + 1e-3 * np.random.default_rng(seed).standard_normal((n, M))
    return signals / np.linalg.norm(signals, axis=1, keepdims=True)


def problem(loss, model, *, transform=False, parts=(), real=False, seed=0):
    """Return weights and a batch with unlabelled signals."""
    rng = np.random.default_rng(seed)
    width = R if transform else M
    signals = patches(N + 5, seed) if real else random_problem(N + 5, M, 1, seed)[0]
    if not transform:
        signals = signals if not parts or parts[0].features is None else np.ascontiguousarray(signals[:, :R])
        width = signals.shape[1]
    D = random_problem(1, width, P, seed + 1)[1]
    if real and not transform:
        D = patches(P, seed + 7)
    for part in parts:
        if part.features is not None:
            others = np.setdiff1d(np.arange(width), part.features)
            D[part.atoms, others[:, None].T] = 0
    weights = Weights(
        D,
        rng.standard_normal(model.shape(Q, P, width)),
        rng.standard_normal(Q),
        rng.standard_normal((R, M)) / 3 if transform else None,
    )
    return weights, Batch(signals[:N], targets(loss), rng.uniform(0.5, 2, N), signals[N:])


def check_all(objective, weights, batch):
    """Compare every gradient of the whole objective with differences."""
    value, gradient = objective.evaluate(weights, batch)
    assert value == pytest.approx(objective.evaluate(weights, batch, n_threads=2)[0], rel=1e-14)
    for name, array in vars(weights).items():
        if array is None:
            assert getattr(gradient, name) is None
            continue

        def moved(array, name=name):
            return objective.evaluate(dataclasses.replace(weights, **{name: array}), batch)[0]

        numeric = differences(moved, array)
        if name == "D":
            for part in objective.parts:  # an atom of a view stays in its view
                if part.features is not None:
                    others = np.setdiff1d(np.arange(array.shape[1]), part.features)
                    numeric[part.atoms, others[:, None].T] = 0
        assert_close(getattr(gradient, name), numeric)


@pytest.mark.parametrize("loss", LOSSES, ids=kind)
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
@pytest.mark.parametrize("model", MODELS, ids=kind)
@pytest.mark.parametrize("loss", LOSSES, ids=kind)
def test_all_parameters(loss, model, lambda2, positive):
    weights, batch = problem(loss, model, transform=True)
    objective = Objective(model, loss, Coding(0.05, lambda2, positive), nu=0.3, nu2=0.2)
    assert len(objective.encode(weights, batch.X).encoded.indices) > N
    check_all(objective, weights, batch)


@pytest.mark.parametrize("mu", [0.3, 1.0])
@pytest.mark.parametrize("transform", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=kind)
def test_semi_supervised(model, transform, mu):
    weights, batch = problem(LogisticLoss(), model, transform=transform)
    objective = Objective(
        model, LogisticLoss(), Coding(0.05, 0.02), nu=0.3, nu2=0.2, task=1 - mu, reconstruction=5 * mu
    )
    check_all(objective, weights, batch)


@pytest.mark.parametrize("mu", [0.0, 0.4])
@pytest.mark.parametrize("model", MODELS, ids=kind)
@pytest.mark.parametrize("parts", ["two", "views"])
def test_several_dictionaries(parts, model, mu):
    weights, batch = problem(LogisticLoss(), model, parts=PARTS[parts])
    objective = Objective(
        model, LogisticLoss(), Coding(0.05, 0.02), PARTS[parts], nu=0.1, task=1 - mu, reconstruction=mu
    )
    check_all(objective, weights, batch)


@pytest.mark.parametrize("loss", [*LOSSES, DecodingLoss()], ids=kind)
@pytest.mark.parametrize("positive", [False, True])
def test_a_model_of_codes_and_signals(loss, positive):
    """A joint model; its signals have columns of different sizes, one of which does not change."""
    weights, batch = problem(SquaredLoss(), LinearModel())
    y = targets(loss) if not isinstance(loss, DecodingLoss) else np.random.default_rng(0).standard_normal((N, M))
    factors = np.linspace(0, 3, M)
    model = JointModel(Columns(np.linspace(-1, 1, M), factors))
    weights = dataclasses.replace(weights, W=np.random.default_rng(3).standard_normal(model.shape(Q, P, M)))
    batch = dataclasses.replace(batch, y=y)
    objective = Objective(model, loss, Coding(0.05, 0.02, positive), nu=0.3, task=0.7, reconstruction=0.3)
    check_all(objective, weights, batch)


def test_several_dictionaries_with_a_transform():
    weights, batch = problem(SquaredLoss(), LinearModel(), transform=True, parts=PARTS["two"])
    check_all(Objective(LinearModel(), SquaredLoss(), Coding(0.05, 0.02), PARTS["two"]), weights, batch)


@pytest.mark.parametrize("parts", ["one", "two"])
def test_a_loss_of_everything(parts):
    loss = DecodingLoss()
    weights, batch = problem(loss, LinearModel(), transform=True, parts=PARTS[parts])
    check_all(Objective(LinearModel(), loss, Coding(0.05, 0.02), PARTS[parts]), weights, batch)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.05])
@pytest.mark.parametrize("model", MODELS, ids=kind)
@pytest.mark.parametrize("transform", [False, True])
def test_real_patches(transform, model, lambda2, positive):
    weights, batch = problem(SoftmaxLoss(), model, transform=transform, real=True)
    objective = Objective(
        model, SoftmaxLoss(), Coding(0.1, lambda2, positive), nu=0.1, nu2=0.1, task=0.6, reconstruction=0.4
    )
    check_all(objective, weights, batch)


def test_codes_side_by_side_are_those_of_each():
    X, D = random_problem(30, 9, P)
    coding = Coding(0.05)
    both = CodedBatch(X, D, coding, PARTS["two"])
    first, second = (CodedBatch(X, np.ascontiguousarray(D[part.atoms]), coding) for part in PARTS["two"])
    codes = both.codes.toarray()
    np.testing.assert_array_equal(codes[:, :6], first.codes.toarray())
    np.testing.assert_array_equal(codes[:, 6:], second.codes.toarray())
    np.testing.assert_allclose(both.decode(), codes @ D, atol=1e-14)
    np.testing.assert_allclose(
        both.reconstruction_objectives(), first.reconstruction_objectives() + second.reconstruction_objectives()
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_supports_only_is_the_dense_formula(dtype, n_threads):
    """Proposition 1 with dense matrices; large enough for threads, and in the dtype of the data."""
    X, D = random_problem(400, 70, 120, dtype=dtype)
    batch = CodedBatch(X, D, Coding(0.1, 0.05), n_threads=n_threads)
    g = np.random.default_rng(0).standard_normal(len(batch.encoded.indices)).astype(dtype)
    gradient = batch.through_codes(g, reconstruction=0.25)
    assert gradient.D.dtype == gradient.x.dtype == dtype

    wide = D.astype(float)
    alpha = batch.codes.toarray().astype(float)
    beta = np.zeros_like(alpha)
    for row, (start, end) in enumerate(itertools.pairwise(batch.encoded.indptr)):
        active = batch.encoded.indices[start:end]
        beta[row, active] = np.linalg.solve(
            wide[active] @ wide[active].T + 0.05 * np.eye(len(active)), g[start:end].astype(float)
        )
    tolerance = {"rtol": 0, "atol": 2e-3 if dtype == np.float32 else 1e-9}
    residuals = X - alpha @ wide
    np.testing.assert_allclose(gradient.x, beta @ wide + 0.25 * residuals, **tolerance)
    expected = beta.T @ residuals - alpha.T @ (beta @ wide) - 0.25 * alpha.T @ residuals
    np.testing.assert_allclose(gradient.D, expected, **tolerance)
