"""Compressed sensing (paper, Section 5.4): patches of photographs from few measurements, Table 3.

Eight pairs of a matrix Z that measures and a dictionary D of the measurements are compared; the matrix W that maps the
codes back to the patches is always learned. The weights (λ1, λ2) of each pair are chosen on the validation part, with
fewer training patches and the first seed; then each is learned again with every seed, and tested once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from taskdict._common.argument_types import natural, penalty, positive
from taskdict.experiments.frame import Command, Experiment
from taskdict.experiments.settings import Option, Settings, ascending, descending, setting

PATCH_SIZE = 10
COLUMNS = {  # of the table: the initial Z, whether Z is learned, and the kind of D
    "RANDOM, DCT": ("random", False, "cosines"),
    "RANDOM, UL": ("random", False, "unsupervised"),
    "RANDOM, SL": ("random", False, "learned"),
    "SL1": ("random", True, "learned"),
    "PCA, DCT": ("pca", False, "cosines"),
    "PCA, UL": ("pca", False, "unsupervised"),
    "PCA, SL": ("pca", False, "learned"),
    "SL2": ("pca", True, "learned"),
}
PAPER_ERRORS = {  # mean squared error times 100 and its deviation, by r, in the order of the columns
    5: ((77.3, 4.0), (76.9, 4.0), (76.7, 4.0), (54.1, 1.3), (49.9, 0.0), (47.6, 0.0), (47.5, 0.1), (47.3, 0.3)),
    10: ((57.8, 1.5), (56.5, 1.5), (55.7, 1.4), (36.5, 0.7), (33.7, 0.0), (32.3, 0.0), (32.3, 0.1), (31.9, 0.2)),
    20: ((37.1, 1.2), (35.4, 1.0), (34.5, 0.9), (21.4, 0.1), (20.4, 0.0), (19.7, 0.0), (19.6, 0.1), (19.4, 0.2)),
    40: ((19.3, 0.8), (18.5, 0.7), (18.0, 0.6), (10.0, 0.3), (9.2, 0.0), (9.1, 0.0), (9.0, 0.0), (9.0, 0.0)),
}
LAMBDA1_GRID = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # the paper's without 1, for which codes of signals of norm one vanish
RATIO_GRID = (0.01, 0.1, 1.0)  # of λ2 to λ1


@dataclass(frozen=True)
class SensingSettings(Settings):
    """The settings."""

    measurements: tuple[int, ...] = setting(
        (5, 10, 20, 40),
        Option("--measurements", "numbers of them (default: 5 10 20 40)", positive, several=True, collect=ascending),
    )
    size: int = setting(400, Option("--atoms", "number of atoms (default: 400)", positive))
    train: int = setting(1_000_000, Option("--patches", "patches to learn from (default: 1,000,000)", positive))
    select: int = setting(
        100_000,
        Option("--select", "patches to learn from while λ1 and λ2 are chosen (default: 100,000)", positive),
    )
    validation: int = 50_000  # patches
    test: int = setting(500_000, Option("--test", "patches to test on (default: 500,000)", positive))
    lambda1: tuple[float, ...] = setting(
        LAMBDA1_GRID,
        Option("--lambda1", "λ1 to choose from (default: 0.1 … 0.00001)", penalty, several=True, collect=descending),
    )
    ratio: tuple[float, ...] = setting(
        RATIO_GRID,
        Option("--ratio", "λ2 / λ1 to choose from (default: 0.01 0.1 1)", penalty, several=True, collect=ascending),
    )
    seeds: tuple[int, ...] = setting(
        (0, 1, 2), Option("--seeds", "seeds of repetitions (default: 0 1 2)", natural, several=True)
    )

    def quick(self) -> SensingSettings:
        """Return a small version of the same experiment."""
        return replace(
            self,
            measurements=(10,),
            size=min(self.size, 100),
            train=60_000,
            select=20_000,
            validation=5_000,
            test=20_000,
            lambda1=(1e-1, 1e-2),
            ratio=(0.1,),
            seeds=self.seeds[:2],
        )

    def check(self, given: Collection[str]) -> None:
        """Raise for weights of zero, and for too many measurements."""
        for name, weights in (("lambda1", self.lambda1), ("ratio", self.ratio)):
            if min(weights) == 0:
                raise ValueError(f"--{name} must be positive: without λ2 = ratio · λ1 learning does not converge.")
        if max(self.measurements) >= PATCH_SIZE**2:
            raise ValueError(f"--measurements must be fewer than the {PATCH_SIZE**2} pixels of a patch.")


EXPERIMENT = Experiment(
    package=__name__,
    name="sensing",
    command=Command(
        name="sensing",
        section="5.4",
        summary="patches of photographs from few measurements: Table 3",
        description="Compressed sensing, as in Section 5.4 of the paper (Table 3). The whole experiment takes hours.",
        data="voc2006/ (default: TASKDICT_DATA, then a cache)",
        output="the record and the table (default: taskdict-sensing here)",
    ),
    settings=SensingSettings,
)
