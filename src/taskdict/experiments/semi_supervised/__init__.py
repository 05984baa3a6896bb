"""Digits with few labels (paper, Section 5.2, second experiment): errors for a falling weight μ of reconstruction.

Some digits have labels, as many of each class; of the others only the images are used. μ falls from 1, where the
dictionary only reconstructs, to 0, where it only classifies. The training for each μ starts from the model of the value
before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from taskdict._common.argument_types import positive
from taskdict.experiments.digits import COMMAND, DATA_SET, ITERATIONS, LAMBDA1, NU, RECIPE, SEEDS, SIZES
from taskdict.experiments.frame import Experiment
from taskdict.experiments.settings import Option, Settings, setting

MUS = tuple(round(1 - 0.1 * k, 1) for k in range(11))
PAPER_ERRORS = {300: 5.81, 1000: 3.55, 5000: 1.81}  # lowest test error over μ in percent, by number of labels


@dataclass(frozen=True)
class SemiSupervisedSettings(Settings):
    """The settings; the defaults are the paper's, except for the shifts of the digits, which it does not mention.

    Digits are shifted by one pixel in all eight directions. With `recipe` "ours" digits are also distorted elastically
    and represented by their principal components, and steps are adaptive. `draws` are seeds of the random choice of
    labels: the choice of the paper is not public.
    """

    data_set: str = setting("mnist", DATA_SET)
    labels: tuple[int, ...] = setting(
        (300, 1000, 5000),
        Option("--labels", "numbers of labels (default: 300 1000 5000)", positive, several=True),
    )
    draws: tuple[int, ...] = setting((0, 1, 2), SEEDS)
    size: int = setting(300, SIZES)
    lambda1: float = setting(0.075, LAMBDA1)
    nu: float = setting(1e-5, NU)
    iterations: int = setting(10_000, ITERATIONS)  # for each μ
    batch_size: int = 200  # digits with labels, and as many without
    recipe: str = setting("paper", RECIPE)
    limit: int | None = None  # digits without labels, None for all

    def quick(self) -> SemiSupervisedSettings:
        """Return a small version of the same experiment."""
        n_labels = 100 if self.is_always_quick else 300
        return replace(self, labels=(n_labels,), draws=(0,), size=50, iterations=20, limit=5_000)

    @property
    def is_always_quick(self) -> bool:
        """The bundled digits are few."""
        return self.data_set == "bundled"


EXPERIMENT = Experiment(
    package=__name__,
    name="digits, semi-supervised",
    command=COMMAND,
    settings=SemiSupervisedSettings,
    flag="--semi-supervised",
    flag_help="the second experiment: few labels, μ from 1 to 0",
)
