"""Which way to encode is the cheaper: with a Gram matrix of the atoms or without, on a grid of sizes.

CPU times of one thread, both ways in turns, preparation of the dictionary included. They are what `prefers_direct` in
`native/core/system/cost_model.hpp` goes by: the table has what it chooses, what is faster, and what a wrong choice
costs. One process for each instruction set.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from instruction_sets import begin as use_instruction_set
from machine import heading, publish, stamp
from taskdict import _core, _native
from workloads import smooth_noise

WORK = 2e10  # most multiply-adds of a product X·Dᵀ in the grid
LAMBDA1 = 0.15


def make(kind: str, n: int, side: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return signals and atoms of norm one: random, or smooth as patches of images are."""
    rng = np.random.default_rng(0)
    m = side * side
    if kind == "random":
        D = rng.standard_normal((p, m))
        X = np.stack([rng.standard_normal(10) @ D[rng.choice(p, 10, replace=False)] for _ in range(n)])
        X += 0.5 * rng.standard_normal((n, m))
    else:
        both = smooth_noise(n + p, side, rng)
        X, D = both[:n], both[n:]
    return tuple(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, D))


def seconds(X: np.ndarray, D: np.ndarray, direct: bool) -> dict[str, float]:
    """Return the CPU times of preparing the dictionary and of encoding, one way."""
    start = time.process_time()
    encoder = _native.Encoder(
        D, lambda1=LAMBDA1, lambda2=0.0, positive=False, n_threads=1, n_signals=np.inf, varies=direct
    )
    prepared = time.process_time()
    if direct:
        encoder.encode_varied(X, None, None)
    else:
        encoder.encode(X)
    return {
        "prepare": prepared - start,
        "encode": time.process_time() - prepared,
        "nonzeros": len(encoder.release().indices) / len(X),
    }


def measure(kind: str, dtype: str, side: int, p: int, numbers: list[int], repeats: int) -> list[dict]:
    """Run both ways for several numbers of signals."""
    X, D = make(kind, max(numbers), side, p)
    X, D = X.astype(dtype), D.astype(dtype)
    rows = []
    for n in numbers:
        if n * p * side**2 > WORK:
            continue
        runs: dict[str, list[dict]] = {"gram": [], "direct": []}
        for _ in range(repeats):
            for way, found in runs.items():
                found.append(seconds(X[:n], D, way == "direct"))
        row = {"kind": kind, "dtype": dtype, "m": side**2, "p": p, "n": n, "nonzeros": runs["gram"][0]["nonzeros"]}
        for way, found in runs.items():
            row[way] = {part: float(np.median([run[part] for run in found])) for part in ("prepare", "encode")}
        rows.append(judged(row))
    return rows


def judged(row: dict) -> dict:
    """Return a row with what the cost model chooses, and what that costs."""
    times = {way: sum(row[way].values()) for way in ("gram", "direct")}
    chosen = "direct" if _native.needs_no_gram(row["n"], np.empty((row["p"], row["m"]), row["dtype"])) else "gram"
    faster = min(times, key=times.get)
    ratios = {"direct / gram": times["direct"] / times["gram"], "cost of the choice": times[chosen] / times[faster]}
    return {**row, "chosen": chosen, "faster": faster, **ratios}


def slower(row: dict) -> float:
    """Return the seconds that the choice takes more than the other way."""
    return abs(sum(row["gram"].values()) - sum(row["direct"].values()))


def table(result: dict) -> str:
    lines = [
        f"{heading(result)}; load {result['load']:.1f}; {result['judged']}",
        "",
        "Direct / Gram: CPU time without a Gram matrix over that with one. A star is a choice that costs more than "
        "1.1 times the other.",
        "",
    ]
    sets = list(dict.fromkeys(row["instruction_set"] for row in result["rows"]))
    for isa in sets:
        rows = [row for row in result["rows"] if row["instruction_set"] == isa]
        costs = np.array([row["cost of the choice"] for row in rows])
        worst = rows[int(costs.argmax())]
        wrong = f"{(costs > 1.1).sum()} of {len(rows)} choices cost more than 1.1 times the other"
        lines += [
            f"**{isa}**: {wrong}, {(costs > 1.5).sum()} more than 1.5; the worst costs "
            f"{costs.max():.2f} times the other ({worst['kind']}, {worst['dtype']}, m = {worst['m']}, "
            f"p = {worst['p']:,}, n = {worst['n']:,}: {1e3 * slower(worst):.1f} ms more), the geometric mean of all is "
            f"{np.exp(np.log(costs).mean()):.3f}.",
            "",
        ]
    lines += [
        f"| atoms | dtype | m | p | n | nonzeros | chosen | {' | '.join(f'direct / Gram, {isa}' for isa in sets)} |",
        "|---|---|---|---|---|---|---|" + "---|" * len(sets),
    ]
    cells: dict[tuple, list[str]] = {}
    for row in result["rows"]:
        key = (row["kind"], row["dtype"], row["m"], f"{row['p']:,}", f"{row['n']:,}", f"{row['nonzeros']:.0f}")
        star = " *" if row["cost of the choice"] > 1.1 else ""
        cells.setdefault((*key, row["chosen"]), []).append(f"{row['direct / gram']:.2f}{star}")
    lines += [f"| {' | '.join(map(str, key))} | {' | '.join(found)} |" for key, found in cells.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", type=int, nargs="+", default=[8, 16, 28], help="m is the square of a side")
    parser.add_argument("--atoms", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--signals", type=int, nargs="+", default=[50, 500, 5000])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--isa", nargs="+", help="instruction sets; all but the portable one if left out")
    parser.add_argument("--judge", type=Path, help="a record (.json) whose times the cost model is to be judged by")
    parser.add_argument("--output", type=Path, help="write <output>.md and <output>.json")
    options = parser.parse_args()
    if options.judge:
        result = json.loads(options.judge.read_text())
        result["rows"] = [judged(row) for row in result["rows"]]
        result["judged"] = "choices judged again, without measuring"
        publish(result, table(result), options.output)
        return
    start, load = time.monotonic(), os.getloadavg()[0]
    rows = []
    for isa in options.isa or _core.instruction_sets()[1:]:
        context = get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context, initializer=use_instruction_set, initargs=(isa,)) as pool:
            for kind, dtype, side, p in product(("random", "smooth"), options.dtypes, options.sides, options.atoms):
                found = pool.submit(measure, kind, dtype, side, p, options.signals, options.repeats).result()
                for row in found:
                    rows.append({"instruction_set": isa, **row})
                    print(
                        f"{isa}, {kind}, {dtype}, m = {row['m']}, p = {p}, n = {row['n']}: direct / Gram "
                        f"{row['direct / gram']:.2f}, chosen {row['chosen']}",
                        flush=True,
                    )
    result = {**stamp(start, " ".join(["python", *sys.argv])), "load": load, "seed": 0, "rows": rows}
    result["judged"] = f"medians of {options.repeats}"
    publish(result, table(result), options.output)


if __name__ == "__main__":
    main()
