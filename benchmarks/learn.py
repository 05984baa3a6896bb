"""Dictionary learning: objective against time for taskdict, SPAMS and scikit-learn, one after the other in one process.

Everyone starts from its own defaults and learns the same signals with the same λ1 and number of threads; the objective
of the paper is measured with our encoder on signals that nobody has seen. SPAMS has no callback and stops after a
number of seconds or batches, so each of its points is a run of its own. Times by themselves mean little: only ratios
are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import spams
from sklearn.decomposition import MiniBatchDictionaryLearning
from threadpoolctl import threadpool_limits

import taskdict as td
from taskdict import _core
from taskdict._common.atomic_files import replace_text
from taskdict.experiments.environment import processor_name
from workloads import digest, digits, patches, unit_norm

SPAMS_RUNS = {"default (1 s)": -1, "10 batches": 10, "100 batches": 100, "1,000 batches": 1000}  # its `iter`
GOALS = ("default (1 s)", "100 batches", "1,000 batches")  # the ends of SPAMS that are to be reached


@dataclass
class Work:
    """Signals to learn from, signals to judge by, the number of atoms, the penalty."""

    name: str
    train: np.ndarray
    held_out: np.ndarray
    p: int
    lambda1: float
    source: str

    def objective(self, dictionary: np.ndarray) -> float:
        """Return the paper's objective per held-out signal; NaN or zero atoms would show in it."""
        X, D = self.held_out.astype(np.float64), np.ascontiguousarray(dictionary, np.float64)
        D = D / np.maximum(1, np.linalg.norm(D, axis=1, keepdims=True))
        codes = td.sparse_encode(X, D, lambda1=self.lambda1)
        return float(0.5 * np.square(X - codes @ D).sum() + self.lambda1 * np.abs(codes.data).sum()) / len(X)


def works(data: Path | None, share: float) -> list[Work]:
    rng = np.random.default_rng(0)
    images, digits_source = digits(data, 60_000)
    images = images[rng.permutation(len(images))]
    seen, source = patches(data, int(100_000 * share), halftone=False, images=slice(0, 20))
    unseen, _ = patches(data, 5_000, halftone=False, images=slice(20, 24))
    seen, unseen = unit_norm(seen), unit_norm(unseen)
    train = images[: int(55_000 * share)]
    return [
        Work("digits, p = 300", train, images[55_000:], 300, 0.075, digits_source),
        Work("patches, p = 256", seen, unseen, 256, 0.15, source),
        Work("patches, p = 500", seen, unseen, 500, 0.15, source),
    ]


def learn_ours(work: Work, X: np.ndarray, n_threads: int, seed: int, seconds: float) -> list[tuple[float, float]]:
    """Learn for some seconds; return (time, objective), the first point before the first batch is counted in."""
    kept: list[tuple[float, np.ndarray]] = []

    def keep(progress: td.Progress) -> bool:
        now = time.perf_counter() - start
        if not kept or progress.n_iter <= 20 or now > 1.03 * kept[-1][0]:
            kept.append((now, progress.model.components_))
        return now > seconds

    model = td.DictionaryLearning(
        work.p, lambda1=work.lambda1, n_threads=n_threads, random_state=seed, max_iter=10**9, tol=0, callbacks=keep
    )
    time.sleep(0.3)  # the threads of the one before have gone to sleep
    start = time.perf_counter()
    model.fit(X)
    return [(at, work.objective(dictionary)) for at, dictionary in kept]


def learn_spams(work: Work, X: np.ndarray, n_threads: int, iterations: int) -> tuple[float, float]:
    columns = np.asfortranarray(X.T)
    time.sleep(0.3)
    start = time.perf_counter()
    dictionary = spams.trainDL(
        columns, K=work.p, lambda1=work.lambda1, iter=iterations, numThreads=n_threads, verbose=False
    )
    seconds = time.perf_counter() - start
    return seconds, work.objective(dictionary.T)


def learn_sklearn(work: Work, X: np.ndarray, n_threads: int) -> list[tuple[float, float]]:
    """Learn with scikit-learn's defaults to the end; return (time, objective)."""
    kept: list[tuple[float, np.ndarray]] = []

    def keep(local: dict) -> None:
        now = time.perf_counter() - start
        if not kept or now > 1.15 * kept[-1][0]:
            kept.append((now, local["dictionary"].copy()))

    # alpha is λ1: sparse_encode divides it by the number of features for LassoLars, which multiplies by it again.
    model = MiniBatchDictionaryLearning(work.p, alpha=work.lambda1, n_jobs=n_threads, random_state=0, callback=keep)
    time.sleep(0.3)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    kept.append((time.perf_counter() - start, model.components_))
    return [(at, work.objective(dictionary)) for at, dictionary in kept]


def time_to(curve: list[tuple[float, float]], goal: float) -> float:
    """Return when a curve first is at or below the goal; infinity if never."""
    return next((at for at, value in curve if value <= goal), np.inf)


def value_at(curve: list[tuple[float, float]], seconds: float) -> float:
    """Return the last value of a curve that was there by then; infinity if none."""
    return next((value for at, value in reversed(curve) if at <= seconds), np.inf)


def measure(work: Work, dtype: str, n_threads: int, repeats: int, with_sklearn: bool) -> dict:
    """Run everyone, in turns; return a record with every curve."""
    X = work.train.astype(dtype)
    ours, theirs = [], {name: [] for name in SPAMS_RUNS}
    with threadpool_limits(n_threads):
        for repeat in range(repeats):
            for name, iterations in SPAMS_RUNS.items():
                theirs[name].append(learn_spams(work, X, n_threads, iterations))
            ours.append(learn_ours(work, X, n_threads, repeat, 0.4 * theirs["1,000 batches"][-1][0]))
        sklearn = learn_sklearn(work, X, n_threads) if with_sklearn else []
    return {
        "work": work.name,
        "source": work.source,
        "data": digest(work.train, work.held_out),
        "n": len(X),
        "m": X.shape[1],
        "p": work.p,
        "lambda1": work.lambda1,
        "dtype": dtype,
        "n_threads": n_threads,
        "taskdict": ours,
        "spams": theirs,
        "sklearn": sklearn,
    }


def summary(record: dict) -> list[dict]:
    """Return one row for each end of a peer: how long it took, how long we take to get there, what we have by then."""
    rows = []
    ends = {f"SPAMS, {name}": record["spams"][name] for name in GOALS}
    if record["sklearn"]:
        ends["scikit-learn, default"] = [record["sklearn"][-1]]
    for name, runs in ends.items():
        seconds, goal = (float(np.median(values)) for values in zip(*runs, strict=True))
        reach = float(np.median([time_to(curve, goal) for curve in record["taskdict"]]))
        equal = float(np.median([value_at(curve, seconds) for curve in record["taskdict"]]))
        rows.append({"peer": name, "seconds": seconds, "objective": goal, "reach": reach, "equal": equal})
    return rows


def table(records: list[dict]) -> str:
    lines = [
        "| work | dtype | threads | peer's run | its objective | we are there in | our objective after its time |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        for row in summary(record):
            lines.append(
                f"| {record['work']} ({record['source']}) | {record['dtype']} | {record['n_threads']} | {row['peer']} "
                f"| {row['objective']:.5f} | 1/{row['seconds'] / row['reach']:.1f} of its time | {row['equal']:.5f} |"
            )
    return "\n".join(lines)


def draw(records: list[dict], path: Path) -> None:
    """Plot objective against time, one panel for each work."""
    figure, panels = plt.subplots(1, len(records), figsize=(5 * len(records), 4), squeeze=False)
    for panel, record in zip(panels[0], records, strict=True):
        for number, curve in enumerate(record["taskdict"]):
            panel.plot(*zip(*curve, strict=True), color="C0", lw=1.5, label=None if number else "taskdict")
        points = np.median(list(record["spams"].values()), axis=1)
        points = points[np.argsort(points[:, 0])]
        panel.plot(points[:, 0], points[:, 1], "o-", color="C1", label="SPAMS")
        if record["sklearn"]:
            panel.plot(*zip(*record["sklearn"], strict=True), color="C2", label="scikit-learn")
        best = min(value for curve in record["taskdict"] for _, value in curve)
        worst = max(points[0, 1], record["taskdict"][0][2][1])
        panel.set(xscale="log", xlabel="seconds", title=record["work"], ylim=(best - 0.03 * (worst - best), worst))
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("objective per held-out signal")
    panels[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with real data")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--dtypes", nargs="+", default=["float32"], help="float32, float64 or both")
    parser.add_argument("--share", type=float, default=1.0, help="share of the signals, below 1 for a quick look")
    parser.add_argument("--no-sklearn", action="store_true", help="leave scikit-learn out: it takes most of the time")
    parser.add_argument("--output", type=Path, help="write the table (.md), the record (.json) and the plot (.png)")
    options = parser.parse_args()

    start = time.time()
    records = []
    for n_threads in options.threads:
        for dtype in options.dtypes:
            for work in works(options.data, options.share):
                first = (n_threads, dtype) == (options.threads[0], options.dtypes[0])
                records.append(measure(work, dtype, n_threads, options.repeats, first and not options.no_sklearn))
                for row in summary(records[-1]):
                    print(
                        f"{work.name}, {dtype}, {n_threads} threads; {row['peer']}: {row['seconds']:.2f} s to "
                        f"{row['objective']:.5f}; we reach it in {row['reach']:.2f} s "
                        f"({row['seconds'] / row['reach']:.1f} times as fast); after its time: {row['equal']:.5f}",
                        flush=True,
                    )
                if options.output:  # what is there so far
                    save(records, options, start)
    print(f"\n{save(records, options, start)}")


def save(records: list[dict], options: argparse.Namespace, start: float) -> str:
    names = ("taskdict", "numpy", "scipy", "scikit-learn", "spams-bin")
    about = {
        "cpu": processor_name(),
        "instruction_set": _core.instruction_set(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
        "date": time.strftime("%Y-%m-%d"),
        "repeats": options.repeats,
        "share": options.share,
        "seeds": list(range(options.repeats)),
        "seconds": round(time.time() - start),
    }
    text = (
        f"{about['cpu']}, {about['cores']} cores, kernels for {about['instruction_set']}; {about['date']}, "
        f"medians of {options.repeats} (scikit-learn: one run), {about['seconds']} s in all; "
        + ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        + f"\n\n{table(records)}\n"
    )
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        replace_text(options.output.with_suffix(".md"), text)
        replace_text(options.output.with_suffix(".json"), json.dumps({"about": about, "records": records}) + "\n")
        first = (records[0]["n_threads"], records[0]["dtype"])
        draw([r for r in records if (r["n_threads"], r["dtype"]) == first], options.output.with_suffix(".png"))
    return text


if __name__ == "__main__":
    main()
