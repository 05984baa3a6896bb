"""Inverse halftoning (paper, Section 5.3): grey images from black and white ones, Table 2.

A restorer learns from the halftones of the 24 images of Kodak. The λ1 of the restoration, and the size of artefacts
that are removed from its result as noise, are chosen on the first four of twelve classical images; the other eight are
used for the last numbers only. Halftones of the early days of window systems, whose originals are lost, are restored
too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from taskdict._common.argument_types import natural, penalty, positive
from taskdict.experiments.frame import Command, Experiment
from taskdict.experiments.settings import Option, Settings, distinct, setting

VALIDATION_IMAGES = ("house", "peppers", "cameraman", "lena")
PAPER_PSNR = {  # in dB, by image
    "FIHT2": (30.8, 25.3, 25.8, 31.4, 24.5, 28.6, 29.5, 28.2, 29.3, 26.0, 25.2, 24.7),
    "WInHD": (31.2, 26.9, 26.8, 31.9, 25.7, 29.2, 29.4, 28.7, 29.4, 28.1, 25.6, 26.4),
    "LPA-ICI": (31.4, 27.7, 26.5, 32.5, 25.6, 29.7, 30.0, 29.2, 30.1, 28.3, 26.0, 27.2),
    "SA-DCT": (32.4, 28.6, 27.8, 33.0, 27.0, 30.1, 30.2, 29.8, 30.3, 28.5, 26.2, 27.6),
    "the paper": (33.0, 29.6, 28.1, 33.0, 26.6, 30.2, 30.5, 29.9, 30.4, 29.0, 26.2, 28.0),
}
DENOISE_GRID = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03)  # standard deviations of the artefacts
RESTORATION_GRID = tuple(round(0.4 + 0.05 * k, 2) for k in range(9))  # λ1, the paper's


def distinct_positive(values: Iterable[float]) -> tuple[Any, ...]:
    """Return each positive value once, in their order."""
    return distinct(value for value in values if value > 0)


@dataclass(frozen=True)
class HalftoningSettings(Settings):
    """The settings; the defaults are the paper's choices.

    With `recipe` "paper" overlapping patches are averaged. With "ours" the pixels of a patch have weights in the
    average, and a second model refines the restored image (`RECIPES`).
    """

    recipe: str = setting(
        "paper",
        Option(
            "--recipe",
            "the paper's (default), or ours: weights of the pixels of a patch, and a residual refinement",
            choices=("paper", "ours"),
            selects=True,
        ),
    )
    patch_size: int = setting(10, Option("--patch-size", "side of a patch (default: 10)", positive))
    size: int = setting(500, Option("--atoms", "number of atoms (default: 500, ours: 1000)", positive))
    lambda1: float = setting(0.6, Option("--lambda1", "λ1 of the training (default: 0.6)", penalty))
    passes: float = setting(2.0, Option("--passes", "passes over all pairs of patches (default: 2)", penalty))
    refine: float | None = None  # standard deviation of the artefacts that are removed before the refinement
    restoration: tuple[float, ...] = setting(
        RESTORATION_GRID,
        Option("--restoration", "λ1 to choose from (default: 0.4 … 0.8, ours: 0.55 … 0.65)", penalty, several=True),
    )
    denoise: tuple[float, ...] = setting(
        DENOISE_GRID,
        Option(
            "--denoise",
            "standard deviations of artefacts to choose from (default: 0.005 … 0.03; 0: none)",
            penalty,
            several=True,
            collect=distinct_positive,
        ),
    )
    seed: int = setting(0, Option("--seed", "seed of all random choices (default: 0)", natural))
    stride: int = setting(1, Option("--stride", "pixels between patches (default: 1)", positive))

    def quick(self) -> HalftoningSettings:
        """Return a small version of the same experiment."""
        return replace(
            self, size=min(self.size, 100), passes=0.03, restoration=(0.5, 0.55, 0.6), denoise=(0.01,), stride=3
        )

    @classmethod
    def variant(cls, **selected: Any) -> HalftoningSettings:
        """Return the settings of a recipe."""
        return RECIPES[selected.get("recipe", "paper")]


RECIPES = {
    "paper": HalftoningSettings(),
    "ours": HalftoningSettings(recipe="ours", size=1000, refine=0.02, restoration=(0.55, 0.6, 0.65)),
}
EXPERIMENT = Experiment(
    package=__name__,
    name="halftoning",
    command=Command(
        name="halftoning",
        section="5.3",
        summary="grey images from black and white ones: Table 2",
        description="Inverse halftoning, as in Section 5.3 of the paper (Table 2).",
        data="kodak/, classic12/ and halftones/ (default: TASKDICT_DATA, then a cache)",
        output="the record, the model and images (default: taskdict-halftoning-RECIPE here)",
        quick="a small version that shows the steps; its numbers are not the paper's experiment",
    ),
    settings=HalftoningSettings,
)
