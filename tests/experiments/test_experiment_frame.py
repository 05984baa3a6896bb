"""The frame of experiments: every experiment of the catalogue has its parts, and commands start quickly."""

import argparse
import inspect
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from taskdict.cli.reproduce import add_command
from taskdict.experiments.catalogue import all_experiments
from taskdict.experiments.frame import Procedure, Report
from taskdict.experiments.settings import Option, Settings, ascending, descending, setting

EXPERIMENTS = {experiment.name: experiment for experiment in all_experiments()}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_its_parts(name):
    experiment = EXPERIMENTS[name]
    for module, protocol in ((experiment.procedure, Procedure), (experiment.report, Report)):
        functions = [key for key, value in vars(protocol).items() if inspect.isfunction(value) and key[0] != "_"]
        assert functions
        for function in functions:
            wanted = list(inspect.signature(getattr(protocol, function)).parameters)[1:]
            found = inspect.signature(getattr(module, function)).parameters
            assert len(found) == len(wanted), f"{experiment.package}: {function}"
    assert pickle.loads(pickle.dumps(experiment)) == experiment
    assert experiment.settings().quick() != experiment.settings()


def test_the_order_is_the_papers():
    assert list(EXPERIMENTS) == ["digits", "digits, semi-supervised", "halftoning", "sensing", "art"]


def test_a_command_imports_no_procedure_before_it_runs():
    code = (
        "import sys; from taskdict import cli\n"
        "try: cli.main(['reproduce', 'digits', '--help'])\n"
        "except SystemExit: pass\n"
        "ours = [name for name in sys.modules if name.startswith('taskdict.experiments.')]\n"
        "print([name for name in ours if name.endswith(('.procedure', '.report'))], 'matplotlib' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[] False"


@dataclass(frozen=True)
class Small(Settings):
    kind: str = setting("a", Option("--kind", "", choices=("a", "b"), selects=True))
    loud: bool = setting(False, Option("--loud", "", selects=True))
    numbers: tuple[int, ...] = setting((3,), Option("--numbers", "", int, several=True))
    up: tuple[int, ...] = setting((), Option("--up", "", int, several=True, collect=ascending))
    down: tuple[int, ...] = setting((), Option("--down", "", int, several=True, collect=descending))
    one: int = setting(1, Option("--one-number", "", int, several=True))
    fixed: int = 5

    def quick(self):
        return replace(self, numbers=(0,), one=0, fixed=6 if self.kind == "a" else 7)


def parsed(*arguments, quick=False):
    parsers = argparse.ArgumentParser().add_subparsers()
    experiment = replace(EXPERIMENTS["art"], settings=Small)
    add_command(parsers, [experiment])
    options = vars(parsers.choices["art"].parse_args(arguments))
    settings = Small.from_options(options, quick=quick, flag="--flag")
    return settings, experiment.default_folder(settings, quick=quick)


def test_settings_follow_from_options():
    assert parsed() == (Small(), Path("taskdict-art-a"))
    settings, folder = parsed("--numbers", "2", "1", "2", "--up", "2", "1", "2", "--down", "1", "2", "--loud")
    assert settings == Small(loud=True, numbers=(2, 1), up=(1, 2), down=(2, 1))
    assert folder == Path("taskdict-art-a-loud")


def test_the_variant_is_selected_before_the_quick_version_and_other_options_come_last():
    settings, folder = parsed("--kind", "b", "--one-number", "9", quick=True)
    assert settings == Small(kind="b", numbers=(0,), one=9, fixed=7, is_small=True)
    assert folder == Path("taskdict-art-b-quick")


def test_a_setting_of_one_number_takes_one():
    with pytest.raises(ValueError, match="--one-number must be one number with --flag, got 2"):
        parsed("--one-number", "1", "2")
