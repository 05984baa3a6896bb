"""Parameters of a task-driven training: each check's message, and what a setting decides."""

import re

import numpy as np
import pytest

import taskdict as td
from taskdict._learning.models import MODELS
from taskdict._learning.scaling import Scaling
from taskdict._learning.task_settings import CHECKS, RateChoice, TaskSettings, default_components

LOSSES = ("logistic", "squared")


def parsed(**parameters):
    return TaskSettings.parse(td.TaskDrivenClassifier(**parameters).get_params(deep=False), LOSSES)


def test_every_parameter_of_the_model_has_a_check():
    machine = {"checkpoint", "random_state", "n_threads", "verbose", "callbacks", "sparse_output"}
    assert {*CHECKS, "loss"} == {*td.TaskDrivenClassifier().get_params()} - machine


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be a positive integer, got 0."),
        ({"n_components": 2.5}, TypeError, "n_components must be a positive integer, got 2.5."),
        ({"n_components": (3, 0)}, ValueError, "n_components must be a positive integer, got 0."),
        ({"n_components": []}, ValueError, "n_components must name at least one dictionary, got an empty sequence."),
        ({"lambda1": -1}, ValueError, "lambda1 must be finite and at least 0, got -1.0."),
        ({"lambda2": None}, TypeError, "lambda2 must be a real number, got None."),
        ({"nu": np.inf}, ValueError, "nu must be finite and at least 0, got inf."),
        ({"nu2": "a"}, TypeError, "nu2 must be a real number, got 'a'."),
        ({"loss": "hinge"}, ValueError, "loss must be one of 'logistic', 'squared' or a loss, got 'hinge'."),
        ({"loss": 3}, TypeError, "loss must be a string or have a method evaluate or evaluate_codes, see taskdict"),
        ({"loss": td.losses.SquaredLoss}, TypeError, "loss must be a string or have a method evaluate"),
        (
            {"decision": "cubic"},
            ValueError,
            "decision must be one of 'auto', 'linear', 'split', 'joint', 'bilinear', got 'cubic'.",
        ),
        ({"mu": 1.5}, ValueError, "mu must be between 0 and 1, got 1.5."),
        ({"mu": []}, ValueError, "mu must be a number or a sequence of numbers between 0 and 1, got an empty"),
        ({"mu": "a"}, TypeError, "mu must be a real number, got 'a'."),
        ({"n_measurements": 0}, ValueError, "n_measurements must be a positive integer, got 0."),
        (
            {"n_measurements": 2, "transform_init": "dct"},
            ValueError,
            "transform_init must be 'pca', 'random' or an array, got 'dct'.",
        ),
        ({"positive_code": 1}, TypeError, "positive_code must be True or False, got 1."),
        ({"positive_dictionary": "no"}, TypeError, "positive_dictionary must be True or False, got 'no'."),
        ({"fit_intercept": None}, TypeError, "fit_intercept must be True or False, got None."),
        ({"average": 0}, TypeError, "average must be True or False, got 0."),
        ({"early_stopping": "yes"}, TypeError, "early_stopping must be True, False or 'auto', got 'yes'."),
        ({"warm_start": 1}, TypeError, "warm_start must be True or False, got 1."),
        ({"coef_set": 3}, TypeError, "coef_set must have a method project, see taskdict.constraints, or be None"),
        ({"transform_set": len}, TypeError, "transform_set must have a method project"),
        ({"batch_size": 0}, ValueError, "batch_size must be a positive integer, got 0."),
        ({"max_iter": 0}, ValueError, "max_iter must be a positive integer, got 0."),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change must be a positive integer, got 0."),
        ({"learning_rate": "fast"}, ValueError, "learning_rate must be 'auto', a positive number, 'adaptive', or"),
        ({"learning_rate": 0}, ValueError, "learning_rate must be 'auto', a positive number"),
        ({"learning_rate": ("adaptive", -1)}, ValueError, "learning_rate must be 'auto', a positive number"),
        ({"learning_rate": ("slow", 1)}, ValueError, "learning_rate must be 'auto', a positive number"),
        ({"learning_rate": None}, TypeError, "learning_rate must be a real number, got None."),
        ({"validation_fraction": 1.0}, ValueError, "validation_fraction must be between 0 and 1, and 0 only without"),
        (
            {"validation_fraction": 0, "early_stopping": True},
            ValueError,
            "validation_fraction must be between 0 and 1, and 0 only without early_stopping, got 0.0.",
        ),
        (
            {"multi_class": "all"},
            ValueError,
            "multi_class must be one of 'auto', 'ovr', 'ovo', 'softmax', 'onehot', got 'all'",
        ),
        ({"class_weight": 3}, ValueError, "class_weight must be a dict, 'balanced' or None, got 3."),
        ({"views": []}, TypeError, "views must be a list of slices or of lists of features, or None, got []."),
        (
            {"views": [slice(0, 2), slice(2, 4)], "n_components": (3, 4, 5)},
            ValueError,
            "n_components names 3 dictionaries, but there are 2 views.",
        ),
        (
            {"views": [slice(0, 2)], "n_measurements": 2},
            ValueError,
            "views and n_measurements cannot be used together: measurements mix all features.",
        ),
        ({"dictionary_init": "pca"}, ValueError, "dictionary_init must be 'classes', an array or None, got 'pca'."),
        (
            {"dictionary_init": "classes", "n_components": (3, 4)},
            ValueError,
            "dictionary_init='classes' is for one dictionary per model, not for several or views.",
        ),
        (
            {"loss": td.losses.SquaredLoss(), "multi_class": "softmax"},
            ValueError,
            "multi_class='softmax' has a loss of its own: a loss object is for 'ovr' and 'ovo'.",
        ),
    ],
)
def test_messages(parameters, error, message):
    with pytest.raises(error, match=re.escape(message)):
        parsed(**parameters)


def test_a_regressor_has_no_classes_to_start_from():
    parameters = td.TaskDrivenRegressor(dictionary_init="classes").get_params(deep=False)
    with pytest.raises(TypeError, match="dictionary_init must be an array or None, got 'classes'"):
        TaskSettings.parse(parameters, ("squared",))


def test_values_are_of_one_kind():
    settings = parsed(n_components=np.int64(3), lambda1=np.float32(0.5), mu=0.25, max_iter=np.int32(7))
    assert settings.n_components == (3,)
    assert settings.lambda1 == 0.5
    assert settings.mu == (0.25,)
    assert [type(value) for value in (settings.lambda1, settings.max_iter)] == [float, int]
    assert parsed(mu=np.array([1, 0.5])).mu == (1.0, 0.5)
    assert parsed(n_components=4, views=[slice(0, 2), [3, 2]]).n_components == (4, 4)
    assert parsed(n_components=[4, 5]).n_components == (4, 5)


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ("auto", RateChoice(None)),
        ("adaptive", RateChoice(None, True)),
        (("adaptive", 0.1), RateChoice(None, True, 0.1)),
        (["adaptive", 1], RateChoice(None, True, 1.0)),
        (3, RateChoice(3.0)),
    ],
)
def test_learning_rates(value, choice):
    assert parsed(learning_rate=value).learning_rate == choice


def test_schedule():
    settings = parsed(
        max_iter=50, mu=(1.0, 0.5), learning_rate=("adaptive", 0.1), early_stopping=True, n_iter_no_change=3
    )
    schedule = settings.schedule(Scaling(2.0, (0.5,)))
    assert (schedule.max_iter, schedule.mus, schedule.adaptive, schedule.first_pace) == (50, (1.0, 0.5), True, 0.1)
    assert (schedule.rho, schedule.patience, schedule.reconstruction) == (None, 3, 16.0)
    assert schedule.relative_nu  # unless nu is given
    assert not parsed(nu=0.1, max_iter=5).schedule(Scaling()).relative_nu
    assert parsed(learning_rate=2, max_iter=5).schedule(Scaling()).rho == 2
    assert parsed(max_iter=5).schedule(Scaling()).patience is None


def test_a_validation_part_where_there_is_something_to_choose():
    assert parsed(early_stopping=True).validation(100) == 0.1
    assert parsed(mu=(0.5, 0.1), validation_fraction=0.2).validation(100) == 0.2
    for given in ({"early_stopping": False}, {"max_iter": 100}, {"validation_fraction": 0}):
        assert parsed(**given).validation(100_000) == 0
        assert not parsed(**given).is_tried
    assert parsed().validation(4999) == 0  # a trial on a part of the samples instead
    assert parsed().is_tried
    assert parsed().validation(5000) == 0.1
    assert parsed().validation(200_000) == pytest.approx(0.01)  # enough samples
    assert parsed().validation(None) == 0.1


def test_the_number_of_batches():
    assert parsed(max_iter=7).n_batches(10**9) == 7
    assert parsed().n_batches(10) == 60
    assert parsed().n_batches(5000) == 300  # twelve passes in batches of 200
    assert parsed(batch_size=100).n_batches(5000) == 600
    assert parsed().n_batches(10**6) == parsed().n_batches(None) == 1000


def test_models():
    assert parsed().decisions == ("split", "joint")
    assert parsed(positive_code=True).decisions == ("linear", "joint")
    assert parsed(n_measurements=3).decisions == ("split",)
    for decision, model in MODELS.items():
        assert parsed(decision=decision).decisions == (decision,)
        assert isinstance(parsed(decision=decision).model, model)


def test_sizes():
    assert default_components(10, 4) == 4
    assert default_components(1000, 5000) == 256
    assert default_components(3, 0) == 1
    assert parsed().sizes(10, 400) == (40,)  # four for each feature
    assert parsed().sizes(100, 400) == (100,)
    assert parsed().sizes(100, 3000) == (200,)
    assert parsed().sizes(100, 10**6) == (256,)
    assert parsed().sizes(100, 30) == (15,)  # half as many as signals
    assert parsed().sizes(100, 1) == (1,)
    assert parsed(n_measurements=5).sizes(100, 400) == (20,)
    assert parsed(views=[slice(0, 4), slice(4, 10)]).sizes(10, 400) == (40, 40)
    assert parsed(n_components=(3, 4)).sizes(10, 2) == (3, 4)


def test_dictionaries_of_a_model():
    assert parsed(n_components=3).parts((3,), 10) == ()
    first, second = parsed(n_components=(3, 4)).parts((3, 4), 10)
    assert (first.atoms, second.atoms) == (slice(0, 3), slice(3, 7))
    assert first.features is None
    settings = parsed(n_components=2, views=[slice(1, 3), [5, 0], slice(-2, None)])
    parts = settings.parts(settings.n_components, 8)
    assert [part.features.tolist() for part in parts] == [[1, 2], [5, 0], [6, 7]]
    for bad in ([8], [1, 1], slice(3, 3), "ab", 3, [[1, 2]]):
        with pytest.raises(ValueError, match=r"views\[0\] must be a slice or a list of different features below 8"):
            parsed(n_components=2, views=[bad]).parts((2,), 8)
