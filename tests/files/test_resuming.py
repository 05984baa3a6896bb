"""A training that ends at any moment, for any reason, and is resumed, ends with the same bits as one that does not."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

import taskdict as td
from helpers import PAPER
from taskdict._learning import trainer


def outliers(n=300):
    """Return signals and targets of which some are so large that a step on them leads astray."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 6))
    Y = X[:, :2] + 0.1 * rng.standard_normal((n, 2))
    Y[::25] *= 30
    return X, Y


LEARNED = ("components_", "coef_", "intercept_", "learning_rate_")


def assert_same(one, other):
    for name in LEARNED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.history_ == other.history_


def classifier(n_components=6, **parameters):
    settings = {
        **PAPER,
        "multi_class": "ovr",
        "lambda1": 0.1,
        "max_iter": 14,
        "batch_size": 10,
        "random_state": 0,
        **parameters,
    }
    return td.TaskDrivenClassifier(n_components, **settings)


def regressor(n_components=5, **parameters):
    settings = {**PAPER, "lambda1": 0.1, "max_iter": 24, "batch_size": 4, "random_state": 0, **parameters}
    return td.TaskDrivenRegressor(n_components, **settings)


def rare_outliers(n=6000):
    """Return a stream of signals and targets, of which some of the first are very large."""
    X, Y = outliers(n)
    Y = X[:, :2] + 0.1
    Y[[8, 15]] *= 1e6
    return (td.stream(lambda: iter([(X, Y)]), "pairs"),)


def four_digits():
    X, y = (array[:400] for array in load_digits(return_X_y=True))
    return td.UnitNorm().fit_transform(X)[y < 4], y[y < 4]


GUARDED = {  # limit of the guard (1e3 in use; less, so that it acts a few times), model, data
    "searched regressor": (0.5, regressor(learning_rate="auto"), outliers),
    "adaptive regressor": (0.5, regressor(learning_rate=("adaptive", 0.5)), outliers),
    "regressor with Z": (0.5, regressor(learning_rate="auto", n_measurements=4), outliers),
    "stream": (trainer.DIVERGENCE_FACTOR, regressor(learning_rate="auto", batch_size=1, max_iter=20), rare_outliers),
    "searched classifier": (0.15, classifier(multi_class="softmax", learning_rate="auto"), four_digits),
    "adaptive classifier": (0.12, classifier(multi_class="softmax", learning_rate=("adaptive", 0.1)), four_digits),
    "committee": (0.3, classifier(multi_class="ovo", learning_rate="auto"), four_digits),
    "adaptive committee": (0.3, classifier(multi_class="ovr", learning_rate=("adaptive", 0.1)), four_digits),
    "several mu": (1.0, classifier(multi_class="softmax", learning_rate="auto", mu=(1.0, 0.5)), four_digits),
    "early stopping": (
        0.08,
        classifier(multi_class="softmax", learning_rate="auto", early_stopping=True, n_iter_no_change=20),
        four_digits,
    ),
}


@pytest.mark.parametrize("kind", GUARDED)
def test_a_guarded_training_broken_off_at_every_batch(tmp_path, monkeypatch, kind):
    """The guard against divergence goes back one batch and lowers the learning rates: both are in the checkpoint."""
    diverged, model, data = GUARDED[kind]
    monkeypatch.setattr(trainer, "DIVERGENCE_FACTOR", diverged)
    rates = []

    def keep(progress):
        rates.append(np.array(progress.model.learning_rate_))
        progress.model.save(tmp_path / str(progress.n_iter))

    model.set_params(checkpoint=tmp_path / "whole", callbacks=keep)
    whole = model.fit(*data())
    acted = sum((after < before).any() for before, after in itertools.pairwise(rates))
    assert 2 <= acted < len(rates) - 1
    for n in range(1, len(rates)):
        again = clone(model).set_params(checkpoint=tmp_path / str(n), callbacks=None).fit(*data())
        assert_same(again, whole)


def test_warm_start_with_other_data_forgets_the_limits(monkeypatch):
    """Limits of the guard come from the data: kept for others, they would lower the learning rate at each batch."""
    monkeypatch.setattr(trainer, "DIVERGENCE_FACTOR", 50.0)
    X, Y = outliers()
    Y = X[:, :2]
    settings = {"learning_rate": ("adaptive", 0.01), "warm_start": True}
    model = regressor(**settings, callbacks=lambda progress: progress.n_iter == 5).fit(X, Y)
    assert model._learned.training.state.limits is not None
    model.set_params(callbacks=None).fit(X, 100 * Y)
    assert model.learning_rate_ == 0.01
    assert model._learned.training.state.limits is None  # complete


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)], ids=["unseeded", "generator"])
def test_an_unseeded_dictionary_is_resumed_in_the_same_order(tmp_path, random_state):
    X = np.random.default_rng(0).standard_normal((200, 6))
    model = td.DictionaryLearning(5, lambda1=0.1, batch_size=20, max_iter=12, tol=0, random_state=random_state)

    def keep(progress):
        progress.model.save(tmp_path / str(progress.n_iter))

    whole = model.set_params(callbacks=keep).fit(X)
    for n in range(1, 12):
        again = td.load(tmp_path / str(n)).set_params(warm_start=True).fit(X)
        np.testing.assert_array_equal(again.components_, whole.components_)
        assert again.history_ == whole.history_
