"""Parameters of a classifier of images, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from taskdict._common.validation import Check, check_count, check_parameters, check_penalty, optional
from taskdict.estimators.task_driven import TaskDrivenClassifier
from taskdict.streams.images import Shift, check_shifts


def _check_classifier(name: str, value: Any) -> TaskDrivenClassifier | None:
    if value is not None and not isinstance(value, TaskDrivenClassifier):
        raise TypeError(f"{name} must be a TaskDrivenClassifier or None, got {value!r}.")
    return value


CHECKS: dict[str, Check] = {
    "classifier": _check_classifier,
    "bend": check_penalty,
    "n_directions": optional(check_count),
    "shifts": check_shifts,
    "pool": check_shifts,
}


@dataclass(frozen=True)
class ImageClassifierSettings:
    """The parameters of an :class:`taskdict.ImageClassifier` beside its seed; the first of the shifts is none."""

    classifier: TaskDrivenClassifier | None
    bend: float
    n_directions: int | None
    shifts: tuple[Shift, ...]
    pool: tuple[Shift, ...]

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the settings of an estimator; raise TypeError or ValueError for a wrong parameter."""
        return cls(**check_parameters(parameters, CHECKS))
