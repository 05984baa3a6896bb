"""A learned map from patches to patches: codes on a dictionary, and a linear map of the codes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from taskdict._coding.coded_map import CodedMap
from taskdict._common.arrays import Floats
from taskdict.estimators.task_driven import TaskDrivenRegressor

LEAST_WEIGHT = 1e-3  # as a share of the largest
LARGEST_NUMBER = 1e12  # in a file: float32 could not hold the sums of larger ones


@dataclass(frozen=True, eq=False, repr=False)
class PatchMap:
    """The map x ↦ Wα, where α is the code of x on D, with the weights of the positions of a patch in an average."""

    components: Floats  # D, atoms as rows
    coef: Floats  # W
    weights: Floats  # of shape (patch_size, patch_size)
    lambda1: float
    lambda2: float = 0.0

    @classmethod
    def from_regressor(cls, regressor: TaskDrivenRegressor, patch_size: int) -> Self:
        """Return the map of a fitted regressor of patches, with equal weights."""
        D, W = (np.ascontiguousarray(array, np.float32) for array in (regressor.components_, regressor.coef_))
        return cls(D, W, np.ones((patch_size, patch_size), np.float32), regressor.lambda1_, regressor.lambda2)

    @property
    def patch_size(self) -> int:
        """Height and width of a patch."""
        return len(self.weights)

    def function(self, n_threads: int) -> CodedMap:
        """Return the map as a function of signals."""
        return CodedMap(self.components, self.coef, lambda1=self.lambda1, lambda2=self.lambda2, n_threads=n_threads)

    def weighted_by_errors(self, X: Floats, y: Floats, n_threads: int) -> Self:
        """Return the map with weights 1 / e², as a share of the largest, where e is the mean squared error.

        Parameters
        ----------
        X, y : arrays of shape (n_patches, n_features) and (n_patches, n_outputs)
            Signals and targets that the errors are measured on, for each position of a patch.
        n_threads : int
            Threads to use.
        """
        errors = np.square(self.function(n_threads)(X) - y)
        by_position = errors.reshape(len(X), *self.weights.shape, -1).mean(axis=(0, 3), dtype=np.float64)
        least = max(by_position.min(), np.finfo(np.float32).tiny)
        weights = np.maximum(np.square(least / np.maximum(by_position, least)), LEAST_WEIGHT)
        return replace(self, weights=weights.astype(np.float32))

    def check(self, patch_size: int, n_channels: int, n_outputs: int, n_components: int) -> None:
        """Raise ValueError unless the arrays map patches of `n_channels` channels to patches of `n_outputs`."""
        D, W, area = self.components, self.coef, patch_size**2
        shapes = D.shape == (n_components, n_channels * area) and W.shape == (n_outputs * area, n_components)
        if not shapes or self.weights.shape != (patch_size, patch_size):
            raise ValueError("its arrays do not fit each other")
        if not all(array.dtype == np.float32 and np.isfinite(array).all() for array in (D, W, self.weights)):
            raise ValueError("its arrays are not finite numbers of float32")
        if not ((self.weights > 0) & (self.weights <= 1)).all():
            raise ValueError("its weights must be positive, and at most one")
        if max(np.abs(D).max(), np.abs(W).max()) > LARGEST_NUMBER:
            raise ValueError(f"its arrays have numbers above {LARGEST_NUMBER:g}")
