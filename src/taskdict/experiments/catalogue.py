"""The experiments: every package beside this module that declares one."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from taskdict import experiments
from taskdict.experiments.frame import Experiment


def all_experiments() -> list[Experiment]:
    """Return the experiments in the order of the paper; of one command, the one without a flag comes first."""
    packages = [module.name for module in pkgutil.iter_modules(experiments.__path__) if module.ispkg]
    modules = [import_module(f"{experiments.__name__}.{name}") for name in packages]
    found: list[Experiment] = [module.EXPERIMENT for module in modules if hasattr(module, "EXPERIMENT")]
    return sorted(found, key=lambda experiment: (experiment.command.section, experiment.flag or ""))
