"""What the experiment on handwritten digits costs, and how far steps of both kinds get with the same batches."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import taskdict as td
from machine import heading, products_time, publish, stamp
from taskdict.experiments.digits.procedure import percent_wrong, training_and_test

BATCH = 200
CLASSES = 10


def cost(digits: td.datasets.Digits, p: int, n_directions: int | None, n_threads: int, steps: int) -> dict:
    """Time batches of ten models side by side, moved digits and all, and the products X·Dᵀ and D·Dᵀ after them."""
    times: list[float] = []
    model = classifier(p, 1.0, steps, 0, n_threads, lambda progress: times.append(time.perf_counter()))
    images = td.ImageClassifier(model, shifts=8, n_directions=n_directions, random_state=0)
    images.fit(digits.images, digits.labels)
    stream = td.streams.ImageStream(digits.images, shifts=8, directions=images.directions_, random_state=0)
    X, D = stream.take(BATCH), images.classifier_.components_[:p]
    step = float(np.median(np.diff(times[steps // 10 :]))) / CLASSES
    floor = products_time(X, D, n_threads, 100)
    return {
        "p": p,
        "directions": n_directions,
        "threads": n_threads,
        "ms": 1e3 * step,
        "products_ms": 1e3 * floor,
        "ratio": step / floor,
        "minutes": step * CLASSES * 40_000 / 60,
    }


def progress(digits: td.datasets.Digits, rate: str, n_directions: int | None, steps: int, seed: int) -> dict:
    """Learn from all but the last 10,000 training digits with 100 atoms per class; return the error on those."""
    X, y, held, y_held = training_and_test(digits, "validation", None)
    begin = time.monotonic()
    model = td.ImageClassifier(
        classifier(100, rate, steps, seed), shifts=8, n_directions=n_directions, random_state=seed
    ).fit(X, y)
    return {
        "rate": rate,
        "directions": n_directions,
        "steps": steps,
        "seed": seed,
        "error": percent_wrong(model.decision_function(held), y_held),
        "seconds": time.monotonic() - begin,
    }


def classifier(
    p: int, rate: str | float, steps: int, seed: int, n_threads: int | None = None, callbacks: Callable | None = None
) -> td.TaskDrivenClassifier:
    return td.TaskDrivenClassifier(
        p,
        lambda1=0.075,
        lambda2=0.0,
        nu=1e-5,
        multi_class="ovr",
        decision="linear",
        max_iter=steps,
        learning_rate=rate,
        dictionary_init="classes",
        early_stopping=False,
        random_state=seed,
        n_threads=n_threads,
        callbacks=callbacks,
    )


def table(result: dict) -> str:
    lines = [f"{heading(result)}; MNIST, sha256 {result['data'][:16]}\n"]
    if result["cost"]:
        lines.append(
            "| ten models, batch of 200 | numbers per digit | threads | ms per model | products, ms | ratio "
            "| 40,000 batches, min |"
        )
        lines.append("|---|---|---|---|---|---|---|")
        for r in result["cost"]:
            numbers = f"{r['ms']:.2f} | {r['products_ms']:.2f} | {r['ratio']:.1f} | {r['minutes']:.0f}"
            lines.append(f"| p = {r['p']} | {r['directions'] or 784} | {r['threads']} | {numbers} |")
    if result["progress"]:
        lines.append("\n| p = 100 | numbers per digit | batches | errors on 10,000 held-out digits, % | s |")
        lines.append("|---|---|---|---|---|")
        cases = dict.fromkeys((r["rate"], r["directions"], r["steps"]) for r in result["progress"])
        for case in cases:
            rows = [r for r in result["progress"] if (r["rate"], r["directions"], r["steps"]) == case]
            rate, directions, steps = case
            errors = ", ".join(f"{r['error']:.2f}" for r in rows)
            what = f'| `learning_rate="{rate}"` | {directions or 784} | {steps:,}'
            lines.append(f"{what} | {errors} | {rows[0]['seconds']:.0f} |")
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
            for directions in (None, 200):
                for n_threads in (1, 2):
                    result["cost"].append(cost(digits, p, directions, n_threads, options.steps))
                    print(result["cost"][-1], flush=True)
    if options.only in (None, "progress"):
        for rate, directions in (("auto", None), ("adaptive", None), ("adaptive", 200)):
            for seed in range(options.seeds):
                result["progress"].append(progress(digits, rate, directions, 1000, seed))
                print(result["progress"][-1], flush=True)
    arguments = f" --only {options.only}" if options.only else ""
    command = f"python benchmarks/digits.py --steps {options.steps} --seeds {options.seeds}{arguments}"
    result |= {**stamp(begin, command), "data": digits.sha256}
    publish(result, table(result), options.output)


if __name__ == "__main__":
    main()
