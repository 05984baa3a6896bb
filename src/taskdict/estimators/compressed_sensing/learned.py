"""Learned measurements: Z, D and W together, their use, and their file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskdict._coding.coded_map import CodedMap
from taskdict._common.arrays import Floats
from taskdict._common.validation import check_targets, refuse_masked
from taskdict._files import storage
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.streams.derived import mapped

SIGNALS_PER_BLOCK = 8192


@dataclass(frozen=True, eq=False)
class SensingLearner:
    """What learns D and W, and Z as Z' P: a regressor on signals that were multiplied by P."""

    regressor: TaskDrivenRegressor
    Z: Floats  # to start from; the one that is used if it is not learned
    P: Floats

    def learned(self) -> LearnedSensing:
        """Return Z, D and W as they are now."""
        regressor = self.regressor
        Z = self.Z if regressor.transform_ is None else regressor.transform_ @ self.P
        weights = regressor.lambda1_, float(regressor.lambda2)
        return LearnedSensing.of(Z, regressor.components_, regressor.coef_, *weights, regressor.n_iter_, self)


@dataclass(frozen=True, eq=False)
class LearnedSensing:
    """Z, D and W, the penalties that belong to them, and the number of batches.

    `learner` is where `partial_fit` continues; None for a model from a file, or if D was not learned for the task.
    """

    Z: Floats  # (n_measurements, n_features)
    D: Floats  # (n_components, n_measurements)
    W: Floats  # (n_outputs, n_components)
    lambda1: float
    lambda2: float
    n_iter: int
    learner: SensingLearner | None = None

    @classmethod
    def of(
        cls, Z: Floats, D: Floats, W: Floats, lambda1: float, lambda2: float, n_iter: int, learner: Any = None
    ) -> LearnedSensing:
        """Return learned measurements with contiguous arrays."""
        Z, D, W = (np.ascontiguousarray(matrix) for matrix in (Z, D, W))
        return cls(Z, D, W, lambda1, lambda2, n_iter, learner)

    def measure(self, X: Floats) -> Floats:
        """Return the measurements Zx."""
        return mapped(X, self.Z)

    def reconstruct(self, measurements: Any, n_threads: int) -> Floats:
        """Return Wα of measurements, which are checked."""
        refuse_masked("measurements", measurements)
        measured = np.asarray(measurements)
        if measured.ndim != 2 or measured.shape[1] != len(self.Z):
            raise ValueError(
                f"measurements must have shape (n_samples, n_measurements={len(self.Z)}), got {measured.shape}."
            )
        if measured.dtype.kind not in "fiub":
            raise TypeError(f"measurements must be real numbers, got dtype {measured.dtype}.")
        if not np.isfinite(measured).all():
            row = int(np.flatnonzero(~np.isfinite(measured).all(axis=1))[0])
            raise ValueError(f"measurements must be finite, but row {row} contains NaN or infinity.")
        dtype = np.float32 if measured.dtype == np.float32 else np.float64
        D = np.ascontiguousarray(self.D, dtype)
        coded = CodedMap(D, self.W, lambda1=self.lambda1, lambda2=self.lambda2, n_threads=n_threads)
        return coded(measured)

    def squared_error(self, X: Floats, y: Any, n_threads: int) -> float:
        """Return ‖y − Wα‖² on average; y is None for the signals themselves."""
        wanted = wanted_from(X, y)
        if wanted.shape[1] != len(self.W):
            name = "X" if y is None else "y"
            raise ValueError(
                f"{name} has {wanted.shape[1]} columns, but the model reconstructs {len(self.W)}"
                f"{': pass the signals to be reconstructed as y' if y is None else ''}."
            )
        total = 0.0
        for start in range(0, len(X), SIGNALS_PER_BLOCK):
            block = slice(start, start + SIGNALS_PER_BLOCK)
            error = np.asarray(wanted[block], np.float64) - self.reconstruct(self.measure(X[block]), n_threads)
            total += float(np.square(error).sum())
        return total / len(X)

    def to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return arrays and a document for a model file."""
        return {"Z": self.Z, "D": self.D, "W": self.W}, {"n_iter": self.n_iter}

    @classmethod
    def from_file(
        cls, arrays: storage.Arrays, document: dict[str, Any], lambda1: float, lambda2: float
    ) -> LearnedSensing:
        """Return the learned measurements of a file, after all checks."""
        Z, D, W = (arrays[name] for name in ("Z", "D", "W"))
        if any(array.ndim != 2 or array.dtype != Z.dtype or array.dtype.kind != "f" for array in (Z, D, W)):
            raise ValueError("its arrays are not matrices of one kind of numbers")
        if len(Z) != D.shape[1] or W.shape[1] != len(D):
            raise ValueError("its arrays do not fit each other")
        if not all(np.isfinite(array).all() for array in (Z, D, W)):
            raise ValueError("its arrays are not finite")
        n_iter = int(document["n_iter"])
        if n_iter < 0:
            raise ValueError("its counts make no sense")
        return cls.of(Z, D, W, lambda1, lambda2, n_iter)


def wanted_from(X: Floats, y: Any) -> Floats:
    """Return the signals to be reconstructed from X, in rows; y is None for X itself."""
    if y is None:
        return X
    wanted = check_targets(y)
    if wanted.dtype not in (np.float32, np.float64):
        wanted = wanted.astype(np.float64)
    if len(wanted) != len(X):
        raise ValueError(f"y must have {len(X)} rows, as X has, got shape {wanted.shape}.")
    return wanted[:, None] if wanted.ndim == 1 else wanted
