"""Which instruction set is the fastest here: the kernels of each, in turns, one process for each.

CPU times of one thread, so that other programs matter less, over those of the widest set but one. They show whether
the choice in `native/core/simd/dispatch.cpp` is right for a processor.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from taskdict import _core, _native
from taskdict.experiments.environment import processor_name
from workloads import Workload, workloads


def begin(isa: str) -> None:
    os.environ["TASKDICT_ISA"] = isa  # read by the first call of the core


def timed(function, repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def work(path: str, dtype: str, lambda1: float, lambda2: float) -> dict[str, float]:
    """Return the seconds that one process takes for each use of the kernels."""
    with np.load(path) as given:
        X, D = given["X"].astype(dtype), given["D"].astype(dtype)
    encoder = _native.Encoder(D, lambda1=lambda1, lambda2=lambda2, positive=False, n_threads=1)
    unlikely = _native.Encoder(D, lambda1=1e6, lambda2=lambda2, positive=False, n_threads=1)
    A = np.ascontiguousarray(D @ D.T + len(D) * np.eye(len(D), dtype=D.dtype))
    B, atoms = A @ D, D.copy()
    return {
        "encode": timed(lambda: encoder.for_another_batch(1).encode(X), 1),
        "load and product": timed(lambda: unlikely.for_another_batch(1).encode(X), 1),  # all codes are zero
        "prepare": timed(lambda: _native.Encoder(D, lambda1=lambda1, lambda2=lambda2, positive=False, n_threads=1), 5),
        "update of atoms": timed(lambda: _native.update_atoms(atoms, A, B, False, 1), 5),
    }


def measure(given: Workload, dtype: str, pools: dict[str, ProcessPoolExecutor], repeats: int) -> list[str]:
    """Return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "work.npz")
        np.savez(path, X=given.X, D=given.D)
        turns: dict[str, list[dict[str, float]]] = {isa: [] for isa in pools}
        for _ in range(repeats):
            for isa, pool in pools.items():
                turns[isa].append(pool.submit(work, path, dtype, given.lambda1, given.lambda2).result())
    reference = list(pools)[-2]
    cells = []
    for use in turns[reference][0]:
        times = {isa: float(np.median([turn[use] for turn in turns[isa]])) for isa in pools}
        cells.append(", ".join(f"{times[isa] / times[reference]:.2f}" for isa in pools))
    return [f"{given.name}, {dtype}", *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with real data")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.2, help="share of the signals")
    options = parser.parse_args()
    sets = _core.instruction_sets()
    if len(sets) < 2:
        raise SystemExit(f"this processor has one instruction set only: {sets[0]}")
    pools = {
        isa: ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=begin, initargs=(isa,)) for isa in sets
    }
    print(
        f"{processor_name()}: times of {', '.join(sets)} over those of {sets[-2]}; chosen: {_core.instruction_set()}\n"
    )
    for index, given in enumerate(workloads(options.data, options.share)):
        for dtype in ("float32", "float64"):
            row = measure(given, dtype, pools, options.repeats)
            if index == 0 and dtype == "float32":
                print("| work | encode | load and product | prepare | update of atoms |\n|---|---|---|---|---|")
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
