"""Long experiments as runs that are done once: side by side in processes, each with a file for its result.

A run is described by its settings, which JSON can hold. Its result is written to ``runs/<name>.json`` in the folder of
the experiment when it is complete; a run whose file is there is not done again. What a run needs to go on after a
break, it keeps in a file in ``checkpoints/``, which runs with other settings do not see.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import queue
import re
import secrets
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from taskdict._threads import resolve_threads

Json = dict[str, Any]
Report = Callable[[int, int], None]  # steps done, and in all
Work = Callable[["Run", Path, int, Report], Json]  # run, checkpoint, threads, report: the result

NUMBERS = re.compile(r"\[\n\s+-?\d[\d.eE+-]*(?:,\n\s+-?\d[\d.eE+-]*)*\n\s+\]")  # a list of them in JSON
SECONDS_BETWEEN_REPORTS = 1.0
SECONDS_BETWEEN_LINES = 60.0  # where lines cannot be rewritten


class RunError(RuntimeError):
    """Raised when a run fails, with what it had to say."""


@dataclass(frozen=True)
class Run:
    """A run: the name of its files, its settings, and where its inputs are, which has no say in the result."""

    name: str
    settings: Json
    inputs: Json = field(default_factory=dict)


class Runner:
    """Does the runs of an experiment that are not done yet, `n_threads` at a time or with several threads each.

    Parameters
    ----------
    folder : Path
        Of the experiment.
    work : callable
        A function at the top of a module that does a run.
    n_threads : int or None
        Cores to use, None for all.
    file : file or None
        Where to show progress, None for standard error.
    """

    def __init__(self, folder: Path, work: Work, n_threads: int | None = None, file: TextIO | None = None) -> None:
        self.folder, self.work = folder, work
        self.context: Any = multiprocessing.get_context("spawn")
        self.n_threads = resolve_threads(n_threads)
        self.display = Display(sys.stderr if file is None else file)

    def results(self, runs: Sequence[Run]) -> list[Json]:
        """Return the result of each run; those whose files are there are read."""
        for name in ("runs", "checkpoints"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        waiting = [run for run in runs if self._read(run) is None]
        jobs = max(1, min(self.n_threads, len(waiting)))
        self.display.begin(len(runs), len(runs) - len(waiting))
        if jobs == 1:
            for run in waiting:
                if self._read(run) is None:
                    do(self.work, run, self.folder, self.n_threads, partial(self.display.show, run.name))
                self.display.finish(run.name)
        else:
            self._side_by_side(waiting, jobs)
        self.display.end()
        results = [self._read(run) for run in runs]
        missing = [run.name for run, result in zip(runs, results, strict=True) if result is None]
        if missing:
            raise RunError(f"the runs {', '.join(missing)} have left no result.")
        return [result for result in results if result is not None]

    def _read(self, run: Run) -> Json | None:
        path = _path(self.folder, run)
        if not path.exists():
            return None
        try:
            written: Json = json.loads(path.read_text(encoding="utf-8"))
            settings = written["settings"]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{str(path)!r} is damaged ({error}): remove it to do this run again.") from None
        if settings != run.settings:
            raise RunError(f"{str(path)!r} is of a run with other settings: give another --output, or remove the file.")
        return written

    def _side_by_side(self, waiting: list[Run], jobs: int) -> None:
        messages: Any = self.context.Queue()
        alive: dict[str, Any] = {}
        todo = list(waiting)
        try:
            while todo or alive:
                while todo and len(alive) < jobs:
                    run = todo.pop(0)
                    if self._read(run) is not None:  # by a command that works beside this one
                        self.display.finish(run.name)
                        continue
                    arguments = (self.work, run, self.folder, max(1, self.n_threads // jobs), messages, os.getpid())
                    alive[run.name] = self.context.Process(target=_child, args=arguments, daemon=True)
                    alive[run.name].start()
                ended = [name for name, process in alive.items() if process.exitcode is not None]
                self._listen(messages)  # what they had to say comes before their end
                for name in ended:
                    process = alive.pop(name)
                    if process.exitcode != 0:
                        raise RunError(f"the run {name!r} ended with status {process.exitcode}.")
                    self.display.finish(name)
        finally:
            for process in alive.values():
                process.terminate()
            for process in alive.values():
                process.join()

    def _listen(self, messages: Any) -> None:
        """Show what the runs report, for a while; raise if one has failed."""
        wait = 0.2
        while True:
            try:
                name, done, total = messages.get(timeout=wait)
            except queue.Empty:
                return
            if done < 0:
                raise RunError(f"the run {name!r} failed: {total}")
            self.display.show(name, done, total)
            wait = 0.01


def do(work: Work, run: Run, folder: Path, n_threads: int, report: Report) -> None:
    """Do a run and write its result."""
    begin = time.monotonic()
    digest = hashlib.sha256(json.dumps(run.settings, sort_keys=True).encode()).hexdigest()
    checkpoint = folder / "checkpoints" / f"{run.name}-{digest[:8]}"
    clock = checkpoint.with_name(f"{checkpoint.name}.seconds")
    before = float(clock.read_text(encoding="utf-8")) if clock.exists() else 0.0  # spent before a break
    last = begin

    def remember(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            write_text(clock, f"{before + last - begin:.1f}")
            report(done, total)

    with warnings.catch_warnings():  # a break may come after the last batch: that nothing was left to learn is no news
        warnings.filterwarnings("ignore", message="checkpoint .* is of a finished training")
        result = work(run, checkpoint, n_threads, remember)
    seconds = round(before + time.monotonic() - begin, 1)
    write_json(_path(folder, run), {"settings": run.settings, **result, "seconds": seconds, "threads": n_threads})
    for path in checkpoint.parent.glob(f"{checkpoint.name}*"):
        path.unlink(missing_ok=True)


def _child(work: Work, run: Run, folder: Path, n_threads: int, messages: Any, parent: int) -> None:
    """Do a run in a process of its own; it ends when the parent has gone."""

    def report(done: int, total: int) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)
        messages.put((run.name, done, total))

    try:
        do(work, run, folder, n_threads, report)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        told = isinstance(error, (OSError, ImportError, ValueError, TypeError, ArithmeticError, RunError))
        messages.put((run.name, -1, str(error) if told else traceback.format_exc()))
        messages.close()
        messages.join_thread()
        sys.exit(1)


class Display:
    """Shows how far the runs are: one line that is rewritten on a terminal, or a new one now and then elsewhere."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._terminal = file.isatty()

    def begin(self, total: int, done: int) -> None:
        """Start with so many runs, of which some are done."""
        self._total, self._done = total, done
        self._going: dict[str, tuple[int, int, float, int]] = {}  # steps, in all, since when, and steps then
        self._written = time.monotonic()
        if done < total:
            self._write(f"{done}/{total} runs")

    def show(self, name: str, done: int, total: int) -> None:
        """Note how far a run is."""
        now = time.monotonic()
        since, first = self._going[name][2:] if name in self._going else (now, done)
        self._going[name] = (done, total, since, first)
        if self._terminal or now - self._written >= SECONDS_BETWEEN_LINES:
            self._written = now
            self._write(f"{self._done}/{self._total} runs  " + "  ".join(self._words(name) for name in self._going))

    def _words(self, name: str) -> str:
        done, total, since, first = self._going[name]
        words = f"{name} {100 * done // max(1, total)} %"
        if done > first:
            left = (time.monotonic() - since) * (total - done) / (done - first)
            words += f" ({left / 60:.0f} min left)" if left >= 90 else f" ({left:.0f} s left)"
        return words

    def finish(self, name: str) -> None:
        """Note that a run is complete."""
        self._going.pop(name, None)
        self._done += 1

    def end(self) -> None:
        """Leave the line."""
        if self._terminal:
            self._write("")

    def _write(self, text: str) -> None:
        print(
            f"\r\x1b[K{text}" if self._terminal else text,
            end="" if self._terminal else "\n",
            file=self._file,
            flush=True,
        )


def open_folder(folder: Path, experiment: str) -> None:
    """Make the folder of an experiment, and say so; raise if it is not one, or that of another experiment."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output must be a folder, but {str(folder)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "record.json"
    if written.exists() and json.loads(written.read_text(encoding="utf-8")).get("experiment") != experiment:
        raise ValueError(f"{str(folder)!r} has another experiment: give another --output.")
    print(f"results go to {str(folder)!r}; after a break, the same command goes on from there", flush=True)


def keep_record(folder: Path, experiment: str, settings: Any, data: Json, **found: Any) -> Json:
    """Write what an experiment has found to ``record.json``, and return it.

    Parameters
    ----------
    folder : Path
        Of the experiment.
    experiment : str
        Its name.
    settings : dataclass
        What it is.
    data : dict
        Name and digest of the data.
    **found : anything that JSON can hold
        What was found; lists are results of runs, whose seconds are added up.
    """
    seconds = sum(run["seconds"] for runs in found.values() if isinstance(runs, list) for run in runs)
    record = {
        "experiment": experiment,
        "settings": asdict(settings),
        "data": data,
        **found,
        "seconds": round(seconds, 1),
        "environment": environment(),
    }
    write_json(folder / "record.json", record)
    return record


def environment() -> Json:
    """Return what the numbers may depend on besides the settings."""
    packages = ("taskdict", "numpy", "scipy", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def write_json(path: Path, content: Json) -> None:
    """Write a JSON file, lists of numbers in one line; an existing one is replaced when the new one is complete."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    short = NUMBERS.sub(lambda found: f"[{' '.join(found[0][1:-1].split())}]", text)
    write_text(path, f"{short}\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file; an existing one is replaced when the new one is complete."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _path(folder: Path, run: Run) -> Path:
    return folder / "runs" / f"{run.name}.json"
