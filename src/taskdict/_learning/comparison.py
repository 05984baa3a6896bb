"""A task-driven model beside the obvious baselines, on samples that none of them has learned from.

The baselines are a linear model on the signals, and the model on the codes of the unsupervised dictionary that the
training starts from. The samples are the validation part of a training, or those that a trial holds out
(:mod:`taskdict._learning.trial`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._files import storage

LINEAR = "linear"
UNSUPERVISED = "unsupervised"
TASK_DRIVEN = "task_driven"
NAMES = (LINEAR, UNSUPERVISED, TASK_DRIVEN)
FILE_ARRAY = "held out "  # before the names of arrays in a file
ROUNDING = 1e-9  # of a standard error


class BaselineWarning(UserWarning):
    """Given at the end of a fit if a baseline is better than the task-driven model on held-out samples."""


@dataclass(frozen=True)
class Comparison:
    """The errors of the models on the same held-out samples, times the weights of these samples."""

    errors: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    of_trial: bool = False

    @property
    def scores(self) -> dict[str, float]:
        """The scores: accuracy, or R²."""
        return {name: 1 - float(errors.mean()) for name, errors in self.errors.items()}

    @property
    def is_complete(self) -> bool:
        """Whether all three have been compared."""
        return set(NAMES) == set(self.errors)

    @property
    def n_samples(self) -> int:
        """How many samples were held out."""
        return len(next(iter(self.errors.values())))

    def best_baseline(self) -> str:
        """Return the better of the two baselines."""
        return min((LINEAR, UNSUPERVISED), key=lambda name: float(self.errors[name].mean()))

    def is_clearly_better(self, one: str, other: str) -> bool:
        """Return whether one model is better than another by more than a standard error."""
        return clearly_less(self.errors[one], self.errors[other])

    def with_errors(self, **errors: NDArray[np.float64]) -> Comparison:
        """Return the comparison with more models."""
        return Comparison({**self.errors, **errors}, self.of_trial)

    def to_file(self) -> storage.Arrays:
        """Return the errors for a model file."""
        return {f"{FILE_ARRAY}{name}": errors for name, errors in self.errors.items()}

    @classmethod
    def from_file(cls, arrays: storage.Arrays, of_trial: bool) -> Comparison | None:
        """Return the comparison of a file, None if it has none."""
        found = {name: arrays[f"{FILE_ARRAY}{name}"] for name in NAMES if f"{FILE_ARRAY}{name}" in arrays}
        if not found:
            return None
        sound = UNSUPERVISED in found and len({errors.shape for errors in found.values()}) == 1
        sound = sound and all(errors.ndim == 1 and errors.dtype == np.float64 for errors in found.values())
        if not sound or not all(errors.size > 0 and np.isfinite(errors).all() for errors in found.values()):
            raise ValueError("its held-out errors make no sense")
        return cls(found, of_trial)


def clearly_less(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Return whether the mean of the first is less by more than the standard error of the difference.

    One sample that is right in one of two classifications is not enough: its difference is one standard error.
    """
    difference, n = second - first, len(first)
    error = difference.std(ddof=1) / np.sqrt(n) if n > 1 else np.inf
    return bool(difference.mean() > error * (1 + ROUNDING))


def weighed(values: NDArray[np.float64], weights: Floats | None) -> NDArray[np.float64]:
    """Return values of samples times their weights, which are made one on average."""
    if weights is None or not weights.any():
        return values
    wide = weights.astype(np.float64)
    product: NDArray[np.float64] = values * (wide / wide.mean())
    return product
