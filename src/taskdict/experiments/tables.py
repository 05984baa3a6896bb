"""Records as tables in Markdown, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taskdict.experiments import digits, semi_supervised
from taskdict.experiments.runs import Json


def digits_table(record: Json) -> str:
    """Return the errors for each size: of the paper, and ours, averaged over the seeds, with the range if several."""
    sizes = record["settings"]["sizes"]
    paper = digits.PAPER.get(record["data"]["name"], {})
    lines = [
        row(["test error in percent", *(f"p = {p}" for p in sizes)]),
        row(["---", *("---:" for _ in sizes)]),
    ]
    for kind in ("unsupervised", "supervised"):
        if kind in paper:
            lines.append(row([f"{kind}, the paper", *(number(paper[kind].get(p)) for p in sizes)]))
        for key, words in (("error", ""), ("pooled_error", ", nine looks")):
            found = [errors(record, kind, p, key) for p in sizes]
            if any(found):
                lines.append(row([f"{kind}, measured{words}", *(spread(values) for values in found)]))
    return "\n".join(lines)


def semi_supervised_table(record: Json) -> str:
    """Return the lowest errors over μ for each number of labels, and those for the μ chosen on the validation part."""
    lines = [
        row(["test error in percent", *(f"n = {n:,}" for n in record["settings"]["labels"])]),
        row(["---", *("---:" for _ in record["settings"]["labels"])]),
        row(["best over μ, the paper", *(number(semi_supervised.PAPER.get(n)) for n in record["settings"]["labels"])]),
    ]
    best, chosen, pooled, last = [], [], [], []
    for n in record["settings"]["labels"]:
        runs = [run for run in record["results"] if run["settings"]["labels"] == n]
        best.append(spread([min(at["test"] for at in run["errors"].values()) for run in runs]))
        chosen.append(spread([run["errors"][f"{run['chosen_mu']:g}"]["test"] for run in runs]))
        pooled.append(spread([run["errors"][f"{run['chosen_mu']:g}"]["pooled_test"] for run in runs]))
        last.append(spread([run["errors"]["0"]["test"] for run in runs]))
    lines.append(row(["best over μ, measured", *best]))
    lines.append(row(["μ chosen on other digits", *chosen]))
    lines.append(row(["the same, nine looks", *pooled]))
    lines.append(row(["μ = 0, after all others", *last]))
    return "\n".join(lines)


def errors(record: Json, kind: str, p: int, key: str) -> list[float]:
    """Return the errors of the runs of a kind and size, one for each seed."""
    runs = [run for run in record["results"] if run["settings"]["kind"] == kind and run["settings"]["p"] == p]
    return [run[key] for run in runs if key in run]


def spread(values: Sequence[float]) -> str:
    """Return the mean, and the range if there are several."""
    if not values:
        return ""
    mean = f"{np.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def number(value: float | None) -> str:
    """Return a figure of the paper, nothing if there is none."""
    return "" if value is None else f"{value:.2f}"


def row(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"
