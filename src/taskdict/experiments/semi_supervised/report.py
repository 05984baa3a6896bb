"""The table of the experiment with few labels, and a figure of the errors over μ."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from taskdict._common.atomic_files import replace_file
from taskdict.experiments.markdown import mean_and_range, number, row, rule
from taskdict.experiments.record import Json, is_small
from taskdict.experiments.semi_supervised import PAPER_ERRORS


def describe(record: Json) -> str:
    """Return nothing: the table says all."""
    return ""


def table(record: Json) -> str:
    """Return the lowest errors over μ for each number of labels, and those for the μ chosen on the validation part."""
    lines = [
        row(["test error in percent", *(f"n = {n:,}" for n in record["settings"]["labels"])]),
        rule(1 + len(record["settings"]["labels"])),
    ]
    if not is_small(record):
        lines.append(
            row(["best over μ, the paper", *(number(PAPER_ERRORS.get(n)) for n in record["settings"]["labels"])])
        )
    best, chosen, pooled, last = [], [], [], []
    for n in record["settings"]["labels"]:
        runs = [run for run in record["results"] if run["settings"]["labels"] == n]
        best.append(mean_and_range([min(at["test"] for at in run["errors"].values()) for run in runs]))
        chosen.append(mean_and_range([run["errors"][f"{run['chosen_mu']:g}"]["test"] for run in runs]))
        pooled.append(mean_and_range([run["errors"][f"{run['chosen_mu']:g}"]["pooled_test"] for run in runs]))
        last.append(mean_and_range([run["errors"]["0"]["test"] for run in runs]))
    lines.append(row(["best over μ, measured", *best]))
    lines.append(row(["μ chosen on other digits", *chosen]))
    lines.append(row(["the same, test-time augmentation", *pooled]))
    lines.append(row(["μ = 0, after all others", *last]))
    return "\n".join(lines)


def figures(record: Json, folder: Path, data: str | None) -> list[Path]:
    """Write the figure of the errors."""
    plot_errors(record, folder / "errors.png")
    return [folder / "errors.png"]


def plot_errors(record: Json, path: Path) -> None:
    """Draw the error over μ for each number of labels, the mean and the range over the draws of labels."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('the figure needs matplotlib: pip install "taskdict[experiments]"') from None
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for colour, n in zip(("C3", "C0", "C2", "C1", "C4"), record["settings"]["labels"], strict=False):
        runs = [run["errors"] for run in record["results"] if run["settings"]["labels"] == n]
        mus = [float(mu) for mu in runs[0]]
        errors = np.array([[errors[mu]["test"] for mu in errors] for errors in runs])
        axes.plot(mus, errors.mean(axis=0), "o-", color=colour, markersize=4, label=f"n = {n:,}")
        axes.fill_between(mus, errors.min(axis=0), errors.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        if n in PAPER_ERRORS and not is_small(record):
            axes.axhline(PAPER_ERRORS[n], color=colour, linestyle=":", linewidth=1)
    axes.set(xlabel="μ, the weight of reconstruction", ylabel="test error in percent", ylim=(0, None))
    axes.legend(
        title="labels" if is_small(record) else "labels; dotted: the paper's best",
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=5,
    )
    with io.BytesIO() as content:
        figure.savefig(content, format="png", dpi=120)
        replace_file(path, content.getvalue)
    plt.close(figure)
