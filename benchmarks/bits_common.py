"""Data and helpers of bits.py and its cases."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_sample_image

import taskdict as td

RUN = SimpleNamespace(threads=1, folder=Path(), files=None)  # set by bits.py: a temporary folder, and that of files

DIGITS = load_digits()
RAW, Y = DIGITS.data[:500], DIGITS.target[:500]
X64, TEST64 = td.UnitNorm().transform(RAW), td.UnitNorm().transform(DIGITS.data[1000:1150])
X, TEST = X64.astype(np.float32), TEST64.astype(np.float32)
SPARSE = sp.csr_array(np.where(X > 0.1, X, 0))
PARTLY = np.where(np.arange(500) % 3 > 0, -1, Y)  # -1 is unlabelled
WORDS = np.array([f"digit {label}" for label in Y])
WEIGHTS = 1 + np.arange(500) % 4.0 * (np.arange(500) % 7 > 0)
COLOUR = np.ascontiguousarray(load_sample_image("china.jpg")[150:206, 260:325])
GREY = np.ascontiguousarray(load_sample_image("flower.jpg")[180:240, 280:352, 1])
NORMAL = np.random.RandomState(7).standard_normal((40, 64))
ATOMS = NORMAL / np.linalg.norm(NORMAL, axis=1, keepdims=True)

ATTRIBUTES = ("components_", "coef_", "intercept_", "transform_", "weights_", "directions_", "atoms_", "background_")
ATTRIBUTES += ("channels_", "shape_", "classes_", "normalised_", "lambda1_", "nu_", "learning_rate_", "n_iter_")
ATTRIBUTES += ("objective_", "history_", "n_features_in_", "stream_state_")
METHODS = ("transform", "predict", "decision_function", "predict_proba", "sense")
LEARNERS = {"classifier": td.TaskDrivenClassifier, "regressor": td.TaskDrivenRegressor}
SMALL = {"n_components": 12, "max_iter": 15, "batch_size": 50, "learning_rate": 2.0, "random_state": 3}


class LogCosh:
    """A loss of the scores: log cosh(s - y)."""

    def evaluate(self, y, scores):
        """Return values and gradients."""
        error = scores - y
        return (np.abs(error) + np.log1p(np.exp(-2 * np.abs(error)))).sum(axis=1), np.tanh(error)


class PredictAndReconstruct:
    """A loss that sees everything, as in docs/losses.md."""

    def evaluate_codes(self, y, scores, batch, weights):
        """Return values and gradients."""
        error, residual = scores - y, batch.X - batch.decode()
        pull, codes = weights[:, None] * residual, batch.codes
        return td.losses.Terms(
            values=weights * (0.5 * (error**2).sum(axis=1) + 0.5 * (residual**2).sum(axis=1)),
            scores=weights[:, None] * error,
            alpha=-(pull[batch.rows] * batch.D[codes.indices]).sum(axis=1),
            D=-(codes.T @ pull),
            x=pull,
        )


class Interrupt:
    """What a stream does to its batches: nothing, but a given call is interrupted."""

    def __init__(self, call=0):
        self.left = call

    def __call__(self, batch):
        """Return the batch."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return batch


class InterruptedLoss(LogCosh):
    """A loss of which a given call is interrupted: training on arrays never calls a stream of ours."""

    def __init__(self, call=0):
        self.interrupt = Interrupt(call)

    def evaluate(self, y, scores):
        """Return values and gradients."""
        return super().evaluate(y, self.interrupt(scores))


def interrupted_fit(model, *given):
    """Return a model whose training was interrupted; one that was not is an error, since nothing would be tested."""
    try:
        model.fit(*given)
    except KeyboardInterrupt:
        return model
    raise AssertionError("the training was not interrupted")


def build(kind, *given, **named):
    """Return an estimator that uses as many threads as wanted."""
    model = kind(*given, **named)
    return model.set_params(n_threads=RUN.threads) if "n_threads" in model.get_params(deep=False) else model


def learner(kind="classifier", **named):
    return build(LEARNERS[kind], **{**SMALL, **named})


def load(path):
    """Return a model from a file, with as many threads as wanted, which no file says."""
    model = td.load(path)
    for part in (model, getattr(model, "classifier_", None)):
        if hasattr(part, "n_threads"):
            part.n_threads = RUN.threads
    return model


def learned(name, model, probe, methods=METHODS):
    """Yield all that a model has learned, and what it makes of the probe."""
    for attribute in ATTRIBUTES:
        if hasattr(model, attribute):
            yield f"{name}.{attribute}", getattr(model, attribute)
    for method in methods:
        if hasattr(model, method):
            yield f"{name}.{method}()", getattr(model, method)(probe)
    if hasattr(model, "reconstruct"):
        yield f"{name}.reconstruct()", model.reconstruct(model.sense(probe))


def error_of(function, *given, **named) -> str:
    """Return the name of what a call raises."""
    try:
        function(*given, **named)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def npy(name, array) -> str:
    np.save(RUN.folder / name, array)
    return str(RUN.folder / name)
