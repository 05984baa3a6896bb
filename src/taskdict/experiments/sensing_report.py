"""What ``taskdict reproduce sensing`` makes of its options, and what it shows in the end."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskdict.experiments import sensing
from taskdict.experiments.runs import Json, open_folder, write_text
from taskdict.experiments.tables import row


def settings_from(options: argparse.Namespace) -> sensing.Settings:
    """Return the settings of the experiment."""
    settings = sensing.Settings()
    if options.quick:
        settings = settings.quick()
    given: dict[str, Any] = {
        "measurements": options.measurements and tuple(sorted(set(options.measurements))),
        "size": options.atoms,
        "train": options.patches,
        "select": options.select,
        "test": options.test,
        "lambda1": options.lambda1 and tuple(sorted(set(options.lambda1), reverse=True)),
        "ratio": options.ratio and tuple(sorted(set(options.ratio))),
        "seeds": options.seeds and tuple(dict.fromkeys(options.seeds)),
    }
    for name in ("lambda1", "ratio"):
        if given[name] and min(given[name]) == 0:
            raise ValueError(f"--{name} must be positive: without λ2 = ratio · λ1 learning does not converge.")
    if given["measurements"] and max(given["measurements"]) >= sensing.SIDE**2:
        raise ValueError(f"--measurements must be fewer than the {sensing.SIDE**2} pixels of a patch.")
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def report(settings: sensing.Settings, folder: Path, *, data: str | None, n_threads: int | None) -> None:
    """Do the experiment; print its table, and write it beside the record."""
    open_folder(folder, "sensing")
    record = sensing.reproduce(settings, folder, data=data, n_threads=n_threads)
    text = f"{words(record)}\n\n{table(record)}\n"
    write_text(folder / "table.md", text)
    print(f"\n{text}\nall runs together took {record['seconds'] / 60:.1f} minutes")
    print(f"saved {folder / 'record.json'}, {folder / 'table.md'}")


def words(record: Json) -> str:
    """Say what was done."""
    settings = record["settings"]
    side, seeds = sensing.SIDE, len(settings["seeds"])
    return (
        f"Patches of {side} × {side}, centred and of norm one, p = {settings['size']}; {settings['train']:,} to learn "
        f"from, {settings['test']:,} to test; λ1 and λ2 chosen on the validation part; mean and deviation over "
        f"{seeds} seed{'s' if seeds > 1 else ''}. LINEAR is the projection on the first r principal directions."
    )


def table(record: Json) -> str:
    """Return the errors of each column for each number of measurements, beside those of the paper."""
    columns = list(sensing.COLUMNS)
    names = ["mean squared error × 100", *columns, "LINEAR"]
    lines = [row(names), row(["---", *("---:" for _ in names[1:])])]
    for r in record["settings"]["measurements"]:
        if r in sensing.PAPER:
            paper = [f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in sensing.PAPER[r]]
            lines.append(row([f"r = {r}, the paper", *paper, ""]))
        measured = [spread(errors(record, r, column)) for column in columns]
        lines.append(row([f"r = {r}, measured", *measured, f"{record['linear'][str(r)]:.2f}"]))
    return "\n".join(lines)


def errors(record: Json, r: int, column: str) -> list[float]:
    """Return the test errors of a case, one for each seed."""
    runs = [run for run in record["results"] if (run["settings"]["r"], run["settings"]["column"]) == (r, column)]
    return [run["error"] for run in runs]


def spread(values: list[float]) -> str:
    """Return the mean, and the deviation if there are several."""
    deviation = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{deviation}"
