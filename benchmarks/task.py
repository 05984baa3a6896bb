"""What the paper's algorithm costs and what it reaches: the price of a step, MNIST's threes, tail averaging."""

from __future__ import annotations

import argparse
import itertools
import os
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from threadpoolctl import threadpool_limits

import taskdict as td
from machine import heading, publish, stamp
from taskdict._coding.coded_batch import Coding
from taskdict._learning.descent import descend
from taskdict._learning.models import LinearModel
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.rates import DecayingRate
from taskdict._learning.sets import Sets
from taskdict._learning.trainer import _keep_memory
from taskdict.constraints import UnitBall
from taskdict.losses import LogisticLoss
from taskdict.streams.pairs import Batch
from workloads import digest, digits, learn, patches, unit_norm

BATCH = 200
PAPER = {"lambda2": 0.0, "decision": "linear", "learning_rate": "auto", "max_iter": 1000, "early_stopping": False}


def step_cost(name: str, X: np.ndarray, p: int, lambda1: float, n_threads: int, repeats: int) -> dict:
    """Compare steps of the descent with the products X·Dᵀ and D·Dᵀ in NumPy, in turns, BLAS with as many threads."""
    _keep_memory()
    X = np.ascontiguousarray(X, np.float32)
    D = np.ascontiguousarray(learn(X, p, lambda1), np.float32)
    rng = np.random.default_rng(0)
    y = rng.choice([-1, 1], (BATCH, 1)).astype(np.float32)
    batches = [Batch(np.ascontiguousarray(X[k : k + BATCH]), y) for k in range(0, 40 * BATCH, BATCH)]
    weights = Weights(D, rng.standard_normal((1, p)).astype(np.float32), np.zeros(1, np.float32))
    objective = Objective(LinearModel(), LogisticLoss(), Coding(lambda1), nu=1e-5)
    sets, rate = Sets(UnitBall()), DecayingRate(1e-3, 1e9)
    steps, products = [], []
    for _ in range(repeats):
        time.sleep(0.3)  # until the threads of BLAS sleep
        for t, batch in enumerate(batches, 1):
            begin = time.perf_counter()
            weights = descend(objective, sets, weights, batch, rate, t, None, n_threads).weights
            steps.append(time.perf_counter() - begin)
        with threadpool_limits(n_threads, user_api="blas"):
            for batch in batches:
                begin = time.perf_counter()
                batch.X @ D.T
                D @ D.T
                products.append(time.perf_counter() - begin)
    return {
        "case": f"{name}: m = {X.shape[1]}, p = {p}",
        "threads": n_threads,
        "ratio": float(np.median(steps) / np.median(products)),
        "step_ms": 1e3 * float(np.median(steps)),
        "products_ms": 1e3 * float(np.median(products)),
        "data": digest(X[: 40 * BATCH]),
    }


def threes(data: Path, seeds: int) -> list[dict]:
    """Classify MNIST's threes against the rest: the unsupervised start, and the end of 1,000 batches of 200."""
    mnist = td.datasets.load_mnist(data)
    X, X_test = (
        td.UnitNorm().fit_transform(images.reshape(-1, 784).astype(np.float32))
        for images in (mnist.images, mnist.test_images)
    )
    is_three, is_three_test = mnist.labels == 3, mnist.test_labels == 3
    records = []
    for seed in range(seeds):
        settings = {**PAPER, "n_components": 100, "lambda1": 0.075, "random_state": seed}
        for name, more in (
            ("unsupervised start", {"max_iter": 1, "learning_rate": 1e-12}),
            ("task-driven, last iterate (Algorithm 1)", {"average": False}),
            ("task-driven (average of the last tenth)", {}),
        ):
            begin = time.monotonic()
            model = td.TaskDrivenClassifier(**{**settings, **more}).fit(X, is_three)
            error = 100 * float((model.predict(X_test) != is_three_test).mean())
            records.append(
                {
                    "model": name,
                    "seed": seed,
                    "error": error,
                    "rho": float(model.learning_rate_),
                    "seconds": time.monotonic() - begin,
                    "data": digest(X[::100], X_test[::100]),
                }
            )
            print(f"{name}, seed {seed}: {error:.2f} %", flush=True)
    return records


def averaging() -> list[dict]:
    """Compare the last iterate with the average over the last tenth, on the same folds, for several penalties."""
    X, y = load_digits(return_X_y=True)
    size = np.sqrt(np.square(X).sum(axis=1).mean())
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    records = []
    for lambda1, nu in itertools.product((0.05, 0.1, 0.15), (1.0, 0.1, 0.01)):
        record: dict = {"lambda1": lambda1, "nu": nu, "data": digest(X)}
        for name, average in (("last", False), ("average", True)):
            model = td.TaskDrivenClassifier(
                100,
                **PAPER,
                multi_class="softmax",
                lambda1=lambda1 * size,
                nu=nu / (0.8 * len(X)) * size**2,
                average=average,
                random_state=0,
            )
            record[name] = cross_val_score(model, X, y, cv=folds).tolist()
        records.append(record)
        print(record, flush=True)
    return records


def table(result: dict) -> str:
    lines = [f"{heading(result)}\n"]
    if result["steps"]:
        lines.append(
            "| one step, batch of 200, float32 | threads | step / (X·Dᵀ and D·Dᵀ) | step, ms | products, ms | data |"
        )
        lines.append("|---|---|---|---|---|---|")
        for r in result["steps"]:
            times = f"{r['step_ms']:.2f} | {r['products_ms']:.2f}"
            lines.append(f"| {r['case']} | {r['threads']} | {r['ratio']:.2f} | {times} | {r['data']} |")
    if result["threes"]:
        lines.append("\n| MNIST, 3 against the rest, p = 100, λ1 = 0.075, 1,000 × 200 | test errors, % | ρ | data |")
        lines.append("|---|---|---|---|")
        for name in dict.fromkeys(r["model"] for r in result["threes"]):
            rows = [r for r in result["threes"] if r["model"] == name]
            errors = ", ".join(f"{r['error']:.2f}" for r in rows)
            rhos = ", ".join(f"{r['rho']:.2g}" for r in rows)
            lines.append(f"| {name} | {errors} | {rhos} | {rows[0]['data']} |")
    if result["averaging"]:
        lines.append(
            "\n| digits, softmax, 5 folds (λ1 and ν n for norm one) | last: mean | worst | average: mean | worst |"
        )
        lines.append("|---|---|---|---|---|")
        for r in result["averaging"]:
            parts = [f"{100 * np.mean(r[name]):.2f} | {100 * np.min(r[name]):.2f}" for name in ("last", "average")]
            lines.append(f"| λ1 = {r['lambda1']}, ν = {r['nu']:g}/n | {' | '.join(parts)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with MNIST and Kodak"
    )
    parser.add_argument("--only", choices=("steps", "threes", "averaging"), help="one part only")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write <output>.md and <output>.json")
    options = parser.parse_args()
    data = None if options.data is None else Path(options.data)
    begin = time.monotonic()
    result: dict = {"steps": [], "threes": [], "averaging": []}
    if options.only in (None, "steps"):
        images = digits(data, 20_000)
        kodak = patches(data, 20_000, halftone=False)
        for name, (X, source), p, lambda1 in (("digits", images, 300, 0.075), ("patches", kodak, 500, 0.15)):
            X = unit_norm(X)
            for n_threads in (1, 2):
                record = step_cost(f"{name} ({source})", X, p, lambda1, n_threads, options.repeats)
                result["steps"].append(record)
                print(record, flush=True)
    if options.only in (None, "threes"):
        if data is None:
            print("without --data or TASKDICT_DATA there is no MNIST: this part is left out")
        else:
            result["threes"] = threes(data, options.seeds)
    if options.only in (None, "averaging"):
        result["averaging"] = averaging()
    arguments = f" --only {options.only}" if options.only else ""
    result |= stamp(begin, f"python benchmarks/task.py --repeats {options.repeats} --seeds {options.seeds}{arguments}")
    publish(result, table(result), options.output)


if __name__ == "__main__":
    main()
