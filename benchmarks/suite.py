"""Defaults beside defaults: `TaskDrivenClassifier()` and `TaskDrivenRegressor()` beside scikit-learn, on many data.

    python benchmarks/suite.py --data /path/to/data --output benchmarks/results/suite

Every method has the parameters that it has without arguments. On each fold it is fitted and scored (accuracy, or R²),
and both together are timed. Of data with few labels, scikit-learn's methods get the labelled part. `--variants`
compares models of ours with each other instead. Results are written after each data set, and a command that is repeated
with the same output resumes where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, SVR

import taskdict as td
from machine import heading, publish, stamp
from suite_data import SUITE, DataSet, load
from taskdict._common.atomic_files import replace_text

OURS = "taskdict"
LINEAR = "logistic or ridge"
KERNEL = "SVC or SVR"
LABELLED = "taskdict, labelled part"  # what is learned without the unlabelled signals, where there are some
Make = Callable[[], Any]

CLASSIFIERS: dict[str, Make] = {
    OURS: lambda: td.TaskDrivenClassifier(random_state=0),
    LINEAR: LogisticRegression,
    KERNEL: SVC,
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "neighbours": KNeighborsClassifier,
    "MLP": lambda: MLPClassifier(random_state=0),
}
REGRESSORS: dict[str, Make] = {
    OURS: lambda: td.TaskDrivenRegressor(random_state=0),
    LINEAR: Ridge,
    KERNEL: SVR,
    "boosting": lambda: HistGradientBoostingRegressor(random_state=0),
    "neighbours": KNeighborsRegressor,
    "MLP": lambda: MLPRegressor(random_state=0),
}


VARIANTS: dict[str, dict[str, Any]] = {
    "auto": {},
    "linear": {"decision": "linear"},
    "split": {"decision": "split"},
    "joint": {"decision": "joint"},
    "bilinear": {"decision": "bilinear"},
    "positive codes": {"positive_code": True, "decision": "linear"},
    "λ2 = 0": {"lambda2": 0.0},
    "early stopping": {"early_stopping": True},
}
FEW_LABELS = {"mu": 0.5}  # what unlabelled signals ask for
FEW = "few labels"  # the group of data with unlabelled signals
GROUPS = {"signals and images": ("signals", "images"), "tables": ("tables",), "few labels": (FEW,)}


def estimator(method: str, data: DataSet) -> Any:
    """Return a method for a data set."""
    name = OURS if method == LABELLED else method
    if name in CLASSIFIERS:
        made = (REGRESSORS if data.is_regression else CLASSIFIERS)[name]()
    else:
        kind = td.TaskDrivenRegressor if data.is_regression else td.TaskDrivenClassifier
        made = kind(random_state=0, **VARIANTS[name])
    if data.group == FEW and hasattr(made, "mu") and method != LABELLED:
        made.set_params(**FEW_LABELS)
    return made


def run(method: str, data: DataSet) -> dict:
    """Return scores and times of a method on all folds, and in how many it has warned that a baseline is better."""
    scores, seconds, warned = [], [], 0
    for X, y, X_test, y_test in data.folds:
        model = estimator(method, data)
        if data.group == FEW and getattr(model, "mu", 0) == 0:
            X, y = X[y != -1], y[y != -1]
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        scores.append(float(model.score(X_test, y_test)))
        seconds.append(time.perf_counter() - begin)
        warned += any(issubclass(warning.category, td.BaselineWarning) for warning in caught)
    return {"scores": scores, "seconds": seconds, "warned": warned}


def ranks(scores: dict[str, float]) -> dict[str, float]:
    """Return the rank of each method, 1 for the best; those that are equal share the mean of theirs."""
    values = np.array(list(scores.values()))
    return {name: float(1 + (values > mine).sum() + ((values == mine).sum() - 1) / 2) for name, mine in scores.items()}


def summary(rows: dict[str, dict], methods: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Return for each group of data and each method: its rank, how far it is behind others, and its time."""
    groups: dict[str, dict[str, dict[str, float]]] = {}
    for title, members in GROUPS.items():
        mine = [row for row in rows.values() if row["group"] in members]
        means = [{name: mean_score(row, name) for name in methods} for row in mine]
        if mine:
            groups[title] = {name: record(name, mine, means) for name in methods}
    return groups


def record(method: str, rows: list[dict], means: list[dict[str, float]]) -> dict[str, float]:
    """Return the summary of a method on some data sets."""
    behind = [max(each.values()) - each[method] for each in means]
    found = {
        "mean rank": float(np.mean([ranks(each)[method] for each in means])),
        "within a point of the best, %": 100 * float(np.mean([gap <= 1 for gap in behind])),
        "points behind the best, mean": float(np.mean(behind)),
    }
    if LINEAR in means[0]:
        found["points behind the linear model, at most"] = max(each[LINEAR] - each[method] for each in means)
    if KERNEL in means[0]:
        found["time / SVC's, median"] = float(np.median([time_ratio(row, method) for row in rows]))
    return found


def mean_score(row: dict, method: str) -> float:
    """Return the mean score over the folds, times 100; rounded, so that equal ones are equal."""
    return round(100 * float(np.mean(row["methods"][method]["scores"])), 6)


def time_ratio(row: dict, method: str) -> float:
    """Return the time of a method over that of SVC or SVR."""
    mine, theirs = (np.sum(row["methods"][name]["seconds"]) for name in (method, KERNEL))
    return float(mine / theirs)


def table(result: dict) -> str:
    """Return the tables of a result."""
    methods, rows = result["methods"], result["data sets"]
    lines = [
        heading(result),
        "",
        f"Edition: {result['edition']}. Scores are accuracy or R², times 100, mean of five folds. With few labels, "
        "`taskdict` has `mu=0.5` and all signals, the others have the labelled part.",
    ]
    for title, group in result["summary"].items():
        columns = list(group[methods[0]])
        lines += ["", f"**{title}** ({sum(row['group'] in GROUPS[title] for row in rows.values())} data sets)", ""]
        lines += [f"| | {' | '.join(columns)} |", f"|---{'|---:' * len(columns)}|"]
        for method, found in group.items():
            lines.append(f"| {method} | {' | '.join(f'{found[name]:.2f}' for name in columns)} |")
    lines += [
        "",
        "*warned*: in how many of the five folds `taskdict` said that a baseline is better, or left its training out.",
        "",
        f"| data | to learn from | {' | '.join(methods)} | time / SVC's | warned | digest |",
        f"|---|---{'|---:' * len(methods)}|---:|---:|---|",
    ]
    for name, row in rows.items():
        means = {method: mean_score(row, method) for method in methods}
        best = max(round(mean, 1) for mean in means.values())
        cells = [f"**{mean:.1f}**" if round(mean, 1) == best else f"{mean:.1f}" for mean in means.values()]
        ratio = f"{time_ratio(row, methods[0]):.1f}" if KERNEL in methods else "–"
        warned = row["methods"][methods[0]]["warned"]
        lines.append(
            f"| {name}: {row['about']} | {row['size']} | {' | '.join(cells)} | {ratio} | {warned} | {row['sha256']} |"
        )
    labelled = {name: row for name, row in rows.items() if LABELLED in row["methods"]}
    if labelled:
        lines += ["", "Unlabelled signals (`mu=0.5`) beside the labelled part alone, both `taskdict`:", ""]
        lines += ["| data | labelled part | all signals |", "|---|---:|---:|"]
        for name, row in labelled.items():
            lines.append(f"| {name} | {mean_score(row, LABELLED):.1f} | {mean_score(row, OURS):.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with MNIST and USPS")
    parser.add_argument("--edition", choices=["development", "final"], default="final")
    parser.add_argument("--only", nargs="+", choices=list(SUITE), metavar="NAME", help="some of the data sets")
    parser.add_argument("--methods", nargs="+", choices=[*CLASSIFIERS, *VARIANTS], help="by default all methods")
    parser.add_argument("--variants", action="store_true", help="compare models of ours")
    parser.add_argument("--output", type=Path, help="where to write the tables and the record, without ending")
    options = parser.parse_args()
    methods = options.methods or list(VARIANTS if options.variants else CLASSIFIERS)
    data = None if options.data is None else Path(options.data)
    names = [name for name in options.only or SUITE if data is not None or not SUITE[name].needs_data]
    begin = time.monotonic()
    result: dict = {"edition": options.edition, "methods": methods, "data sets": {}}
    partial = None if options.output is None else options.output.with_suffix(".partial.json")
    if partial is not None and partial.exists():
        result["data sets"] = json.loads(partial.read_text())
    for name in names:
        loaded = load(name, data, options.edition)
        row = result["data sets"].setdefault(name, {"methods": {}})
        row.update(group=loaded.group, about=loaded.about, size=loaded.size, sha256=loaded.sha256)
        for method in [*methods, LABELLED] if loaded.group == FEW and OURS in methods else methods:
            if method in row["methods"]:
                continue
            found = row["methods"][method] = run(method, loaded)
            score, seconds = 100 * np.mean(found["scores"]), np.mean(found["seconds"])
            print(f"{name}, {method}: {score:.1f} in {seconds:.2f} s", flush=True)
            if partial is not None:
                replace_text(partial, json.dumps(result["data sets"]))
    result["summary"] = summary(result["data sets"], methods)
    result.update(stamp(begin, command(options)))
    result["seconds"] = sum(
        sum(found["seconds"]) for row in result["data sets"].values() for found in row["methods"].values()
    )
    publish(result, table(result), options.output)
    if partial is not None:
        partial.unlink(missing_ok=True)


def command(options: argparse.Namespace) -> str:
    """Return the command that gives this result."""
    words = ["python benchmarks/suite.py"]
    words += ["--variants"] if options.variants else []
    words += ["--edition development"] if options.edition == "development" else []
    words += [f"--only {' '.join(options.only)}"] if options.only else []
    words += [f"--methods {' '.join(options.methods)}"] if options.methods else []
    return " ".join(words)


if __name__ == "__main__":
    main()
