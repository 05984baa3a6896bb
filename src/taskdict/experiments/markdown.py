"""Cells and rows of tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mean_and_range(values: Sequence[float]) -> str:
    """Return the mean, and the range if there are several values."""
    if not values:
        return ""
    mean = f"{np.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"


def number(value: float | None) -> str:
    """Return a number of the paper, nothing if there is none."""
    return "" if value is None else f"{value:.2f}"


def mean_and_deviation(values: Sequence[float]) -> str:
    """Return the mean, and the standard deviation if there are several values."""
    deviation = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{deviation}"


def rule(n_columns: int) -> str:
    """Return the line below the head of a table; all columns but the first are aligned to the right."""
    return row(["---", *("---:" for _ in range(n_columns - 1))])


def row(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"
