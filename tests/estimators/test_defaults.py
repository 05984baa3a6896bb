"""What the task-driven estimators do with all parameters left open."""

import copy
import dataclasses
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskdict as td
from helpers import DTYPES, digits_split
from taskdict._learning.comparison import Comparison
from taskdict._learning.models import Columns
from taskdict._learning.start import Start
from taskdict.constraints import Ball
from taskdict.estimators.task_driven import conclusion
from taskdict.estimators.task_driven.conclusion import _advice
from taskdict.estimators.task_driven.targets import ColumnTargets

DIGITS = load_digits(return_X_y=True)


def waveforms(n, seed=0, signed=True):
    """Four shapes of 100 samples; their sign is arbitrary."""
    rng, t = np.random.default_rng(seed), np.linspace(0, 1, 100)
    shapes = np.stack(
        [
            np.exp(-(((t - 0.35) / 0.06) ** 2)),
            np.exp(-(((t - 0.55) / 0.06) ** 2)) - np.exp(-(((t - 0.7) / 0.06) ** 2)),
            np.sin(12 * np.pi * t) * np.exp(-(((t - 0.5) / 0.2) ** 2)),
            np.clip((t - 0.3) / 0.3, 0, 1) * (t < 0.8),
        ]
    )
    y = rng.integers(0, 4, n)
    signs = rng.choice([-1, 1], (n, 1)) if signed else 1
    shapes /= np.linalg.norm(shapes, axis=1, keepdims=True)
    return signs * shapes[y] + 0.05 * rng.standard_normal((n, 100)), y


def linear_task(n=300, m=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m))
    return X, (X @ rng.standard_normal(m) > 0).astype(int)


def fitted(kind=td.TaskDrivenClassifier, data=DIGITS, **parameters):
    with warnings.catch_warnings(action="ignore", category=td.BaselineWarning):
        return kind(random_state=0, **parameters).fit(*data)


# What is learned -----------------------------------------------------------------------------------------------------


def test_signals_of_either_sign():
    """A linear model on the codes, which are odd in the signal, is hardly better than chance; the default is right."""
    X, y = waveforms(800)
    X_test, y_test = waveforms(400, seed=1)
    model = fitted(data=(X, y))
    assert model.decision_ == "split"
    assert model.score(X_test, y_test) > 0.99
    np.testing.assert_array_equal(model.predict(X_test), model.predict(-X_test))
    assert fitted(data=(X, y), decision="linear", max_iter=100).score(X_test, y_test) < 0.5


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_diabetes])
@pytest.mark.parametrize("scaled", [True, False])
def test_tables_are_learned_as_well_as_by_a_linear_model(load, scaled):
    data = load(return_X_y=True)
    linear, kind = (Ridge(), td.TaskDrivenRegressor) if load is load_diabetes else (LogisticRegression(), None)
    scores = []
    for seed in range(3):
        X, X_test, y, y_test = train_test_split(*data, random_state=seed)
        if scaled:
            scaler = StandardScaler().fit(X)
            X, X_test = scaler.transform(X), scaler.transform(X_test)
        with warnings.catch_warnings(action="ignore"):  # scikit-learn's own
            reference = linear.fit(X, y).score(X_test, y_test)
        scores.append((fitted(kind or td.TaskDrivenClassifier, (X, y)).score(X_test, y_test), reference))
    ours, theirs = np.mean(scores, axis=0)
    assert ours > theirs - 0.02


def test_digits():
    X, y, X_test, y_test = digits_split()
    model = fitted(data=(X, y))
    assert model.score(X_test, y_test) > 0.95
    assert model.score(X_test, y_test) > LogisticRegression().fit(X, y).score(X_test, y_test) + 0.02
    assert set(model.held_out_scores_) == {"linear", "unsupervised", "task_driven"}
    assert min(model.held_out_scores_.values()) > 0.95


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [td.TaskDrivenClassifier, td.TaskDrivenRegressor])
@pytest.mark.parametrize("decision", ["auto", "split", "joint"])
def test_the_scale_of_the_data_does_not_matter(kind, decision, dtype):
    X, y = (array[:300].astype(dtype) for array in DIGITS)
    reference = fitted(kind, (X, y), decision=decision)
    predicted = reference.decision_function(X) if kind is td.TaskDrivenClassifier else reference.predict(X)
    for c in (2.0**-10, 2.0**12):
        model = fitted(kind, (X * dtype(c), y), decision=decision)
        assert (model.decision_, model.n_iter_) == (reference.decision_, reference.n_iter_)
        assert model.lambda1_ == pytest.approx(c * reference.lambda1_)
        again = (
            model.decision_function(X * dtype(c)) if kind is td.TaskDrivenClassifier else model.predict(X * dtype(c))
        )
        np.testing.assert_allclose(again, predicted, atol=1e-3 * np.abs(predicted).max())


def test_columns_of_any_size_and_offset():
    """A joint model sees columns of the same size, as a scaler makes them, and scores signals as they are."""
    X, y = linear_task()
    moved = X * np.logspace(-2, 2, 30) + 5
    model = fitted(data=(moved, y), decision="joint")
    assert model.score(moved, y) > 0.9
    codes = model.transform(moved).toarray()
    features = np.hstack([np.maximum(codes, 0), np.maximum(-codes, 0), moved])
    scores = features @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(moved), scores.ravel(), atol=1e-8 * np.abs(scores).max())


@pytest.mark.parametrize("decision", ["split", "joint"])
def test_scores_are_what_the_attributes_say(decision):
    X, y = DIGITS[0][:400], DIGITS[1][:400]
    model = fitted(data=(X, y), decision=decision)
    p = model.components_.shape[0]
    codes = model.transform(X).toarray()
    features = [np.maximum(codes, 0), np.maximum(-codes, 0)] + ([X] if decision == "joint" else [])
    assert model.coef_.shape == (10, 2 * p + (64 if decision == "joint" else 0))
    expected = np.hstack(features) @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), atol=1e-12)


def test_sparse_signals_are_as_dense_ones():
    X, y = (array[:300] for array in DIGITS)
    dense, sparse = fitted(data=(X, y)), fitted(data=(sp.csr_array(X), y))
    np.testing.assert_array_equal(dense.decision_function(X), sparse.decision_function(sp.csr_array(X)))


def test_log_probabilities_do_not_overflow():
    X, y = linear_task()
    for labels in (y, y + (X[:, 0] > 1)):
        model = fitted(data=(X, labels))
        logarithms = model.predict_log_proba(1e6 * X)
        assert np.isfinite(logarithms).all()
        assert logarithms.min() < -1000
    with pytest.raises(AttributeError, match="has no attribute 'predict_log_proba'"):
        fitted(data=(X, y), loss="squared").predict_log_proba(X)


# What it says at the end ---------------------------------------------------------------------------------------------


def test_a_linear_task_is_recognised():
    """The linear model is kept, with all that a model can do."""
    X, y = linear_task()
    with pytest.warns(
        td.BaselineWarning, match=r"linear model on the signals 0\.\d{3}\. The linear model is the result, since it has"
    ) as w:
        model = td.TaskDrivenClassifier(random_state=0).fit(X, y)
    assert len(w) == 1
    assert w[0].filename == __file__
    assert (model.kept_, model.decision_, model.n_iter_) == ("linear", "joint", 0)
    assert model.held_out_scores_["linear"] > model.held_out_scores_["task_driven"]
    p = len(model.components_)
    assert not model.coef_[:, : 2 * p].any()
    np.testing.assert_allclose(model.decision_function(X), (X @ model.coef_[:, 2 * p :].T + model.intercept_).ravel())
    assert model.transform(X).shape == (300, p)


def test_a_training_that_does_harm_is_left_out():
    """The linear model on the signals, which is better, is none of those that were asked for."""
    X, y = linear_task()
    with pytest.warns(td.BaselineWarning) as caught:
        model = td.TaskDrivenClassifier(decision="split", random_state=0).fit(X, y)
    assert len(caught) == 1
    assert "so it was left out: the result is the model on the unsupervised codes" in str(caught[0].message)
    assert "The linear model is better by more than a standard error" in str(caught[0].message)
    assert (model.kept_, model.decision_, model.n_iter_) == ("unsupervised", "split", 0)
    assert set(model.held_out_scores_) == {"linear", "unsupervised", "task_driven"}
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    ("kept", "wrong", "words"),  # of 100 held-out samples, for the linear, the unsupervised and the task-driven model
    [
        ("task_driven", (30, 20, 10), None),
        ("task_driven", (9, 20, 10), None),  # by one sample: not clearly better
        ("task_driven", (1, 20, 20), "The linear model is better by more than a standard error"),
        ("task_driven", (20, 1, 20), "Training the dictionary for the task did not help. Give more samples"),
        ("task_driven", (10, 1, 20), "early_stopping='auto'"),
        ("unsupervised", (20, 10, 10), "To learn more from the task"),  # the loss has decided
        ("unsupervised", (20, 1, 10), "To learn more from the task"),
        ("unsupervised", (1, 10, 20), "so it was left out: .* The linear model is better by more than"),
        ("linear", (1, 10, 10), "The linear model is the result, since no other is clearly better"),
        ("task_driven", (40, 40, 40), "None of them is better than one answer for all signals"),
    ],
)
def test_what_is_said_of_a_comparison(kept, wrong, words):
    names = ("linear", "unsupervised", "task_driven")
    errors = {name: (np.arange(100) < n).astype(float) for name, n in zip(names, wrong, strict=True)}
    said = _advice(Comparison(errors, of_trial=True), kept, 0.6, "")
    assert re.search(words, said) if words else said == ""


def test_signals_far_from_zero_get_a_word_on_their_mean():
    X, y = waveforms(200)
    with pytest.warns(UserWarning, match=r"The mean of the signals is \d+ times .* Subtract it first"):
        fitted(data=(X + 10, y))
    with warnings.catch_warnings(action="error", category=UserWarning):
        fitted(data=(X, y))


def test_a_signal_with_all_the_energy_gets_a_word():
    X, y = waveforms(200)
    X[7] *= 1e4
    with pytest.warns(UserWarning, match=r"The 2 largest of 200 signals have 99\.5 % of the energy of all"):
        fitted(data=(X, y))


def test_signals_that_are_zero_are_named_as_the_cause():
    with pytest.warns(UserWarning, match="the codes of all signals are zero: all entries of X are zero"):
        fitted(data=(np.zeros((50, 5)), np.arange(50) % 2))


@pytest.mark.parametrize("early_stopping", ["auto", True])
def test_held_out_scores_with_weights_are_those_of_score(early_stopping):
    """R² relative to the weighted variance around the weighted mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    high = X[:, 0] > 0
    y = 10.0 * high + rng.standard_normal(300)
    with warnings.catch_warnings(action="ignore", category=td.BaselineWarning):
        model = td.TaskDrivenRegressor(random_state=0, early_stopping=early_stopping)
        model.fit(X, y, sample_weight=np.where(high, 100.0, 0.01))
    assert model.held_out_scores_["linear"] < 0.2  # the means of the two halves are no help
    targets, scores = ColumnTargets(model._settings(), True, 1), rng.standard_normal((300, 1))
    weights = rng.uniform(0, 5, 300)
    errors = targets.errors(y[:, None], scores, weights)
    assert 1 - errors.mean() == pytest.approx(r2_score(y, scores[:, 0], sample_weight=weights))


def test_weights_that_vanish_leave_scores_finite():
    X, y = waveforms(600)
    weights = np.r_[1.0, np.full(599, 1e-60)]
    with warnings.catch_warnings(action="ignore"):
        model = td.TaskDrivenClassifier(random_state=0).fit(X.astype(np.float32), y, sample_weight=weights)
    assert model.held_out_scores_ is None or np.isfinite(list(model.held_out_scores_.values())).all()


@pytest.mark.parametrize("learning_rate", ["auto", "adaptive", 0.1])
def test_a_linear_model_that_was_kept_can_be_trained_further(learning_rate):
    X, y = linear_task(120, 6)
    model = fitted(data=(X, y), learning_rate=learning_rate)
    assert model.kept_ == "linear"
    before = model.coef_.copy()
    further = copy.deepcopy(model).partial_fit(X, 1 - y)
    assert not np.array_equal(further.coef_, before)
    assert further.kept_ == "task_driven"
    warm = model.set_params(warm_start=True, max_iter=5).fit(X, y)
    assert not np.array_equal(warm.coef_, before)
    assert (warm.kept_, warm.n_iter_) == ("task_driven", 5)


def test_a_linear_model_kept_on_a_validation_part_can_be_trained_further():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 8))
    y = (X @ rng.standard_normal(8) + 0.3 * rng.standard_normal(6000) > 0).astype(int)
    model = fitted(data=(X, y))
    assert model.kept_ == "linear"
    assert model.partial_fit(X[:200], 1 - y[:200]).kept_ == "task_driven"


def test_nothing_is_learned_again_where_a_baseline_was_kept():
    X, y = linear_task(120, 6)
    model = fitted(data=(X, y), warm_start=True)
    with pytest.warns(UserWarning, match=r"left the training out: nothing was learned now\. .* set max_iter"):
        model.fit(X, y)


def test_a_given_nu_is_that_of_the_result():
    X, y = linear_task(120, 8)
    with pytest.warns(td.BaselineWarning):
        model = td.TaskDrivenClassifier(nu=100.0, random_state=0).fit(X, y)
    assert (model.nu_, model.kept_ != "linear") == (100.0, True)
    assert np.abs(model.coef_).max() < 0.1


def test_nu_of_a_linear_model_that_was_kept():
    """The coefficients are those of ridge regression with this ν, on columns whose root mean square norm is one."""
    X, y = linear_task(120, 8)
    target = X @ np.arange(8.0) + y
    model = fitted(td.TaskDrivenRegressor, (X, target))
    assert model.kept_ == "linear"
    square = np.square(X).sum(axis=1).mean()
    distances = []
    for columns in (Columns.of(X / np.sqrt(square), scale=scale) for scale in (True, False)):
        ridge = Ridge(alpha=120 * model.nu_ / square).fit(columns.of_signals(X / np.sqrt(square)), target)
        distances.append(np.abs(model.coef_[0, -8:] - ridge.coef_ * columns.factor / np.sqrt(square)).max())
    assert min(distances) < 1e-8


def test_dictionaries_of_classes_are_those_of_all_samples(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = rng.standard_normal((600, 6)) * (1 + 2 * np.eye(3, 6)[y])
    found = []
    of_classes = Start._of_classes

    def seen(self, member, sample):
        found.append((len(sample.X), of_classes(self, member, sample)))
        return found[-1][1]

    monkeypatch.setattr(Start, "_of_classes", seen)
    model = fitted(data=(X, y), n_components=12, dictionary_init="classes", learning_rate=1e-12)
    assert sorted(n for n, _ in found) == [480, 600]
    np.testing.assert_allclose(model.components_, dict(found)[600], atol=1e-9)


def test_a_mu_path_is_not_replaced_on_one_held_out_sample():
    X = np.random.default_rng(0).standard_normal((200, 10))
    y = np.full(200, -1)
    y[:2] = 0, 1
    model = fitted(data=(X, y), mu=(1.0, 0.5))
    assert model.kept_ == "task_driven"


@pytest.mark.parametrize("when", ["replace", "later"])
def test_an_interrupt_at_the_end_leaves_a_whole_model(monkeypatch, when):
    """The linear model that takes the place of the learned one does so at once."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((6000, 30)) * np.r_[5, np.full(29, 0.3)]
    y = (X[:, 0] + 6 * rng.standard_normal(6000) > 0).astype(int)
    steps = []

    def interrupted(*arguments, **changes):
        steps.append(1)
        if len(steps) == (1 if when == "replace" else 3):
            raise KeyboardInterrupt
        return dataclasses.replace(*arguments, **changes)

    monkeypatch.setattr(conclusion, "replace", interrupted)
    model = td.TaskDrivenClassifier(20, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.decision_ == "split"
    assert model.coef_.shape == (1, 40)
    assert model.score(X, y) > 0.7


def test_the_last_line(capfd):
    model = td.TaskDrivenClassifier(random_state=0, verbose=1).fit(*DIGITS)
    out, err = capfd.readouterr()
    assert out == ""
    first, *_, last = err.splitlines()
    assert first == "reading the signals"
    scores = model.held_out_scores_
    assert last == (
        f"accuracy on 360 held-out samples: task-driven model {scores['task_driven']:.3f}, codes of the unsupervised "
        f"dictionary {scores['unsupervised']:.3f}, linear model on the signals {scores['linear']:.3f}"
    )
    fitted(td.TaskDrivenRegressor, verbose=1)
    assert capfd.readouterr().err.splitlines()[-1].startswith("R² on 360 held-out samples: task-driven model 0.")


def test_scores_are_kept_in_files(tmp_path):
    model = fitted()
    model.save(tmp_path / "model")
    loaded = td.load(tmp_path / "model")
    assert loaded.held_out_scores_ == model.held_out_scores_
    assert (loaded.decision_, loaded.n_iter_) == (model.decision_, model.n_iter_)
    np.testing.assert_array_equal(loaded.decision_function(DIGITS[0]), model.decision_function(DIGITS[0]))


@pytest.mark.parametrize("parameters", [{"max_iter": 20}, {"early_stopping": False}, {"validation_fraction": 0}])
def test_nothing_is_held_out_where_that_was_asked_for(parameters):
    model = td.TaskDrivenClassifier(random_state=0, **parameters).fit(*DIGITS)
    assert model.held_out_scores_ is None
    assert model.history_["validation"] == []


def test_a_validation_part():
    X, y = np.tile(DIGITS[0], (3, 1)), np.tile(DIGITS[1], 3)
    model = fitted(data=(X + 0.1 * np.random.default_rng(0).standard_normal(X.shape), y))
    assert len(model.history_["validation"]) > 0
    assert model.held_out_scores_["task_driven"] > 0.9
    assert model.score(*DIGITS) > 0.95


def test_training_is_never_worse_than_its_start_on_the_validation_part():
    """The start is among the weights to choose from."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 10)), rng.integers(0, 2, 400)
    model = fitted(data=(X, y), early_stopping=True, validation_fraction=0.5)
    checks = model.history_["validation"]
    assert model._learned.training.state.best_value <= min(checks)


# Kinds of data -------------------------------------------------------------------------------------------------------


def test_streams():
    X, y = DIGITS
    model = fitted(data=(td.stream(X, y, random_state=0),))
    assert model.held_out_scores_["task_driven"] > 0.9

    def batches():
        for k in range(0, len(X), 100):
            yield X[k : k + 100], y[k : k + 100]

    with warnings.catch_warnings(action="ignore", category=td.BaselineWarning):
        endless = td.TaskDrivenClassifier(random_state=0).fit(td.stream(batches, "pairs"), classes=range(10))
    assert endless.held_out_scores_["task_driven"] > 0.9
    assert 0 < endless.n_iter_ <= 1000


@pytest.mark.parametrize("n", [1, 2, 9, 12, 60])
def test_few_samples(n):
    X, y = DIGITS[0][: n + 1], DIGITS[1][: n + 1]
    model = fitted(data=(X, y))
    assert np.isfinite(model.decision_function(X)).all()
    regressor = fitted(td.TaskDrivenRegressor, (X, y.astype(float)))
    assert np.isfinite(regressor.predict(X)).all()


def test_features_that_do_not_change():
    X, y = linear_task()
    X[:, 3:] = np.linspace(-1e9, 1e9, 27)
    with pytest.warns(UserWarning, match="The mean of the signals is 1795792595 times as large"):
        model = fitted(data=(X, y))
    assert np.isfinite(model.decision_function(X)).all()


def test_one_feature():
    X = np.random.default_rng(0).standard_normal((200, 1))
    assert fitted(data=(X, (X[:, 0] > 0.3).astype(int))).score(X, X[:, 0] > 0.3) > 0.95
    assert fitted(td.TaskDrivenRegressor, (X, np.abs(X[:, 0]))).score(X, np.abs(X[:, 0])) > 0.9


def test_sample_weights_are_those_of_the_trial_too():
    X, y = linear_task()
    noise = np.random.default_rng(0).integers(0, 2, 300)
    weights = np.tile([1.0, 1e-6], 150)
    mixed = np.where(weights == 1, y, noise)
    with warnings.catch_warnings(action="ignore", category=td.BaselineWarning):
        model = td.TaskDrivenClassifier(random_state=0).fit(X, mixed, sample_weight=weights)
    assert model.score(X, y) > 0.85


def test_few_labels_are_not_worse_than_the_labelled_part():
    X, y = DIGITS[0][:1200], DIGITS[1][:1200]
    rng = np.random.default_rng(0)
    hidden = np.full(1200, -1)
    known = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:8] for k in range(10)])
    hidden[known] = y[known]
    test = DIGITS[0][1200:], DIGITS[1][1200:]
    partly = fitted(data=(X, hidden), mu=0.5)
    assert partly.score(*test) > fitted(data=(X[known], y[known])).score(*test) - 0.01
    words = np.array([None if label < 0 else f"digit {label}" for label in hidden], object)
    words[hidden < 0] = -1
    named = fitted(data=(X, words), mu=0.5)
    np.testing.assert_array_equal(named.decision_function(X), partly.decision_function(X))
    assert named.predict(X[:1]).item().startswith("digit ")


def test_atoms_that_start_from_classes_are_learned_in_the_trial_too(monkeypatch):
    """The atoms of the trial have not seen the samples that it holds out."""
    sizes = []
    original = Start._of_classes

    def atoms(self, member, sample):
        sizes.append(len(sample.X))
        return original(self, member, sample)

    monkeypatch.setattr(Start, "_of_classes", atoms)
    fitted(data=(DIGITS[0][:600], DIGITS[1][:600]), dictionary_init="classes")
    assert sizes == [600, 480]


def test_given_atoms_say_how_many_there_are():
    X, y = DIGITS[0][:300], DIGITS[1][:300]
    assert len(fitted(data=(X, y), dictionary_init=X[:37] + 1e-3).components_) == 37
    halves = [slice(0, 32), slice(32, 64)]
    assert len(fitted(data=(X, y), dictionary_init=X[:8] + 1e-3, views=halves).components_) == 8
    with pytest.raises(ValueError, match="n_components must say how many of the 9 atoms"):
        fitted(data=(X, y), dictionary_init=X[:9] + 1e-3, views=halves)


def test_batches_are_as_large_as_they_are_learned_from():
    """In a pair of three classes a model sees two thirds of a batch, so a batch takes half as many again."""
    X, y = DIGITS[0][DIGITS[1] < 3], DIGITS[1][DIGITS[1] < 3]
    X, y = np.tile(X, (8, 1)), np.tile(y, 8)
    sizes = []
    model = td.TaskDrivenClassifier(
        10, multi_class="ovo", early_stopping=False, random_state=0, callbacks=lambda p: sizes.append(p.n_signals)
    ).fit(X, y)
    assert sizes[0] == 300
    assert model.n_iter_ == round(12 * len(X) / 300)


@pytest.mark.parametrize("n", [60, 700])
def test_targets_that_do_not_change(n):
    X = np.random.default_rng(0).standard_normal((n, 6))
    y = np.stack([np.full(n, 3.0), X[:, 0], np.full(n, 1e8)], axis=1)
    model = fitted(td.TaskDrivenRegressor, (X, y))
    np.testing.assert_allclose(model.predict(X)[:, [0, 2]], y[:, [0, 2]])
    assert all(np.isfinite(score) for score in model.held_out_scores_.values())
    alone = fitted(td.TaskDrivenRegressor, (X, np.full(n, 3.0)))
    np.testing.assert_allclose(alone.predict(X), 3)


def test_columns_of_targets_count_as_much_whatever_their_size():
    """R² is the same for targets in metres and in millimetres."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = np.stack([np.abs(X[:, 0]), np.abs(X[:, 1])], axis=1)
    model, scaled = (fitted(td.TaskDrivenRegressor, (X, y * units)) for units in ([1, 1], [1000, 0.001]))
    np.testing.assert_allclose(scaled.predict(X) / [1000, 0.001], model.predict(X), atol=1e-6)


def test_streams_of_images_keep_whole_images_for_validation():
    """Versions of an image are not on both sides, so there is no trial but a validation part."""
    X, y = DIGITS
    images = td.streams.ImageStream(X.reshape(-1, 8, 8), y, shifts=4, random_state=0)
    model = fitted(data=(images,), max_iter=None)
    assert len(model.history_["validation"]) > 0
    assert set(model.held_out_scores_) == {"linear", "unsupervised", "task_driven"}


# What is kept --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 6000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_linear_model_that_was_kept(n, dtype, tmp_path):
    """It is a model like any other: in files, in another fit, in a checkpoint; from a trial and a validation part."""
    X, y = linear_task(n)
    wrong = np.random.default_rng(1).random(n) < 0.3
    data = (7 * X).astype(dtype), np.where(wrong, 1 - y, y)
    model = fitted(data=data, checkpoint=tmp_path / "state")
    assert (model.kept_, model.decision_) == ("linear", "joint")
    assert model.score(*data) > 0.6
    model.save(tmp_path / "model")
    loaded = td.load(tmp_path / "model")
    assert (loaded.kept_, loaded.held_out_scores_) == ("linear", model.held_out_scores_)
    np.testing.assert_array_equal(loaded.decision_function(data[0]), model.decision_function(data[0]))
    with pytest.warns(UserWarning, match="is of a finished training"):
        again = td.TaskDrivenClassifier(random_state=0, checkpoint=tmp_path / "state").fit(*data)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert (again.kept_, again.held_out_scores_) == ("linear", model.held_out_scores_)
    n_iter = loaded.n_iter_
    loaded.set_params(warm_start=True, max_iter=n_iter + 20, early_stopping=False).fit(*data)
    assert (loaded.kept_, loaded.n_iter_, loaded.held_out_scores_) == ("task_driven", n_iter + 20, None)
    assert loaded.score(*data) > 0.6


def test_linear_regression_that_was_kept(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 10))
    y = X @ rng.standard_normal((10, 2)) * [1, 100] + 5
    model = fitted(td.TaskDrivenRegressor, (X, y))
    assert model.kept_ == "linear"
    np.testing.assert_allclose(model.predict(X), y, atol=0.1)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(td.load(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize("parameters", [{"multi_class": "ovr"}, {"coef_set": Ball(1.0)}, {"n_measurements": 5}])
def test_a_linear_model_is_not_kept_where_it_cannot_be(parameters):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 10))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = fitted(data=(X, y), **parameters)
    assert model.kept_ != "linear"
    assert model.held_out_scores_["linear"] > 0.8


# Resuming ------------------------------------------------------------------------------------------------------------


def many_digits():
    X, y = np.tile(DIGITS[0], (3, 1)), np.tile(DIGITS[1], 3)
    return X + 0.1 * np.random.default_rng(0).standard_normal(X.shape), y


@pytest.mark.parametrize("data", [lambda: DIGITS, many_digits], ids=["trial", "validation part"])
def test_a_training_with_defaults_is_resumed_to_the_same_bits(tmp_path, data):
    X, y = data()
    whole = fitted(data=(X, y))
    for n in (1, 33):

        def interrupt(progress, n=n):
            if progress.n_iter == n:
                raise KeyboardInterrupt

        broken = td.TaskDrivenClassifier(random_state=0, checkpoint=tmp_path / str(n), callbacks=interrupt)
        with pytest.raises(KeyboardInterrupt):
            broken.fit(X, y)
        again = fitted(data=(X, y), checkpoint=tmp_path / str(n))
        for name in ("components_", "coef_", "intercept_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
        assert again.held_out_scores_ == whole.held_out_scores_
        assert again.history_ == whole.history_


def test_a_training_that_was_left_out_is_finished(tmp_path):
    rng = np.random.default_rng(0)
    data = rng.standard_normal((300, 20)), rng.integers(0, 2, 300)
    model = fitted(data=data, checkpoint=tmp_path / "state")
    assert model.n_iter_ == 0
    with pytest.warns(UserWarning, match="is of a finished training"):
        again = td.TaskDrivenClassifier(random_state=0, checkpoint=tmp_path / "state").fit(*data)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    longer = copy.deepcopy(model).set_params(checkpoint=None, warm_start=True)
    with pytest.warns(UserWarning, match="nothing was learned now"):
        longer.fit(*data)
    longer.set_params(max_iter=5).fit(*data)
    assert longer.n_iter_ == 5


def test_a_fit_that_goes_on_after_an_interrupt():
    """What the trial has found is not lost, and is of the model that the fit ends with."""
    whole = fitted()

    def interrupt(progress):
        if progress.n_iter == 20:
            raise KeyboardInterrupt

    model = td.TaskDrivenClassifier(random_state=0, callbacks=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*DIGITS)
    assert (model.n_iter_, model.kept_) == (20, "task_driven")
    model.set_params(callbacks=None, warm_start=True).fit(*DIGITS)
    assert model.n_iter_ == whole.n_iter_  # as many as the data ask for


def test_going_on_with_other_samples():
    """The number of batches is that of the first fit, and scores on the first held-out samples are not kept."""
    model = fitted()
    n_iter = model.n_iter_
    model.set_params(warm_start=True, max_iter=n_iter + 10)
    model.fit(DIGITS[0][:500], DIGITS[1][:500])
    assert model.n_iter_ == n_iter + 10
    assert model.held_out_scores_ is None


def test_fit_after_partial_fit():
    """A step on one batch does not say how long a fit takes."""
    X, y = DIGITS
    model = td.TaskDrivenClassifier(random_state=0, warm_start=True).partial_fit(X[:200], y[:200], range(10))
    model.fit(X, y)
    assert model.n_iter_ == fitted().n_iter_ == round(12 * len(X) / 200)


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ({"decision": "split"}, {"decision": "joint"}, "decision is 'joint', but the model was learned with 'split'"),
        ({"n_measurements": 5}, {"n_measurements": 6}, "n_measurements is 6, but the model was learned with 5"),
        ({"n_measurements": None}, {"n_measurements": 6}, "n_measurements is 6, but the model was learned with None"),
        ({"n_components": 10}, {"n_components": 11}, "n_components is 11, but the model has 10 atoms"),
        ({"multi_class": "softmax"}, {"multi_class": "ovr"}, "multi_class='ovr' need 10 models with 1 outputs each"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_parameters_that_cannot_change_while_learning_goes_on(first, then, message, method):
    X, y = DIGITS[0][:300], DIGITS[1][:300]
    model = fitted(data=(X, y), max_iter=2, **first)
    model.set_params(warm_start=True, max_iter=4, **then)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(X, y)
    assert model.n_iter_ == 2  # as it was
    assert model.predict(X).shape == (300,)


def test_a_model_with_a_loss_of_the_user_is_loaded(tmp_path):
    """The file does not hold the loss, nor that "auto" was one model per class because of it."""

    class Hinge:
        def evaluate(self, y, scores):
            margin = np.maximum(0, 1 - y * scores)
            return 0.5 * np.square(margin).sum(axis=1), -y * margin

    X, y = DIGITS[0][:400], DIGITS[1][:400]
    model = fitted(data=(X, y), n_components=10, loss=Hinge(), max_iter=5)
    model.save(tmp_path / "model")
    loaded = td.load(tmp_path / "model")
    assert len(loaded._learned.weights) == 10
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("decision", ["auto", "split", "joint"])
def test_partial_fit(decision):
    X, y = DIGITS
    model = td.TaskDrivenClassifier(decision=decision, random_state=0)
    for k in range(0, len(X), 200):
        model.partial_fit(X[k : k + 200], y[k : k + 200], classes=range(10))
    assert model.n_iter_ == 9
    assert model.score(X, y) > 0.9
    found = model.decision_
    assert found == decision or decision == "auto"
    model.partial_fit(X[:50], y[:50])
    assert model.decision_ == found


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_threads_change_nothing(n_threads):
    X, y = DIGITS[0][:500], DIGITS[1][:500]
    reference, model = fitted(data=(X, y), n_threads=1), fitted(data=(X, y), n_threads=n_threads)
    np.testing.assert_array_equal(model.decision_function(X), reference.decision_function(X))
    assert model.held_out_scores_ == reference.held_out_scores_


def test_in_a_pipeline_after_preprocessing():
    pipeline = make_pipeline(td.UnitNorm(), td.TaskDrivenClassifier(random_state=0))
    X, y = DIGITS
    with warnings.catch_warnings(action="ignore", category=td.BaselineWarning):
        assert pipeline.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.93


def test_what_makes_no_sense_together():
    with pytest.raises(ValueError, match="decision='joint' and n_measurements cannot be used together"):
        td.TaskDrivenClassifier(decision="joint", n_measurements=3).fit(*DIGITS)
    assert fitted(n_measurements=12).decision_ == "split"
    assert fitted(positive_code=True).decision_ in ("linear", "joint")
