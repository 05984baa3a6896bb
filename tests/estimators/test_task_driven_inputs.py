"""Bad input for the task-driven estimators: a clear error that names the argument, and nothing is lost."""

import numpy as np
import pytest

import taskdict as td
from helpers import random_problem

X, _ = random_problem(120, 8, 1)
Y = np.arange(120) % 3


def quick(**parameters):
    return td.TaskDrivenClassifier(**{"n_components": 5, "max_iter": 5, "random_state": 0, **parameters})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mu": 1.5}, "mu must be between 0 and 1"),
        ({"mu": (0.5, -0.1)}, "mu must be between 0 and 1"),
        ({"mu": ()}, "mu .* empty"),
        ({"lambda1": -1.0}, "lambda1 must be finite and at least 0"),
        ({"lambda2": np.nan}, "lambda2 must be finite"),
        ({"nu": -1}, "nu must be"),
        ({"nu2": -1}, "nu2 must be"),
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"n_components": ()}, "n_components must name at least one"),
        ({"n_components": (3, 4), "views": [[0]]}, "2 dictionaries, but there are 1 views"),
        ({"views": [[0, 1], [9]]}, r"views\[1\] must be a slice or a list of different features below 8"),
        ({"views": [[0, 0]]}, r"views\[0\]"),
        ({"views": [[0]], "n_measurements": 3}, "views and n_measurements"),
        ({"n_measurements": 9}, "n_measurements=9 must be at most the number of features, 8"),
        ({"n_measurements": 3, "transform_init": "best"}, "transform_init must be 'pca', 'random' or an array"),
        ({"n_measurements": 3, "transform_init": np.ones((2, 8))}, r"transform_init must have shape .*\(3, 8\)"),
        ({"dictionary_init": np.ones((4, 8))}, r"dictionary_init must have shape .*\(5, 8\)"),
        ({"loss": "hinge"}, "loss must be one of 'logistic', 'squared' or a loss"),
        ({"multi_class": "all"}, "multi_class must be one of"),
        ({"decision": "cubic"}, "decision must be one of 'auto', 'linear', 'split', 'joint', 'bilinear'"),
        ({"learning_rate": 0.0}, "learning_rate must be 'auto', a positive number, 'adaptive'"),
        ({"learning_rate": "fast"}, "learning_rate must be 'auto', a positive number, 'adaptive'"),
        ({"learning_rate": ("adaptive", 0)}, r"or \('adaptive', pace\) with a positive number"),
        ({"learning_rate": ("auto", 0.1)}, r"or \('adaptive', pace\) with a positive number"),
        ({"early_stopping": True, "validation_fraction": 1.0}, "validation_fraction must be between 0 and 1"),
        ({"early_stopping": True, "validation_fraction": 0.0}, "0 only without early_stopping"),
        ({"dictionary_init": "class"}, "dictionary_init must be"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"batch_size": -3}, "batch_size must be a positive integer"),
        ({"verbose": -1}, "verbose must be"),
        ({"class_weight": {0: -1, 1: 1, 2: 1}}, "class_weight must be finite, not negative"),
        ({"class_weight": {0: np.nan, 1: 1, 2: 1}}, "class_weight must be finite, not negative"),
        ({"class_weight": "even"}, "class_weight must be a dict, 'balanced' or None"),
        ({"loss": td.losses.SquaredLoss(), "multi_class": "softmax"}, "multi_class='softmax' has a loss of its own"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        quick(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": 3}, "loss must be a string or have a method evaluate"),
        ({"coef_set": 3}, "coef_set must have a method project"),
        ({"transform_set": 3}, "transform_set must have a method project"),
        ({"checkpoint": 3}, "checkpoint must be the path of a file"),
        ({"callbacks": 3}, "callbacks must be a function"),
        ({"mu": "half"}, "mu must be a real number"),
        ({"loss": td.losses.SquaredLoss}, "loss must be a string or have a method evaluate"),
        ({"views": 3}, "views must be a list of slices"),
        ({"fit_intercept": 1}, "fit_intercept must be True or False"),
    ],
)
def test_bad_types(parameters, message):
    with pytest.raises(TypeError, match=message):
        quick(**parameters).fit(X, Y)


def test_bad_targets():
    with pytest.raises(ValueError, match="at least two classes, got 1 class"):
        quick().fit(X, np.zeros(120, int))
    with pytest.raises(ValueError, match="at least two classes, got 1 class"):
        quick(mu=0.5).fit(X, np.where(Y == 0, -1, 7))
    with pytest.raises(ValueError, match="got 0 class"):
        quick(mu=0.5).fit(X, np.full(120, -1))
    with pytest.raises(ValueError, match="y has 119 entries, but there are 120 signals"):
        quick().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="y must be finite, but row 4"):
        quick().fit(X, np.where(np.arange(120) == 4, np.nan, Y))
    regressor = td.TaskDrivenRegressor(5, max_iter=5)
    with pytest.raises(ValueError, match="y must be finite, but row 4"):
        regressor.fit(X, np.where(np.arange(120) == 4, np.nan, Y))
    with pytest.raises(ValueError, match="y has 119 targets, but X has 120 signals"):
        regressor.fit(X, Y[:-1])
    with pytest.raises(TypeError, match="y must hold real numbers"):
        regressor.fit(X, np.array(["a"] * 120))
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        regressor.fit(X, Y, sample_weight=[1, 2])
    with pytest.raises(ValueError, match="sample_weight must be finite, not negative"):
        regressor.fit(X, Y, sample_weight=-np.ones(120))
    for model in (regressor, quick()):
        assert not hasattr(model, "n_features_in_")


def test_bad_signals():
    broken = X.copy()
    broken[17, 2] = np.nan
    for mu, y in ((0.0, Y), (0.5, np.where(np.arange(120) == 17, -1, Y))):
        with pytest.raises(ValueError, match="X must be finite, but row 17 contains NaN or infinity"):
            quick(mu=mu).fit(broken, y)
    model = quick().fit(X, Y)
    with pytest.raises(ValueError, match="row 17 contains NaN"):
        model.predict(broken)
    before = model.coef_
    with pytest.raises(ValueError, match=r"X must be finite, but row 17 .* is kept"):
        model.partial_fit(broken, Y)
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :5])


def test_bad_signal_in_the_middle_of_a_stream():
    def pairs():
        for k in range(400):
            x = np.random.default_rng(k).standard_normal((200, 6))
            if k == 150:
                x[3, 3] = np.inf
            yield x, (x[:, 0] > 0).astype(int)

    model = quick(max_iter=300)
    with pytest.raises(ValueError, match=r"signal 3 of a batch of the stream .* is kept"):
        model.fit(td.stream(pairs, "pairs"), classes=[0, 1])
    assert model.n_iter_ == 150
    model.predict(np.ones((2, 6)))


def test_unlabelled_signals_are_asked_for():
    """With μ = 0, labels −1 may be those of a class: nothing is left out without a word."""
    y = np.where(Y == 2, -1, Y)
    for make in (quick, td.TaskDrivenClassifier):
        with pytest.raises(ValueError, match=r"y has 40 labels -1, .* but mu is 0.*If -1 is one of your classes"):
            make().fit(X, y)
    with pytest.raises(ValueError, match="y has 40 labels -1"):
        quick().partial_fit(X, y, classes=[0, 1])
    assert quick(mu=0.1).fit(X, y).classes_.tolist() == [0, 1]
    assert quick().fit(X, np.where(Y == 2, -1, 1)).classes_.tolist() == [-1, 1]


@pytest.mark.parametrize("rate", [1e4, 1e9, 1e200])
def test_a_learning_rate_that_diverges(rate):
    y = 10.0 * X[:, :2]
    start = td.TaskDrivenRegressor(5, max_iter=1, learning_rate=1e-12, random_state=0).fit(X, y)
    model = td.TaskDrivenRegressor(5, max_iter=2000, learning_rate=rate, random_state=0)
    with pytest.raises(td.DivergedError, match=r"diverges: .*Take a smaller learning rate.*is kept"):
        model.fit(X, y)
    assert model.score(X, y) > start.score(X, y) - 1
    classifier = quick(multi_class="softmax", max_iter=200, learning_rate=rate)
    with pytest.raises(td.DivergedError, match="diverges"):
        classifier.fit(X, Y)
    assert np.isfinite(classifier.decision_function(X)).all()


def test_checkpoint_of_another_model(tmp_path):
    path = tmp_path / "state"
    quick(checkpoint=path).fit(X, Y)
    with pytest.raises(ValueError, match=r"belongs to a TaskDrivenClassifier with max_iter=5, .* max_iter=6"):
        quick(checkpoint=path, max_iter=6).fit(X, Y)
    with pytest.raises(ValueError, match=r"random_state=0, .* random_state=1"):
        quick(checkpoint=path, random_state=1).fit(X, Y)
    with pytest.raises(ValueError, match="belongs to a TaskDrivenClassifier, but this is a TaskDrivenRegressor"):
        td.TaskDrivenRegressor(5, max_iter=5, checkpoint=path).fit(X, Y)
    with pytest.raises(ValueError, match="other data"):
        quick(checkpoint=path).fit(X[::-1], Y)
    with pytest.raises(ValueError, match="other data"):
        quick(checkpoint=path).fit(X, Y[::-1])
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(td.ModelFileError):
        quick(checkpoint=path).fit(X, Y)
    for bad in (tmp_path / "nowhere" / "state", ""):
        with pytest.raises(FileNotFoundError, match="checkpoint must be the path of a file in a folder that exists"):
            quick(checkpoint=bad).fit(X, Y)


def test_sizes_that_the_dtype_cannot_hold():
    with pytest.raises(ValueError, match=r"X is of size .*e\+160, too far from one"):
        quick().fit(1e160 * X, Y)
    with pytest.raises(ValueError, match=r"X is of size .*e-30, too far from one to compute with in float32"):
        quick().fit((1e-30 * X).astype(np.float32), Y)
    with pytest.raises(ValueError, match=r"y is of size .*e\+1.., too far from one"):
        td.TaskDrivenRegressor(5, max_iter=5).fit(X, 1e160 * X[:, 0])
    regressor = td.TaskDrivenRegressor(5, max_iter=5, random_state=0).fit(X, 1e6 * X[:, 0])
    with pytest.raises(ValueError, match="row 1 that is too large to compute with"):
        regressor.predict(np.array([X[0], 1e306 * X[0]]))
    np.testing.assert_array_equal(
        quick().fit(X, Y, sample_weight=np.full(120, 1e308)).coef_, quick().fit(X, Y, sample_weight=np.ones(120)).coef_
    )


def test_labels_that_cannot_be():
    with pytest.raises(TypeError, match="y must hold numbers or strings, got dtype datetime64"):
        quick().fit(X, Y.astype("M8[D]"))


@pytest.mark.parametrize("shape", [(120, 1), (1,)])
def test_own_loss_with_wrong_shapes(shape):
    class Wrong:
        def evaluate(self, y, scores):
            return np.zeros(shape), scores - y

    with pytest.raises(ValueError, match=r"loss.evaluate must return the values"):
        td.TaskDrivenRegressor(5, loss=Wrong()).fit(X, X[:, 0])


def test_partial_fit_needs_the_classes():
    with pytest.raises(ValueError, match="classes must be passed in the first call"):
        quick().partial_fit(X, Y)
    model = quick().partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not the same as in the first call"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"label 7.*not among the classes"):
        model.partial_fit(X, Y + 7)
    model.partial_fit(X[Y < 2], Y[Y < 2])  # not all classes need be there
    model = quick(mu=0.2)
    for _ in range(2):
        model.partial_fit(X, Y - 1, classes=[-1, 0, 1])  # -1 does not count
    assert model.classes_.tolist() == [0, 1]


def test_streams_are_refused_where_they_make_no_sense():
    for model in (quick(), td.TaskDrivenRegressor(5)):
        with pytest.raises(TypeError, match="X is a stream of signals only"):
            model.fit(td.stream(X))
        with pytest.raises(TypeError, match="X must be an array, got a stream"):
            model.partial_fit(
                td.stream(X, Y), None, **({"classes": [0, 1, 2]} if isinstance(model, td.TaskDrivenClassifier) else {})
            )
    with pytest.raises(ValueError, match="all unlabelled"):
        quick().fit(td.stream(X, np.full(120, -1)), classes=[0, 1])
    with pytest.raises(ValueError, match="unlabelled signals"):
        quick().fit(td.stream(X, np.where(Y == 2, -1, Y)))
    with pytest.raises(TypeError, match="y and sample_weight must be None for a stream"):
        quick().fit(td.stream(X, Y), Y)
    with pytest.raises(ValueError, match="classes must be passed to fit a stream"):
        quick().fit(td.stream(lambda: iter([(X, Y)]), "pairs"))
    with pytest.raises(ValueError, match="y has 119 targets, but there are 120 signals"):
        td.stream(X, Y[:-1])
    with pytest.raises(TypeError, match="fit"):
        quick().fit("signals.npy", Y)
    with pytest.raises(ValueError, match="requires y"):
        quick().fit(X)


def test_changed_parameters_with_warm_start():
    model = quick(warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="n_components is 7, but the model has 5 atoms"):
        model.set_params(n_components=7).fit(X, Y)
    model.set_params(n_components=5, max_iter=8).fit(X, Y)
    assert model.n_iter_ == 8


def test_more_atoms_than_signals():
    model = quick(n_components=50).fit(X[:9], Y[:9])
    assert model.components_.shape == (50, 8)
    assert np.isfinite(model.decision_function(X)).all()


def test_codes_of_zero_warn():
    with pytest.warns(UserWarning, match="codes of all signals are zero: lambda1=100 is too large"):
        quick(lambda1=100.0).fit(X, Y)
    with pytest.warns(UserWarning, match="codes of all signals are zero"):
        model = quick().fit(np.zeros((30, 4)), Y[:30])
    assert np.isfinite(model.decision_function(np.zeros((3, 4)))).all()
