"""Learning from several threads at once is refused; using a model that learns is not."""

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

import taskdict as td
from helpers import random_problem
from taskdict import _exclusive

X, D = random_problem(300, 16, 8)
LABELS = np.arange(300) % 2
IMAGES = np.random.default_rng(0).random((6, 12, 12))
TASK = td.TaskDrivenClassifier(5, lambda1=0.1, max_iter=3, random_state=0)
LEARNERS = {
    "DictionaryLearning": (td.DictionaryLearning(5, lambda1=0.1, max_iter=3, random_state=0), (X,)),
    "TaskDrivenClassifier": (TASK, (X, LABELS)),
    "TaskDrivenRegressor": (td.TaskDrivenRegressor(5, lambda1=0.1, max_iter=3, random_state=0), (X, LABELS)),
    "CompressedSensing": (td.CompressedSensing(4, 5, max_iter=3, random_state=0), (X,)),
    "ImageClassifier": (td.ImageClassifier(TASK, random_state=0), (IMAGES, [0, 1] * 3)),
    "ImageRestorer": (
        td.ImageRestorer(4, 5, max_iter=3, random_state=0),
        ([(image, image) for image in IMAGES],),
    ),
    "PatchVotingClassifier": (
        td.PatchVotingClassifier(TASK, patch_size=4, n_patches=50, random_state=0),
        (IMAGES, ["a", "b"] * 3),
    ),
}


class Gate:
    """A callback that waits in the first batch until it is let go."""

    def __init__(self):
        self.reached, self.go = threading.Event(), threading.Event()

    def __call__(self, progress):
        self.reached.set()
        self.go.wait()

    def __deepcopy__(self, memo):
        return self  # so that clones wait at the same gate


def with_callback(model, callback):
    names = {"DictionaryLearning": "callback"}
    names |= dict.fromkeys(("ImageClassifier", "PatchVotingClassifier"), "classifier__callbacks")
    return clone(model).set_params(**{names.get(type(model).__name__, "callbacks"): callback})


@pytest.mark.parametrize("name", LEARNERS)
def test_a_second_fit_is_refused(name):
    blank, data = LEARNERS[name]
    expected = pickle.dumps(learned(clone(blank).fit(*data)))
    gate = Gate()
    model = with_callback(blank, gate)
    thread = threading.Thread(target=model.fit, args=data)
    thread.start()
    gate.reached.wait()
    try:
        for method in ("fit", "partial_fit"):
            if hasattr(model, method):
                with pytest.raises(
                    RuntimeError, match=rf"{method} of this {name} was called from another thread while its fit runs"
                ):
                    getattr(model, method)(*data)
        for copied in (clone(model), copy.deepcopy(model)):  # these are others
            with_callback(copied, None).fit(*data)
    finally:
        gate.go.set()
        thread.join()
    assert pickle.dumps(learned(model)) == expected
    model.fit(*data)  # it is free again
    assert _exclusive._learning == {}


def learned(model):
    """Return what depends on the training of a model."""
    inner = getattr(model, "classifier_", model)
    return np.asarray(inner.components_), np.asarray(getattr(inner, "coef_", 0))


def test_fit_in_a_callback_is_refused():
    model = td.DictionaryLearning(5, lambda1=0.1, max_iter=3, callback=lambda progress: progress.model.partial_fit(X))
    with pytest.raises(RuntimeError, match="was called from a callback or signal handler while its fit runs"):
        model.fit(X)
    model.set_params(callback=None).fit(X)  # an error sets it free


@pytest.mark.parametrize("name", ["DictionaryLearning", "TaskDrivenClassifier", "TaskDrivenRegressor"])
def test_a_model_may_be_used_while_it_learns(name):
    """Other threads see it as it was after a whole batch."""
    blank, data = LEARNERS[name]
    outputs, stop, seen = [], threading.Event(), []

    def output(model):
        method = next(name for name in ("decision_function", "predict", "transform") if hasattr(model, name))
        found = getattr(model, method)(X)
        return (found.toarray() if method == "transform" else found).tobytes()

    def keep_using():
        while not stop.is_set():
            outputs.append(output(model))

    model = with_callback(blank, lambda progress: seen.append(output(progress.model)))
    model.fit(*data).set_params(max_iter=60, warm_start=True)
    thread = threading.Thread(target=keep_using)
    thread.start()
    model.fit(*data)
    stop.set()
    thread.join()
    assert len(set(seen)) > 10
    assert set(outputs) <= set(seen)
