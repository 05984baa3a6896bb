"""Cases of bits.py on model files, checkpoints and interrupted trainings: each yields names and values."""

from __future__ import annotations

import itertools
import pickle
import shutil
from pathlib import Path

import numpy as np

import taskdict as td
from bits_common import (
    ATOMS,
    COLOUR,
    DIGITS,
    GREY,
    LEARNERS,
    METHODS,
    PARTLY,
    RAW,
    RUN,
    TEST,
    WORDS,
    X64,
    Interrupt,
    InterruptedLoss,
    LogCosh,
    X,
    Y,
    build,
    error_of,
    interrupted_fit,
    learned,
    learner,
    load,
)
from bits_images import PLANKS, STRIPES, image_classifier, restorer, sensing, voter

CORPUS = Path(__file__).parents[1] / "tests" / "fuzz" / "corpus" / "models"
UNFINISHED = "unfinished-checkpoint"


def interrupted():
    """Trainings that are interrupted in their stream, and resumed from a checkpoint."""
    kinds = {
        "classifier": (learner, Y),
        "classifier mus": (lambda **named: learner(mu=(0.5, 0.2), multi_class="softmax", **named), PARTLY),
        "classifier adaptive": (lambda **named: learner(learning_rate="adaptive", early_stopping=True, **named), Y % 3),
        "classifier Z": (lambda **named: learner(n_measurements=9, learning_rate="auto", **named), Y % 2),
        "regressor": (lambda **named: learner("regressor", views=[slice(30), slice(20, 64)], **named), RAW[:, 2:5]),
        "sensing": (sensing, None),
        "sensing fixed": (lambda **named: sensing(learn_transform=False, transform_init="random", **named), X64),
    }
    for (name, (make, y)), call in itertools.product(kinds.items(), (4, 6)):  # the first 10 batches call no stream
        path = RUN.folder / f"{name}-{call}"
        model = interrupted_fit(make(checkpoint=path), td.stream(X, y, random_state=3, preprocess=Interrupt(call)))
        yield from learned(f"{name} {call} before", model, TEST)
        model = make(checkpoint=path).fit(td.stream(X, y, random_state=3, preprocess=Interrupt()))
        yield from learned(f"{name} {call} resumed", model, TEST)
        whole = make().fit(td.stream(X, y, random_state=3))
        yield f"{name} {call} like uninterrupted", bool((whole.coef_ == model.coef_).all())
    for kind, streamed, rate in itertools.product(LEARNERS, (False, True), (0.1, "adaptive")):
        name, y = f"loss of {kind} {streamed} {rate}", Y % 2 if kind == "classifier" else RAW[:, 2:4] / 16
        given = {"learning_rate": rate, "checkpoint": RUN.folder / f"{kind} {streamed} {rate}"}
        count = InterruptedLoss()
        whole = learner(kind, learning_rate=rate, loss=count).fit(*pairs_of(y, streamed))
        calls = -count.interrupt.left  # in all; the last ones compare what was learned with its average
        model = interrupted_fit(learner(kind, loss=InterruptedLoss(calls - 10), **given), *pairs_of(y, streamed))
        yield from learned(f"{name} before", model, TEST)
        model = learner(kind, loss=LogCosh(), **given).fit(*pairs_of(y, streamed))
        yield from learned(f"{name} resumed", model, TEST)
        yield f"{name} like uninterrupted", bool((whole.coef_ == model.coef_).all())


def pairs_of(y, streamed):
    return (td.stream(X, y, random_state=3),) if streamed else (X, y)


def models():
    """Yield one or more models of each kind, with a probe and the methods that take it."""
    yield "SparseCoder", build(td.SparseCoder, ATOMS, lambda1=0.1, lambda2=0.02, positive=True).fit(X), TEST, METHODS
    dictionary = build(td.DictionaryLearning, 20, lambda1=0.1, max_iter=10, batch_size=64, random_state=1)
    yield "DictionaryLearning", dictionary.fit(X64), TEST, METHODS
    yield "TaskDrivenClassifier", learner().fit(X, Y), TEST, METHODS
    yield "TaskDrivenClassifier-ovo", learner(multi_class="ovo", n_components=5).fit(X, WORDS), TEST, METHODS
    yield "TaskDrivenClassifier-Z", learner(multi_class="softmax", n_measurements=9).fit(X64, Y), TEST, METHODS
    mus = learner(mu=[0.8, 0.3], learning_rate=("adaptive", 0.02), decision="bilinear", multi_class="onehot")
    yield "TaskDrivenClassifier-mus", mus.fit(X, PARTLY), TEST, METHODS
    yield "TaskDrivenRegressor", learner("regressor", positive_code=True).fit(X, RAW[:, 5]), TEST, METHODS
    views = learner("regressor", views=[slice(0, 40), [3, 50, 41]], n_components=(6, 3), loss="squared")
    yield "TaskDrivenRegressor-views", views.fit(X, RAW[:, 2:6]), TEST, METHODS
    yield "CompressedSensing", sensing().fit(X), TEST, METHODS
    yield "CompressedSensing-given", sensing(dictionary=ATOMS[:24]).fit(X64), TEST, METHODS
    images = DIGITS.images[1000:1050]
    yield "ImageClassifier", image_classifier(n_directions=20, pool=4).fit(DIGITS.images[:500], Y), images, METHODS
    yield "ImageRestorer", restorer().fit([GREY], degrade=td.images.degrade.jarvis), COLOUR, ["restore"]
    refined = restorer(refine=0.03).fit([COLOUR], degrade=td.images.degrade.blur)
    yield "ImageRestorer-refine", refined, COLOUR, ["restore"]
    larger = restorer(upscale=2, overlap="plain").fit([GREY], degrade=td.images.degrade.downsample)
    yield "ImageRestorer-upscale", larger, GREY, ["restore"]
    voting = voter(inner={"decision": "bilinear"}).fit(
        [*STRIPES[:2], *PLANKS[:2]], ["stripes", "stripes", "planks", "planks"]
    )
    yield "PatchVotingClassifier", voting, [STRIPES[4], PLANKS[4]], ["votes", "predict"]


def reloaded(name, path, probe, methods):
    """Yield what a model in a file has learned, and what it learns from there on."""
    model = load(path)
    yield from learned(name, model, probe, methods)
    given = model.get_params(deep=False)  # functions and threads are not in files
    for key in sorted(given):
        if not key.startswith(("callback", "n_threads")):
            yield f"{name} parameter {key}", repr(given[key])
    if not hasattr(model, "partial_fit") or name.startswith("CompressedSensing"):
        return
    y = model.classes_[Y % len(model.classes_)] if hasattr(model, "classes_") else RAW[:, 2:6]
    y = RAW[:, 5] if name == "TaskDrivenRegressor" else y
    yield from learned(
        f"{name} learns on", model.partial_fit(X[:100].astype(model.components_.dtype), y[:100]), probe, methods
    )


def round_trips():
    for name, model, probe, methods in models():
        path = RUN.folder / name
        model.save(path)
        yield from reloaded(name, path, probe, methods)
        yield from learned(f"{name} pickled", pickle.loads(pickle.dumps(model)), probe, methods)


def corpus():
    """Yield what is in the stored model files, or the names of errors."""
    for path in sorted(CORPUS.iterdir()):
        file = shutil.copy(path, RUN.folder / "file")
        yield f"{path.name} loads", error_of(td.load, file)
        if error_of(td.load, file) == "nothing":
            model = load(file)
            if hasattr(model, "channels_"):
                image = GREY if model.channels_ == 1 else COLOUR
                yield from learned(path.name, model, image, ["restore", "vote_map"])
            else:
                shape = getattr(model, "shape_", None) or (model.n_features_in_,)
                yield from learned(path.name, model, 20 * np.resize(X64, (20, *shape)))


def resumable(path):
    return learner(mu=(0.6, 0.3), multi_class="softmax", learning_rate="adaptive", checkpoint=path)


def write_files(folder) -> None:
    """Write a file for each kind of model, and a checkpoint of a training that was interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, model, _, _ in models():
        model.save(folder / f"{name}.safetensors")
    (folder / UNFINISHED).unlink(missing_ok=True)
    model = resumable(folder / UNFINISHED)
    interrupted_fit(model, td.stream(X, PARTLY, random_state=3, preprocess=Interrupt(12)))


def files():
    """Yield what is in the files that were written when the digests were recorded."""
    for name, _, probe, methods in models():
        yield from reloaded(name, RUN.files / f"{name}.safetensors", probe, methods)
    path = shutil.copy(RUN.files / UNFINISHED, RUN.folder / "checkpoint")
    yield from learned("unfinished", load(path), TEST)
    yield from learned("resumed", resumable(path).fit(td.stream(X, PARTLY, random_state=3)), TEST)
