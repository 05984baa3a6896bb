"""Damaged and crafted files do no harm, whatever class of model or format of image they claim to hold."""

import contextlib
import json
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

import taskdict as td
from mutations import crafted, mutated_images, mutated_models, small_images, small_models, use
from taskdict._common.deprecation import DEPRECATED
from taskdict._files import registry, storage
from taskdict._files.values import NOT_IN_FILES
from taskdict.images.io import ImageFileError, read_image

MODELS, IMAGES = small_models(), small_images()
pytestmark = pytest.mark.filterwarnings("ignore::taskdict.BaselineWarning")  # the models learn hardly anything
N = 100  # mutations of each


def test_every_class_is_among_them():
    assert {type(model).__name__ for model in MODELS.values()} == set(registry.CLASSES)


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
            assert {parameters[key] for key in NOT_IN_FILES if key in parameters} <= {None, False, DEPRECATED}
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
            values = {"checkpoint": place, "verbose": 0, "n_threads": 1, "warm_start": True, "callback": DEPRECATED}
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


def check_messages(refused):
    """Check that errors name the file, in a line that is safe to print."""
    assert len(refused) > 10
    for message in refused:
        assert "damaged" in message
        assert message.isprintable()
        assert len(message) < 1000


@pytest.mark.parametrize("name", MODELS)
def test_mutated_models(name, tmp_path):
    """They are refused by ModelFileError with the name of the file, or are models: then they work or say why not."""
    path, damaged = tmp_path / "model", tmp_path / "damaged"
    MODELS[name].save(path)
    mutations = mutated_models(np.random.default_rng(0), path)
    refused = []
    for _ in range(N // 4 if "refine" in name else N):
        damaged.write_bytes(next(mutations))
        try:
            model = td.load(damaged)
        except td.ModelFileError as error:
            refused.append(str(error))
            continue
        with contextlib.suppress(ValueError):
            use(model)
    check_messages(refused)


@pytest.mark.parametrize("name", IMAGES)
def test_mutated_images(name, tmp_path):
    mutations, refused = mutated_images(np.random.default_rng(0), IMAGES[name]), []
    for _ in range(N):
        (tmp_path / "damaged").write_bytes(next(mutations))
        try:
            read_image(tmp_path / "damaged")
        except ImageFileError as error:
            refused.append(str(error))
    check_messages(refused)


def bomb(name, arrays, document):
    """Change a model to one that asks for far more memory than its file has."""
    if name == "labels":  # each would take as much as the longest
        document["learned"]["classes"] = [*(f"a{k:06}" for k in range(100_000)), "b" * 1_000_000]
    elif name == "pairs of classes":
        document["learned"]["classes"] = [f"a{k:06}" for k in range(20_000)]
        document["parameters"]["multi_class"] = "ovo"
        arrays["b"] = np.zeros((1, 20_000), arrays["b"].dtype)
    else:  # arrays of nothing, of enormous shapes
        document["parameters"]["n_components"] = 2**40
        arrays["D"], arrays["W"], arrays["b"] = (
            np.empty(shape, np.float64) for shape in ((3, 2**40, 0), (3, 0, 2**20), (3, 0))
        )


@pytest.mark.parametrize("name", ["labels", "pairs of classes", "empty arrays"])
def test_bombs_are_refused_before_memory_is_taken(name, tmp_path):
    path = tmp_path / "model"
    MODELS["TaskDrivenClassifier"].save(path)
    arrays, document = storage.read(path)
    bomb(name, arrays, document)
    path.write_bytes(crafted(arrays, document))
    tracemalloc.start()
    try:
        with pytest.raises(td.ModelFileError):
            td.load(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 100e6


def test_shifts_beyond_an_image_are_refused(tmp_path):
    """A frame of the width of the largest shift was made around each image."""
    path = tmp_path / "model"
    MODELS["ImageClassifier"].save(path)
    arrays, document = storage.read(path)
    document["parameters"]["pool"] = {"list": [{"list": [0, 10**9]}]}
    path.write_bytes(crafted(arrays, document))
    with pytest.raises(td.ModelFileError, match=r"pool must be smaller than images of shape \(4, 4\)"):
        td.load(path)


def test_a_damaged_file_is_reported_escaped(tmp_path):
    path = tmp_path / "model"
    MODELS["SparseCoder"].save(path)
    arrays, document = storage.read(path)
    document["parameters"]["\x1b[2J\u202e" + "x" * 10_000] = 1
    path.write_bytes(crafted(arrays, document))
    with pytest.raises(td.ModelFileError, match=r"\\x1b\[2J\\u202exxx") as raised:
        td.load(path)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1000
