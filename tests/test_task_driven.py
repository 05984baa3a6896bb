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
from sklearn.utils.estimator_checks import parametrize_with_checks

import taskdict as td
from helpers import DTYPES
from taskdict.constraints import Ball, NonNegative

STOCHASTIC = (
    "batches are drawn at random: a weight is not a repetition of the sample, as in scikit-learn's SGDClassifier"
)


def not_equivalent(estimator):
    names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    return dict.fromkeys(names, STOCHASTIC)


@parametrize_with_checks(
    [
        td.TaskDrivenClassifier(5, max_iter=30, random_state=0),
        td.TaskDrivenClassifier(5, max_iter=20, multi_class="softmax", decision="bilinear", positive_code=True),
        td.TaskDrivenRegressor(5, max_iter=30, random_state=0),
    ],
    expected_failed_checks=not_equivalent,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = td.UnitNorm().fit_transform(X)
    return X[:1000], y[:1000], X[1000:], y[1000:]


class Everywhere:
    """No constraint at all."""

    def project(self, matrix):
        return matrix.copy()


def quick(n_components=30, **parameters):
    settings = {"lambda1": 0.15, "max_iter": 300, "random_state": 0, **parameters}
    return td.TaskDrivenClassifier(n_components, **settings)


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
    model = td.TaskDrivenRegressor(60, lambda1=0.05, max_iter=300, random_state=0).fit(top, bottom)
    assert model.components_.dtype == model.coef_.dtype == dtype
    predicted = model.predict(top)
    assert predicted.shape == bottom.shape
    assert predicted.dtype == dtype
    np.testing.assert_allclose(predicted, model.transform(top) @ model.coef_.T + model.intercept_, atol=1e-5)
    start = td.TaskDrivenRegressor(60, lambda1=0.05, max_iter=1, learning_rate=1e-12, random_state=0).fit(top, bottom)
    errors = [np.square(bottom - fitted.predict(top)).mean() for fitted in (start, model)]
    assert errors[1] < 0.85 * errors[0]
    flat = td.TaskDrivenRegressor(20, max_iter=20, random_state=0).fit(top, bottom[:, 3])
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


def test_same_seed_same_bits_for_any_number_of_threads(digits):
    X, y, *_ = digits
    models = [quick(20, max_iter=30, n_threads=n).fit(X, y) for n in (1, 2, 5)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.components_, models[0].components_)
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
    other = quick(20, max_iter=30, random_state=1).fit(X, y)
    assert not np.array_equal(other.components_, models[0].components_)


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
    model = td.TaskDrivenClassifier(
        4, lambda1=0.05, max_iter=1, learning_rate=1e-9, dictionary_init="classes", random_state=0
    )
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
    assert np.allclose(model.learning_rate_, 0.1)


def test_a_learning_rate_of_another_kind_takes_effect(digits):
    X, y, *_ = digits
    model = quick(10, multi_class="softmax", max_iter=10, warm_start=True).fit(X, y)
    found = model.learning_rate_
    assert model.set_params(learning_rate="adaptive", max_iter=12).fit(X, y).learning_rate_ == 0.1
    again = model.set_params(learning_rate="auto", max_iter=14).fit(X, y).learning_rate_
    assert again != 0.1
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
    assert model._training.state.best_value == min(checks)
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


def test_interpolation_is_no_divergence(digits):
    X = digits[0]
    model = td.TaskDrivenRegressor(30, nu=0, max_iter=5, random_state=0).fit(X[:10], X[:10, 20])
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
    robust = td.TaskDrivenRegressor(loss=Huber(), **settings).fit(X[:, :20], target)
    plain = td.TaskDrivenRegressor(**settings).fit(X[:, :20], target)
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

    both = td.TaskDrivenRegressor(loss=AlsoReconstruct(), **settings).fit(X[:, :20], X[:, 20])
    alone = td.TaskDrivenRegressor(**settings).fit(X[:, :20], X[:, 20])
    residuals = [
        np.square(X[:, :20] - model.transform(X[:, :20]) @ model.components_).sum(axis=1).mean()
        for model in (both, alone)
    ]
    assert residuals[0] < residuals[1]
