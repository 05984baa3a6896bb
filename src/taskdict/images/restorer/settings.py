"""Parameters of a restorer, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from taskdict._common.threads import resolve_threads
from taskdict._common.validation import (
    Check,
    check_count,
    check_deviation,
    check_parameters,
    check_penalty,
    check_positive,
    one_of,
    optional,
)

LARGEST_UPSCALE = 16
DEFAULT_ATOMS_PER_PIXEL = 5  # of a patch, with n_components=None: the paper has 500 atoms for patches of 10 by 10
DEFAULT_LAMBDA1 = 0.06  # times the side of a patch, with lambda1=None: the paper's value for halftones


def _check_upscale(name: str, value: Any) -> int:
    if check_count(name, value) > LARGEST_UPSCALE:
        raise ValueError(f"{name} must be from 1 to {LARGEST_UPSCALE}, got {value}.")
    return int(value)


def _unchecked(name: str, value: Any) -> Any:
    """Return a value that is checked where it is used: by the regressor of patches, or by `fit`."""
    return value


check_overlap = one_of("weighted", "plain")

CHECKS: dict[str, Check] = {
    "patch_size": check_count,
    "n_components": optional(check_count),
    "batch_size": check_count,
    "upscale": _check_upscale,
    "lambda1": optional(check_penalty),
    "lambda2": check_penalty,
    "nu": check_penalty,
    "max_iter": optional(check_count),
    "n_passes": _unchecked,  # unless max_iter is None
    "overlap": check_overlap,
    "refine": optional(check_deviation),
    "n_threads": lambda _, value: resolve_threads(value),
    "learning_rate": _unchecked,
    "checkpoint": _unchecked,
    "random_state": _unchecked,
    "verbose": _unchecked,
    "callbacks": _unchecked,
}


@dataclass(frozen=True)
class RestorerSettings:
    """The parameters of an :class:`taskdict.ImageRestorer`, which has their meaning."""

    patch_size: int
    n_components: int
    batch_size: int
    upscale: int
    lambda1: float
    lambda2: float
    nu: float
    max_iter: int | None
    n_passes: float
    overlap: str
    refine: float | None
    n_threads: int
    learning_rate: Any
    checkpoint: Any
    random_state: Any
    verbose: Any
    callbacks: Any

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the settings of an estimator; raise TypeError or ValueError for a wrong parameter."""
        values = check_parameters(parameters, CHECKS)
        side = values["patch_size"]
        if values["n_components"] is None:
            values["n_components"] = DEFAULT_ATOMS_PER_PIXEL * side**2
        if values["lambda1"] is None:
            values["lambda1"] = DEFAULT_LAMBDA1 * side
        settings = cls(**values)
        if settings.max_iter is None:
            check_positive("n_passes", settings.n_passes)
        return settings

    @property
    def weighted(self) -> bool:
        """Whether overlapping patches have weights in the average."""
        return self.overlap == "weighted"

    def n_batches(self, n_patches: int) -> int:
        """Return the number of batches to learn from, with so many patches in all."""
        if self.max_iter is not None:
            return self.max_iter
        return math.ceil(self.n_passes * n_patches / self.batch_size)
