"""The table of the experiment on works of art."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from taskdict.experiments.art import GROUPS, KINDS, PAPER_ACCURACY, PAPER_PAIRS
from taskdict.experiments.markdown import row, rule
from taskdict.experiments.record import Json, is_small

GROUP_NAMES = {"ab": "pen drawings against engravings", "cd": "large against small landscapes"}


def describe(record: Json) -> str:
    """Return the settings, and the difference to the paper's data."""
    settings = record["settings"]
    side = settings["patch_size"]
    pairs = "every pair" if settings["pairs"] is None else f"{settings['pairs']} pairs"
    patches = "in colour, as they are" if settings["colour"] else "in grey, centred and of norm one"
    return (
        "A substitute: the paper's scans of Bruegel and his imitators are not public; these are other works on paper, "
        f"in groups that were assigned by eye. Patches of {side} × {side} {patches}; p = {settings['size']}, "
        f"{settings['patches']:,} patches of each class to learn from, {pairs} of "
        "an image of each group left out in turn, and λ1 chosen on the other two groups."
    )


def table(record: Json) -> str:
    """Return the accuracy of patches and pairs, of both kinds of dictionaries, beside the paper's."""
    names = ["", "patches right, %", "pairs right", "supervised less unsupervised, %"]
    lines = [row(names), rule(len(names))]
    if not is_small(record):
        lines += [
            row([f"the paper's images, {kind}", f"{mean:.2f} ± {deviation:.2f}", PAPER_PAIRS[kind], ""])
            for kind, (mean, deviation) in PAPER_ACCURACY.items()
        ]
    for groups in GROUPS:
        found = {kind: pairs_of(record, groups, kind) for kind in KINDS}
        accuracy = {kind: np.array([pair["accuracy"] for pair in pairs]) for kind, pairs in found.items()}
        gain = accuracy["supervised"] - accuracy["unsupervised"]
        several = len(gain) > 1
        error = f", standard error {np.std(gain, ddof=1) / np.sqrt(len(gain)):.2f}" if several else ""
        for kind in KINDS:
            right = sum(pair["right"] for pair in found[kind])
            share = f"{accuracy[kind].mean():.2f}" + (f" ± {np.std(accuracy[kind], ddof=1):.2f}" if several else "")
            last = f"{gain.mean():.2f}{error}" if kind == "supervised" else ""
            lines.append(row([f"{GROUP_NAMES[groups]}, {kind}", share, f"{right} of {len(found[kind])}", last]))
    return "\n".join(lines)


def pairs_of(record: Json, groups: str, kind: str) -> list[Json]:
    """Return the results of the pairs of two groups."""
    runs = [run for run in record["results"] if (run["settings"]["groups"], run["settings"]["kind"]) == (groups, kind)]
    return [pair for run in runs for pair in run["found"]]


def figures(record: Json, folder: Path, data: str | None) -> list[Path]:
    """Return the maps of votes, which the runs have written."""
    maps = [folder / f"votes-{kind}.png" for kind in KINDS]
    return [path for path in maps if path.exists()]
