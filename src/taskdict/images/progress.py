"""How far the work on a picture is."""

from __future__ import annotations

import sys
from collections.abc import Callable

Report = Callable[[int, int], None]  # of what is done, and of all


def silent(done: int, total: int) -> None:
    """Report nothing."""


class Steps:
    """Reports of several steps as one: each counts as many patches as the first."""

    def __init__(self, report: Report, n_steps: int) -> None:
        self._report, self._n_steps, self._done, self._each = report, n_steps, 0, 0

    def __call__(self, done: int, total: int) -> None:
        """Report that so many patches of this step are done."""
        self._each = self._each or total
        self._report(self._each * self._done + self._each * done // total, self._each * self._n_steps)
        self._done += done == total


def shown(done: int, total: int) -> None:
    """Show how many of the examples have been restored, on standard error if there is one."""
    file, last = sys.stderr, done == total
    if file is None or file.closed:
        return
    if file.isatty():
        print(f"\r{done}/{total} pictures restored", end="\n" if last else "", file=file, flush=True)
    elif last:
        print(f"{total} pictures restored", file=file, flush=True)
