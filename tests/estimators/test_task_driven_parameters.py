"""Parameters of the task-driven estimators: constraints, dictionaries, μ, learning rates, weights, losses."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import taskdict as td
from helpers import digits_split, quick, quick_regressor
from taskdict._learning.schedule import HIGHEST_PACE
from taskdict.constraints import Ball, NonNegative


@pytest.fixture(scope="module")
def digits():
    return digits_split()


def test_constraint_sets(digits):
    X, y, *_ = digits
    model = quick(20, coef_set=Ball(2.0), max_iter=30).fit(8 * X, y)
    assert (np.linalg.norm(model.coef_, axis=1) <= 2 + 1e-6).all()
    assert np.linalg.norm(model.coef_, axis=1).max() > 1.99
    model = quick(20, n_measurements=8, transform_set=Ball(1.5), multi_class="softmax", max_iter=30).fit(X, y)
    assert np.linalg.norm(model.transform_) <= 1.5 + 1e-6
    model = quick(20, coef_set=NonNegative(), multi_class="onehot", max_iter=30).fit(X, y)
    assert (model.coef_ >= 0).all()


def test_supervised_sparse_nmf():
    X, y = load_digits(return_X_y=True)
    model = td.TaskDrivenClassifier(
        30, multi_class="softmax", positive_code=True, positive_dictionary=True, max_iter=200, random_state=0
    ).fit(X[:1000], y[:1000])
    assert (model.components_ >= 0).all()
    assert (model.transform(X).data > 0).all()
    assert model.score(X[1000:], y[1000:]) > 0.9


def test_several_dictionaries(digits):
    X, y, X_test, y_test = digits
    both = quick((10, 25), multi_class="softmax").fit(X, y)
    assert both.components_.shape == (35, 64)
    assert both.coef_.shape == (10, 35)
    codes = both.transform(X_test).toarray()
    for part in (slice(0, 10), slice(10, 35)):
        mine = td.sparse_encode(X_test, both.components_[part], lambda1=0.15).toarray()
        np.testing.assert_array_equal(mine, codes[:, part])
    assert both.score(X_test, y_test) > 0.93
    halves = quick(20, multi_class="softmax", views=[slice(0, 32), list(range(32, 64))], lambda1=0.1).fit(X, y)
    assert halves.components_.shape == (40, 64)
    assert not halves.components_[:20, 32:].any()
    assert not halves.components_[20:, :32].any()
    assert halves.components_[:20, :32].any(axis=1).all()
    assert halves.score(X_test, y_test) > 0.9
    np.testing.assert_allclose(
        halves.decision_function(X_test), halves.transform(X_test) @ halves.coef_.T + halves.intercept_, atol=1e-10
    )


@pytest.mark.parametrize("multi_class", ["ovr", "ovo", "softmax", "onehot"])
def test_starts_from_the_classes(digits, multi_class):
    """Each model of a committee has atoms of its own, instead of the same for all."""
    X, y, *_ = digits
    few = y < 4
    settings = {"n_components": 12, "multi_class": multi_class, "max_iter": 1, "learning_rate": 1e-9}
    models = [quick(**settings, dictionary_init=start).fit(X[few], y[few]) for start in (None, "classes")]
    count = {"ovr": 4, "ovo": 6}.get(multi_class, 1)
    atoms = [model.components_.reshape(count, 12, -1) for model in models]
    same = [[np.allclose(D[0], other, atol=1e-4) for other in D[1:]] for D in atoms]
    assert all(same[0])
    assert not any(same[1])


def test_atoms_of_a_class_start_from_its_signals():
    """Each class has directions of its own: half of the atoms lie along those of the class, half along the rest."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 50)
    X = np.eye(6)[2 * y] * rng.uniform(1, 2, (150, 1)) + np.eye(6)[2 * y + 1] * rng.uniform(0, 0.5, (150, 1))
    model = quick(4, lambda1=0.05, max_iter=1, learning_rate=1e-9, dictionary_init="classes")
    for k, D in enumerate(model.fit(X, y).components_.reshape(3, 4, 6)):
        ours, others = np.isin(np.arange(6) // 2, k), ~np.isin(np.arange(6) // 2, k)
        mine = np.abs(D[:, ours]).sum(axis=1) > 0.1
        assert mine.sum() == 2
        assert (np.abs(D[mine][:, others]) < 1e-6).all()


@pytest.mark.parametrize("multi_class", ["ovr", "ovo", "softmax"])
def test_adaptive_steps_learn(digits, multi_class):
    X, y, X_test, y_test = digits
    model = quick(30, multi_class=multi_class, learning_rate="adaptive", max_iter=200).fit(X, y)
    start = quick(30, multi_class=multi_class, learning_rate=1e-9, max_iter=1).fit(X, y)
    assert model.score(X_test, y_test) > start.score(X_test, y_test) + 0.01
    assert np.allclose(model.learning_rate_, HIGHEST_PACE)


def test_a_learning_rate_of_another_kind_takes_effect(digits):
    X, y, *_ = digits
    model = quick(10, multi_class="softmax", max_iter=10, warm_start=True).fit(X, y)
    found = model.learning_rate_
    assert model.set_params(learning_rate="adaptive", max_iter=12).fit(X, y).learning_rate_ == HIGHEST_PACE
    again = model.set_params(learning_rate="auto", max_iter=14).fit(X, y).learning_rate_
    assert again != HIGHEST_PACE
    assert 0.01 < again / found < 100
    assert model.set_params(learning_rate=0.7, max_iter=16).fit(X, y).learning_rate_ == 0.7


def test_adaptive_steps_for_regression(digits):
    X, y, X_test, y_test = digits
    model = td.TaskDrivenRegressor(30, learning_rate="adaptive", max_iter=300, n_measurements=20, random_state=0)
    assert model.fit(X, y).score(X_test, y_test) > 0.75
    model.partial_fit(X[:100], y[:100])
    assert model.n_iter_ == 301


def test_continuation_without_a_validation_part_ends_with_the_last_mu(digits):
    X, y, *_ = digits
    ends = {}

    def keep(progress):
        ends[progress.n_iter] = progress.model.components_.copy()

    model = quick(10, mu=[0.5, 0.0], max_iter=5, validation_fraction=0.0, callbacks=keep).fit(X, y)
    assert model.history_["validation"] == []
    np.testing.assert_array_equal(model.components_, ends[10])


def test_continuation_in_mu_keeps_the_best(digits):
    X, y, X_test, y_test = digits
    hidden = np.where(np.arange(len(y)) < 300, y, -1)
    model = quick(30, multi_class="softmax", mu=(1.0, 0.7, 0.4), max_iter=60).fit(X, hidden)
    assert model.n_iter_ == 180
    checks, at = model.history_["validation"], model.history_["validation_iter"]
    assert {60, 120, 180} <= set(at)
    assert len(checks) == len(at) > 3
    assert model._learned.training.state.best_value == min(checks)
    assert model.score(X_test, y_test) > 0.8


def test_early_stopping(digits):
    X, y, X_test, y_test = digits
    model = quick(20, multi_class="softmax", early_stopping=True, n_iter_no_change=3, max_iter=5000).fit(X, y)
    assert model.n_iter_ < 5000
    checks = model.history_["validation"]
    assert np.argmin(checks) == len(checks) - 4
    assert model.score(X_test, y_test) > 0.9


def test_weights(digits):
    X, y, X_test, y_test = digits
    binary, binary_test = (y == 8).astype(int), (y_test == 8).astype(int)
    plain = quick(10, max_iter=100).fit(X, binary)
    heavy = quick(10, max_iter=100, class_weight={0: 1, 1: 20}).fit(X, binary)
    recalls = [(model.predict(X_test)[binary_test == 1]).mean() for model in (plain, heavy)]
    assert recalls[1] > recalls[0] + 0.02
    same = quick(10, max_iter=100).fit(X, binary, sample_weight=np.where(binary == 1, 40.0, 2.0))
    np.testing.assert_allclose(same.coef_, heavy.coef_, rtol=1e-6)
    balanced = quick(10, max_iter=20, class_weight="balanced").fit(X, binary)
    assert balanced.predict(X_test).mean() > plain.predict(X_test).mean()
    out = np.ones(len(X))
    out[500:] = 0
    only = quick(10, max_iter=20).fit(X, binary, sample_weight=out)
    broken = X.copy()
    broken[500:] = 1e6  # is not looked at
    np.testing.assert_array_equal(only.coef_, quick(10, max_iter=20).fit(broken, binary, sample_weight=out).coef_)


def test_averaging_and_the_last_iterate(digits):
    X, y, *_ = digits
    seen = []
    settings = {"max_iter": 40, "multi_class": "softmax", "learning_rate": 10.0}  # unsteady to the end
    last = quick(10, **settings, average=False, callbacks=lambda progress: seen.append(progress.model.components_))
    np.testing.assert_array_equal(last.fit(X, y).components_, seen[-1])
    mean = quick(10, **settings).fit(X, y)
    np.testing.assert_allclose(mean.components_, np.mean(seen[-4:], axis=0), atol=1e-12)


def test_own_losses(digits):
    """A loss with one method, and one that sees everything."""
    X, y, *_ = digits

    class Huber:
        def evaluate(self, y, scores):
            error = scores - y
            size = np.abs(error)
            values = np.where(size < 1, 0.5 * error**2, size - 0.5)
            return values.sum(axis=1), np.clip(error, -1, 1)

    target = X[:, 20] * 10
    target[::50] += 1000  # a few wild ones
    settings = {"n_components": 30, "lambda1": 0.05, "max_iter": 200, "random_state": 0}
    robust = quick_regressor(loss=Huber(), **settings).fit(X[:, :20], target)
    plain = quick_regressor(**settings).fit(X[:, :20], target)
    good = np.arange(len(X)) % 50 != 0
    errors = [np.abs(model.predict(X[:, :20]) - target)[good].mean() for model in (robust, plain)]
    assert errors[0] < 0.5 * errors[1]
    classifier = quick(10, max_iter=20, loss=Huber()).fit(X, y)
    assert not hasattr(classifier, "predict_proba")
    assert classifier.score(X, y) > 0.6

    class AlsoReconstruct:
        """½(y − s)² + ½‖x − Dα‖²."""

        def evaluate_codes(self, y, scores, batch, weights):
            error, residual = scores - y, batch.X - batch.decode()
            values = 0.5 * (np.square(error).sum(axis=1) + np.square(residual).sum(axis=1))
            weighted = weights[:, None] * residual
            return td.losses.Terms(
                weights * values,
                weights[:, None] * error,
                alpha=-np.einsum("ij,ij->i", weighted[batch.rows], batch.D[batch.encoded.indices]),
                D=-(batch.codes.T @ weighted),
                x=weighted,
            )

    both = quick_regressor(loss=AlsoReconstruct(), **settings).fit(X[:, :20], X[:, 20])
    alone = quick_regressor(**settings).fit(X[:, :20], X[:, 20])
    residuals = [
        np.square(X[:, :20] - model.transform(X[:, :20]) @ model.components_).sum(axis=1).mean()
        for model in (both, alone)
    ]
    assert residuals[0] < residuals[1]
