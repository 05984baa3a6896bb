"""Learning from several threads at once is refused; using a model that learns is not."""

import copy
import threading

import pytest
from sklearn.base import clone

from contracts import CASES, assert_learned_the_same, set_inner
from taskdict._common import exclusive

LEARNERS = {name: case for name, case in CASES.items() if case.takes("callbacks")}


class Gate:
    """A callback that waits in the first batch until it is let go."""

    def __init__(self):
        self.reached, self.go = threading.Event(), threading.Event()

    def __call__(self, progress):
        self.reached.set()
        self.go.wait()

    def __deepcopy__(self, memo):
        return self  # so that clones wait at the same gate


@pytest.mark.parametrize("name", LEARNERS)
def test_a_second_fit_is_refused(name):
    case, gate = LEARNERS[name], Gate()
    model = case.make(callbacks=gate)
    thread = threading.Thread(target=model.fit, args=case.data, kwargs=case.keywords)
    thread.start()
    gate.reached.wait()
    message = rf"of this {type(model).__name__} was called from another thread while its fit runs"
    try:
        for method in ("fit", "partial_fit"):
            if hasattr(model, method):
                with pytest.raises(RuntimeError, match=f"{method} {message}"):
                    getattr(model, method)(*case.data)
        for copied in (clone(model), copy.deepcopy(model)):  # these are others
            set_inner(case, copied, callbacks=None).fit(*case.data, **case.keywords)
    finally:
        gate.go.set()
        thread.join()
    assert_learned_the_same(case, model, case.whole)
    model.fit(*case.data, **case.keywords)  # it is free again
    assert exclusive._learning == {}


def test_fit_in_a_callback_is_refused():
    case = LEARNERS["DictionaryLearning"]
    model = case.make(callbacks=lambda progress: progress.model.partial_fit(*case.data))
    with pytest.raises(RuntimeError, match="was called from a callback or signal handler while its fit runs"):
        model.fit(*case.data)
    model.set_params(callbacks=None).fit(*case.data)  # an error sets it free


@pytest.mark.parametrize("name", ["DictionaryLearning", "TaskDrivenClassifier", "TaskDrivenRegressor"])
def test_a_model_may_be_used_while_it_learns(name):
    """Other threads see it as it was after a whole batch."""
    case, outputs, stop, seen = LEARNERS[name], [], threading.Event(), []

    def keep_using():
        while not stop.is_set():
            outputs.append(case.use(model).tobytes())

    model = case.make(callbacks=lambda progress: seen.append(case.use(progress.model).tobytes()))
    model.fit(*case.data).set_params(max_iter=60, warm_start=True)
    thread = threading.Thread(target=keep_using)
    thread.start()
    model.fit(*case.data)
    stop.set()
    thread.join()
    assert len(set(seen)) > 10
    assert set(outputs) <= set(seen)
