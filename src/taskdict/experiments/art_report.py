"""What ``taskdict reproduce art`` makes of its options, and what it shows in the end."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskdict.experiments import art
from taskdict.experiments.runs import Json, open_folder, write_text
from taskdict.experiments.tables import row

NAMES = {"ab": "pen drawings against engravings", "cd": "large against small landscapes"}


def settings_from(options: argparse.Namespace) -> art.Settings:
    """Return the settings of the experiment."""
    settings = art.Settings(colour=options.colour)
    if options.quick:
        settings = settings.quick()
    given: dict[str, Any] = {
        "patch_size": options.patch_size,
        "size": options.atoms,
        "patches": options.patches,
        "select": options.select,
        "lambda1": options.lambda1 and tuple(sorted(set(options.lambda1), reverse=True)),
        "pairs": options.pairs,
        "stride": options.stride,
        "seed": options.seed,
    }
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def report(settings: art.Settings, folder: Path, *, data: str | None, n_threads: int | None) -> None:
    """Do the experiment; print its table, and write it beside the record."""
    open_folder(folder, "art")
    record = art.reproduce(settings, folder, data=data, n_threads=n_threads)
    text = f"{words(record)}\n\n{table(record)}\n"
    write_text(folder / "table.md", text)
    print(f"\n{text}\nall runs together took {record['seconds'] / 60:.1f} minutes")
    shown = [folder / f"votes-{kind}.png" for kind in art.KINDS]
    saved = [folder / "record.json", folder / "table.md", *(path for path in shown if path.exists())]
    print(f"saved {', '.join(map(str, saved))}")


def words(record: Json) -> str:
    """Say what was done, and that the pictures are not the paper's."""
    settings = record["settings"]
    side = settings["patch_size"]
    pairs = "every pair" if settings["pairs"] is None else f"{settings['pairs']} pairs"
    patches = "in colour, as they are" if settings["colour"] else "in grey, centred and of norm one"
    return (
        "A substitute: the paper's scans of Bruegel and his imitators are not public; these are other works on paper, "
        f"in groups that were made by eye. Patches of {side} × {side} {patches}; p = {settings['size']}, "
        f"{settings['patches']:,} patches of each class to learn from, {pairs} of "
        "a picture of each group left out in turn, and λ1 chosen on the other two groups."
    )


def table(record: Json) -> str:
    """Return the accuracy of patches and pairs, of both kinds of dictionaries, beside the paper's."""
    names = ["", "patches right, %", "pairs right", "supervised less unsupervised, %"]
    lines = [row(names), row(["---", "---:", "---:", "---:"])]
    lines += [
        row([f"the paper's pictures, {kind}", f"{mean:.2f} ± {deviation:.2f}", pairs, ""])
        for (kind, (mean, deviation)), pairs in zip(art.PAPER.items(), ("39 of 40", "40 of 40"), strict=True)
    ]
    for groups in art.GROUPS:
        found = {kind: pairs_of(record, groups, kind) for kind in art.KINDS}
        accuracy = {kind: np.array([pair["accuracy"] for pair in pairs]) for kind, pairs in found.items()}
        gain = accuracy["supervised"] - accuracy["unsupervised"]
        several = len(gain) > 1
        error = f", standard error {np.std(gain, ddof=1) / np.sqrt(len(gain)):.2f}" if several else ""
        for kind in art.KINDS:
            right = sum(pair["right"] for pair in found[kind])
            share = f"{accuracy[kind].mean():.2f}" + (f" ± {np.std(accuracy[kind], ddof=1):.2f}" if several else "")
            last = f"{gain.mean():.2f}{error}" if kind == "supervised" else ""
            lines.append(row([f"{NAMES[groups]}, {kind}", share, f"{right} of {len(found[kind])}", last]))
    return "\n".join(lines)


def pairs_of(record: Json, groups: str, kind: str) -> list[Json]:
    """Return what was found for the pairs of two groups."""
    runs = [run for run in record["results"] if (run["settings"]["groups"], run["settings"]["kind"]) == (groups, kind)]
    return [pair for run in runs for pair in run["found"]]
