"""A child process that reads mutated files: the promised errors only, and little memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from campaign_kinds.case import Outcome

TESTS = Path(__file__).parents[1]
MEMORY = 1 << 30  # bytes, peak
SECONDS = 60.0  # for one file
BATCH = 200  # files of one child


def read_all(reader: Any, folder: Path) -> None:
    """Read every file of a folder; tell on standard output which comes, and what came of it (in a child process)."""
    for path in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        print(json.dumps({"file": path.name}), flush=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        what, wrong = reader(path)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        said = {"what": what, "wrong": wrong, "peak": after * 1024, "more": (after - before) * 1024}
        print(json.dumps({"file": path.name, **said}), flush=True)


def _limit() -> None:
    # Far above what is allowed, so that what fails is measured and not refused; and below what would hurt the machine.
    resource.setrlimit(resource.RLIMIT_AS, (6 * MEMORY, 6 * MEMORY))


def check(module: str, contents: list[bytes], labels: list[str], outcome: Outcome) -> None:
    """Let children read files; a file that ends or stops a child is a failure, and the next child reads the others."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "files"
        folder.mkdir()
        for k, content in enumerate(contents):
            (folder / str(k)).write_bytes(content)
        while any(folder.iterdir()):
            _one_child(module, folder, contents, labels, outcome)


def _one_child(module: str, folder: Path, contents: list[bytes], labels: list[str], outcome: Outcome) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-W", "ignore", "-m", f"campaign_kinds.{module}", str(folder)]
    out, err = folder.with_name("out"), folder.with_name("err")
    ended = ""
    with open(out, "w") as output, open(err, "w") as errors:
        child = subprocess.Popen(command, env=environment, stdout=output, stderr=errors, preexec_fn=_limit)
        try:
            seen = -1
            while child.poll() is None:  # as long as it gets on
                try:
                    child.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    if out.stat().st_size == seen:
                        ended = f"it is not done within {SECONDS:g} s"
                        break
                    seen = out.stat().st_size
        finally:
            child.kill()
            child.wait()
    said = [json.loads(line) for line in out.read_text().splitlines()]
    if not said:
        raise RuntimeError(f"the child did not start: {err.read_text()[-3000:]}")
    for line in said:
        if "what" in line:
            k = int(line["file"])
            (folder / line["file"]).unlink()
            outcome.tried += 1
            outcome.counts[line["what"]] += 1
            outcome.see("peak of memory, MB", line["peak"] / 1e6, labels[k])
            if line["wrong"]:
                outcome.fail(f"{line['wrong']} ({labels[k]})", content=contents[k], label=labels[k])
            if line["peak"] > MEMORY and line["more"] > MEMORY / 4:
                outcome.fail(f"memory grows to {line['peak'] / 1e6:.0f} MB ({labels[k]})", content=contents[k])
    if "what" not in said[-1]:
        k = int(said[-1]["file"])
        (folder / said[-1]["file"]).unlink()
        outcome.tried += 1
        ended = ended or f"the process ended with {child.returncode}: {err.read_text()[-1500:]}"
        outcome.fail(f"{ended} ({labels[k]})", content=contents[k], label=labels[k])


def choose(rng: np.random.Generator, names: Any) -> str:
    """Return one of some names."""
    return str(rng.choice(sorted(names)))
