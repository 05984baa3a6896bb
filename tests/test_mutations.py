"""Damaged and crafted files do no harm, whatever class of model or format of image they claim to hold."""

import json

import numpy as np
import pytest
from sklearn.base import clone

import taskdict as td
from mutations import crafted, small_models
from taskdict import loading, storage
from taskdict.estimators._parameters import NOT_IN_FILES

MODELS = small_models()


def test_every_class_is_among_them():
    assert {type(model).__name__ for model in MODELS.values()} == set(loading._CLASSES)


def fit(model):
    """Train a model again, on signals like those of `small_models`."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 16)), rng.integers(0, 3, 60)
    images = [rng.random((20, 24)) for _ in range(3)]
    if isinstance(model, td.ImageRestorer):
        return model.fit(
            images[:1], degrade=td.images.degrade.downsample if model.upscale == 2 else lambda image: image
        )
    if isinstance(model, td.PatchVotingClassifier):
        return model.fit(images, [0, 1, 0])
    if isinstance(model, td.ImageClassifier):
        return model.fit(X.reshape(-1, 4, 4), y)
    return model.fit(X, X[:, 0] if isinstance(model, td.TaskDrivenRegressor) else y)


@pytest.mark.parametrize("name", MODELS)
def test_a_file_cannot_name_another_one(name, tmp_path, capfd, monkeypatch):
    """What says how a training runs is not read: a crafted file made fit replace any file, or print."""
    notes, path = tmp_path / "notes.txt", tmp_path / "model"
    MODELS[name].save(path)
    arrays, document = storage.read(path)
    for inside in (document, document.get("classifier", {})):
        inside.get("parameters", {}).update(checkpoint=str(notes), warm_start=True, verbose=2, n_threads=1)
        inside.get("parameters", {}).update(callbacks={"list": []}, callback=None)
    path.write_bytes(crafted(arrays, document))
    model = td.load(path)
    for estimator in (model, getattr(model, "classifier", None), getattr(model, "classifier_", None)):
        if estimator is not None:
            parameters = estimator.get_params(deep=False)
            assert {parameters[key] for key in NOT_IN_FILES if key in parameters} <= {None, False}
    monkeypatch.chdir(tmp_path)
    for before in (None, b"my notes"):
        if before is not None:
            notes.write_bytes(before)
        fit(model)
        assert {file.name for file in tmp_path.iterdir()} == {"model", *(["notes.txt"] if before else [])}
        assert before is None or notes.read_bytes() == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", MODELS)
def test_no_path_is_published(name, tmp_path):
    """Neither the checkpoint of the author nor where the signals came from is in a file, nor how a training ran."""
    model, place = clone(MODELS[name]), str(tmp_path / "of_the_author")
    for key in model.get_params(deep=True):
        last = key.split("__")[-1]
        if last in NOT_IN_FILES:
            values = {"checkpoint": place, "verbose": 0, "n_threads": 1, "warm_start": True}
            model.set_params(**{key: values.get(last)})
    fit(model).save(tmp_path / "model")
    arrays, document = storage.read(tmp_path / "model")
    assert "of_the_author" not in json.dumps(document)
    text = json.dumps(document) + " ".join(arrays)
    assert not [key for key in NOT_IN_FILES if f'"{key}"' in text or f"parameter {key}" in text]


def test_files_of_signals_are_not_published(tmp_path):
    np.save(tmp_path / "of_the_author.npy", np.random.default_rng(0).standard_normal((60, 16)))
    for model in (td.DictionaryLearning(5, lambda1=0.1, max_iter=3), td.CompressedSensing(5, 8, max_iter=3)):
        model.fit(td.stream(tmp_path / "of_the_author.npy")).save(tmp_path / "model")
        assert b"of_the_author" not in (tmp_path / "model").read_bytes()
