"""A pickle of another version that lacks what this one needs says what is missing."""

import copy
import dataclasses
import pickle

import pytest

from contracts import CASES
from taskdict._files import persistent


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
        ("TaskDrivenRegressor", ["_learned", "training", "nu"], "Training.nu"),
        ("TaskDrivenRegressor", ["_learned", "training", "state", "weights"], "State.weights"),
        ("DictionaryLearning", ["_learner", "state", "last_used"], "OnlineState.last_used"),
    ],
)
def test_missing_in_another_version(name, names, missing, monkeypatch):
    damaged = without(CASES[name].whole, *names)
    with monkeypatch.context() as patch:
        patch.setattr(persistent, "version", lambda _: "0.0.1")
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

    assert list(persistent._missing([Record, Record(3)])) == []
