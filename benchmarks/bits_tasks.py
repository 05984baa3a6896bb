"""Cases of bits.py on tasks, and on more data than is read at once: each yields names and values."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp

import taskdict as td
from bits_common import (
    ATOMS,
    DIGITS,
    LEARNERS,
    PARTLY,
    RAW,
    RUN,
    SPARSE,
    TEST,
    TEST64,
    WEIGHTS,
    WORDS,
    X64,
    LogCosh,
    PredictAndReconstruct,
    X,
    Y,
    build,
    learned,
    learner,
    npy,
)


def classifiers():
    fits = {
        "float32": lambda model: model.fit(X, Y),
        "float64": lambda model: model.fit(X64, Y),
        "raw": lambda model: model.fit(RAW, Y),
        "csr": lambda model: model.fit(SPARSE, Y),
        "weights": lambda model: model.fit(X, Y, WEIGHTS),
        "partly": lambda model: model.fit(X, PARTLY),
        "words": lambda model: model.fit(X, WORDS.astype(object)),
        "two": lambda model: model.fit(X64, np.where(Y < 5, -1, 1)),
        "classes": lambda model: model.fit(X[:300], Y[:300] % 4, classes=range(4)),
        "stream": lambda model: model.fit(td.stream(X, Y, random_state=1)),
        "files": lambda model: model.fit(td.stream(npy("X.npy", X64), npy("y.npy", PARTLY), random_state=1)),
        "pairs": lambda model: model.fit(
            td.stream(lambda: zip(np.split(X, 10), np.split(Y, 10), strict=True), "pairs"), classes=range(10)
        ),
        "images": lambda model: model.fit(
            td.streams.ImageStream(DIGITS.images, DIGITS.target, shifts=4, random_state=1)
        ),
    }
    ball, halves = td.constraints.Ball(2.0), [slice(0, 40), list(range(30, 64))]
    variants = {
        "ovr": (
            {},
            ["float32", "float64", "raw", "csr", "weights", "words", "two", "classes", "stream", "files", "pairs"],
        ),
        "ovo": ({"multi_class": "ovo", "n_components": 6}, ["float32", "two", "words", "stream", "weights"]),
        "softmax": ({"multi_class": "softmax"}, ["float32", "csr", "weights", "two", "images", "words"]),
        "onehot": ({"multi_class": "onehot", "lambda2": 0.02}, ["float64", "weights", "two", "stream"]),
        "squared": ({"loss": "squared", "average": False, "nu": 1e-3}, ["float32", "two"]),
        "own loss": ({"loss": LogCosh(), "multi_class": "ovo"}, ["classes", "two"]),
        "bilinear": ({"decision": "bilinear", "n_components": 7}, ["float32", "two", "raw"]),
        "bilinear positive": ({"decision": "bilinear", "positive_code": True, "multi_class": "softmax"}, ["float32"]),
        "mu": ({"mu": 0.3, "multi_class": "softmax"}, ["partly", "float64", "files"]),
        "mus": ({"mu": (1.0, 0.8, 0.5), "multi_class": "onehot"}, ["partly", "weights", "images", "files"]),
        "mus without validation": ({"mu": (0.9, 0.1), "validation_fraction": 0.0}, ["partly", "two"]),
        "auto": ({"learning_rate": "auto"}, ["two", "classes"]),
        "auto softmax": ({"learning_rate": "auto", "multi_class": "softmax", "lambda1": 0.05}, ["float32", "stream"]),
        "adaptive": ({"learning_rate": "adaptive", "class_weight": "balanced"}, ["classes", "two", "partly"]),
        "pace": ({"learning_rate": ("adaptive", 0.02), "multi_class": "softmax"}, ["float64", "words", "pairs"]),
        "class weight": ({"class_weight": {0: 3.0, 1: 0.5}}, ["classes", "stream"]),
        "early": ({"early_stopping": True, "n_iter_no_change": 3, "max_iter": 60}, ["two", "classes"]),
        "early stream": (
            {"early_stopping": True, "max_iter": 20, "multi_class": "softmax"},
            ["stream", "images", "pairs"],
        ),
        "Z": ({"n_measurements": 10, "nu2": 1e-4}, ["two", "classes"]),
        "random Z": ({"n_measurements": 9, "transform_init": "random", "multi_class": "ovo"}, ["classes"]),
        "given Z": ({"n_measurements": 8, "transform_init": ATOMS[:8], "transform_set": ball}, ["two", "stream"]),
        "views": ({"views": halves, "n_components": (6, 9), "multi_class": "softmax"}, ["float32", "weights"]),
        "parts": ({"n_components": (5, 7, 4)}, ["classes", "two", "csr"]),
        "sets": ({"coef_set": ball, "fit_intercept": False}, ["classes", "two"]),
        "nmf": (
            {"positive_code": True, "positive_dictionary": True, "coef_set": td.constraints.NonNegative()},
            ["raw"],
        ),
        "starts": ({"dictionary_init": "classes"}, ["float32", "two", "stream"]),
        "starts ovo": ({"dictionary_init": "classes", "multi_class": "ovo", "n_components": 5}, ["classes"]),
        "given D": ({"dictionary_init": 3 * ATOMS[:12], "positive_dictionary": True}, ["two", "csr"]),
    }
    for name, (given, chosen) in variants.items():
        for how in chosen:
            yield from learned(
                f"{name} {how}", fits[how](learner(**given)), DIGITS.data[1000:1150] if how == "raw" else TEST
            )
    for name in ("ovr", "softmax", "mu", "adaptive", "Z", "views", "bilinear", "auto"):
        model = learner(**variants[name][0])
        for k in range(0, 200, 40):
            part = slice(k, k + 40)
            model.partial_fit(X[part], Y[part] % 3, classes=range(3) if k == 0 else None, sample_weight=WEIGHTS[part])
        yield from learned(f"partial_fit {name}", model, TEST)
        model.set_params(warm_start=True, max_iter=20).fit(X, Y % 3)
        yield from learned(f"warm {name}", model, TEST64)


def regressors():
    top, bottom, one = X[:, :32], X64[:, 32:], RAW[:, 42]
    fits = {
        "many": lambda model: model.fit(top, bottom),
        "one": lambda model: model.fit(top.astype(np.float64), one, WEIGHTS),
        "csr": lambda model: model.fit(SPARSE[:, :32], bottom[:, :3]),
        "stream": lambda model: model.fit(td.stream(top, bottom, random_state=2)),
        "files": lambda model: model.fit(td.stream(npy("X.npy", top), npy("y.npy", bottom), random_state=2)),
        "pairs": lambda model: model.fit(
            td.stream(lambda: zip(np.split(top, 10), np.split(one, 10), strict=True), "pairs")
        ),
    }
    views = {"views": [slice(0, 16), [20, 3, 31], slice(10, 32, 2)], "n_components": (6, 4, 5)}
    variants = {
        "plain": {},
        "own loss": {"loss": LogCosh()},
        "code loss": {"loss": PredictAndReconstruct(), "learning_rate": 0.1},
        "views": views,
        "auto": {"learning_rate": "auto"},
        "adaptive": {"learning_rate": "adaptive", "mu": (0.5, 0.2)},
        "Z": {"n_measurements": 9, "nu2": 1e-3},
        "bilinear": {"decision": "bilinear", "n_components": 6},
        "early": {"early_stopping": True, "max_iter": 30, "fit_intercept": False},
        "parts": {"n_components": (5, 6)},
        "nmf": {"positive_code": True, "positive_dictionary": True, "lambda2": 0.1, "average": False},
    }
    for (name, given), how in itertools.product(variants.items(), fits):
        yield from learned(
            f"{name} {how}", fits[how](learner("regressor", **{"learning_rate": 0.2, **given})), TEST[:, :32]
        )
    for name in ("plain", "views", "code loss", "Z"):
        model = learner("regressor", **{"learning_rate": 0.2, **variants[name]})
        for k in range(0, 200, 50):
            model.partial_fit(top[k : k + 50], bottom[k : k + 50], WEIGHTS[k : k + 50])
        yield from learned(f"partial_fit {name}", model, TEST[:, :32])


def long():
    """Yield what trainings long enough for all of their schedule learn."""
    given = {"n_components": 8, "max_iter": 500, "batch_size": 20}
    variants = {"adaptive": {"learning_rate": "adaptive"}, "early": {"early_stopping": True}, "mus": {"mu": (0.6, 0.2)}}
    for (name, more), kind in itertools.product(variants.items(), LEARNERS):
        rate = {"learning_rate": 0.2} if kind == "regressor" else {"multi_class": "softmax", "learning_rate": 1.0}
        model = learner(kind, **{**given, **rate, **more})
        yield from learned(f"{kind} {name}", model.fit(X, Y if kind == "classifier" else RAW[:, 42]), TEST)
    sensing = build(td.CompressedSensing, 6, 12, max_iter=500, batch_size=20, random_state=0)
    yield from learned("sensing", sensing.fit(X), TEST)


def large():
    """Yield what is made of more signals than are read, encoded or learned from at once."""
    rng = np.random.default_rng(5)
    many = X64[rng.integers(500, size=34_000)] + 0.03 * rng.standard_normal((34_000, 64))
    single, numbers, labels = (
        many[:21_000].astype(np.float32),
        (100 * many).astype(np.int32),
        many[:, :20].argmax(axis=1),
    )
    for name, data in {
        "float32": single,
        "integers": numbers,
        "sparse": sp.csr_array(np.maximum(many, 0.1) - 0.1),
    }.items():
        yield f"codes {name}", td.sparse_encode(data, 9 * ATOMS[:10], lambda1=0.5, n_threads=RUN.threads)
    stream = td.stream(single, labels[:21_000], random_state=1)
    yield "stream", [stream.take_pairs(9_000), stream.take_pairs(14_000), stream.state()]
    dictionary = build(td.DictionaryLearning, 12, lambda1=0.1, max_iter=15, random_state=0).fit(numbers / 100)
    yield from learned("dictionary", dictionary, single)
    yield "dictionary.score()", dictionary.score(many)
    sensing = {"n_measurements": 5, "n_components": 10, "max_iter": 10, "random_state": 0}
    for kind in ("learned", "unsupervised"):
        model = build(td.CompressedSensing, **sensing, dictionary=kind).fit(single)
        yield from learned(f"sensing {kind}", model, single[:9_000])
    some = {"n_components": 8, "multi_class": "softmax", "max_iter": 10}
    yield from learned("array", learner(**some).fit(single, labels[:21_000]), single[:9_000])
    yield from learned("from stream", learner(**some).fit(stream), many[:9_000])
    images = td.ImageClassifier(learner(**some), shifts=4, n_directions=9, pool=4, random_state=0)
    yield from learned("images", images.fit(single[:5_000].reshape(-1, 8, 8), labels[:5_000]), single[:5_000])
