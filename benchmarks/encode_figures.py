"""What a row of the speed table says: a figure, what it is aimed at, and whether that was reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """What the command line chose."""

    data: Path | None
    repeats: int
    threads: list[int]
    share: float


@dataclass(frozen=True)
class Figure:
    """One row. `value` is None where it could not be measured; then `note` says why."""

    group: str
    work: str
    dtype: str
    threads: str
    what: str
    value: float | None
    target: float | None
    at_most: bool = False
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the figure is what was aimed at; None if there was nothing to aim at, or no figure."""
        if self.value is None or self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


def figures_table(figures: list[Figure]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [
        "| group | work | dtype | threads | figure | measured | aim | reached | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for f in figures:
        value = "" if f.value is None else f"{f.value:.2f}" if f.value < 100 else f"{f.value:.0f}"
        aim = "" if f.target is None else f"{'≤' if f.at_most else '≥'} {f.target:g}"
        reached = {True: "yes", False: "no", None: ""}[f.reached]
        lines.append(
            f"| {f.group} | {f.work} | {f.dtype} | {f.threads} | {f.what} | {value} | {aim} | {reached} | {f.note} |"
        )
    return "\n".join(lines)
