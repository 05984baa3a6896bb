"""Speed and optimality of sparse encoding: taskdict, SPAMS and scikit-learn in one process, one after the other.

Every repetition runs us and each peer once on the same work, so that a machine that is slow for a while is slow for
all; the table has ratios of medians. Times by themselves mean little: only ratios are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import spams
from sklearn.decomposition import sparse_encode as sklearn_encode
from threadpoolctl import threadpool_limits

import taskdict as td
from taskdict import _core
from taskdict._common.atomic_files import replace_text
from taskdict.experiments.environment import processor_name
from workloads import Workload, workloads

CHECKED = 2000  # signals whose codes are checked for optimality
SKLEARN_SIGNALS = {"lasso_lars": 150, "lasso_cd": 400}  # scikit-learn encodes only so many; its time is scaled


def timed(function):
    time.sleep(0.3)  # the threads of the one before have gone to sleep; BLAS and OpenMP let theirs spin for a while
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def worst_kkt(work: Workload, X: np.ndarray, D: np.ndarray, codes, lambda2: float) -> float:
    """Return the largest violation of Lemma 1 relative to max(λ1, ‖Dᵀx‖∞), over the first signals."""
    n = min(CHECKED, codes.shape[0])
    X, D = X[:n].astype(np.float64), D.astype(np.float64)
    A = (codes[:n].toarray() if sp.issparse(codes) else codes[:n]).astype(np.float64)
    rho = (X - A @ D) @ D.T - lambda2 * A
    violation = np.where(A != 0, np.abs(rho - work.lambda1 * np.sign(A)), np.maximum(np.abs(rho) - work.lambda1, 0))
    return float((violation.max(axis=1) / np.maximum(work.lambda1, np.abs(X @ D.T).max(axis=1))).max())


def measure(work: Workload, dtype: type, n_threads: int, repeats: int, with_sklearn: bool) -> dict:
    """Run everyone on one row of the table."""
    X, D = work.X.astype(dtype), work.D.astype(dtype)
    X_columns, D_columns = np.asfortranarray(X.T), np.asfortranarray(D.T)
    product = np.empty((len(X), len(D)), dtype)
    times: dict[str, list[float]] = {"taskdict": [], "spams": [], "product": []}
    codes, spams_codes, report = None, None, None
    with threadpool_limits(n_threads):
        for _ in range(repeats):
            (codes, report), seconds = timed(
                lambda: td.sparse_encode(
                    X, D, lambda1=work.lambda1, lambda2=work.lambda2, n_threads=n_threads, return_report=True
                )
            )
            times["taskdict"].append(seconds)
            spams_codes, seconds = timed(
                lambda: spams.lasso(
                    X_columns, D_columns, lambda1=work.lambda1, lambda2=work.lambda2, mode=2, numThreads=n_threads
                )
            )
            times["spams"].append(seconds)
            times["product"].append(timed(lambda: np.matmul(X, D.T, out=product))[1])
    record = {
        "work": work.name,
        "source": work.source,
        "data": work.digest(),
        "m": X.shape[1],
        "p": len(D),
        "n": len(X),
        "lambda1": work.lambda1,
        "lambda2": work.lambda2,
        "dtype": np.dtype(dtype).name,
        "n_threads": n_threads,
        "nonzeros": codes.nnz / len(X),
        "passes": float(report.n_steps.mean()),
        "slow_path": int((report.status != td.Status.CONVERGED).sum()),
        "microseconds": {name: 1e6 * float(np.median(t)) / len(X) for name, t in times.items()},
        "kkt": {
            "taskdict": worst_kkt(work, X, D, codes, work.lambda2),
            "spams": worst_kkt(work, X, D, spams_codes.T.tocsr(), work.lambda2),
        },
    }
    if with_sklearn:
        for algorithm, count in SKLEARN_SIGNALS.items():
            with warnings.catch_warnings(), threadpool_limits(n_threads):
                warnings.simplefilter("ignore")
                result, seconds = timed(
                    lambda algorithm=algorithm, count=count: sklearn_encode(
                        X[:count], D, algorithm=algorithm, alpha=work.lambda1, n_jobs=1, max_iter=1000
                    )
                )
            record["microseconds"][algorithm] = 1e6 * seconds / count
            record["kkt"][algorithm] = worst_kkt(work, X, D, result, 0.0)
    return record


def table(records: list[dict]) -> str:
    lines = [
        "| work | m | p | dtype | threads | × SPAMS | × lasso_lars | × lasso_cd | of the product | 2 threads / 1 "
        "| KKT: us | SPAMS | lasso_lars | lasso_cd |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in records:
        us, kkt = r["microseconds"], r["kkt"]
        alone = next(
            (
                s["microseconds"]["taskdict"] / us["taskdict"]
                for s in records
                if (s["work"], s["dtype"], s["n_threads"]) == (r["work"], r["dtype"], 1)
            ),
            None,
        )
        ratio = {
            name: f"{us[name] / us['taskdict']:.1f}" if name in us else ""
            for name in ("spams", "lasso_lars", "lasso_cd")
        }
        residual = {
            name: f"{kkt[name]:.0e}" if name in kkt else "" for name in ("taskdict", "spams", "lasso_lars", "lasso_cd")
        }
        scaling = f"{alone:.2f}" if alone and r["n_threads"] > 1 else ""
        lines.append(
            f"| {r['work']} ({r['source']}) | {r['m']} | {r['p']} | {r['dtype']} | {r['n_threads']} | {ratio['spams']} "
            f"| {ratio['lasso_lars']} | {ratio['lasso_cd']} | {us['taskdict'] / us['product']:.2f} | {scaling} "
            f"| {residual['taskdict']} | {residual['spams']} | {residual['lasso_lars']} | {residual['lasso_cd']} |"
        )
    ratios = np.array([r["microseconds"]["spams"] / r["microseconds"]["taskdict"] for r in records])
    lines += ["", f"× SPAMS: geometric mean {np.exp(np.log(ratios).mean()):.1f}, least {ratios.min():.1f}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with real data")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--share", type=float, default=1.0, help="share of the signals, below 1 for a quick look")
    parser.add_argument("--output", type=Path, help="write the table (.md) and the record (.json) under this name")
    options = parser.parse_args()

    start = time.time()
    records = []
    for work in workloads(options.data, options.share):
        for dtype in (np.float32, np.float64):
            for n_threads in options.threads:
                with_sklearn = n_threads == 1
                records.append(measure(work, dtype, n_threads, options.repeats, with_sklearn))
                us = records[-1]["microseconds"]
                print(f"{work.name}, {np.dtype(dtype).name}, {n_threads} threads:", end=" ")
                print(", ".join(f"{name} {t:.2f} µs" for name, t in us.items()), flush=True)
    about = {
        "cpu": processor_name(),
        "instruction_set": _core.instruction_set(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("taskdict", "numpy", "scipy", "scikit-learn", "spams-bin")},
        "date": time.strftime("%Y-%m-%d"),
        "repeats": options.repeats,
        "share": options.share,
        "seed": 0,
        "seconds": round(time.time() - start),
    }
    head = (
        f"{about['cpu']}, {about['cores']} cores, kernels for {about['instruction_set']}; {about['date']}, "
        f"medians of {options.repeats}, {about['seconds']} s in all; "
        + ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    )
    text = f"{head}\n\n{table(records)}\n"
    print(f"\n{text}")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        replace_text(options.output.with_suffix(".md"), text)
        replace_text(
            options.output.with_suffix(".json"), json.dumps({"about": about, "records": records}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
