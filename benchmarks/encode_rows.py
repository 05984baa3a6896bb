"""The rows of single features: matching pursuit, rules, few signals per call, and a dictionary per signal."""

from __future__ import annotations

from typing import Any

import numpy as np
import spams
from threadpoolctl import threadpool_limits

import pursuit
import taskdict as td
from encode_figures import Figure, Options
from machine import in_turns
from workloads import digest, digits, learn, patches, unit_norm

DTYPES = (np.float32, np.float64)


def said(figures: list[Figure]) -> list[Figure]:
    """Print the figures as they are found."""
    for f in figures:
        print(f"{f.group}, {f.work}, {f.dtype}, {f.threads} threads: {f.what} {f.value or 0:.2f}", flush=True)
    return figures


def omp(options: Options) -> tuple[list[Figure], list[dict]]:
    """Orthogonal matching pursuit; `benchmarks/pursuit.py` has more of it."""
    figures, records = [], []
    work = pursuit.gaussian(options.share)
    for dtype in DTYPES:
        for n_threads in options.threads:
            record = pursuit.measure(work, dtype, n_threads, options.repeats, with_sklearn=n_threads == 1)
            records.append(record)
            us = record["microseconds"]
            row = ("omp", f"{work.name}, m = 100, p = 500, k = 10", np.dtype(dtype).name, str(n_threads))
            found = [Figure(*row, "spams.omp / us", us["spams"] / us["taskdict"], 3)]
            if "sklearn" in us:
                note = f"{pursuit.SKLEARN_SIGNALS:,} signals, scaled"
                found.append(Figure(*row, "scikit-learn / us", us["sklearn"] / us["taskdict"], 50, note=note))
            figures += said(found)
    return figures, records


def rules(options: Options) -> tuple[list[Figure], list[dict]]:
    """n_nonzero and max_error beside the penalised problem at the λ1's that they find, and beside SPAMS."""
    figures, records = [], []
    kodak, source = patches(options.data, int(20_000 * options.share) + 5_000, halftone=False)
    kodak = unit_norm(kodak)[: int(20_000 * options.share)]
    atoms = learn(kodak, 500, 0.15)
    for dtype in DTYPES:
        X, D = np.ascontiguousarray(kodak, dtype), atoms.astype(dtype)
        X_columns, D_columns = np.asfortranarray(X.T), np.asfortranarray(D.T)
        for n_threads in options.threads:
            for name, amount in (("n_nonzero", 14), ("max_error", 0.1)):
                given: dict[str, Any] = {name: amount}
                codes, report = td.sparse_encode(X, D, **given, n_threads=n_threads, return_report=True)
                calls = {
                    "rule": lambda X=X, D=D, given=given, n=n_threads: td.sparse_encode(X, D, **given, n_threads=n),
                    "penalty": lambda X=X, D=D, found=report.lambda1, n=n_threads: td.sparse_encode(
                        X, D, lambda1=found, n_threads=n
                    ),
                }
                if name == "max_error":
                    calls["spams"] = lambda X=X_columns, D=D_columns, n=n_threads: spams.lasso(
                        X, D, lambda1=0.1, mode=1, numThreads=n
                    )
                results, seconds = in_turns(calls, options.repeats)
                k = codes.nnz / len(X)
                row = ("rules", f"{name}={amount} ({source})", np.dtype(dtype).name, str(n_threads))
                note = f"{k:.1f} nonzeros, {results['penalty'].nnz / len(X):.1f} with lambda1"
                found = [
                    Figure(*row, "us / lambda1", seconds["rule"] / seconds["penalty"], 1.5, at_most=True, note=note)
                ]
                record = {
                    "rule": name,
                    "amount": amount,
                    "dtype": np.dtype(dtype).name,
                    "n_threads": n_threads,
                    "n": len(X),
                    "data": digest(kodak, atoms),
                    "nonzeros": k,
                    "unmet": int((report.status == td.Status.UNMET).sum()),
                    "seconds": seconds,
                }
                if name == "max_error":
                    record["nonzeros of SPAMS"] = results["spams"].nnz / len(X)
                    note = f"SPAMS has {record['nonzeros of SPAMS']:.1f} nonzeros"
                    found.append(
                        Figure(*row, "spams.lasso(mode=1) / us", seconds["spams"] / seconds["rule"], 4, note=note)
                    )
                records.append(record)
                figures += said(found)
    return figures, records


def few(options: Options) -> tuple[list[Figure], list[dict]]:
    """200 signals per call on a dictionary that is prepared once; SPAMS prepares it in each call."""
    figures, records = [], []
    images, source = digits(options.data, 6_000)
    atoms = learn(images, 300, 0.075)
    for dtype in DTYPES:
        X, D = np.ascontiguousarray(images[:4_000], dtype), atoms.astype(dtype)
        D_columns = np.asfortranarray(D.T)
        batches = [X[first : first + 200] for first in range(0, len(X), 200)]
        columns = [np.asfortranarray(batch.T) for batch in batches]
        for n_threads in options.threads:
            coder = td.SparseCoder(D, lambda1=0.075, n_threads=n_threads).fit(batches[0])
            with threadpool_limits(n_threads):
                _, seconds = in_turns(
                    {
                        "taskdict": lambda coder=coder, batches=batches: [coder.transform(batch) for batch in batches],
                        "spams": lambda columns=columns, D=D_columns, n=n_threads: [
                            spams.lasso(batch, D, lambda1=0.075, mode=2, numThreads=n) for batch in columns
                        ],
                    },
                    options.repeats,
                )
            row = ("few", f"200 of m = 784, p = 300 ({source})", np.dtype(dtype).name, str(n_threads))
            note = f"{1e6 * seconds['taskdict'] / len(X):.1f} µs per signal"
            figures += said([Figure(*row, "SPAMS / us", seconds["spams"] / seconds["taskdict"], 5, note=note)])
            about = {"dtype": np.dtype(dtype).name, "n_threads": n_threads, "calls": len(batches)}
            records.append({**about, "data": digest(images[:4_000], atoms), "seconds": seconds})
    return figures, records


def voxels(options: Options) -> tuple[list[Figure], list[dict]]:
    """One small dictionary per signal, beside a Python loop over calls."""
    figures, records = [], []
    for p, m in ((50, 60), (145, 100), (200, 100)):
        rng = np.random.default_rng(0)
        n = max(50, int(1_000 * options.share))
        D = rng.standard_normal((n, p, m))
        D /= np.linalg.norm(D, axis=2, keepdims=True)
        mixed = rng.random((n, p)) * (rng.random((n, p)) < 3 / p)  # three atoms in the mean
        X = np.einsum("np,npm->nm", mixed, D) + 0.02 * rng.standard_normal((n, m))
        which = np.arange(n)
        for dtype in DTYPES:
            x, d = X.astype(dtype), D.astype(dtype)
            for n_threads in options.threads:
                results, seconds = in_turns(
                    {
                        "taskdict": lambda x=x, d=d, which=which, n=n_threads: td.sparse_encode(
                            x, d, which=which, lambda1=0.1, n_threads=n
                        ),
                        "loop": lambda x=x, d=d, which=which, n=n_threads: [
                            td.sparse_encode(x[i : i + 1], d[i], lambda1=0.1, n_threads=n) for i in which
                        ],
                    },
                    options.repeats,
                )
                k = results["taskdict"].nnz / n
                row = ("voxels", f"p = {p}, m = {m}, {n:,} dictionaries", np.dtype(dtype).name, str(n_threads))
                us = {name: 1e6 * t / n for name, t in seconds.items()}
                note = f"{us['taskdict']:.0f} and {us['loop']:.0f} µs per signal, {k:.1f} nonzeros"
                ratio = seconds["loop"] / seconds["taskdict"]
                figures += said([Figure(*row, "Python loop / us", ratio, 10, note=note)])
                about = {"p": p, "m": m, "n": n, "dtype": np.dtype(dtype).name, "n_threads": n_threads}
                records.append({**about, "data": digest(X, D), "nonzeros": k, "seconds": seconds})
    return figures, records
