"""Parameters of a classifier by votes, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from taskdict._common.validation import Check, check_count, check_flag, check_parameters

CHECKS: dict[str, Check] = {
    "patch_size": check_count,
    "n_patches": check_count,
    "stride": check_count,
    "normalise": check_flag,
}


@dataclass(frozen=True)
class VotingSettings:
    """The parameters of a :class:`taskdict.PatchVotingClassifier` beside its classifier and its seed."""

    patch_size: int
    n_patches: int
    stride: int
    normalise: bool

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the settings of an estimator; raise TypeError or ValueError for a wrong parameter."""
        settings = cls(**check_parameters(parameters, CHECKS))
        if settings.stride > settings.patch_size:
            raise ValueError(
                f"stride must be at most the patch size, {settings.patch_size}, so that patches cover every pixel, "
                f"got {settings.stride}."
            )
        return settings
