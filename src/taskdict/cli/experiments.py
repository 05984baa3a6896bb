"""``taskdict demo`` and ``taskdict reproduce``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
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
    add_sensing(experiments)
    add_art(experiments)


def add_experiment(
    experiments: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    *,
    summary: str,
    description: str,
    data: str,
    output: str,
    quick: str = "a small version, a minute or two",
) -> Any:
    """Add an experiment with the options that all of them have."""
    parser = experiments.add_parser(
        name,
        help=summary,
        description=f"{description} What is done is kept in the output folder: after a break, the same command "
        "goes on.",
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--data", metavar="FOLDER", help=f"folder with {data}")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help=f"for {output}")
    parser.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    parser.set_defaults(run=run, interrupted=": the same command goes on from here")
    return parser


def add_digits(experiments: Any) -> None:
    """Add ``taskdict reproduce digits``."""
    digits = add_experiment(
        experiments,
        "digits",
        run_digits,
        summary="handwritten digits: Table 1, or with --semi-supervised the errors with few labels",
        description="Handwritten digits, as in Section 5.2 of the paper: errors of unsupervised and of task-driven "
        "dictionaries (Table 1), or with --semi-supervised the errors with few labels.",
        data="mnist/ and usps/ (default: TASKDICT_DATA, then a cache, then a download)",
        output="the record, models and pictures (default: taskdict-digits-DATA-RECIPE here)",
    )
    digits.add_argument(
        "--semi-supervised", action="store_true", help="the second experiment: few labels, μ from 1 to 0"
    )
    digits.add_argument(
        "--data-set",
        choices=("mnist", "usps", "bundled"),
        default="mnist",
        help="default: mnist; bundled is that of scikit-learn, always in the quick version",
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
    halftoning = add_experiment(
        experiments,
        "halftoning",
        run_halftoning,
        summary="grey pictures from black and white ones: Table 2",
        description="Inverse halftoning, as in Section 5.3 of the paper (Table 2).",
        data="kodak/, classic12/ and halftones/ (default: TASKDICT_DATA, then a cache)",
        output="the record, the model and pictures (default: taskdict-halftoning-RECIPE here)",
        quick="a small version",
    )
    halftoning.add_argument(
        "--recipe",
        choices=("paper", "ours"),
        help="the paper's (default), or ours: weights of the places of a patch, and a second look",
    )
    halftoning.add_argument("--patch-size", type=positive, metavar="N", help="side of a patch (default: 10)")
    halftoning.add_argument("--atoms", type=positive, metavar="N", help="number of atoms (default: 500, ours: 1000)")
    halftoning.add_argument("--lambda1", type=penalty, metavar="X", help="to learn with (default: 0.6)")
    halftoning.add_argument("--passes", type=penalty, metavar="X", help="over all pairs of patches (default: 2)")
    halftoning.add_argument(
        "--restoration",
        type=penalty,
        nargs="+",
        metavar="X",
        help="λ1 to choose from (default: 0.4 … 0.8, ours: 0.55 … 0.65)",
    )
    halftoning.add_argument(
        "--denoise",
        type=penalty,
        nargs="+",
        metavar="X",
        help="deviations of artefacts to choose from (default: 0.005 … 0.03; 0: none)",
    )
    halftoning.add_argument("--stride", type=positive, metavar="N", help="pixels between patches (default: 1)")
    halftoning.add_argument("--seed", type=natural, metavar="N", help="seed of all random choices (default: 0)")


def run_halftoning(options: argparse.Namespace) -> None:
    """Run ``taskdict reproduce halftoning``."""
    from taskdict.experiments import halftoning_report

    settings = halftoning_report.settings_from(options)
    words = ["taskdict-halftoning", settings.recipe, *(["quick"] if options.quick else [])]
    folder = options.output or Path("-".join(words))
    halftoning_report.report(settings, folder, data=options.data, n_threads=options.threads)


def add_sensing(experiments: Any) -> None:
    """Add ``taskdict reproduce sensing``."""
    sensing = add_experiment(
        experiments,
        "sensing",
        run_sensing,
        summary="patches of photographs from few measurements: Table 3",
        description="Compressed sensing, as in Section 5.4 of the paper (Table 3). The whole of it takes hours.",
        data="voc2006/ (default: TASKDICT_DATA, then a cache)",
        output="the record and the table (default: taskdict-sensing here)",
    )
    sensing.add_argument(
        "--measurements", type=positive, nargs="+", metavar="N", help="numbers of them (default: 5 10 20 40)"
    )
    sensing.add_argument("--atoms", type=positive, metavar="N", help="number of atoms (default: 400)")
    sensing.add_argument("--patches", type=positive, metavar="N", help="to learn from (default: 1,000,000)")
    sensing.add_argument(
        "--select",
        type=positive,
        metavar="N",
        help="patches to learn from while λ1 and λ2 are chosen (default: 100,000)",
    )
    sensing.add_argument("--test", type=positive, metavar="N", help="patches to test on (default: 500,000)")
    sensing.add_argument(
        "--lambda1", type=penalty, nargs="+", metavar="X", help="to choose from (default: 0.1 … 0.00001)"
    )
    sensing.add_argument(
        "--ratio", type=penalty, nargs="+", metavar="X", help="λ2 / λ1 to choose from (default: 0.01 0.1 1)"
    )
    sensing.add_argument("--seeds", type=natural, nargs="+", metavar="N", help="of repetitions (default: 0 1 2)")


def run_sensing(options: argparse.Namespace) -> None:
    """Run ``taskdict reproduce sensing``."""
    from taskdict.experiments import sensing_report

    folder = options.output or Path("taskdict-sensing-quick" if options.quick else "taskdict-sensing")
    settings = sensing_report.settings_from(options)
    sensing_report.report(settings, folder, data=options.data, n_threads=options.threads)


def add_art(experiments: Any) -> None:
    """Add ``taskdict reproduce art``."""
    art = add_experiment(
        experiments,
        "art",
        run_art,
        summary="an artist's own hand or another, by the votes of patches",
        description="Telling pictures of one hand from those of another, as in Section 5.5 of the paper, on a "
        "substitute for its pictures.",
        data="art/ (default: TASKDICT_DATA, then a cache)",
        output="the record, table and maps (default: taskdict-art here)",
    )
    art.add_argument(
        "--colour", action="store_true", help="patches in colour and as they are (default: grey, contrast-normalised)"
    )
    art.add_argument("--patch-size", type=positive, metavar="N", help="side of a patch (default: 12)")
    art.add_argument("--atoms", type=positive, metavar="N", help="number of atoms (default: 100)")
    art.add_argument("--patches", type=positive, metavar="N", help="of each class to learn from (default: 200,000)")
    art.add_argument(
        "--select", type=positive, metavar="N", help="patches of each class while λ1 is chosen (default: 20,000)"
    )
    art.add_argument("--lambda1", type=penalty, nargs="+", metavar="X", help="to choose from (default: 0.1 … 0.0001)")
    art.add_argument("--pairs", type=positive, metavar="N", help="of each two groups (default: all)")
    art.add_argument("--stride", type=positive, metavar="N", help="pixels between patches that vote (default: 4)")
    art.add_argument("--seed", type=natural, metavar="N", help="seed of all random choices (default: 0)")


def run_art(options: argparse.Namespace) -> None:
    """Run ``taskdict reproduce art``."""
    from taskdict.experiments import art_report

    words = ["taskdict-art", *(["colour"] if options.colour else []), *(["quick"] if options.quick else [])]
    folder = options.output or Path("-".join(words))
    art_report.report(art_report.settings_from(options), folder, data=options.data, n_threads=options.threads)
