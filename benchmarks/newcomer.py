"""What a newcomer tries first: data of their own, all parameters by default, beside a baseline of one line.

    python benchmarks/newcomer.py --data /path/to/data --output benchmarks/results/newcomer

Each row was once a complaint: the classifier lost to the baseline without a word. Rows with MNIST need `--data`.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as bundled
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_validate
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import taskdict as td
from machine import heading, publish, stamp
from suite_data import SUITE
from workloads import digest

FOLDS = 3
Row = dict[str, Any]


def compare(what: str, X: np.ndarray, y: np.ndarray, ours: Any, baselines: dict[str, Any]) -> Row:
    """Return the scores of all on the same folds, and the time of ours relative to the first baseline."""
    found = {}
    for name, model in {"taskdict": ours, **baselines}.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores = cross_validate(model, X, y, cv=FOLDS)
        found[name] = {
            "score": 100 * float(scores["test_score"].mean()),
            "seconds": float(scores["fit_time"].sum() + scores["score_time"].sum()),
            "warned": sum(issubclass(warning.category, td.BaselineWarning) for warning in caught),
        }
    return {"what": what, "found": found, "data": digest(np.ascontiguousarray(X), np.ascontiguousarray(y))}


def waveforms() -> list[Row]:
    """Signals whose sign is arbitrary."""
    rows = []
    for name in ("moved waveforms", "waveforms"):
        X, y, X_test, y_test = SUITE[name].make(None, "final")[0]
        X, y = np.concatenate([X, X_test]), np.concatenate([y, y_test])
        models = {"SVC": SVC(), "MLP": MLPClassifier(random_state=0)}
        what = f"{X.shape[1]}-sample waveforms of either sign ({SUITE[name].about})"
        rows.append(compare(what, X, y, td.TaskDrivenClassifier(random_state=0), models))
    return rows


def tables() -> list[Row]:
    """Tables, as they come and standardised."""
    loaders = {
        "breast cancer": bundled.load_breast_cancer,
        "wine": bundled.load_wine,
        "iris": bundled.load_iris,
        "diabetes": bundled.load_diabetes,
    }
    rows = []
    for name, load in loaders.items():
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order]
        is_regression = name == "diabetes"
        ours = (td.TaskDrivenRegressor if is_regression else td.TaskDrivenClassifier)(random_state=0)
        linear = Ridge() if is_regression else LogisticRegression(max_iter=10_000)
        for scaled in (False, True):
            models = [make_pipeline(StandardScaler(), model) if scaled else model for model in (ours, linear)]
            what = f"{name}, {'standardised' if scaled else 'as it comes'}"
            rows.append(
                compare(what, X, y, models[0], {"ridge" if is_regression else "logistic regression": models[1]})
            )
    return rows


def digits() -> list[Row]:
    """scikit-learn's digits."""
    X, y = bundled.load_digits(return_X_y=True)
    models = {"logistic regression": LogisticRegression(max_iter=10_000), "SVC": SVC()}
    return [compare("scikit-learn's digits", X, y, td.TaskDrivenClassifier(random_state=0), models)]


def labels() -> list[Row]:
    """Labels −1, 0 and 1, where −1 may be a class."""
    X, y = bundled.load_iris(return_X_y=True)
    try:
        td.TaskDrivenClassifier(random_state=0).fit(X, y - 1)
    except ValueError as error:
        return [{"what": "labels −1, 0, 1", "answer": str(error)}]
    raise RuntimeError("labels −1, 0, 1 were accepted without a word")


def few_labels(data: Path | None) -> list[Row]:
    """200 labels among 6,000 MNIST digits."""
    if data is None:
        return []
    folds = SUITE["mnist, few labels"].make(data, "final")
    found = {}
    for name, fit in FEW_LABELS.items():
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores = [fit(X, y).score(X_test, y_test) for X, y, X_test, y_test in folds]
        found[name] = {
            "score": 100 * float(np.mean(scores)),
            "seconds": time.perf_counter() - begin,
            "warned": sum(issubclass(warning.category, td.BaselineWarning) for warning in caught),
        }
    what = "200 labels among 6,000 MNIST digits, μ = 0.5 (five draws)"
    return [{"what": what, "found": found, "data": digest(*folds[0][:2])}]


def on_labelled(model: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Return a function that fits a model to the labelled part of signals."""
    return lambda X, y: clone(model).fit(X[y != -1], y[y != -1])


def on_codes(X: np.ndarray, y: np.ndarray) -> Any:
    """Return logistic regression on the codes of a dictionary that is learned from all signals."""
    dictionary = FrozenEstimator(td.DictionaryLearning(100, random_state=0).fit(X))
    return make_pipeline(dictionary, LogisticRegression(C=100.0, max_iter=1000)).fit(X[y != -1], y[y != -1])


FEW_LABELS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "taskdict": lambda X, y: td.TaskDrivenClassifier(mu=0.5, random_state=0).fit(X, y),
    "taskdict, 100 atoms": lambda X, y: td.TaskDrivenClassifier(100, mu=0.5, random_state=0).fit(X, y),
    "taskdict, labelled part": on_labelled(td.TaskDrivenClassifier(random_state=0)),
    "SVC, labelled part": on_labelled(SVC()),
    "logistic regression on unsupervised codes": on_codes,
}


def table(result: dict) -> str:
    """Return the rows as a table."""
    lines = [
        heading(result),
        "",
        "Accuracy or R², times 100; the time of fit and score over that of each baseline; in how many of the fits "
        "taskdict warned that a baseline is better, or left its training out.",
        "",
        "| tried | taskdict | baselines | time over each | warned | data |",
        "|---|---:|---|---|---:|---|",
    ]
    for row in result["rows"]:
        if "answer" in row:
            lines.append(f"| {row['what']} | an error | {row['answer']} | | | |")
            continue
        ours, *others = row["found"].items()
        scores = ", ".join(f"{name} {found['score']:.1f}" for name, found in others)
        ratios = ", ".join(f"{ours[1]['seconds'] / found['seconds']:.1f}" for _, found in others)
        lines.append(
            f"| {row['what']} | {ours[1]['score']:.1f} | {scores} | {ratios} | {ours[1]['warned']} | {row['data']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with MNIST")
    parser.add_argument("--output", type=Path, help="where to write the table and the record, without ending")
    options = parser.parse_args()
    begin = time.monotonic()
    data = None if options.data is None else Path(options.data)
    rows: list[Row] = []
    for part in (waveforms, tables, labels, digits, lambda: few_labels(data)):
        rows += part()
        print(rows[-1]["what"], flush=True)
    result = {"rows": rows, **stamp(begin, "python benchmarks/newcomer.py")}
    publish(result, table(result), options.output)


if __name__ == "__main__":
    main()
