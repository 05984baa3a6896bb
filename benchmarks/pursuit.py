"""Speed of orthogonal matching pursuit: taskdict, SPAMS and scikit-learn in one process, one after the other.

Every repetition runs us and each peer once on the same work, in turns; the table has ratios of medians.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import spams
from sklearn.decomposition import sparse_encode as sklearn_encode
from threadpoolctl import threadpool_limits

from machine import heading, in_turns, publish, stamp, timed
from taskdict import _core
from taskdict._coding.pursuit import matching_pursuit
from workloads import digest, learn, patches, unit_norm

CHECKED = 2000  # signals whose codes are compared
SKLEARN_SIGNALS = 1000  # scikit-learn encodes only so many; its time is scaled
SKLEARN_LARGE = 10  # of a large dictionary


@dataclass
class Work:
    """Signals, a dictionary, and the end of a pursuit: a number of nonzeros, or an error."""

    name: str
    X: np.ndarray
    D: np.ndarray
    n_nonzero: int | None = None
    max_error: float | None = None

    @property
    def rule(self) -> str:
        """When a pursuit ends, in words."""
        return f"{self.n_nonzero} nonzeros" if self.max_error is None else f"error {self.max_error:g}"


def gaussian(share: float = 1.0) -> Work:
    """Return the row of the speed table: ten nonzeros on 500 atoms of 100 numbers."""
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((int(100_000 * share), 100)), rng.standard_normal((500, 100))
    return Work("Gaussian", *(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, D)), n_nonzero=10)


def works(data: Path | None, share: float = 1.0) -> list[Work]:
    """Return the rows of the table; `share` below one takes fewer signals."""
    rng = np.random.default_rng(1)
    many = int(100_000 * share)
    kodak, source = patches(data, many + 5_000, halftone=False)
    kodak = unit_norm(kodak)[:many]
    atoms = learn(kodak, 500, 0.15)
    atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)  # SPAMS and scikit-learn need atoms of norm one
    few, wide = rng.standard_normal((max(10, int(100 * share)), 256)), rng.standard_normal((16_384, 256))
    few, wide = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (few, wide))
    return [
        gaussian(share),
        Work(f"patches ({source})", kodak, atoms, n_nonzero=10),
        Work(f"patches ({source})", kodak, atoms, max_error=0.05),
        Work("Gaussian, large", few, wide, n_nonzero=10),
    ]


def spams_omp(work: Work, X_columns: np.ndarray, D_columns: np.ndarray, n_threads: int) -> sp.csr_array:
    """Return the codes of SPAMS.

    Without `eps` its codes are empty in some processes and not in others, for float32.
    """
    if work.max_error is None:
        codes = spams.omp(X_columns, D_columns, L=work.n_nonzero, eps=0.0, numThreads=n_threads)
    else:
        codes = spams.omp(X_columns, D_columns, L=len(X_columns), eps=work.max_error, numThreads=n_threads)
    return codes


def sklearn_omp(work: Work, X: np.ndarray, D: np.ndarray) -> np.ndarray:
    """Return the codes of scikit-learn; its error bound is on ‖x − Dα‖², too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if work.max_error is None:
            return sklearn_encode(X, D, algorithm="omp", n_nonzero_coefs=work.n_nonzero)
        return sklearn_encode(X, D, algorithm="omp", n_nonzero_coefs=X.shape[1], alpha=work.max_error)


def about(codes, X: np.ndarray, D: np.ndarray) -> dict[str, float]:
    """Return what some first codes have reached: nonzeros, mean ‖x − Dα‖², largest violation on the support."""
    n = min(CHECKED, codes.shape[0])
    A = (codes[:n].toarray() if sp.issparse(codes) else codes[:n]).astype(np.float64)
    X, D = X[:n].astype(np.float64), D.astype(np.float64)
    R = X - A @ D
    violation = np.where(A != 0, np.abs(R @ D.T), 0).max(axis=1) / np.abs(X @ D.T).max(axis=1)
    return {
        "nonzeros": float((A != 0).sum() / n),
        "error": float((R**2).sum(axis=1).mean()),
        "kkt": float(violation.max()),
    }


def measure(work: Work, dtype: type, n_threads: int, repeats: int, with_sklearn: bool) -> dict:
    """Run everyone on one row of the table."""
    X, D = work.X.astype(dtype), work.D.astype(dtype)
    X_columns, D_columns = np.asfortranarray(X.T), np.asfortranarray(D.T)
    product = np.empty((len(X), len(D)), dtype)
    rules = {"n_nonzero": work.n_nonzero, "max_error": work.max_error}
    with threadpool_limits(n_threads):
        results, seconds = in_turns(
            {
                "taskdict": lambda: matching_pursuit(X, D, n_threads=n_threads, **rules),
                "spams": lambda: spams_omp(work, X_columns, D_columns, n_threads),
                "product": lambda: np.matmul(X, D.T, out=product),
            },
            repeats,
        )
    codes, report = results["taskdict"]
    record = {
        "work": work.name,
        "rule": work.rule,
        "data": digest(work.X, work.D),
        "m": X.shape[1],
        "p": len(D),
        "n": len(X),
        "dtype": np.dtype(dtype).name,
        "n_threads": n_threads,
        "status": np.bincount(report.status, minlength=4).tolist(),
        "microseconds": {name: 1e6 * t / len(X) for name, t in seconds.items()},
        "codes": {"taskdict": about(codes, X, D), "spams": about(results["spams"].T.tocsr(), X, D)},
    }
    if with_sklearn:
        count = min(SKLEARN_SIGNALS if len(D) < 5000 else SKLEARN_LARGE, len(X))
        with threadpool_limits(n_threads):
            result, seconds = timed(lambda: sklearn_omp(work, X[:count], D))
        record["microseconds"]["sklearn"] = 1e6 * seconds / count
        record["codes"]["sklearn"] = about(result, X, D)
    return record


def table(result: dict) -> str:
    lines = [
        f"{heading(result)}; kernels for {result['instruction_set']}; spams-bin {result['versions']['spams-bin']}, "
        f"scikit-learn {result['versions']['scikit-learn']}",
        "",
        "| work | until | m | p | dtype | threads | µs per signal | × SPAMS | × scikit-learn | of the product "
        "| nonzeros: us | SPAMS | error: us | SPAMS | KKT: us | SPAMS |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["records"]:
        us, codes = r["microseconds"], r["codes"]
        sklearn = f"{us['sklearn'] / us['taskdict']:.0f}" if "sklearn" in us else ""
        ours, peer = codes["taskdict"], codes["spams"]
        lines.append(
            f"| {r['work']} | {r['rule']} | {r['m']} | {r['p']} | {r['dtype']} | {r['n_threads']} "
            f"| {us['taskdict']:.2f} | {us['spams'] / us['taskdict']:.1f} | {sklearn} "
            f"| {us['taskdict'] / us['product']:.2f} | {ours['nonzeros']:.1f} | {peer['nonzeros']:.1f} "
            f"| {ours['error']:.4f} | {peer['error']:.4f} | {ours['kkt']:.0e} | {peer['kkt']:.0e} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with real data")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--share", type=float, default=1.0, help="share of the signals, below 1 for a quick look")
    parser.add_argument("--output", type=Path, help="write <output>.md and <output>.json")
    options = parser.parse_args()
    begin = time.monotonic()
    records = []
    for work in works(Path(options.data) if options.data else None, options.share):
        for dtype in (np.float32, np.float64):
            for n_threads in options.threads:
                records.append(measure(work, dtype, n_threads, options.repeats, with_sklearn=n_threads == 1))
                us = records[-1]["microseconds"]
                print(f"{work.name}, {work.rule}, {np.dtype(dtype).name}, {n_threads} threads:", end=" ")
                print(", ".join(f"{name} {t:.2f} µs" for name, t in us.items()), flush=True)
    command = f"python benchmarks/pursuit.py --repeats {options.repeats} --share {options.share:g}"
    result = {
        **stamp(begin, command),
        "instruction_set": _core.instruction_set(),
        "versions": {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "spams-bin")},
        "records": records,
    }
    publish(result, table(result), options.output)


if __name__ == "__main__":
    main()
