"""``taskdict demo`` and ``taskdict reproduce``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from taskdict.cli.numbers import natural, penalty, positive, several_atoms


def add_demo(commands: Any) -> None:
    """Add ``taskdict demo``."""
    demo = commands.add_parser(
        "demo",
        help="learn to tell handwritten digits apart, and see how tuning the dictionary helps",
        description="Learn to tell scikit-learn's handwritten digits apart in three ways, and save a picture.",
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of all random choices (default: 0)")
    demo.add_argument("--output", type=Path, default=Path("taskdict-demo.png"), help="the picture to save, a .png file")
    demo.set_defaults(run=run_demo, interrupted="")


def run_demo(options: argparse.Namespace) -> None:
    """Run ``taskdict demo``."""
    from taskdict.experiments import demo

    demo.run(options.seed, options.output)


def add_reproduce(commands: Any) -> None:
    """Add ``taskdict reproduce``."""
    reproduce = commands.add_parser("reproduce", help="do an experiment of the paper again")
    experiments = reproduce.add_subparsers(required=True, metavar="experiment")
    add_digits(experiments)
    add_halftoning(experiments)


def add_digits(experiments: Any) -> None:
    """Add ``taskdict reproduce digits``."""
    digits = experiments.add_parser(
        "digits",
        help="handwritten digits: Table 1, or with --semi-supervised the errors with few labels",
        description="Handwritten digits, as in Section 5.2 of the paper: errors of unsupervised and of task-driven "
        "dictionaries (Table 1), or with --semi-supervised the errors with few labels. What is done is kept in the "
        "output folder: after a break, the same command goes on.",
    )
    digits.add_argument(
        "--semi-supervised", action="store_true", help="the second experiment: few labels, μ from 1 to 0"
    )
    digits.add_argument("--quick", action="store_true", help="a small version, two to three minutes")
    digits.add_argument(
        "--data-set",
        choices=("mnist", "usps", "bundled"),
        default="mnist",
        help="default: mnist; bundled is that of scikit-learn, always in the quick version",
    )
    digits.add_argument(
        "--data",
        metavar="FOLDER",
        help="folder with mnist/ and usps/ (default: TASKDICT_DATA, then a cache, then a download)",
    )
    digits.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="for the record, models and pictures (default: taskdict-digits-DATA-RECIPE here)",
    )
    digits.add_argument(
        "--recipe",
        choices=("paper", "ours"),
        help="the paper's (default), or ours: bent digits, adaptive steps",
    )
    several: dict[str, Any] = {"nargs": "+", "metavar": "N"}
    numbers: dict[str, Any] = {"nargs": "+", "metavar": "X", "type": penalty}
    digits.add_argument("--sizes", type=several_atoms, **several, help="numbers of atoms p (default: 50 100 200 300)")
    digits.add_argument(
        "--iterations",
        type=positive,
        metavar="N",
        help="batches of 200, for each μ if semi-supervised (default: as in the paper, 40000 or 10000)",
    )
    digits.add_argument(
        "--selection-iterations", type=positive, metavar="N", help="batches of each choice to be made (default: 1000)"
    )
    digits.add_argument("--seeds", type=natural, **several, help="seeds, or draws of the labels (default: 0, or 0 1 2)")
    digits.add_argument("--lambda1", **numbers, help="weights of the ℓ1 norm to choose from (default: 0.075 … 0.225)")
    digits.add_argument("--nu", **numbers, help="weights of ‖W‖²/2 to choose from (default: 0.1 … 1e-6)")
    digits.add_argument("--rho", **numbers, help="learning rates to choose from (recipe: paper; default: 0.5 … 10)")
    digits.add_argument("--bend", **numbers, help="displacements in pixels to choose from (recipe: ours)")
    digits.add_argument("--lambda2", type=penalty, metavar="X", help="weight of the squared ℓ2 norm (default: 0)")
    digits.add_argument(
        "--multi-class", choices=("ovr", "softmax"), help="a dictionary per class (default), or one for all"
    )
    digits.add_argument("--labels", type=positive, **several, help="numbers of labels (default: 300 1000 5000)")
    digits.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    digits.set_defaults(run=run_digits, interrupted=": the same command goes on from here")


def run_digits(options: argparse.Namespace) -> None:
    """Run ``taskdict reproduce digits``."""
    from taskdict.experiments import digits_report

    semi = options.semi_supervised
    settings = (digits_report.semi_supervised_settings if semi else digits_report.table_1_settings)(options)
    words = ["taskdict-digits", options.data_set, settings.recipe]
    words += [word for word, wanted in (("semi-supervised", semi), ("quick", options.quick)) if wanted]
    folder = options.output or Path("-".join(words))
    digits_report.report(settings, folder, data=options.data, n_threads=options.threads)


def add_halftoning(experiments: Any) -> None:
    """Add ``taskdict reproduce halftoning``."""
    halftoning = experiments.add_parser(
        "halftoning",
        help="grey pictures from black and white ones: Table 2",
        description="Inverse halftoning, as in Section 5.3 of the paper (Table 2). What is done is kept in the output "
        "folder: after a break, the same command goes on.",
    )
    halftoning.add_argument("--quick", action="store_true", help="a small version")
    halftoning.add_argument(
        "--data",
        metavar="FOLDER",
        help="folder with kodak/, classic12/ and halftones/ (default: TASKDICT_DATA, then a cache)",
    )
    halftoning.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="for the record, the model and pictures (default: taskdict-halftoning here)",
    )
    halftoning.add_argument(
        "--recipe", choices=("paper", "ours"), help="the paper's (default), or ours: places of a patch have weights"
    )
    halftoning.add_argument("--patch-size", type=positive, metavar="N", help="side of a patch (default: 10)")
    halftoning.add_argument("--atoms", type=positive, metavar="N", help="number of atoms (default: 500)")
    halftoning.add_argument("--lambda1", type=penalty, metavar="X", help="to learn with (default: 0.6)")
    halftoning.add_argument("--passes", type=penalty, metavar="X", help="over all pairs of patches (default: 2)")
    halftoning.add_argument(
        "--restoration", type=penalty, nargs="+", metavar="X", help="λ1 to choose from (default: 0.4 … 0.8)"
    )
    halftoning.add_argument(
        "--denoise",
        type=penalty,
        nargs="+",
        metavar="X",
        help="deviations of artefacts to choose from (default: 0.005 … 0.02; 0: none)",
    )
    halftoning.add_argument("--stride", type=positive, metavar="N", help="pixels between patches (default: 1)")
    halftoning.add_argument("--seed", type=natural, metavar="N", help="seed of all random choices (default: 0)")
    halftoning.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    halftoning.set_defaults(run=run_halftoning, interrupted=": the same command goes on from here")


def run_halftoning(options: argparse.Namespace) -> None:
    """Run ``taskdict reproduce halftoning``."""
    from taskdict.experiments import halftoning_report

    settings = halftoning_report.settings_from(options)
    words = ["taskdict-halftoning", settings.recipe, *(["quick"] if options.quick else [])]
    folder = options.output or Path("-".join(words))
    halftoning_report.report(settings, folder, data=options.data, n_threads=options.threads)
