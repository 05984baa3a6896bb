"""Learning without p × p statistics: the window of signals beside the full statistics, where both can run.

Both learn the same signals in the same order from the same seed, in turns. After each of some numbers of signals, the
objective of the paper is measured on signals that nobody has seen. Times are processor times of the updates, without
encoding.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import taskdict as td
from machine import heading, publish, stamp
from taskdict._learning.online import DictionaryProblem, OnlineLearner, OnlineState
from taskdict._learning.statistics import FullStatistics, WindowStatistics
from taskdict.constraints import UnitBall
from workloads import digits, unit_norm

SIDE = 16  # of patches of the Kodak images
KINDS = {"full": FullStatistics, "window": WindowStatistics}


def kodak(data: Path, n: int, images: slice) -> np.ndarray:
    """Return random grey patches of some of the images, centred, of norm one."""
    from PIL import Image

    rng = np.random.default_rng(2)
    paths = sorted((data / "kodak").glob("*.png"))[images]
    found = []
    for path in paths:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L"), np.float64) / 255
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (SIDE, SIDE))
        count = -(-n // len(paths))
        found.append(windows[rng.integers(0, windows.shape[0], count), rng.integers(0, windows.shape[1], count)])
    together = np.concatenate(found).reshape(-1, SIDE * SIDE)
    return unit_norm(together[rng.permutation(len(together))])


def works(data: Path, share: float) -> list[tuple[str, np.ndarray, np.ndarray, float]]:
    """Return name, signals, held-out signals and λ1 of each work."""
    images, _ = digits(data, 60_000)
    images = images[np.random.default_rng(0).permutation(len(images))].astype(np.float32)
    seen = kodak(data, int(200_000 * share), slice(0, 20)).astype(np.float32)
    unseen = kodak(data, 2_000, slice(20, 24)).astype(np.float32)
    return [
        ("digits, m = 784", images[:55_000], images[55_000:57_000], 0.1),
        ("Kodak patches, m = 256", seen, unseen, 0.15),
    ]


def batches(X: np.ndarray, size: int, total: int, seed: int) -> Iterator[np.ndarray]:
    """Yield batches of signals, in another order in each pass over them."""
    rng, order = np.random.default_rng(seed), np.zeros(0, np.intp)
    for _ in range(0, total, size):
        if len(order) < size:
            order = np.concatenate([order, rng.permutation(len(X))])
        yield np.ascontiguousarray(X[order[:size]])
        order = order[size:]


def mean_objective(X: np.ndarray, D: np.ndarray, lambda1: float) -> float:
    codes = td.sparse_encode(X, D, lambda1=lambda1)
    error = np.square(X - codes @ D, dtype=np.float64).sum()
    return float(0.5 * error + lambda1 * np.abs(codes.data).sum(dtype=np.float64)) / len(X)


def learn(kind: Any, p: int, work: tuple, size: int, stops: list[int], seed: int, n_threads: int) -> dict:
    """Learn with one kind of statistics; return the objectives at the stops and the median time of an update."""
    _, X, held_out, lambda1 = work
    D = np.zeros((p, X.shape[1]), np.float32)
    problem = DictionaryProblem(lambda1, 0.0, False, UnitBall())
    learner = OnlineLearner(problem, OnlineState.start(D, kind.start(D)), n_threads)
    objectives, times, updates = [], [], []
    inner = kind.step

    def timed(*arguments: Any) -> Any:
        begin = time.process_time()
        result = inner(*arguments)
        updates.append(time.process_time() - begin)
        return result

    kind.step = timed
    try:
        for batch in batches(X, size, stops[-1], seed):
            begin = time.process_time()
            learner.step(batch)
            times.append(time.process_time() - begin)
            if learner.state.n_signals >= stops[len(objectives)]:
                objectives.append(mean_objective(held_out, learner.state.dictionary, lambda1))
    finally:
        kind.step = inner
    half = len(times) // 2
    return {
        "objectives": objectives,
        "step": float(np.median(times[half:])),
        "update": float(np.median(updates[half:])),
        "nonzeros": learner.steps[-1].nonzeros,
        "replaced": sum(step.n_replaced for step in learner.steps),
        "numbers": sum(array.size for array in learner.state.statistics.arrays().values()),
    }


def measure(p: int, work: tuple, size: int, stops: list[int], seeds: int, n_threads: int) -> dict:
    runs: dict[str, list[dict]] = {name: [] for name in KINDS}
    for seed in range(seeds):
        for name, kind in KINDS.items():
            runs[name].append(learn(kind, p, work, size, stops, seed, n_threads))
    return {"work": work[0], "p": p, "batch": size, "stops": stops, "lambda1": work[3], "runs": runs}


def table(result: dict) -> str:
    lines = [
        heading(result),
        "",
        "| work | p | batch | nonzeros | signals | objective, full | window / full − 1, by seed "
        "| update, window / full | numbers kept, window / full |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        full, window = row["runs"]["full"], row["runs"]["window"]
        update = np.median([w["update"] / f["update"] for f, w in zip(full, window, strict=True)])
        for at, stop in enumerate(row["stops"]):
            before = [run["objectives"][at] for run in full]
            excess = [w["objectives"][at] / f - 1 for f, w in zip(before, window, strict=True)]
            shown = " ".join(f"{100 * each:+.2f} %" for each in excess)
            lines.append(
                f"| {row['work']} | {row['p']:,} | {row['batch']:,} | {full[0]['nonzeros']:.0f} | {stop:,} "
                f"| {np.mean(before):.4f} | {shown} | {update:.2f} | {window[0]['numbers'] / full[0]['numbers']:.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist and kodak")
    parser.add_argument("--atoms", type=int, default=2048)
    parser.add_argument("--batches", type=int, nargs="+", default=[4096, 256], help="sizes of batches")
    parser.add_argument("--signals", type=int, nargs="+", default=[8_192, 32_768], help="when to measure")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the name of the work to be done")
    parser.add_argument("--output", type=Path, help="path of the results, without .md and .json")
    arguments = parser.parse_args()
    begin = time.monotonic()
    rows = []
    for work in works(arguments.data, 1.0):
        if arguments.only not in work[0]:
            continue
        for size in arguments.batches:
            rows.append(measure(arguments.atoms, work, size, arguments.signals, arguments.seeds, arguments.threads))
            result = {**stamp(begin, " ".join(["python", *sys.argv])), "rows": rows}
            publish(result, table(result), arguments.output)  # a run that is stopped leaves what it has


if __name__ == "__main__":
    main()
