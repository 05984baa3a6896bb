"""Do threads help, whatever else is going on? The time with one thread over that by default, in one run."""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import time
from pathlib import Path

import joblib
import numpy as np

import taskdict as td
from taskdict._common.atomic_files import replace_text
from taskdict.experiments.environment import processor_name


def problem(n: int, m: int = 100, p: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((n, m), dtype=np.float32), rng.standard_normal((p, m), dtype=np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True), D / np.linalg.norm(D, axis=1, keepdims=True)


def seconds(X: np.ndarray, D: np.ndarray, n_threads: int | None, between=None) -> float:
    """Return the time of one call, after whatever runs between two calls."""
    if between is not None:
        between()
    start = time.perf_counter()
    td.sparse_encode(X, D, lambda1=0.15, n_threads=n_threads)
    return time.perf_counter() - start


def ratio(run, repeats: int) -> float:
    """Return the median of run(1) over that of run(None), the default, measured in turns."""
    times = [(run(1), run(None)) for _ in range(repeats)]
    one, default = np.median(times, axis=0)
    return one / default


def many_calls(jobs: int, X: np.ndarray, D: np.ndarray, n_threads: int | None, pool) -> float:
    start = time.perf_counter()
    list(pool.map(seconds, [X] * jobs, [D] * jobs, [n_threads] * jobs))
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=41)
    parser.add_argument("--output", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    repeats = options.repeats
    lines = []

    def show(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    show(
        f"{processor_name()}, {len(os.sched_getaffinity(0))} cores; {time.strftime('%Y-%m-%d')}, medians of {repeats}\n"
    )
    show("| case | time with one thread / by default |\n|---|---|")

    for n in (1, 10, 30, 100, 200, 1000, 20000):
        X, D = problem(n)
        show(f"| {n} signals | {ratio(lambda t, X=X, D=D: seconds(X, D, t), repeats):.2f} |")

    X, D = problem(2000)
    square = np.ones((600, 600), dtype=np.float32)
    after_blas = ratio(lambda t: seconds(X, D, t, lambda: square @ square), repeats)
    show(f"| right after a product in NumPy's BLAS | {after_blas:.2f} |")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        show(f"| two Python threads at once | {ratio(lambda t: many_calls(8, X, D, t, pool), repeats):.2f} |")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        show(f"| after fork | {ratio(lambda t: pool.apply(seconds, (X, D, t)), repeats):.2f} |")
    with joblib.parallel_config(backend="loky", n_jobs=2):

        def in_workers(n_threads: int | None) -> float:
            start = time.perf_counter()
            joblib.Parallel()(joblib.delayed(seconds)(X, D, n_threads) for _ in range(8))
            return time.perf_counter() - start

        in_workers(1)
        show(f"| in two joblib workers | {ratio(in_workers, repeats):.2f} |")

    if options.output:
        replace_text(options.output, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
