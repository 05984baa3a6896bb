"""Trainings that run in a process of their own, which can be killed (SIGKILL) at any moment."""

import itertools
import os
import warnings

import numpy as np
from sklearn.datasets import load_digits

import taskdict as td
from taskdict._learning import trainer, training_run

LEARNERS = (
    "classifier",
    "committee",
    "regressor",
    "guarded",
    "guarded stream",
    "dictionary",
    "sensing",
    "restorer",
    "images",
    "votes",
)


def digits():
    X, y = (array[:300] for array in load_digits(return_X_y=True))
    return td.UnitNorm().fit_transform(X), y


def pictures():
    rng = np.random.default_rng(0)
    return [np.clip(np.tile(rng.random((20, 1)), (1, 22)) + 0.1 * rng.random((20, 22)), 0, 1) for _ in range(4)]


def outliers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    Y = X[:, :2].copy()
    Y[::25] *= 30
    return X, Y


def guard(progress):
    """Note how often the learning rate was lowered."""
    rates.append(float(progress.model.learning_rate_))


rates: list[float] = []


def learned(model, names):
    return {name: np.asarray(getattr(model, name)) for name in names}


def fit(kind, path):
    """Train or resume a model; return its arrays."""
    settings = {"batch_size": 20, "random_state": 0}
    task = {**settings, "checkpoint": path}
    X, y = digits()
    if kind == "dictionary":
        return fit_dictionary(path, X)
    if kind == "classifier":
        model = td.TaskDrivenClassifier(20, multi_class="softmax", max_iter=40, mu=(0.9, 0.3), **task).fit(X, y)
        return learned(model, ("components_", "coef_", "intercept_"))
    if kind == "committee":
        rate = "adaptive"
        model = td.TaskDrivenClassifier(10, multi_class="ovr", max_iter=30, learning_rate=rate, **task).fit(X, y % 3)
        return learned(model, ("components_", "coef_", "intercept_"))
    if kind == "regressor":
        model = td.TaskDrivenRegressor(20, max_iter=40, n_measurements=10, **task).fit(X[:, :32], X[:, 32:])
        return learned(model, ("components_", "coef_", "transform_"))
    if kind.startswith("guarded"):
        trainer.DIVERGENCE_FACTOR = 0.5  # so that the guard acts
        X, Y = outliers()
        rate = "auto" if kind == "guarded" else ("adaptive", 0.5)
        model = td.TaskDrivenRegressor(8, lambda1=0.1, max_iter=60, learning_rate=rate, callbacks=guard, **task)
        model.fit(*((X, Y) if kind == "guarded" else (td.stream(X, Y, random_state=1),)))
        return learned(model, ("components_", "coef_", "learning_rate_"))
    if kind == "sensing":
        model = td.CompressedSensing(10, 30, max_iter=40, **task).fit(X)
        return learned(model, ("components_", "coef_", "transform_"))
    if kind == "images":
        inner = td.TaskDrivenClassifier(20, multi_class="softmax", max_iter=40, **task)
        model = td.ImageClassifier(inner, bend=0.5, random_state=0).fit(X.reshape(-1, 8, 8), y)
        return learned(model.classifier_, ("components_", "coef_", "intercept_"))
    if kind == "votes":
        inner = td.TaskDrivenClassifier(20, max_iter=40, **task)
        model = td.PatchVotingClassifier(inner, patch_size=6, n_patches=2000, random_state=0)
        return learned(model.fit(pictures(), [0, 0, 1, 1]).classifier_, ("components_", "coef_", "intercept_"))
    assert kind == "restorer"
    model = td.ImageRestorer(6, 30, max_iter=15, refine=0.05, **task)
    model.fit(pictures(), degrade=td.images.degrade.floyd_steinberg)
    second = model.refinement_.patch_map
    arrays = learned(model, ("components_", "coef_", "weights_"))
    return {**arrays, "refined D": second.components, "refined W": second.coef, "refined weights": second.weights}


def fit_dictionary(path, X):
    """Train with a file that a callback writes, which is how DictionaryLearning is resumed."""
    model = td.DictionaryLearning(30, lambda1=0.1, batch_size=20, max_iter=80, tol=0, random_state=0)
    if os.path.exists(path):
        model = td.load(path)

    def save(progress):
        if progress.n_iter % 5 == 0:
            progress.model.save(path)

    model.set_params(warm_start=True, callbacks=save).fit(X)
    return learned(model, ("components_",))


def train(kind, path):
    """Train or resume, with a checkpoint after nearly every batch; write what was learned to path.npz."""
    training_run.CHECKPOINT_SECONDS = 0.01
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "checkpoint .* is of a finished training|warm_start=True resumes a training")
    arrays = fit(kind, path)
    np.savez(f"{path}.part.npz", lowered=sum(b < a for a, b in itertools.pairwise(rates)), **arrays)
    os.rename(f"{path}.part.npz", f"{path}.npz")
