"""A campaign against the promises: fuzzed signals, threads, times, Ctrl-C, kills, mutated files; see CONTRIBUTING.md.

    python tests/campaign.py --minutes 5
    python tests/campaign.py --minutes 60 --only codes threads --seed 3 --state build/campaign-3 --report report.md
    python tests/campaign.py --case codes:417                    # one case again
    python tests/campaign.py --again build/campaign/failures/…   # one stored input again

Every case follows from (kind, seed, number). What was tried is kept in the state folder, so that a campaign that is
stopped or killed resumes where it was: the cases that were under way are run again. The exit code is 1 if any case has
failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from campaign_kinds.case import Failure, Kind, Outcome, generator

KINDS = ("codes", "threads", "gradients", "times", "interrupts", "kills", "models", "images")
SAVED_EVERY = 10.0  # seconds
LISTED = 200  # failures in a report; all are in the state


def kind_of(name: str) -> Kind:
    """Return a kind by its name."""
    kind: Kind = importlib.import_module(f"campaign_kinds.{name}").KIND
    return kind


# ---------------------------------------------------------------------------------------------------- state and report


@dataclass
class Tally:
    """What is known of one kind."""

    next: int = 0
    cases: int = 0
    tried: int = 0
    failed: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    worst: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, outcome: Outcome, seconds: float) -> None:
        """Add the outcome of a case."""
        self.cases += 1
        self.tried += outcome.tried
        self.failed += len(outcome.failures)
        self.seconds += seconds
        for name, count in outcome.counts.items():
            self.counts[name] = self.counts.get(name, 0) + int(count)
        for name, (value, where) in outcome.worst.items():
            if name not in self.worst or value > self.worst[name][0]:
                self.worst[name] = [value, where]


class State:
    """What was tried so far, kept in a folder."""

    def __init__(self, folder: Path, seed: int | None) -> None:
        self.folder = folder
        self.failures = folder / "failures"
        self.failures.mkdir(parents=True, exist_ok=True)
        self.path = folder / "state.json"
        self.seed, self.minutes, self.pending = seed or 0, 0.0, []
        self.tallies: dict[str, Tally] = {}
        self.listed: list[dict[str, Any]] = []
        if self.path.exists():
            document = json.loads(self.path.read_text())
            if seed is not None and document["seed"] != seed:
                sys.exit(f"{folder} holds a campaign with seed {document['seed']}, not {seed}: name another --state.")
            self.seed, self.minutes = document["seed"], document["minutes"]
            self.pending = [tuple(case) for case in document["pending"]]
            self.tallies = {name: Tally(**tally) for name, tally in document["kinds"].items()}
            self.listed = document["failures"]

    def tally(self, kind: str) -> Tally:
        """Return what is known of a kind."""
        return self.tallies.setdefault(kind, Tally())

    def save(self, under_way: list[tuple[str, int]]) -> None:
        """Write the state, whole or not at all."""
        document = {
            "seed": self.seed,
            "minutes": self.minutes,
            "pending": under_way + self.pending,
            "kinds": {name: vars(tally) for name, tally in self.tallies.items()},
            "failures": self.listed,
        }
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        part.write_text(json.dumps(document, indent=1))
        os.replace(part, self.path)

    def record(self, kind: str, number: int, outcome: Outcome, seconds: float) -> list[str]:
        """Add the outcome of a case; return lines about its failures."""
        self.tally(kind).add(outcome, seconds)
        lines = []
        # All count; the same words are listed once per case.
        for what, count in Counter(failure.what for failure in outcome.failures).items():
            command = f"python tests/campaign.py --seed {self.seed} --case {kind}:{number}"
            inputs = [f for f in outcome.failures if f.what == what and f.input]
            places = [str(self._store(kind, number, failure, command)) for failure in inputs[:3]]
            self.listed.append({"kind": kind, "what": what, "count": count, "command": command, "inputs": places})
            stored = "".join(f"\n    python tests/campaign.py --again {place}" for place in places)
            lines.append(f"FAILED {kind} {number}: {what}\n    {command}{stored}")
        return lines

    def _store(self, kind: str, number: int, failure: Failure, command: str) -> Path:
        index = 0
        while (place := self.failures / f"{kind}-{number}-{index}").exists():
            index += 1
        place.mkdir()
        plain: dict[str, Any] = {}
        for name, value in failure.input.items():
            if isinstance(value, np.ndarray):
                np.save(place / f"{name}.npy", value)
            elif isinstance(value, bytes):
                (place / f"{name}.bin").write_bytes(value)
            else:
                plain[name] = value
        document = {"kind": kind, "what": failure.what, "command": command, "input": plain}
        (place / "failure.json").write_text(json.dumps(document, indent=1))
        return place


def stored_input(place: Path) -> tuple[str, dict[str, Any]]:
    """Return the kind and the input of a stored failure."""
    document = json.loads((place / "failure.json").read_text())
    given = document["input"]
    given.update({path.stem: np.load(path) for path in place.glob("*.npy")})
    given.update({path.stem: path.read_bytes() for path in place.glob("*.bin")})
    return document["kind"], given


def _versions() -> dict[str, str]:
    import scipy
    import sklearn

    import taskdict
    from taskdict import _core

    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "version": f"taskdict {taskdict.__version__}, commit {commit}, kernels {_core.instruction_set()}",
        "machine": f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "software": f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}",
    }


def _listed(failure: dict[str, Any]) -> str:
    what = " ".join(failure["what"].split())
    what = what if len(what) <= 400 else f"{what[:300]} … {what[-90:]}"
    return f"- {failure['count']} × {failure['kind']}: {what}\n  `{failure['command']}`"


def report(state: State, workers: int) -> str:
    """Return the report in Markdown."""
    hours = sum(tally.seconds for tally in state.tallies.values()) / 3600
    lines = ["# Campaign", "", "| setting | value |", "|---|---|", f"| seed | {state.seed} |"]
    lines.append(f"| duration | {state.minutes:.1f} minutes with {workers} workers, {hours:.2f} worker hours |")
    lines += [f"| {name} | {value} |" for name, value in _versions().items()]
    lines += [
        "",
        "| kind | cases | tried | failed | promised | worst seen | also counted |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, tally in state.tallies.items():
        worst = "; ".join(f"{quantity} {value:.3g}" for quantity, (value, _) in sorted(tally.worst.items()))
        counts = "; ".join(f"{what}: {count:,}" for what, count in sorted(tally.counts.items()) if count)
        kind = kind_of(name)
        tried = f"{tally.tried:,} {kind.unit}"
        lines.append(f"| {name} | {tally.cases:,} | {tried} | {tally.failed:,} | {kind.promise} | {worst} | {counts} |")
    seen = [
        f"- {name}, {quantity} {value:.3g}: {where}"
        for name, tally in state.tallies.items()
        for quantity, (value, where) in sorted(tally.worst.items())
        if where
    ]
    lines += ["", "## Where the worst was seen", "", *(seen or ["nothing"])]
    lines += ["", "## Failures", ""]
    lines += [_listed(failure) for failure in state.listed[:LISTED]] or ["none"]
    if len(state.listed) > LISTED:
        lines.append(f"- and {len(state.listed) - LISTED} more in {state.path.name} of the state folder")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------------------- workers


def run_case(kind: str, seed: int, number: int) -> Outcome:
    """Run one case; an error that it does not expect is a failure."""
    try:
        return kind_of(kind).run(generator(kind, seed, number))
    except Exception:
        outcome = Outcome(tried=1)
        outcome.fail("the case ended with an error:\n" + traceback.format_exc())
        return outcome


def _work(pipe: Connection) -> None:
    os.setsid()  # Ctrl-C is the driver's; and it can end this process with its children
    while True:
        try:
            kind, seed, number = pipe.recv()
        except EOFError:
            return
        pipe.send(run_case(kind, seed, number))


class Worker:
    """A process that runs one case after the other."""

    def __init__(self) -> None:
        self.case: tuple[str, int] | None = None
        self.begin = 0.0
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=_work, args=(theirs,))
        self.process.start()
        theirs.close()

    def start(self, kind: str, seed: int, number: int) -> None:
        """Begin a case."""
        self.case, self.begin = (kind, number), time.monotonic()
        self.pipe.send((kind, seed, number))

    def end(self) -> int | None:
        """End the process and its children; return its exit code."""
        self.pipe.close()
        self.process.join(0.0 if self.case else 2.0)
        if self.process.is_alive():
            try:
                os.killpg(self.process.pid or 0, signal.SIGKILL)
            except ProcessLookupError:
                self.process.kill()
        self.process.join()
        return self.process.exitcode


class Campaign:
    """Workers that share the kinds among them, by the share of time that each kind is to have."""

    def __init__(self, state: State, kinds: list[str], n_workers: int) -> None:
        self.state, self.kinds = state, [kind_of(name) for name in kinds]
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")  # workers share the cores; calls name the number of their threads
        self.workers = [Worker() for _ in range(n_workers)]
        self.used = {kind.name: 0.0 for kind in self.kinds}  # seconds in this run, those under way included

    def next_case(self) -> tuple[str, int]:
        """Return the case to run next: what was under way at a break, else the kind that is most behind."""
        names = {kind.name for kind in self.kinds}
        for case in self.state.pending:
            if case[0] in names:
                self.state.pending.remove(case)
                return case
        busy = Counter(worker.case[0] for worker in self.workers if worker.case)
        kind = min(self.kinds, key=lambda kind: (self.used[kind.name] + 5.0 * busy[kind.name]) / kind.share)
        tally = self.state.tally(kind.name)
        tally.next += 1
        return kind.name, tally.next - 1

    def run(self, minutes: float) -> None:
        """Run for some minutes."""
        begin = saved = time.monotonic()
        before = self.state.minutes
        try:
            while (now := time.monotonic()) < begin + 60 * minutes:
                for worker in self.workers:
                    if worker.case is None:
                        kind, number = self.next_case()
                        worker.start(kind, self.state.seed, number)
                self.state.minutes = before + (now - begin) / 60
                if now - saved > SAVED_EVERY:
                    self.state.save(self.under_way())
                    saved = now
                wait([worker.pipe for worker in self.workers], timeout=1.0)
                self.collect()
        finally:
            self.finish(before, begin)

    def finish(self, before: float, begin: float) -> None:
        """Let the cases end that are under way, for as long as they may take, and stop the workers."""
        try:
            while any(worker.case for worker in self.workers):
                wait([worker.pipe for worker in self.workers if worker.case], timeout=1.0)
                self.collect()
        finally:
            self.state.minutes = before + (time.monotonic() - begin) / 60
            self.state.save(self.under_way())
            for worker in self.workers:
                worker.end()

    def under_way(self) -> list[tuple[str, int]]:
        """Return the cases that have begun and not ended."""
        return [worker.case for worker in self.workers if worker.case]

    def collect(self) -> None:
        """Take what the workers have found; replace those that crashed or hang."""
        for place, worker in enumerate(self.workers):
            if worker.case is None:
                continue
            kind, number = worker.case
            seconds = time.monotonic() - worker.begin
            outcome = None
            if worker.pipe.poll():
                try:
                    outcome = worker.pipe.recv()
                except EOFError:
                    outcome = Outcome(tried=1)
                    code = worker.end()
                    outcome.fail(f"the process crashed, exit code {code}")
                    self.workers[place] = Worker()
            elif seconds > kind_of(kind).limit:
                outcome = Outcome(tried=1)
                outcome.fail(f"the case did not end within {kind_of(kind).limit:g} s")
                worker.end()
                self.workers[place] = Worker()
            if outcome is not None:
                worker.case = None
                self.used[kind] = self.used.get(kind, 0.0) + seconds
                for line in self.state.record(kind, number, outcome, seconds):
                    print(line, flush=True)
                if outcome.failures:
                    self.state.save(self.under_way())


# ---------------------------------------------------------------------------------------------------------------- main


def _show(outcome: Outcome) -> int:
    for what, count in Counter(failure.what for failure in outcome.failures).items():
        print(f"FAILED {count} ×: {what}")
    print(f"tried {outcome.tried}, failed {len(outcome.failures)}, {dict(outcome.counts)}, {outcome.worst}")
    return 1 if outcome.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="how long to run")
    parser.add_argument("--seed", type=int, help="of the random cases (default: that of the state folder, or 0)")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--state", type=Path, default=Path("build/campaign"), help="folder to resume from")
    parser.add_argument("--report", type=Path, help="file for the report (default: report.md in the state folder)")
    parser.add_argument("--case", metavar="KIND:NUMBER", help="run one case, and nothing else")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="run one stored input, and nothing else")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign."""
    options = _parser().parse_args(arguments)
    if options.case:
        kind, number = options.case.split(":")
        return _show(run_case(kind, options.seed or 0, int(number)))
    if options.again:
        kind, given = stored_input(options.again)
        again = kind_of(kind).again
        if again is None:
            sys.exit(f"Inputs of {kind} cannot be repeated by themselves: repeat the case (see failure.json).")
        return _show(again(given))
    if options.minutes is None:
        _parser().error("--minutes is needed")
    if options.state.exists() and not options.state.is_dir():
        _parser().error(f"--state must be a folder, or one to make, got {str(options.state)!r}")
    state = State(options.state, options.seed)
    campaign = Campaign(state, options.only, options.workers)
    stopped = False
    try:
        campaign.run(options.minutes)
    except KeyboardInterrupt:
        stopped = True
        print(f"stopped: the same command with --state {options.state} resumes", file=sys.stderr)
    text = report(state, options.workers)
    place = options.report or options.state / "report.md"
    place.write_text(text)
    print(text)
    if any(tally.failed for tally in state.tallies.values()):
        return 1
    return 130 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
