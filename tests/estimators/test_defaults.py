"""What the task-driven estimators do with all parameters left open."""

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskdict as td
from helpers import DTYPES, digits_split

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
        td.BaselineWarning, match=r"linear model on the signals 0\.\d{3}\. The linear model has the lowest loss"
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
    assert (model.kept_, model.decision_, model.n_iter_) == ("unsupervised", "split", 0)
    assert set(model.held_out_scores_) == {"linear", "unsupervised", "task_driven"}
    assert np.isfinite(model.decision_function(X)).all()


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
