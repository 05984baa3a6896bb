"""The table of the experiment on compressed sensing."""

from __future__ import annotations

from pathlib import Path

from taskdict.experiments.markdown import mean_and_deviation, row, rule
from taskdict.experiments.record import Json, is_small
from taskdict.experiments.sensing import COLUMNS, PAPER_ERRORS, PATCH_SIZE


def describe(record: Json) -> str:
    """Return the settings, and the meaning of the columns."""
    settings = record["settings"]
    n_seeds = len(settings["seeds"])
    seeds = f"{n_seeds} seed{'s' if n_seeds > 1 else ''}"
    return (
        f"Patches of {PATCH_SIZE} × {PATCH_SIZE}, centred and of norm one, p = {settings['size']}; "
        f"{settings['train']:,} to learn from, {settings['test']:,} to test; λ1 and λ2 chosen on the validation part; "
        f"mean and deviation over {seeds}. LINEAR is the projection on the first r principal components."
    )


def table(record: Json) -> str:
    """Return the errors of each column for each number of measurements, beside those of the paper."""
    names = ["mean squared error × 100", *COLUMNS, "LINEAR"]
    lines = [row(names), rule(len(names))]
    for r in record["settings"]["measurements"]:
        if r in PAPER_ERRORS and not is_small(record):
            paper = [f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in PAPER_ERRORS[r]]
            lines.append(row([f"r = {r}, the paper", *paper, ""]))
        measured = [mean_and_deviation(errors(record, r, column)) for column in COLUMNS]
        lines.append(row([f"r = {r}, measured", *measured, f"{record['linear'][str(r)]:.2f}"]))
    return "\n".join(lines)


def errors(record: Json, r: int, column: str) -> list[float]:
    """Return the test errors of a case, one for each seed."""
    runs = [run for run in record["results"] if (run["settings"]["r"], run["settings"]["column"]) == (r, column)]
    return [run["error"] for run in runs]


def figures(record: Json, folder: Path, data: str | None) -> list[Path]:
    """Return none: the table is all."""
    return []
