"""The hard cases, shared by the tests: where other coders go wrong."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import taskdict as td

TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}
DTYPES = [np.float32, np.float64]


def relative_kkt(X, dictionary, codes, lambda1, lambda2=0.0, positive=False):
    """Violation of Lemma 1 for each row, relative to max(λ1, ‖Dᵀx‖∞), in extended precision."""
    X, D, A = (np.asarray(a, dtype=np.longdouble) for a in (X, dictionary, codes.toarray()))
    rho = (X - A @ D) @ D.T - lambda2 * A
    outside = np.maximum((rho if positive else np.abs(rho)) - lambda1, 0)
    violation = np.where(A != 0, np.abs(rho - lambda1 * np.sign(A)), outside)
    if positive:
        violation = np.where(A < 0, np.inf, violation)
    scale = np.maximum(lambda1, np.abs(X @ D.T).max(axis=1, initial=0))
    scale[scale == 0] = 1
    return (violation.max(axis=1, initial=0) / scale).astype(float)


def assert_exact(X, D, codes, report, lambda1, lambda2=0.0, positive=False):
    """Assert that codes fulfil Lemma 1, that the report says so, and that they are sound as a sparse array."""
    tolerance = TOLERANCE[X.dtype]
    assert codes.dtype == X.dtype
    assert codes.shape == (X.shape[0], D.shape[0])
    assert report.kkt.dtype == X.dtype
    assert report.status.shape == report.kkt.shape == report.n_steps.shape == (X.shape[0],)
    assert not (report.status == td.Status.INEXACT).any()
    assert report.kkt.max(initial=0) <= tolerance
    assert relative_kkt(X, D, codes, lambda1, lambda2, positive).max(initial=0) <= tolerance
    for row in range(X.shape[0]):
        indices = codes.indices[codes.indptr[row] : codes.indptr[row + 1]]
        assert (np.diff(indices) > 0).all()
    assert (codes.data != 0).all()


def objective(X, dictionary, codes, lambda1, lambda2=0.0):
    """The elastic net's objective for each row, in float64."""
    A = np.asarray(codes.toarray(), dtype=np.float64)
    error = np.asarray(X, dtype=np.float64) - A @ np.asarray(dictionary, dtype=np.float64)
    return 0.5 * (error**2).sum(1) + lambda1 * np.abs(A).sum(1) + 0.5 * lambda2 * (A**2).sum(1)


def random_problem(n, m, p, seed=0, dtype=np.float64):
    """Signals and atoms of unit norm."""
    rng = np.random.default_rng(seed)
    X, D = rng.standard_normal((n, m)), rng.standard_normal((p, m))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return X.astype(dtype), D.astype(dtype)


def halftone(shape, seed=0):
    """A small halftone: a smooth ramp with an error-diffused threshold, 0 or 1."""
    rng = np.random.default_rng(seed)
    image = np.add.outer(np.linspace(0.1, 0.9, shape[0]), 0.1 * np.sin(np.arange(shape[1]) / 5))
    image += 0.02 * rng.random(shape)
    out = np.zeros(shape)
    for y in range(shape[0]):
        for x in range(shape[1]):
            out[y, x] = image[y, x] >= 0.5
            error = image[y, x] - out[y, x]
            for dy, dx, weight in ((0, 1, 7), (1, -1, 3), (1, 0, 5), (1, 1, 1)):
                if y + dy < shape[0] and 0 <= x + dx < shape[1]:
                    image[y + dy, x + dx] += error * weight / 16
    return out


def _halftone_patches():
    windows = np.lib.stride_tricks.sliding_window_view(halftone((40, 60)), (6, 6)).reshape(-1, 36)
    patches = windows - windows.mean(axis=1, keepdims=True)
    return patches[5::17], patches[::9]


def _hard_cases():
    rng = np.random.default_rng(7)
    signals = rng.standard_normal((30, 8))
    atoms = rng.standard_normal((16, 8))
    centred = rng.standard_normal((40, 30))
    yield "identity with ties", np.full((4, 10), 0.5), np.eye(10), (0.1, 0.5, 0.6)
    yield "signs", rng.choice([-1.0, 1.0], (60, 16)), rng.choice([-1.0, 1.0], (40, 16)), (0.1, 1.0, 8.0, 20.0)
    yield "halftones", *_halftone_patches(), (0.05, 0.6)
    yield (
        "duplicate, opposite and zero atoms",
        signals,
        np.concatenate([atoms, atoms[:5], -atoms[5:9], atoms[:2] * 0]),
        (0, 0.01, 0.5),
    )
    yield "dependent atoms", signals, rng.standard_normal((20, 3)) @ rng.standard_normal((3, 8)), (0, 1e-3, 0.3)
    yield "wide", signals, rng.standard_normal((40, 8)), (0, 1e-9, 0.01, 1.0, 1e3)
    yield "one feature", rng.standard_normal((7, 1)), rng.standard_normal((5, 1)), (0, 0.1)
    yield "one atom", rng.standard_normal((7, 5)), rng.standard_normal((1, 5)), (0, 0.1)
    yield "one number", rng.standard_normal((1, 1)), rng.standard_normal((1, 1)), (0, 0.1)
    yield "zero signals", np.zeros((4, 6)), rng.standard_normal((9, 6)), (0, 0.1)
    yield "zero dictionary", rng.standard_normal((4, 6)), np.zeros((3, 6)), (0, 0.1)
    yield (
        "large offset",
        1000 + rng.standard_normal((20, 30)),
        centred - centred.mean(axis=1, keepdims=True),
        (0.01, 1.0),
    )
    yield "atoms of very different norms", signals, atoms * 10.0 ** rng.integers(-6, 6, (16, 1)), (0.0, 0.1)


HARD_CASES = [pytest.param(X, D, l1, id=f"{name}-{l1:g}") for name, X, D, l1s in _hard_cases() for l1 in l1s]


def data_folder(name: str) -> Path:
    """The folder of a real data set; skips the test without it."""
    root = os.environ.get("TASKDICT_DATA")
    if not root:
        pytest.skip("TASKDICT_DATA is not set")
    folder = Path(root) / name
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist")
    return folder


def digits_split():
    """Return normalised digits: 1000 to learn from, the others to test on."""
    X, y = load_digits(return_X_y=True)
    X = td.UnitNorm().fit_transform(X)
    return X[:1000], y[:1000], X[1000:], y[1000:]


PAPER = {"lambda2": 0.0, "decision": "linear", "learning_rate": "auto", "early_stopping": False}


def quick(n_components=30, **parameters):
    """Return a classifier for `digits_split` that learns as in the paper."""
    settings = {**PAPER, "multi_class": "ovr", "lambda1": 0.15, "max_iter": 300, "random_state": 0, **parameters}
    return td.TaskDrivenClassifier(n_components, **settings)


def quick_regressor(n_components=30, **parameters):
    """Return a regressor that learns as in the paper."""
    return td.TaskDrivenRegressor(n_components, **{**PAPER, "max_iter": 300, "random_state": 0, **parameters})
