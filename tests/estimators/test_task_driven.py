"""What the task-driven estimators learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import taskdict as td
from helpers import DTYPES, digits_split, quick, quick_regressor


@pytest.fixture(scope="module")
def digits():
    return digits_split()


class Everywhere:
    """No constraint at all."""

    def project(self, matrix):
        return matrix.copy()


@pytest.mark.parametrize("multi_class", ["ovr", "softmax", "onehot"])
@pytest.mark.parametrize("decision", ["linear", "bilinear"])
def test_beats_the_unsupervised_start(digits, multi_class, decision):
    X, y, X_test, y_test = digits
    start = td.DictionaryLearning(30, lambda1=0.15, random_state=0).fit(X)
    unsupervised = LogisticRegression(C=100, max_iter=1000).fit(start.transform(X), y)
    model = quick(multi_class=multi_class, decision=decision, dictionary_init=start.components_)
    model.fit(X, y)
    before = unsupervised.score(start.transform(X_test), y_test)
    assert 1 - model.score(X_test, y_test) < 0.8 * (1 - before)
    assert model.n_iter_ == 300 == len(model.history_["objective"])
    assert np.mean(model.history_["objective"][-30:]) < 0.9 * np.mean(model.history_["objective"][:5])


def test_one_versus_one(digits):
    X, y, X_test, y_test = (part[(labels := digits[2 * (k // 2) + 1]) < 4] for k, part in enumerate(digits))
    del labels
    model = quick(15, multi_class="ovo", max_iter=100).fit(X, y)
    assert model.score(X_test, y_test) > 0.97
    assert model.coef_.shape == (6, 15)
    assert model.components_.shape == (90, 64)
    decision = model.decision_function(X_test)
    assert decision.shape == (len(X_test), 4)
    assert (np.abs(decision.sum(axis=1) - 6) < 2).all()  # six votes
    np.testing.assert_allclose(model.predict_proba(X_test).sum(axis=1), 1)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_scores_are_what_the_attributes_say(digits, loss):
    X, y, X_test, _ = digits
    model = quick(loss=loss, max_iter=50).fit(X, y)
    codes = model.transform(X_test).toarray()
    assert codes.shape == (len(X_test), 300)
    blocks = codes.reshape(len(codes), 10, 30)
    expected = np.einsum("nkp,kp->nk", blocks, model.coef_) + model.intercept_
    np.testing.assert_allclose(model.decision_function(X_test), expected, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X_test), expected.argmax(axis=1))
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1).max(), 1, atol=1e-6)
    for k, atoms in enumerate(model.components_.reshape(10, 30, 64)):
        mine = td.sparse_encode(X_test, atoms, lambda1=0.15).toarray()
        np.testing.assert_array_equal(mine, blocks[:, k])
    assert hasattr(model, "predict_proba") == (loss == "logistic")


def test_bilinear_scores(digits):
    X, y, X_test, _ = digits
    model = quick(decision="bilinear", multi_class="softmax", max_iter=20).fit(X, y)
    assert model.coef_.shape == (10, 30, 64)
    codes = model.transform(X_test).toarray()
    expected = np.einsum("np,kpm,nm->nk", codes, model.coef_, X_test) + model.intercept_
    np.testing.assert_allclose(model.decision_function(X_test), expected, atol=1e-10)


def test_two_classes_and_labels_of_any_kind(digits):
    X, y, X_test, y_test = digits
    names = np.where(y == 3, "three", "other")
    model = quick(20).fit(X, names)
    assert model.classes_.tolist() == ["other", "three"]
    assert model.coef_.shape == (1, 20)
    assert model.decision_function(X_test).shape == (len(X_test),)
    assert model.score(X_test, np.where(y_test == 3, "three", "other")) > 0.97
    signs = quick(20).fit(X, np.where(y == 3, 1, -1))  # -1 is a class here
    assert signs.classes_.tolist() == [-1, 1]
    np.testing.assert_array_equal(signs.decision_function(X_test), model.decision_function(X_test))


@pytest.mark.parametrize("dtype", DTYPES)
def test_regression(digits, dtype):
    X = digits[0].astype(dtype)
    top, bottom = np.ascontiguousarray(X[:, :32]), X[:, 32:]
    model = quick_regressor(60, lambda1=0.05).fit(top, bottom)
    assert model.components_.dtype == model.coef_.dtype == dtype
    predicted = model.predict(top)
    assert predicted.shape == bottom.shape
    assert predicted.dtype == dtype
    np.testing.assert_allclose(predicted, model.transform(top) @ model.coef_.T + model.intercept_, atol=1e-5)
    start = quick_regressor(60, lambda1=0.05, max_iter=1, learning_rate=1e-12).fit(top, bottom)
    errors = [np.square(bottom - fitted.predict(top)).mean() for fitted in (start, model)]
    assert errors[1] < 0.85 * errors[0]
    flat = quick_regressor(20, max_iter=20).fit(top, bottom[:, 3])
    assert flat.predict(top).shape == (len(top),)


@pytest.mark.parametrize("decision", ["linear", "bilinear"])
@pytest.mark.parametrize("exponent", [-12, -3, 5, 12])
def test_scale_of_the_data_does_not_matter(digits, exponent, decision):
    """With x → cx and λ1 → cλ1 everything is the same, up to rounding."""
    X, y, X_test, _ = digits
    settings = {"max_iter": 30, "lambda1": None, "multi_class": "softmax", "decision": decision}
    settings["coef_set"] = None if decision == "linear" else Everywhere()
    reference = quick(**settings).fit(X, y)
    for c in (2.0**exponent, 10.0**exponent):
        model = quick(**settings).fit(c * X, y)
        np.testing.assert_allclose(model.lambda1_, c * reference.lambda1_)
        np.testing.assert_allclose(model.learning_rate_, reference.learning_rate_)
        np.testing.assert_allclose(model.components_, reference.components_, atol=1e-6)
        np.testing.assert_allclose(c ** (1 if decision == "linear" else 2) * model.coef_, reference.coef_, atol=1e-4)
        np.testing.assert_allclose(model.decision_function(c * X_test), reference.decision_function(X_test), atol=1e-4)


@pytest.mark.parametrize("size", [1e-9, 1e7])
def test_scale_of_the_targets_does_not_matter(digits, size):
    X = digits[0]
    y = X[:, 40:44]
    settings = {"n_components": 20, "lambda1": 0.1, "max_iter": 60, "random_state": 0}
    reference = td.TaskDrivenRegressor(**settings).fit(X[:, :32], y)
    model = td.TaskDrivenRegressor(**settings).fit(X[:, :32], size * (y + 3))
    np.testing.assert_allclose(model.predict(X[:, :32]) / size - 3, reference.predict(X[:, :32]), atol=1e-5)


@pytest.mark.parametrize("init", ["pca", "random", "array"])
def test_learned_measurements(digits, init):
    X, y, X_test, y_test = digits
    given = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 12)))[0].T
    start = given if init == "array" else init
    model = quick(40, multi_class="softmax", n_measurements=12, transform_init=start, lambda1=0.05, lambda2=0.01)
    model.fit(X, y)
    assert model.transform_.shape == (12, 64)
    assert model.components_.shape == (40, 12)
    assert model.score(X_test, y_test) > (0.9 if init == "pca" else 0.85)
    if init == "array":
        assert 1e-3 < np.abs(model.transform_ - given).max() < 5
    codes = td.sparse_encode(X_test @ model.transform_.T, model.components_, lambda1=0.05, lambda2=0.01)
    np.testing.assert_allclose(codes.toarray(), model.transform(X_test).toarray(), atol=1e-9)
    several = quick(10, n_measurements=5, max_iter=5).fit(X, y)
    assert several.transform_.shape == (10, 5, 64)


def test_unlabelled_signals_help():
    """A hundred labelled digits, all others without labels: their reconstruction shapes the dictionary."""
    X, y = load_digits(return_X_y=True)
    X = td.UnitNorm().fit_transform(X)
    rng = np.random.default_rng(1)
    known = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:10] for k in range(10)])
    hidden = np.full(len(y), -1)
    hidden[known] = y[known]
    rest = hidden == -1
    few = quick(60, multi_class="softmax", lambda1=0.1).fit(X[known], y[known])
    many = quick(60, multi_class="softmax", lambda1=0.1, mu=0.9).fit(X, hidden)
    assert many.classes_.tolist() == list(range(10))
    assert many.score(X[rest], y[rest]) > few.score(X[rest], y[rest]) + 0.01
    unsupervised = quick(60, multi_class="softmax", lambda1=0.1, mu=1.0, max_iter=50).fit(X, hidden)
    assert unsupervised.score(X[rest], y[rest]) > few.score(X[rest], y[rest])
    objective = unsupervised.history_["objective"]
    assert np.mean(objective[-5:]) < np.mean(objective[:5])


def test_interpolation_is_no_divergence(digits):
    X = digits[0]
    model = quick_regressor(nu=0, max_iter=5).fit(X[:10], X[:10, 20])
    assert model.score(X[:10], X[:10, 20]) > 0.9


def test_sparse_signals(digits):
    X, y, X_test, _ = digits
    X, X_test = (np.where(np.abs(part) > 0.1, part, 0) for part in (X, X_test))
    dense = quick(15, max_iter=20).fit(X, y)
    sparse = quick(15, max_iter=20).fit(sp.csr_array(X), y)
    np.testing.assert_array_equal(dense.components_, sparse.components_)
    np.testing.assert_array_equal(dense.decision_function(X_test), sparse.decision_function(sp.csr_array(X_test)))


def test_in_scikit_learn(digits):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    pipeline = make_pipeline(td.UnitNorm(), quick(10, max_iter=20, multi_class="softmax"))
    search = GridSearchCV(pipeline, {"taskdrivenclassifier__lambda1": [0.1, 0.2]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.7
    calibrated = CalibratedClassifierCV(quick(10, max_iter=20, loss="squared"), cv=2).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    names = pipeline.fit(X, y)[-1].get_feature_names_out()
    assert names[0] == "taskdrivenclassifier0"
    assert len(names) == 10
    assert clone(pipeline[-1]).get_params()["n_components"] == 10
