"""Which classes a file may hold, and a look into a checkpoint without its estimator."""

import numpy as np
import pytest

import taskdict as td
from contracts import CASES, X, interrupted
from taskdict._files import registry, storage
from taskdict._files.checkpoint import check_checkpoint, peek

CLASSIFIER = CASES["TaskDrivenClassifier"]


def test_the_public_estimators_are_registered():
    assert {cls: getattr(td, cls) for cls in registry.CLASSES} == registry.CLASSES


def test_a_class_registers_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "CLASSES", {})

    @registry.register
    class Sum:
        """A class with a file."""

        @classmethod
        def _from_file(cls, arrays, document):
            if document["count"] != len(arrays["numbers"]):
                raise ValueError("its numbers do not fit their count")
            return arrays["numbers"].sum()

    storage.write(tmp_path / "file", "Sum", {"numbers": np.arange(4.0)}, {"count": 4})
    assert td.load(tmp_path / "file") == 6
    storage.write(tmp_path / "file", "Sum", {"numbers": np.arange(4.0)}, {"count": 3})
    with pytest.raises(td.ModelFileError, match="is not a sound model: its numbers do not fit their count"):
        td.load(tmp_path / "file")
    storage.write(tmp_path / "file", "Other", {}, {})
    with pytest.raises(td.ModelFileError, match="holds a 'Other', which this version of taskdict does not know"):
        td.load(tmp_path / "file")


def test_peek_at_a_checkpoint(tmp_path):
    interrupted(CLASSIFIER, 3, checkpoint=tmp_path / "state")
    found = peek(tmp_path / "state")
    assert found.kind == "TaskDrivenClassifier"
    assert found.parameters["n_components"] == 5
    assert "checkpoint" not in found.parameters
    assert found.position["kind"] == "arrays"
    assert found.begin is None  # an array has no stream


def test_peek_at_the_beginning_of_a_stream(tmp_path):
    stream = td.stream(X, X[:, :2], random_state=3)
    begin = stream.state()
    CASES["TaskDrivenRegressor"].make(checkpoint=tmp_path / "state").fit(stream)
    found = peek(str(tmp_path / "state"))
    assert found.begin == begin
    stream.restore(found.begin)


def test_peek_at_nothing(tmp_path):
    assert peek(None) is None
    assert peek(tmp_path / "absent") is None
    (tmp_path / "text").write_text("no model")
    with pytest.raises(td.ModelFileError, match="is not a model file"):
        peek(tmp_path / "text")


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("learned"),
        lambda document: document.pop("parameters"),
        lambda document: document.update(parameters={"n_components": {"set": [1]}}),
        lambda document: document.update(learned=3),
    ],
)
def test_peek_at_a_checkpoint_that_is_not_sound(tmp_path, change):
    CLASSIFIER.whole.save(tmp_path / "state")
    arrays, document = storage.read(tmp_path / "state")
    change(document)
    rest = {name: document[name] for name in document if name not in ("format", "taskdict", "class")}
    storage.write(tmp_path / "state", document["class"], arrays, rest)
    assert peek(tmp_path / "state") is None  # the fit that resumes it says what is wrong


def test_a_place_that_makes_no_sense_is_ignored(tmp_path):
    CLASSIFIER.whole.save(tmp_path / "state")
    arrays, document = storage.read(tmp_path / "state")
    document["learned"]["position"] = [3]
    rest = {name: document[name] for name in document if name not in ("format", "taskdict", "class")}
    storage.write(tmp_path / "state", document["class"], arrays, rest)
    assert peek(tmp_path / "state").position is None
    assert peek(tmp_path / "state").begin is None


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (3, TypeError, "checkpoint must be the path of a file or None, got 3"),
        ("", FileNotFoundError, "checkpoint must be the path of a file in a folder that exists, got ''"),
        ("absent/state", FileNotFoundError, "checkpoint must be the path of a file in a folder that exists"),
        (".", IsADirectoryError, "checkpoint must be the path of a regular file, but '.' is a directory"),
    ],
)
def test_paths_of_checkpoints(path, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        check_checkpoint(path)
    check_checkpoint(None)
    check_checkpoint("state")
    assert not list(tmp_path.iterdir())
