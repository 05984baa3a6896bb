"""The six rows of real and synthetic signals: taskdict, SPAMS and scikit-learn in turns."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
import spams
from sklearn.decomposition import sparse_encode as sklearn_encode
from threadpoolctl import threadpool_limits

import taskdict as td
from encode_figures import Figure, Options
from machine import in_turns, timed
from workloads import Workload, workloads

CHECKED = 2000  # signals whose codes are checked for optimality
SKLEARN_SIGNALS = {"lasso_lars": 150, "lasso_cd": 400}  # scikit-learn encodes only so many; its time is scaled


def worst_kkt(X: np.ndarray, D: np.ndarray, codes, lambda1: float, lambda2: float = 0.0) -> float:
    """Return the largest violation of Lemma 1 relative to max(λ1, ‖Dᵀx‖∞), over the first signals."""
    n = min(CHECKED, codes.shape[0])
    X, D = X[:n].astype(np.float64), D.astype(np.float64)
    A = (codes[:n].toarray() if sp.issparse(codes) else codes[:n]).astype(np.float64)
    rho = (X - A @ D) @ D.T - lambda2 * A
    violation = np.where(A != 0, np.abs(rho - lambda1 * np.sign(A)), np.maximum(np.abs(rho) - lambda1, 0))
    return float((violation.max(axis=1) / np.maximum(lambda1, np.abs(X @ D.T).max(axis=1))).max())


def measure(work: Workload, dtype: type, n_threads: int, repeats: int, with_sklearn: bool) -> dict:
    """Run everyone on one row of the table."""
    X, D = work.X.astype(dtype), work.D.astype(dtype)
    X_columns, D_columns = np.asfortranarray(X.T), np.asfortranarray(D.T)
    product = np.empty((len(X), len(D)), dtype)
    product.fill(0)  # so that the first product does not wait for memory
    with threadpool_limits(n_threads):
        results, seconds = in_turns(
            {
                "taskdict": lambda: td.sparse_encode(
                    X, D, lambda1=work.lambda1, lambda2=work.lambda2, n_threads=n_threads, return_report=True
                ),
                "spams": lambda: spams.lasso(
                    X_columns, D_columns, lambda1=work.lambda1, lambda2=work.lambda2, mode=2, numThreads=n_threads
                ),
                "product": lambda: np.matmul(X, D.T, out=product),
            },
            repeats,
        )
    codes, report = results["taskdict"]
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
        "microseconds": {name: 1e6 * t / len(X) for name, t in seconds.items()},
        "kkt": {
            "taskdict": worst_kkt(X, D, codes, work.lambda1, work.lambda2),
            "spams": worst_kkt(X, D, results["spams"].T.tocsr(), work.lambda1, work.lambda2),
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
            record["kkt"][algorithm] = worst_kkt(X, D, result, work.lambda1)
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
    return "\n".join(lines)


def group(options: Options) -> tuple[list[Figure], list[dict]]:
    """Return the figures and the records of the six rows."""
    records = []
    for work in workloads(options.data, options.share):
        for dtype in (np.float32, np.float64):
            for n_threads in options.threads:
                records.append(measure(work, dtype, n_threads, options.repeats, with_sklearn=n_threads == 1))
                us = records[-1]["microseconds"]
                print(f"{work.name}, {np.dtype(dtype).name}, {n_threads} threads:", end=" ")
                print(", ".join(f"{name} {t:.2f} µs" for name, t in us.items()), flush=True)
    ratios = np.array([r["microseconds"]["spams"] / r["microseconds"]["taskdict"] for r in records])
    least = records[int(ratios.argmin())]
    kind = ", ".join(f"{n}" for n in options.threads)
    where = f"least: {least['work']}, {least['dtype']}, {least['n_threads']} threads"
    return [
        Figure("six", "all rows", "both", kind, "SPAMS / us, geometric mean", float(np.exp(np.log(ratios).mean())), 8),
        Figure("six", where, least["dtype"], str(least["n_threads"]), "SPAMS / us", float(ratios.min()), 5),
    ], records
