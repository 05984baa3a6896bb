"""Small trainings of every learner, which leave checkpoints; run by a child process that may be killed at any moment.

    python -m campaign_kinds.trainings NAME

works in the current folder: the checkpoint is `state`, the learned model `model` when the training is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import taskdict as td
from taskdict._learning import trainer, training_run
from taskdict.images import degrade

STATE = "state"


def _signals(n: int = 400, m: int = 20) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, m))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.1)


def _images(n: int = 4) -> list[Any]:
    steps = np.arange(48)
    return [np.add.outer(np.sin(steps / (3 + k)), np.cos(steps / (4 + k))) / 4 + 0.5 for k in range(n)]


def _classifier(**parameters: Any) -> Any:
    settings = {"lambda1": 0.1, "max_iter": 60, "batch_size": 30, "random_state": 0, **parameters}
    return td.TaskDrivenClassifier(12, **settings)


def _classify(**parameters: Any) -> Any:
    return _classifier(checkpoint=STATE, **parameters).fit(*_signals())


def _semi_supervised() -> Any:
    X, y = _signals()
    y = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    model = _classifier(checkpoint=STATE, mu=(0.9, 0.5), max_iter=40, multi_class="softmax")
    return model.fit(X, y)


def _regress(**parameters: Any) -> Any:
    X, _ = _signals()
    settings = {"lambda1": 0.1, "max_iter": 80, "batch_size": 20, "random_state": 0, "checkpoint": STATE, **parameters}
    return td.TaskDrivenRegressor(10, **settings).fit(X, X[:, :3])


def _guarded(**parameters: Any) -> Any:
    """A training in which the guard against divergence acts: some targets lead astray."""
    trainer.DIVERGENCE_FACTOR = 0.5  # 1e3 in use; less, so that it acts a few times
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    Y = X[:, :2] + 0.1 * rng.standard_normal((300, 2))
    Y[::12] *= 30
    settings = {"lambda1": 0.1, "max_iter": 80, "batch_size": 4, "random_state": 0, "checkpoint": STATE, **parameters}
    return td.TaskDrivenRegressor(5, **settings).fit(X, Y)


def _dictionary() -> Any:
    """It has no checkpoints of its own: a callback saves the model, which is loaded and learns on."""
    X, _ = _signals(2000)
    model = td.load(STATE) if os.path.exists(STATE) else td.DictionaryLearning(15, lambda1=0.1, random_state=0)
    model.set_params(
        max_iter=60, batch_size=100, warm_start=True, callbacks=lambda progress: progress.model.save(STATE)
    )
    return model.fit(X).set_params(callbacks=None)


def _streamed() -> Any:
    X, y = _signals()
    if not os.path.exists("X.npy"):
        np.save("part.npy", X)
        os.replace("part.npy", "X.npy")
    model = _classifier(checkpoint=STATE, multi_class="softmax")
    return model.fit(td.stream("X.npy", y, random_state=1))


def _image_classifier() -> Any:
    X, y = _signals(200, 64)
    inner = _classifier(checkpoint=STATE, max_iter=40)
    return td.ImageClassifier(inner, shifts=4, bend=1.0, n_directions=20, random_state=0).fit(X.reshape(-1, 8, 8), y)


def _voting() -> Any:
    images = _images()
    inner = _classifier(checkpoint=STATE, max_iter=50)
    model = td.PatchVotingClassifier(inner, patch_size=5, n_patches=2000, random_state=0)
    return model.fit([*images, *(1 - image.T for image in images)], [0] * len(images) + [1] * len(images))


def _restorer(**parameters: Any) -> Any:
    settings = {"lambda1": 0.2, "max_iter": 40, "batch_size": 50, "random_state": 0, "checkpoint": STATE, **parameters}
    return td.ImageRestorer(5, 20, **settings).fit(_images(), degrade=degrade.floyd_steinberg)


def _sensing() -> Any:
    X, _ = _signals()
    return td.CompressedSensing(8, 16, max_iter=60, batch_size=30, random_state=0, checkpoint=STATE).fit(X)


TRAININGS: dict[str, Callable[[], Any]] = {
    "classifier": lambda: _classify(),
    "classifier, softmax, adaptive": lambda: _classify(multi_class="softmax", learning_rate="adaptive"),
    "classifier, semi-supervised": _semi_supervised,
    "classifier, early stopping": lambda: _classify(multi_class="softmax", early_stopping=True, n_iter_no_change=60),
    "classifier of a stream": _streamed,
    "regressor": lambda: _regress(),
    "regressor, measurements": lambda: _regress(n_measurements=8, learning_rate="adaptive"),
    "regressor, the guard acts": lambda: _guarded(),
    "regressor, adaptive, the guard acts": lambda: _guarded(learning_rate=("adaptive", 0.5)),
    "regressor, measurements, the guard acts": lambda: _guarded(n_measurements=4),
    "dictionary learning": _dictionary,
    "image classifier": _image_classifier,
    "patch voting": _voting,
    "restorer": lambda: _restorer(),
    "restorer, refine": lambda: _restorer(refine=0.05),
    "compressed sensing": _sensing,
}


def main() -> None:
    """Run one training to its end."""
    training_run.CHECKPOINT_SECONDS = 0.0
    print("ready", flush=True)
    model = TRAININGS[sys.argv[1]]()
    if hasattr(model, "set_params") and "checkpoint" in model.get_params():
        model.set_params(checkpoint=None)
    model.save("model")


if __name__ == "__main__":
    main()
