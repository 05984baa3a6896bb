"""Runs of an experiment, done once each: side by side in processes, with a file for every result.

A run is described by its settings, which JSON can hold. Its result is written to ``runs/<name>.json`` in the folder of
the experiment when it is complete, and a run whose file is there is not done again. A run resumes after a break from a
file in ``checkpoints/``, whose name depends on the settings.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import queue
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from taskdict._common.atomic_files import replace_text
from taskdict._common.progress import StatusLine
from taskdict._common.threads import resolve_threads
from taskdict._files.checkpoint import FinishedTrainingWarning
from taskdict.experiments.record import Json, write_json

ReportSteps = Callable[[int, int], None]  # steps done, and steps in all
Work = Callable[["Run", Path, int, ReportSteps], Json]  # of a run, checkpoint, threads and report: the result

SECONDS_BETWEEN_REPORTS = 1.0
SECONDS_BETWEEN_LINES = 60.0  # where they cannot be rewritten
FAILED = -1  # in place of the steps done, in a message of a run


class RunError(RuntimeError):
    """Raised when a run fails, with its message."""


@dataclass(frozen=True)
class Run:
    """A run: the name of its files, and its settings."""

    name: str
    settings: Json


class Runner:
    """Does the runs of an experiment that are not done yet: `n_threads` at a time, or fewer with several threads each.

    Parameters
    ----------
    folder : Path
        Folder of the experiment.
    work : callable
        A function that does a run; it must be picklable.
    n_threads : int or None
        Threads to use, None for all cores.
    file : file or None
        Where to show the progress, None for standard error.
    """

    def __init__(self, folder: Path, work: Work, n_threads: int | None = None, file: TextIO | None = None) -> None:
        self.folder, self.work = folder, work
        self.context: Any = multiprocessing.get_context("spawn")
        self.n_threads = resolve_threads(n_threads)
        self.progress = RunsLine(file)

    def results(self, runs: Sequence[Run]) -> list[Json]:
        """Return the result of each run; results that are written already are read."""
        for name in ("runs", "checkpoints"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        waiting = [run for run in runs if self._read(run) is None]
        jobs = max(1, min(self.n_threads, len(waiting)))
        self.progress.begin(len(runs), len(runs) - len(waiting))
        if jobs == 1:
            for run in waiting:
                if self._read(run) is None:
                    do(self.work, run, self.folder, self.n_threads, partial(self.progress.show, run.name))
                self.progress.finish(run.name)
        else:
            self._side_by_side(waiting, jobs)
        self.progress.end()
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
                    if self._read(run) is not None:  # done by a command that runs at the same time
                        self.progress.finish(run.name)
                        continue
                    arguments = (self.work, run, self.folder, max(1, self.n_threads // jobs), messages, os.getpid())
                    alive[run.name] = self.context.Process(target=_child, args=arguments, daemon=True)
                    alive[run.name].start()
                ended = [name for name, process in alive.items() if process.exitcode is not None]
                self._listen(messages)  # before the processes that have ended are removed: their messages come first
                for name in ended:
                    process = alive.pop(name)
                    if process.exitcode != 0:
                        raise RunError(f"the run {name!r} ended with status {process.exitcode}.")
                    self.progress.finish(name)
        finally:
            for process in alive.values():
                process.terminate()
            for process in alive.values():
                process.join()

    def _listen(self, messages: Any) -> None:
        """Show the progress of the runs for a while; raise if one has failed."""
        wait = 0.2
        while True:
            try:
                name, done, total = messages.get(timeout=wait)
            except queue.Empty:
                return
            if done == FAILED:
                raise RunError(f"the run {name!r} failed: {total}")
            self.progress.show(name, done, total)
            wait = 0.01


def do(work: Work, run: Run, folder: Path, n_threads: int, report: ReportSteps) -> None:
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
            replace_text(clock, f"{before + last - begin:.1f}")
            report(done, total)

    with warnings.catch_warnings():  # after a break behind the last batch, there is nothing left to learn
        warnings.simplefilter("ignore", FinishedTrainingWarning)
        result = work(run, checkpoint, n_threads, remember)
    seconds = round(before + time.monotonic() - begin, 1)
    write_json(_path(folder, run), {"settings": run.settings, **result, "seconds": seconds, "threads": n_threads})
    for path in checkpoint.parent.glob(f"{checkpoint.name}*"):
        path.unlink(missing_ok=True)


def _child(work: Work, run: Run, folder: Path, n_threads: int, messages: Any, parent: int) -> None:
    """Do a run in a process of its own, which ends when its parent has ended."""

    def report(done: int, total: int) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)
        messages.put((run.name, done, total))

    try:
        do(work, run, folder, n_threads, report)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        is_plain = isinstance(error, (OSError, ImportError, ValueError, TypeError, ArithmeticError, RunError))
        messages.put((run.name, FAILED, str(error) if is_plain else traceback.format_exc()))
        messages.close()
        messages.join_thread()
        sys.exit(1)


class RunsLine:
    """Shows the progress of the runs in one line."""

    def __init__(self, file: TextIO | None) -> None:
        self._line = StatusLine(file, seconds=SECONDS_BETWEEN_LINES, terminal_seconds=0.0)

    def begin(self, total: int, done: int) -> None:
        """Start with `total` runs, of which `done` are done."""
        self._total, self._done = total, done
        self._active: dict[str, tuple[int, int, float, int]] = {}  # steps, in all, when first shown, and steps then
        if done < total:
            self._line.show(f"{done}/{total} runs", now=True)

    def show(self, name: str, done: int, total: int) -> None:
        """Show the progress of a run."""
        now = time.monotonic()
        since, first = self._active[name][2:] if name in self._active else (now, done)
        self._active[name] = (done, total, since, first)
        self._line.show(f"{self._done}/{self._total} runs  " + "  ".join(self._text(name) for name in self._active))

    def _text(self, name: str) -> str:
        done, total, since, first = self._active[name]
        text = f"{name} {100 * done // max(1, total)} %"
        if done > first:
            left = (time.monotonic() - since) * (total - done) / (done - first)
            text += f" ({left / 60:.0f} min left)" if left >= 90 else f" ({left:.0f} s left)"
        return text

    def finish(self, name: str) -> None:
        """Note that a run is complete."""
        self._active.pop(name, None)
        self._done += 1

    def end(self) -> None:
        """Remove the line."""
        self._line.clear()


def _path(folder: Path, run: Run) -> Path:
    return folder / "runs" / f"{run.name}.json"
