"""The best of several settings for each of several cases, on data that are held out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from taskdict.experiments.runs import Json

Case = TypeVar("Case", bound=Hashable)


class Search(Generic[Case]):
    """Notes the errors of cases at points, and looks at more of them; all cases at once, so that no core waits.

    Parameters
    ----------
    cases : list
        What to find the best point of.
    measure : callable
        Returns the results of runs for a list of pairs (case, point).
    error : callable
        Tells the error of a result, which is to be low.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        measure: Callable[[list[tuple[Case, Any]]], list[Json]],
        error: Callable[[Json], float],
    ) -> None:
        self.cases, self._measure, self._error = cases, measure, error
        self.errors: dict[Case, dict[Any, float]] = {case: {} for case in cases}
        self.tried: list[Json] = []

    def look(self, pairs: list[tuple[Case, Any]]) -> None:
        """Measure cases at points."""
        results = self._measure(pairs)
        for (case, point), result in zip(pairs, results, strict=True):
            self.errors[case][point] = self._error(result)
        self.tried += results

    def follow(self, points: Sequence[Any]) -> None:
        """Look at one point after the other, for each case as long as its error falls."""
        falling = list(self.cases)
        for point in points:
            self.look([(case, point) for case in falling])
            falling = [case for case in falling if self.best(case) == point]

    def best(self, case: Case) -> Any:
        """Return the point with the lowest error of a case."""
        return min(self.errors[case], key=lambda point: self.errors[case][point])

    def chosen(self) -> dict[Case, Any]:
        """Return the best point of each case."""
        return {case: self.best(case) for case in self.cases}
