"""The frame of an experiment: declared once, reproduced and shown by one machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

from taskdict._common.atomic_files import replace_text
from taskdict.datasets import DataError
from taskdict.experiments.record import Json, is_small, open_folder, write_record
from taskdict.experiments.runner import ReportSteps, Run, Runner
from taskdict.experiments.settings import Settings

SMALL = (
    "A small version (`--quick`): fewer data, fewer batches, smaller models, fewer parameters to choose from. It shows "
    "that all steps work. Its numbers are not those of the paper's experiment, so they are not shown beside them."
)

Measure = Callable[[list[Run]], list[Json]]  # returns the result of each run


class DataSet(Protocol):
    """The data of an experiment: a name and a digest, or a dict of digests, which go to the record."""

    @property
    def name(self) -> str:
        """Name of the data set."""

    @property
    def sha256(self) -> Any:
        """Digest of the content."""


@dataclass(frozen=True)
class Task:
    """A run with all that is needed to do it.

    Attributes
    ----------
    name : str
        Name of the run.
    settings : dict
        Its settings.
    data : data set
        The data.
    folder : Path
        Folder of the experiment.
    checkpoint : Path
        File to resume the run from; names that begin with it are free for other files that the run keeps.
    n_threads : int
        Threads to use.
    report : callable
        Takes the number of steps done, and of steps in all.
    """

    name: str
    settings: Json
    data: Any
    folder: Path
    checkpoint: Path
    n_threads: int
    report: ReportSteps


class Procedure(Protocol):
    """The module ``procedure`` of an experiment."""

    def load(self, settings: Any, data: str | None) -> DataSet:
        """Load the data, from a folder or where :mod:`taskdict.datasets` finds them."""

    def find(self, settings: Any, data: Any, measure: Measure) -> Json:
        """Measure runs, in stages if later ones depend on earlier ones, and return the content of the record."""

    def work(self, task: Task) -> Json:
        """Do a run, and return its result."""


class Report(Protocol):
    """The module ``report`` of an experiment."""

    def describe(self, record: Json) -> str:
        """Return a paragraph about the experiment, empty if the table says all."""

    def table(self, record: Json) -> str:
        """Return the results as a table in Markdown."""

    def figures(self, record: Json, folder: Path, data: str | None) -> list[Path]:
        """Write the figures, and return their paths."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """The command line of one experiment, or of several that a flag distinguishes.

    Attributes
    ----------
    name : str
        Of the command: ``taskdict reproduce <name>``.
    section : str
        Section of the paper; commands are listed in this order.
    summary, description : str
        Help.
    data, output : str
        Help of the options for the folders of the data and of the results.
    quick : str
        Help of the option for the small version.
    """

    name: str
    section: str
    summary: str
    description: str
    data: str
    output: str
    quick: str = "a small version, a minute or two, that shows the steps; its numbers are not the paper's experiment"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment of the paper.

    Attributes
    ----------
    package : str
        The package that declares it, which has the modules ``procedure`` and ``report``.
    name : str
        Its name in the record.
    command : Command
        Its command.
    settings : type
        Its settings.
    flag, flag_help : str or None
        The option that selects this experiment, if the command has several.
    """

    package: str
    name: str
    command: Command
    settings: type[Settings]
    flag: str | None = None
    flag_help: str | None = None

    @property
    def procedure(self) -> Procedure:
        """The module with the runs, imported when it is needed."""
        return cast(Procedure, import_module(f"{self.package}.procedure"))

    @property
    def report(self) -> Report:
        """The module with the table and the figures, imported when it is needed."""
        return cast(Report, import_module(f"{self.package}.report"))

    def default_folder(self, settings: Settings, *, quick: bool) -> Path:
        """Return the name of the output folder if none is given."""
        words = ["taskdict", self.command.name, *settings.variant_words()]
        words += [self.flag.removeprefix("--")] if self.flag else []
        words += ["quick"] if quick else []
        return Path("-".join(words))


def reproduce(
    experiment: Experiment,
    settings: Settings,
    folder: Path,
    *,
    data: str | None = None,
    n_threads: int | None = None,
    file: TextIO | None = None,
) -> Json:
    """Do an experiment, or the rest of it, and return its record, which is also written to ``record.json``.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    settings : Settings
        Its settings.
    folder : Path
        Folder for the record, the results of all runs, the models and the checkpoints.
    data : str or None
        Folder with the data sets, see :mod:`taskdict.datasets`.
    n_threads : int or None
        Threads to use, None for all cores.
    file : file or None
        Where to show the progress, None for standard error.
    """
    worker = Worker(experiment, settings, data)
    runner = Runner(folder, worker, n_threads, file)

    def measure(runs: list[Run]) -> list[Json]:
        return runner.results([replace(run, settings={**run.settings, "sha256": worker.digest}) for run in runs])

    found = experiment.procedure.find(settings, worker.data_set, measure)
    data_set = {"name": worker.data_set.name, "sha256": worker.digest}
    return write_record(folder, experiment.name, settings, data_set, **found)


class Worker:
    """Does runs of an experiment, with data that are loaded once in each process.

    Parameters
    ----------
    experiment, settings, data
        As for :func:`reproduce`.
    """

    def __init__(self, experiment: Experiment, settings: Settings, data: str | None) -> None:
        self._arguments = experiment, settings, data
        self._procedure = experiment.procedure

    def __reduce__(self) -> tuple[Any, ...]:
        return Worker, self._arguments  # another process loads the data itself

    @cached_property
    def data_set(self) -> DataSet:
        """The data."""
        _, settings, data = self._arguments
        return self._procedure.load(settings, data)

    @cached_property
    def digest(self) -> Any:
        """The digest of the data."""
        return self.data_set.sha256

    def __call__(self, run: Run, checkpoint: Path, n_threads: int, report: ReportSteps) -> Json:
        """Do a run; raise if the data are not those that the experiment began with."""
        if self.digest != run.settings["sha256"]:
            raise DataError("the data have changed since the experiment began.")
        folder = checkpoint.parent.parent
        task = Task(run.name, run.settings, self.data_set, folder, checkpoint, n_threads, report)
        return self._procedure.work(task)


def show(experiment: Experiment, record: Json, folder: Path, *, data: str | None = None) -> None:
    """Print the table of an experiment, and write it and the figures to its folder."""
    parts = [SMALL] if is_small(record) else []
    parts += [experiment.report.describe(record), experiment.report.table(record)]
    text = "\n\n".join(part for part in parts if part) + "\n"
    replace_text(folder / "table.md", text)
    figures = experiment.report.figures(record, folder, data)
    print(f"\n{text}\nall runs together took {record['seconds'] / 60:.1f} minutes")
    print(f"saved {', '.join(str(path) for path in [folder / 'record.json', folder / 'table.md', *figures])}")


def reproduce_and_show(
    experiment: Experiment, settings: Settings, folder: Path, *, data: str | None, n_threads: int | None
) -> None:
    """Do an experiment and show its results."""
    open_folder(folder, experiment.name)
    record = reproduce(experiment, settings, folder, data=data, n_threads=n_threads)
    show(experiment, record, folder, data=data)
