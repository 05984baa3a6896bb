"""Pickles carry the version of taskdict, and say what is wrong when another one loads them."""

import copy
import dataclasses
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import taskdict as td
from helpers import random_problem
from taskdict.estimators import _versions

X, D = random_problem(60, 16, 8)
LABELS = np.arange(60) % 2
IMAGES = np.random.default_rng(0).random((6, 12, 12))
QUICK = {"max_iter": 2, "random_state": 0}


def estimators():
    task = td.TaskDrivenClassifier(5, lambda1=0.1, **QUICK)
    yield td.SparseCoder(D).fit(X)
    yield td.DictionaryLearning(5, lambda1=0.1, **QUICK).fit(X)
    yield clone(task).fit(X, LABELS)
    yield td.TaskDrivenRegressor(5, lambda1=0.1, **QUICK).fit(X, LABELS)
    yield td.CompressedSensing(4, 5, **QUICK).fit(X)
    yield td.UnitNorm().fit(X)
    yield td.ImageClassifier(clone(task)).fit(IMAGES, [0, 1] * 3)
    yield td.ImageRestorer(4, 5, **QUICK).fit(IMAGES, degrade=td.images.degrade.floyd_steinberg)
    yield td.PatchVotingClassifier(clone(task), patch_size=4, n_patches=50, random_state=0).fit(IMAGES, ["a", "b"] * 3)


MODELS = {type(model).__name__: model for model in estimators()}
each = pytest.mark.parametrize("name", MODELS)


def test_all_estimators_are_here():
    public = {name for name in td.__all__ if hasattr(getattr(td, name), "get_params")}
    assert public == set(MODELS)


def use(model):
    """Return numbers that depend on what was learned."""
    if isinstance(model, td.ImageRestorer):
        return model.restore(IMAGES[0])
    if isinstance(model, td.PatchVotingClassifier):
        return model.votes(IMAGES)
    if isinstance(model, td.ImageClassifier):
        return model.decision_function(IMAGES)
    if isinstance(model, td.CompressedSensing):
        return model.reconstruct(model.sense(X))
    if isinstance(model, td.UnitNorm):
        return model.transform(X)
    return model.transform(X).toarray()


@each
def test_the_same_version(name):
    model = MODELS[name]
    before = dict(vars(model))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(use(other), use(model))
        assert vars(other).keys() == before.keys()
    assert vars(model) == before


@each
@pytest.mark.parametrize("theirs", ["0.0.1", "9.9", None])
def test_another_version(name, theirs, monkeypatch):
    model = MODELS[name]
    with monkeypatch.context() as patch:
        patch.setattr(_versions, "version", lambda _: theirs)
        pickled = pickle.dumps(model)
        if theirs is None:  # of a version that named none
            patch.setattr(_versions.VersionedEstimator, "__getstate__", lambda self: dict(vars(self)))
            pickled = pickle.dumps(model)
    origin = "an earlier version of taskdict" if theirs is None else f"taskdict {theirs}"
    message = f"this {name} was pickled by {origin}, but this is taskdict {td.__version__}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        other = pickle.loads(pickled)
    assert message in str(caught[-1].message)
    assert {warning.category for warning in caught} == {td.VersionWarning}
    np.testing.assert_array_equal(use(other), use(model))
    again = pickle.loads(pickle.dumps(other))  # of this version, without a warning
    np.testing.assert_array_equal(use(again), use(model))


def without(value, *names):
    """Return a copy of an object without an attribute of it or of what it holds."""
    changed = copy.copy(value)
    first, *rest = names
    if rest:
        vars(changed)[first] = without(vars(value)[first], *rest)
    else:
        del vars(changed)[first]
    return changed


@pytest.mark.parametrize(
    ("name", "names", "missing"),
    [
        ("TaskDrivenClassifier", ["views"], "views"),
        ("TaskDrivenRegressor", ["_training", "nu"], "Training.nu"),
        ("TaskDrivenRegressor", ["_training", "state", "parameters"], "State.parameters"),
        ("DictionaryLearning", ["_learner", "state", "last_used"], "State.last_used"),
    ],
)
def test_what_another_version_did_not_store(name, names, missing, monkeypatch):
    damaged = without(MODELS[name], *names)
    with monkeypatch.context() as patch:
        patch.setattr(_versions, "version", lambda _: "0.0.1")
        pickled = pickle.dumps(damaged)
    with pytest.raises(
        ValueError, match=rf"was pickled by taskdict 0.0.1 and has no {missing}, which taskdict .* needs"
    ):
        pickle.loads(pickled)


def test_classes_are_no_records():
    """A parameter may be a class; only its instances have fields."""

    @dataclasses.dataclass
    class Record:
        field: int

    assert list(_versions._missing([Record, Record(3)])) == []
