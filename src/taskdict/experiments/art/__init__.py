"""Attribution of works of art to an artist (paper, Section 5.5), on a substitute for the paper's images.

The paper's images are not public. Pairs of one image of each of two groups are left out, one pair after the other. A
classifier of patches learns from the other images, and the patches of the pair vote. The λ1 for two groups is chosen on
pairs of the other two groups, so that no image that is tested influences it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from taskdict._common.argument_types import natural, penalty, positive
from taskdict.experiments.frame import Command, Experiment
from taskdict.experiments.settings import Option, Settings, descending, setting

PAPER_ACCURACY = {"unsupervised": (51.94, 1.92), "supervised": (54.04, 2.26)}  # percent of the patches, and deviation
PAPER_PAIRS = {"unsupervised": "39 of 40", "supervised": "40 of 40"}
GROUPS = ("ab", "cd")  # the artist against others: drawings and engravings, etchings and etchings
KINDS = ("unsupervised", "supervised")
LAMBDA1_GRID = (1e-1, 1e-2, 1e-3, 1e-4)  # the paper's without 1, for which codes of patches of norm one vanish


@dataclass(frozen=True)
class ArtSettings(Settings):
    """The settings."""

    patch_size: int = setting(12, Option("--patch-size", "side of a patch (default: 12)", positive))
    size: int = setting(100, Option("--atoms", "number of atoms (default: 100)", positive))
    patches: int = setting(
        200_000, Option("--patches", "patches of each class to learn from (default: 200,000)", positive)
    )
    select: int = setting(
        20_000, Option("--select", "patches of each class while λ1 is chosen (default: 20,000)", positive)
    )
    lambda1: tuple[float, ...] = setting(
        LAMBDA1_GRID,
        Option("--lambda1", "λ1 to choose from (default: 0.1 … 0.0001)", penalty, several=True, collect=descending),
    )
    pairs: int | None = setting(None, Option("--pairs", "pairs of each two groups (default: all)", positive))
    stride: int = setting(4, Option("--stride", "pixels between patches that vote (default: 4)", positive))
    colour: bool = setting(
        False,
        Option("--colour", "patches in colour and as they are (default: grey, contrast-normalised)", selects=True),
    )
    seed: int = setting(0, Option("--seed", "seed of all random choices (default: 0)", natural))

    def quick(self) -> ArtSettings:
        """Return a small version of the same experiment."""
        return replace(self, size=min(self.size, 50), patches=10_000, select=2_000, lambda1=(0.1,), pairs=4)


EXPERIMENT = Experiment(
    package=__name__,
    name="art",
    command=Command(
        name="art",
        section="5.5",
        summary="works of an artist or of others, by the votes of patches",
        description="Classification of works of art by artist, as in Section 5.5 of the paper, on a substitute for its "
        "images.",
        data="art/ (default: TASKDICT_DATA, then a cache)",
        output="the record, table and maps (default: taskdict-art here)",
    ),
    settings=ArtSettings,
)
