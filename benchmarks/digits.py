"""What the experiment on handwritten digits costs, and how far steps of both kinds get with the same batches."""

from __future__ import annotations

import argparse
import json
import os
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import taskdict as td
from machine import cpu_name
from taskdict.experiments.digits import parts, percent_wrong

BATCH = 200
CLASSES = 10


def cost(digits: td.datasets.Digits, p: int, lambda1: float, n_threads: int, steps: int) -> dict:
    """Time batches of ten models side by side, moved digits and all, and the products X·Dᵀ and D·Dᵀ after them."""
    stream = td.streams.ImageStream(digits.images, digits.labels, shifts=4, random_state=0)
    times: list[float] = []
    model = td.TaskDrivenClassifier(
        p,
        lambda1=lambda1,
        nu=1e-5,
        max_iter=steps,
        learning_rate=1.0,
        dictionary_init="classes",
        random_state=0,
        n_threads=n_threads,
        callbacks=lambda progress: times.append(time.perf_counter()),
    )
    model.fit(stream)
    time.sleep(0.5)  # until the threads of BLAS sleep
    X, D = stream.take(BATCH), model.components_[:p]
    products = []
    with threadpool_limits(n_threads, user_api="blas"):
        for _ in range(100):
            begin = time.perf_counter()
            X @ D.T
            D @ D.T
            products.append(time.perf_counter() - begin)
    step = float(np.median(np.diff(times[steps // 10 :]))) / CLASSES
    floor = float(np.median(products))
    return {
        "p": p,
        "threads": n_threads,
        "ms": 1e3 * step,
        "products_ms": 1e3 * floor,
        "ratio": step / floor,
        "minutes": step * CLASSES * 40_000 / 60,
    }


def progress(digits: td.datasets.Digits, learning_rate: str, steps: int, seed: int) -> dict:
    """Learn from all but the last 10,000 training digits with 100 atoms per class; return the error on those."""
    X, y, held, y_held = parts(digits, "validation", None)
    begin = time.monotonic()
    classifier = td.TaskDrivenClassifier(
        100,
        lambda1=0.1,
        nu=1e-5,
        max_iter=steps,
        learning_rate=learning_rate,
        dictionary_init="classes",
        random_state=seed,
    )
    model = td.ImageClassifier(classifier, shifts=4, random_state=seed).fit(X, y)
    error = percent_wrong(model.decision_function(held), y_held)
    return {"rate": learning_rate, "steps": steps, "seed": seed, "error": error, "seconds": time.monotonic() - begin}


def table(result: dict) -> str:
    lines = [f"{result['cpu']}, {result['cores']} cores; taskdict {result['taskdict']}, {result['date']}, "]
    lines[0] += f"{result['seconds']:.0f} s; command: `{result['command']}`; MNIST, sha256 {result['data'][:16]}\n"
    if result["cost"]:
        lines.append(
            "| ten models, batch of 200 | threads | ms per model | products, ms | ratio | 40,000 batches, min |"
        )
        lines.append("|---|---|---|---|---|---|")
        for r in result["cost"]:
            numbers = f"{r['ms']:.2f} | {r['products_ms']:.2f} | {r['ratio']:.1f} | {r['minutes']:.0f}"
            lines.append(f"| p = {r['p']} | {r['threads']} | {numbers} |")
    if result["progress"]:
        lines.append("\n| p = 100, λ1 = 0.1 | batches | errors on 10,000 held-out digits, % | s |")
        lines.append("|---|---|---|---|")
        cases = dict.fromkeys((r["rate"], r["steps"]) for r in result["progress"])
        for rate, steps in cases:
            rows = [r for r in result["progress"] if (r["rate"], r["steps"]) == (rate, steps)]
            errors = ", ".join(f"{r['error']:.2f}" for r in rows)
            lines.append(f'| `learning_rate="{rate}"` | {steps:,} | {errors} | {rows[0]["seconds"]:.0f} |')
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with mnist/ (default: TASKDICT_DATA)")
    parser.add_argument("--only", choices=("cost", "progress"), help="one part only")
    parser.add_argument("--steps", type=int, default=200, help="batches that are timed")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write <output>.md and <output>.json")
    options = parser.parse_args()
    begin = time.monotonic()
    digits = td.datasets.load_mnist(options.data)
    result: dict = {"cost": [], "progress": []}
    if options.only in (None, "cost"):
        for p in (50, 100, 200, 300):
            for n_threads in (1, 2):
                result["cost"].append(cost(digits, p, 0.1, n_threads, options.steps))
                print(result["cost"][-1], flush=True)
    if options.only in (None, "progress"):
        for steps in (300, 1000):
            for rate in ("auto", "adaptive"):
                for seed in range(options.seeds):
                    result["progress"].append(progress(digits, rate, steps, seed))
                    print(result["progress"][-1], flush=True)
    arguments = f" --only {options.only}" if options.only else ""
    result |= {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "taskdict": version("taskdict"),
        "date": time.strftime("%Y-%m-%d"),
        "seconds": time.monotonic() - begin,
        "data": digits.sha256,
        "command": f"python benchmarks/digits.py --steps {options.steps} --seeds {options.seeds}{arguments}",
    }
    print(table(result))
    if options.output:
        options.output.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.output.with_suffix(".md").write_text(table(result))


if __name__ == "__main__":
    main()
