"""The progress of the work on an image."""

from __future__ import annotations

from collections.abc import Callable

from taskdict._common.progress import StatusLine

Report = Callable[[int, int], None]  # steps done, and steps in all


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


def shown_restorations() -> Report:
    """Return a report that shows, on standard error, how many of the examples have been restored."""
    line = StatusLine()

    def show(done: int, total: int) -> None:
        line.show(f"{done}/{total} images restored")
        if done == total:
            line.close()

    return show
