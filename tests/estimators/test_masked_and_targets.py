"""Masked arrays are refused wherever arrays come in; targets of a kind that makes no sense are named."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import taskdict as td
from helpers import random_problem

N = 60
X, D = random_problem(N, 16, 8)
Y = np.arange(N) % 2
IMAGES = np.random.default_rng(0).random((6, 12, 12))
LABELS = np.array([0, 1] * 3)
QUICK = {"max_iter": 2, "random_state": 0}

task = td.TaskDrivenClassifier(5, lambda1=0.1, **QUICK)
regression = td.TaskDrivenRegressor(5, lambda1=0.1, **QUICK)
dictionary = td.DictionaryLearning(5, lambda1=0.1, **QUICK)
sensing = td.CompressedSensing(4, 5, **QUICK)
images = td.ImageClassifier(task)
restorer = td.ImageRestorer(4, 5, **QUICK)
voting = td.PatchVotingClassifier(task, patch_size=4, n_patches=50, random_state=0)
halftone = td.images.degrade.floyd_steinberg


@pytest.fixture(scope="module")
def fitted():
    return {
        "task": clone(task).fit(X, Y),
        "regression": clone(regression).fit(X, Y),
        "dictionary": clone(dictionary).fit(X),
        "sensing": clone(sensing).fit(X),
        "images": clone(images).fit(IMAGES, LABELS),
        "restorer": clone(restorer).fit(IMAGES, degrade=halftone),
        "voting": clone(voting).fit(IMAGES, LABELS),
        "coder": td.SparseCoder(D).fit(X),
        "unit": td.UnitNorm().fit(X),
    }


def masked(array):
    array = np.ma.masked_array(np.array(array))
    array[0] = np.ma.masked
    return array


# Name of the argument, and a call with it masked; `f` holds fitted models.
MASKED = [
    ("X", lambda f: td.sparse_encode(masked(X), D, lambda1=0.1)),
    ("X", lambda f: td.sparse_encode(list(masked(X)), D, lambda1=0.1)),
    ("dictionary", lambda f: td.sparse_encode(X, masked(D), lambda1=0.1)),
    ("dictionary", lambda f: td.SparseCoder(masked(D)).fit(X)),
    ("X", lambda f: td.SparseCoder(D).fit(masked(X))),
    ("X", lambda f: f["coder"].transform(masked(X))),
    ("codes", lambda f: f["coder"].inverse_transform(masked(np.ones((3, 8))))),
    ("X", lambda f: td.UnitNorm().fit(masked(X))),
    ("X", lambda f: f["unit"].transform(masked(X))),
    ("X", lambda f: f["unit"].transform(list(masked(X)))),
    ("X", lambda f: td.suggest_parameters(masked(X))),
    ("y", lambda f: td.suggest_parameters(X, masked(Y))),
    ("X", lambda f: clone(dictionary).fit(masked(X))),
    ("X", lambda f: clone(dictionary).partial_fit(masked(X))),
    ("X", lambda f: f["dictionary"].transform(masked(X))),
    ("X", lambda f: f["dictionary"].score(masked(X))),
    ("dictionary_init", lambda f: clone(dictionary).set_params(dictionary_init=masked(D[:5])).fit(X)),
    ("the source of a stream", lambda f: td.stream(masked(X))),
    ("y", lambda f: td.stream(X, masked(Y))),
    ("an item of the iterator", lambda f: td.stream(iter([masked(X)])).take(3)),
    ("an item of the iterator", lambda f: td.stream(iter(list(masked(X)))).take(3)),
    ("an item of the iterator", lambda f: td.stream(iter([(masked(X), Y)]), "pairs").take_pairs(3)),
    ("y", lambda f: td.stream(iter([(X, masked(Y))]), "pairs").take_pairs(3)),
    ("what preprocess returned", lambda f: td.stream(X, preprocess=masked).take(3)),
    ("images", lambda f: td.streams.ImageStream(masked(IMAGES))),
    ("images", lambda f: td.streams.ImageStream(list(masked(IMAGES)))),
    ("y", lambda f: td.streams.ImageStream(IMAGES, masked(LABELS))),
    ("directions", lambda f: td.streams.ImageStream(IMAGES, directions=masked(np.ones((3, 144))))),
    ("X", lambda f: clone(images).fit(masked(IMAGES), LABELS)),
    ("y", lambda f: clone(images).fit(IMAGES, masked(LABELS))),
    ("X", lambda f: f["images"].predict(masked(IMAGES))),
    ("X", lambda f: f["images"].predict(masked(IMAGES.reshape(6, -1)))),
    ("X", lambda f: f["images"].transform(list(masked(IMAGES)))),
    ("damaged image 0", lambda f: clone(restorer).fit([(masked(IMAGES[0]), IMAGES[0])])),
    ("clean image 0", lambda f: clone(restorer).fit([(IMAGES[0], masked(IMAGES[0]))])),
    ("image", lambda f: clone(restorer).fit([masked(IMAGES[0])], degrade=halftone)),
    ("damaged image 0", lambda f: clone(restorer).fit([IMAGES[0]], degrade=masked)),
    ("image", lambda f: f["restorer"].restore(masked(IMAGES[0]))),
    ("images[0]", lambda f: clone(voting).fit(masked(IMAGES), LABELS)),
    ("labels", lambda f: clone(voting).fit(IMAGES, masked(LABELS))),
    ("images[0]", lambda f: f["voting"].predict([masked(IMAGES[0])])),
    ("images[0]", lambda f: f["voting"].vote_map(masked(IMAGES[0]))),
    ("images[1]", lambda f: f["voting"].compare(IMAGES[0], masked(IMAGES[1]), 0)),
    ("X", lambda f: clone(sensing).fit(masked(X))),
    ("y", lambda f: clone(sensing).fit(X, masked(X))),
    ("X", lambda f: clone(sensing).partial_fit(masked(X))),
    ("y", lambda f: clone(sensing).partial_fit(X, masked(X))),
    ("X", lambda f: f["sensing"].sense(masked(X))),
    ("X", lambda f: f["sensing"].score(masked(X))),
    ("y", lambda f: f["sensing"].score(X, masked(X))),
    ("measurements", lambda f: f["sensing"].reconstruct(masked(np.ones((3, 4))))),
    ("measurements", lambda f: f["sensing"].reconstruct(list(masked(np.ones((3, 4)))))),
    ("transform_init", lambda f: clone(sensing).set_params(transform_init=masked(np.ones((4, 16)))).fit(X)),
    ("dictionary", lambda f: clone(sensing).set_params(dictionary=masked(D[:5])).fit(X)),
    ("image", lambda f: td.images.denoise(masked(IMAGES[0]), 0.1, patch_size=4)),
    ("image", lambda f: td.images.sense(f["sensing"], masked(IMAGES[0]))),
    ("image", lambda f: halftone(masked(IMAGES[0]))),
    ("X", lambda f: clone(task).fit(masked(X), Y)),
    ("y", lambda f: clone(task).fit(X, masked(Y))),
    ("sample_weight", lambda f: clone(task).fit(X, Y, masked(np.ones(N)))),
    ("classes", lambda f: clone(task).fit(X, Y, classes=masked([0, 1]))),
    ("X", lambda f: clone(task).partial_fit(masked(X), Y, [0, 1])),
    ("y", lambda f: clone(task).partial_fit(X, masked(Y), [0, 1])),
    ("classes", lambda f: clone(task).partial_fit(X, Y, masked([0, 1]))),
    ("dictionary_init", lambda f: clone(task).set_params(dictionary_init=masked(D[:5])).fit(X, Y)),
    ("X", lambda f: f["task"].predict(masked(X))),
    ("X", lambda f: f["task"].predict_proba(masked(X))),
    ("X", lambda f: f["task"].transform(masked(X))),
    ("X", lambda f: clone(regression).fit(masked(X), Y)),
    ("y", lambda f: clone(regression).fit(X, masked(Y))),
    ("y", lambda f: clone(regression).partial_fit(X, masked(Y))),
    ("sample_weight", lambda f: clone(regression).fit(X, Y, masked(np.ones(N)))),
    (
        "transform_init",
        lambda f: clone(regression).set_params(n_measurements=3, transform_init=masked(np.ones((3, 16)))).fit(X, Y),
    ),
    ("X", lambda f: f["regression"].predict(masked(X))),
]


@pytest.mark.parametrize(("name", "call"), MASKED, ids=[f"{k} {name}" for k, (name, _) in enumerate(MASKED)])
def test_masked_arrays_are_refused(fitted, name, call):
    with pytest.raises(TypeError, match=re.escape(f"{name} must not be a masked array: fill")):
        call(fitted)


CLASSIFIED = {
    "array": lambda y: clone(task).fit(X, y),
    "partial": lambda y: clone(task).partial_fit(X, y, [0, 1]),
    "stream": lambda y: clone(task).fit(td.stream(X, y)),
    "pairs": lambda y: clone(task).fit(td.stream(lambda: iter([(X, y)]), "pairs"), classes=[0, 1]),
    "images": lambda y: clone(images).fit(np.repeat(IMAGES, 10, axis=0), y),
    "voting": lambda y: clone(voting).fit(np.repeat(IMAGES, 10, axis=0), y),
}
REGRESSED = {
    "array": lambda y: clone(regression).fit(X, y),
    "partial": lambda y: clone(regression).partial_fit(X, y),
    "stream": lambda y: clone(regression).fit(td.stream(X, y)),
    "pairs": lambda y: clone(regression).fit(td.stream(lambda: iter([(X, y)]), "pairs")),
    "sensing": lambda y: clone(sensing).fit(X, y),
    "sensing partial": lambda y: clone(sensing).partial_fit(X, y),
    "sensing stream": lambda y: clone(sensing).fit(td.stream(X, y)),
    "sensing given": lambda y: clone(sensing).set_params(dictionary=D[:5]).fit(td.stream(X, y)),
}
NEITHER = {
    "complex": (Y + 0.5j, TypeError, "must hold .*numbers.*, got dtype complex128"),
    "dates": (Y.astype("datetime64[D]"), TypeError, r"must hold .*numbers.*, got dtype datetime64\[D\]"),
    "durations": (Y.astype("timedelta64[s]"), TypeError, r"must hold .*numbers.*, got dtype timedelta64\[s\]"),
    "bytes": (np.array([b"a", b"b"] * 30), TypeError, r"must hold .*numbers.*, got dtype \|S1"),
    "records": (np.zeros(N, "V4"), TypeError, r"must hold .*numbers.*, got dtype \|V4"),
    "objects": (np.array([{}] * N), TypeError, r"must hold .*numbers.*, got dtype object with \{\} in it"),
    "none": (np.array([1, None] * 30), TypeError, "must hold .*numbers.*, got dtype object with .* in it"),
    "mixed": (np.array([1, "a"] * 30, object), TypeError, "must hold .*numbers.*, got dtype object with .* in it"),
    "sparse": (sp.csr_array(np.ones((N, 1))), TypeError, "must be dense, got a sparse array"),
    "cube": (np.zeros((N, 2, 2)), ValueError, r"must have one .*got shape \(60, 2, 2\)"),
    "no columns": (np.zeros((N, 0)), ValueError, r"must have one .*got shape \(60, 0\)"),
    "nan": (np.where(Y, np.nan, 1.0), ValueError, r"must be finite, but row \d+ contains NaN or infinity"),
}


@pytest.mark.parametrize("kind", NEITHER)
@pytest.mark.parametrize("way", CLASSIFIED)
def test_labels_that_make_no_sense(way, kind):
    y, error, message = NEITHER[kind]
    with pytest.raises(error, match=f"^(Unknown label type: )?{'labels' if way == 'voting' else 'y'} {message}"):
        CLASSIFIED[way](y)


@pytest.mark.parametrize("kind", NEITHER)
@pytest.mark.parametrize("way", REGRESSED)
def test_targets_that_make_no_sense(way, kind):
    y, error, message = NEITHER[kind]
    with pytest.raises(error, match=f"^y {message}"):
        REGRESSED[way](y)


@pytest.mark.parametrize("way", REGRESSED)
@pytest.mark.parametrize("y", [np.array(["a", "b"] * 30), np.array(["1", "2"] * 30)])
def test_strings_are_no_targets_of_a_regression(way, y):
    with pytest.raises(TypeError, match=r"^y must hold real numbers, got dtype <U1"):
        REGRESSED[way](y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((CLASSIFIED[way], "^y has 0 entries, but there are 60") for way in ("array", "partial", "images")),
        (CLASSIFIED["voting"], "^labels has 0 entries, but there are 60 images"),
        (CLASSIFIED["stream"], "^y has 0 targets, but there are 60 signals"),
        (CLASSIFIED["pairs"], "gave a pair of 60 signals and 0 targets"),
        (REGRESSED["array"], "^y has 0 targets, but X has 60 signals"),
        (REGRESSED["partial"], "^y has 0 targets, but X has 60 signals"),
        (REGRESSED["stream"], "^y has 0 targets, but there are 60 signals"),
        (REGRESSED["pairs"], "gave a pair of 60 signals and 0 targets"),
        (REGRESSED["sensing"], r"^y must have 60 rows, as X has, got shape \(0,\)"),
        (REGRESSED["sensing partial"], r"^y must have 60 rows, as X has, got shape \(0,\)"),
        (REGRESSED["sensing stream"], "^y has 0 targets, but there are 60 signals"),
    ],
)
def test_no_targets(call, message):
    with pytest.raises(ValueError, match=message):
        call(Y[:0])


def test_objects_that_are_strings_or_numbers():
    names = np.array(["a", "b"] * 30)
    expected = clone(task).fit(X, names)
    np.testing.assert_array_equal(clone(task).fit(X, names.astype(object)).components_, expected.components_)
    expected = clone(regression).fit(X, Y.astype(float))
    np.testing.assert_array_equal(clone(regression).fit(X, Y.astype(object)).components_, expected.components_)


@pytest.mark.parametrize(
    ("weights", "dtype"), [(np.ones(N, complex), "complex128"), (["1"] * N, "<U1"), ([None] * N, "object")]
)
def test_weights_that_are_no_numbers(weights, dtype):
    for model in (task, regression):
        with pytest.raises(TypeError, match=f"^sample_weight must hold real numbers, got dtype {dtype}"):
            clone(model).fit(X, Y, weights)


def test_signals_that_are_dates(fitted):
    dates = np.zeros((N, 16), "datetime64[D]")
    calls = [
        clone(sensing).fit,
        clone(dictionary).fit,
        td.UnitNorm().fit,
        fitted["task"].predict,
        fitted["sensing"].sense,
        lambda X: clone(task).fit(X, Y),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"^X must hold real numbers, got dtype datetime64\[D\]"):
            call(dates)
