"""``taskdict reproduce``: one command for each experiment of the catalogue."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from taskdict._common.argument_types import positive
from taskdict.experiments.catalogue import all_experiments
from taskdict.experiments.frame import Experiment, reproduce_and_show


def add_reproduce(commands: Any) -> None:
    """Add ``taskdict reproduce``."""
    reproduce = commands.add_parser("reproduce", help="do an experiment of the paper again")
    parsers = reproduce.add_subparsers(required=True, metavar="experiment")
    for _, experiments in groupby(all_experiments(), key=lambda experiment: experiment.command):
        add_command(parsers, list(experiments))


def add_command(parsers: Any, experiments: Sequence[Experiment]) -> None:
    """Add the command of an experiment, or of several that a flag distinguishes; options of all of them are added."""
    command = experiments[0].command
    parser = parsers.add_parser(
        command.name,
        help=command.summary,
        description=f"{command.description} Results are kept in the output folder: after a break, the same command "
        "resumes.",
    )
    parser.add_argument("--quick", action="store_true", help=command.quick)
    parser.add_argument("--data", metavar="FOLDER", help=f"folder with {command.data}")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help=f"for {command.output}")
    parser.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    for experiment in experiments:
        if experiment.flag is not None:
            parser.add_argument(
                experiment.flag, dest="flag", action="store_const", const=experiment.flag, help=experiment.flag_help
            )
    options = {option.flag: option for experiment in experiments for option in experiment.settings.options()}
    for option in options.values():
        option.add_to(parser)
    parser.set_defaults(run=partial(run_command, experiments), interrupted=": the same command resumes from here")


def run_command(experiments: Sequence[Experiment], options: argparse.Namespace) -> None:
    """Run ``taskdict reproduce <experiment>``."""
    given, flag = vars(options), vars(options).get("flag")
    experiment = next(each for each in experiments if each.flag == flag)
    check_options(experiment, experiments, given)
    settings = experiment.settings.from_options(given, quick=options.quick, flag=flag)
    folder = options.output or experiment.default_folder(settings, quick=options.quick)
    reproduce_and_show(experiment, settings, folder, data=options.data, n_threads=options.threads)


def check_options(experiment: Experiment, experiments: Sequence[Experiment], given: dict[str, Any]) -> None:
    """Raise for an option that only another experiment of the same command has."""
    own = {option.flag for option in experiment.settings.options()}
    for other in experiments:
        for option in other.settings.options():
            if option.flag not in own and option.is_given(given):
                wrong = f"is for {other.flag}" if experiment.flag is None else f"is not for {experiment.flag}"
                raise ValueError(f"{option.flag} {wrong}.")
