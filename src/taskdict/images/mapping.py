"""A learned function of patches: codes on a dictionary, and a linear map of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taskdict._native import Encoder, decode
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.images.pixels import Floats

LEAST_WEIGHT = 1e-3  # of the largest
LARGEST = 1e12  # of the numbers in a file: float32 could not hold the sums of larger ones


@dataclass(eq=False, repr=False)
class PatchMapping:
    """x to Wα, where α is the code of x on D; with the weights of the places of a patch in an average."""

    components: Floats  # D, atoms as rows
    coef: Floats  # W
    weights: Floats
    lambda1: float
    lambda2: float = 0.0

    @classmethod
    def of(cls, regressor: TaskDrivenRegressor, patch_size: int) -> PatchMapping:
        """Return what a regressor has learned, with weights that are all the same."""
        D, W = (np.ascontiguousarray(array, np.float32) for array in (regressor.components_, regressor.coef_))
        return cls(D, W, np.ones((patch_size, patch_size), np.float32), regressor.lambda1, regressor.lambda2)

    @property
    def patch_size(self) -> int:
        """Return the height and width of a patch."""
        return len(self.weights)

    def function(self, n_threads: int, lambda1: float | None = None) -> Callable[[Floats], Floats]:
        """Return the function of signals, for another λ1 if it is given."""
        table = np.ascontiguousarray(self.coef.T)
        encoder = Encoder(
            self.components,
            lambda1=self.lambda1 if lambda1 is None else lambda1,
            lambda2=self.lambda2,
            positive=False,
            n_threads=n_threads,
        )

        def mapped(signals: Floats) -> Floats:
            encoder.encode(np.ascontiguousarray(signals))
            encoded = encoder.release()
            found = np.empty((len(signals), table.shape[1]), np.float32)
            decode(encoded, encoded.values, table, 0.0, found, found, n_threads)
            return found

        return mapped

    def weigh(self, X: Floats, y: Floats, n_threads: int) -> None:
        """Give each place of a patch the weight 1 / e², e its mean squared error, as a share of the largest."""
        errors = np.square(self.function(n_threads)(X) - y)
        by_place = errors.reshape(len(X), *self.weights.shape, -1).mean(axis=(0, 3), dtype=np.float64)
        least = max(by_place.min(), np.finfo(np.float32).tiny)
        self.weights = np.maximum(np.square(least / np.maximum(by_place, least)), LEAST_WEIGHT).astype(np.float32)

    def check(self, patch_size: int, channels: int, n_found: int, n_components: int) -> None:
        """Raise ValueError if the arrays are not those of a mapping of patches with so many channels."""
        D, W, area = self.components, self.coef, patch_size**2
        shapes = D.shape == (n_components, channels * area) and W.shape == (n_found * area, n_components)
        if not shapes or self.weights.shape != (patch_size, patch_size):
            raise ValueError("its arrays do not fit each other")
        if not all(array.dtype == np.float32 and np.isfinite(array).all() for array in (D, W, self.weights)):
            raise ValueError("its arrays are not finite numbers of float32")
        if not ((self.weights > 0) & (self.weights <= 1)).all():
            raise ValueError("its weights must be positive, and at most one")
        if max(np.abs(D).max(), np.abs(W).max()) > LARGEST:
            raise ValueError(f"its arrays have numbers above {LARGEST:g}")
