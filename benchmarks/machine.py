"""What the benchmarks ran on, and how their results are written."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from taskdict._common.atomic_files import replace_text
from taskdict.experiments.environment import processor_name


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and its seconds."""
    time.sleep(0.3)  # the threads of the one before have gone to sleep; BLAS and OpenMP let theirs spin for a while
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def in_turns(functions: Mapping[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Call all functions one after the other, several times; return the last result and the median time of each."""
    results: dict[str, Any] = {}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            results[name], seconds = timed(function)
            times[name].append(seconds)
    return results, {name: float(np.median(t)) for name, t in times.items()}


def products_time(X: np.ndarray, D: np.ndarray, n_threads: int, repeats: int) -> float:
    """Return the median time of the products X·Dᵀ and D·Dᵀ in NumPy, which no step of learning can avoid."""
    times = []
    time.sleep(0.5)  # until other threads sleep
    with threadpool_limits(n_threads, user_api="blas"):
        for _ in range(repeats):
            begin = time.perf_counter()
            X @ D.T
            D @ D.T
            times.append(time.perf_counter() - begin)
    return float(np.median(times))


def stamp(begin: float, command: str) -> dict:
    """Return what a result needs beside its numbers; `begin` is when it was begun on the monotonic clock.

    The folder of the data differs between machines, so the command that is kept does not name it.
    """
    command = re.sub(r"--data[ =]\S+", "--data /path/to/data", command)
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "taskdict": version("taskdict"),
        "date": time.strftime("%Y-%m-%d"),
        "seconds": time.monotonic() - begin,
        "command": command,
    }


def heading(result: dict) -> str:
    """Return the line above a table."""
    return (
        f"{result['cpu']}, {result['cores']} cores; taskdict {result['taskdict']}, {result['date']}, "
        f"{result['seconds']:.0f} s; command: `{result['command']}`"
    )


def publish(result: dict, table: str, output: Path | None) -> None:
    """Print a table, and write it and the result to <output>.md and <output>.json if wanted."""
    print(table)
    if output is not None:
        replace_text(output.with_suffix(".json"), json.dumps(result, indent=1) + "\n")
        replace_text(output.with_suffix(".md"), table)
