"""SIGKILL at random moments of a training, which is then resumed: its end has the bits of one that was left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from campaign_kinds.case import Kind, Outcome
from campaign_kinds.trainings import TRAININGS
from taskdict._files import storage

TESTS = Path(__file__).parents[1]


def _start(name: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-m", "campaign_kinds.trainings", name]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _learned(path: Path) -> Any:
    arrays, document = storage.read(path)
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}, document


def _difference(one: Any, other: Any) -> str:
    (arrays, document), (others, another) = one, other
    names = [name for name in sorted({*arrays, *others}) if arrays.get(name) != others.get(name)]
    if names:
        return f"arrays {', '.join(names)} differ"
    return "" if document == another else f"{document} is not {another}"[:2000]


@cache
def _alone(name: str) -> tuple[float, Any]:
    """Return how long a training takes, and what it learns, when it is left alone."""
    with tempfile.TemporaryDirectory() as folder:
        with _start(name, Path(folder)) as child:
            assert child.stdout is not None
            child.stdout.readline()
            begin = time.monotonic()
            _, errors = child.communicate()
        if child.returncode != 0:
            raise RuntimeError(f"{name} does not end: {errors}")
        return time.monotonic() - begin, _learned(Path(folder) / "model")


def _killed(name: str, moments: list[float], outcome: Outcome) -> None:
    seconds, expected = _alone(name)
    given = {"name": name, "moments": moments}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for moment in [*moments, None]:
            with _start(name, folder) as child:
                assert child.stdout is not None
                child.stdout.readline()
                try:
                    child.communicate(timeout=None if moment is None else moment * seconds)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.communicate()
                    outcome.tried += 1
                    outcome.counts[name] += 1
                    outcome.counts["kills before there was a checkpoint"] += int(not (folder / "state").exists())
                    continue
            if child.returncode != 0:
                outcome.fail(f"{name} does not resume after kills at {moments}, exit code {child.returncode}", **given)
                return
            break
        wrong = _difference(expected, _learned(folder / "model"))
        if wrong:
            outcome.fail(f"{name} ends with other bits after kills at {moments} of its time: {wrong}", **given)
        rest = {"state", "state.refine", "model", "X.npy", "part.npy"}
        left = sorted(path.name for path in folder.iterdir() if path.name not in rest)
        if left:
            outcome.fail(f"{name} leaves {left} after kills at {moments} of its time", **given)


def run(rng: np.random.Generator) -> Outcome:
    """Kill one training some times."""
    outcome = Outcome()
    name = str(rng.choice(list(TRAININGS)))
    _killed(name, [float(moment) for moment in rng.uniform(0, 0.9, int(rng.integers(1, 4)))], outcome)
    return outcome


def again(given: dict[str, Any]) -> Outcome:
    """Kill the same training at the same moments, as far as time is the same."""
    outcome = Outcome()
    _killed(given["name"], given["moments"], outcome)
    return outcome


KIND = Kind("kills", "kills", run, share=0.15, limit=400, promise="same bits", again=again)
