"""Handwritten digits (paper, Section 5.2): errors of unsupervised and of task-driven dictionaries, Table 1.

There is one dictionary and one binary classifier per class. λ1 and ν are chosen on digits that are held out from the
training set; then the models are learned again on all of it. The labels of the test set are used for the last numbers
only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from taskdict._common.argument_types import natural, penalty, positive, several_atoms
from taskdict.experiments.frame import Command, Experiment
from taskdict.experiments.settings import Option, Settings, setting

LAMBDA1_GRID = tuple(round(0.15 + 0.025 * k, 3) for k in range(-3, 4))  # the paper's
NU_GRID = tuple(10.0**-k for k in range(1, 7))  # the paper's
RHO_GRID = (0.5, 1.0, 2.0, 5.0, 10.0)
BEND_GRID = (0.0, 0.5, 0.8, 1.1)  # of our recipe
STARTS = ("halves", "mixed", "class")  # of the atoms of an unsupervised dictionary
PAPER_ERRORS = {  # on the test set in percent: by data set, unsupervised and supervised, for each size
    "mnist": {
        "unsupervised": {50: 5.27, 100: 3.92, 200: 2.95, 300: 2.36},
        "supervised": {50: 0.96, 100: 0.73, 200: 0.57, 300: 0.54},
    },
    "usps": {
        "unsupervised": {50: 8.02, 100: 6.03, 200: 5.13, 300: 4.58},
        "supervised": {50: 3.64, 100: 3.09, 200: 2.88, 300: 2.84},
    },
}

# Options that the experiment with few labels has too.
DATA_SET = Option(
    "--data-set",
    "default: mnist; bundled is that of scikit-learn, always in the quick version",
    choices=("mnist", "usps", "bundled"),
    selects=True,
)
RECIPE = Option(
    "--recipe",
    "the paper's (default), or ours: elastic distortions of the digits, adaptive steps",
    choices=("paper", "ours"),
    selects=True,
)
SIZES = Option("--sizes", "numbers of atoms p (default: 50 100 200 300)", several_atoms, several=True)
ITERATIONS = Option(
    "--iterations",
    "batches of 200, for each μ if semi-supervised (default: as in the paper, 40000 or 10000)",
    positive,
)
SEEDS = Option("--seeds", "seeds, or draws of the labels (default: 0, or 0 1 2)", natural, several=True)
LAMBDA1 = Option("--lambda1", "weights of the ℓ1 norm to choose from (default: 0.075 … 0.225)", penalty, several=True)
NU = Option("--nu", "weights of ‖W‖²/2 to choose from (default: 0.1 … 1e-6)", penalty, several=True)


@dataclass(frozen=True)
class DigitsSettings(Settings):
    """The settings; the defaults are the paper's.

    Digits are shifted by one pixel in all eight directions. With `recipe` "paper" there is one learning rate for all
    parameters, the last iterate is the model, and a test digit is scored once. With "ours" digits are distorted
    elastically and represented by their principal components, steps are adaptive, the last iterates are averaged where
    that is better, and a test digit is scored with its eight shifts (test-time augmentation).
    """

    data_set: str = setting("mnist", DATA_SET)
    recipe: str = setting("paper", RECIPE)
    sizes: tuple[int, ...] = setting((50, 100, 200, 300), SIZES)
    iterations: int = setting(40_000, ITERATIONS)
    batch_size: int = 200
    seeds: tuple[int, ...] = setting((0,), SEEDS)
    multi_class: str = setting(
        "ovr",
        Option("--multi-class", "a dictionary per class (default), or one for all", choices=("ovr", "softmax")),
    )
    lambda2: float = setting(0.0, Option("--lambda2", "weight of the squared ℓ2 norm (default: 0)", penalty))
    lambda1: tuple[float, ...] = setting(LAMBDA1_GRID, LAMBDA1)
    nu: tuple[float, ...] = setting(NU_GRID, NU)
    rho: tuple[float, ...] = setting(
        RHO_GRID,
        Option("--rho", "learning rates to choose from (recipe: paper; default: 0.5 … 10)", penalty, several=True),
    )
    bends: tuple[float, ...] = setting(
        BEND_GRID,
        Option("--bend", "displacements in pixels to choose from (recipe: ours)", penalty, several=True),
    )
    starts: tuple[str, ...] = STARTS
    selection_size: int = 100  # atoms of the models that λ1, ν and the bend are chosen with
    selection_iterations: int = setting(
        1_000, Option("--selection-iterations", "batches of each choice to be made (default: 1000)", positive)
    )
    limit: int | None = None  # digits to learn from, None for all

    def quick(self) -> DigitsSettings:
        """Return a small version of the same experiment."""
        smallest = min(*self.sizes, 50)
        return replace(
            self,
            sizes=(smallest,),
            iterations=1_000,
            lambda1=self.lambda1[:: max(1, len(self.lambda1) // 2)][:3],
            nu=tuple(nu for nu in self.nu if nu in (1e-3, 1e-5)) or self.nu[:1],
            rho=(5.0,),
            bends=self.bends[1:2],
            starts=self.starts[:1],
            selection_size=smallest,
            selection_iterations=200,
            limit=10_000,
        )

    @property
    def is_always_quick(self) -> bool:
        """The bundled digits are few."""
        return self.data_set == "bundled"

    def check(self, given: Collection[str]) -> None:
        """Raise for options of the other recipe."""
        if self.recipe == "paper" and "--bend" in given:
            raise ValueError("--bend is for --recipe ours: the paper's digits are not distorted.")
        if self.recipe == "ours" and "--rho" in given:
            raise ValueError("--rho is for --recipe paper: the steps of ours are adaptive.")


COMMAND = Command(
    name="digits",
    section="5.2",
    summary="handwritten digits: Table 1, or with --semi-supervised the errors with few labels",
    description="Handwritten digits, as in Section 5.2 of the paper: errors of unsupervised and of task-driven "
    "dictionaries (Table 1), or with --semi-supervised the errors with few labels.",
    data="mnist/ and usps/ (default: TASKDICT_DATA, then a cache, then a download)",
    output="the record, models and images (default: taskdict-digits-DATA-RECIPE here)",
)
EXPERIMENT = Experiment(package=__name__, name="digits", command=COMMAND, settings=DigitsSettings)
