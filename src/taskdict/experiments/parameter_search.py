"""Search for the best parameters of several methods at once, on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from taskdict.experiments.record import Json

Case = TypeVar("Case", bound=Hashable)


class ParameterSearch(Generic[Case]):
    """Measures the errors of cases, such as methods, at points, their parameters, and keeps the best of each case.

    All cases are measured at once, so that no core waits for the slowest of them.

    Parameters
    ----------
    cases : list
        The cases; each gets its own best point.
    measure : callable
        Returns the results of runs for a list of pairs (case, point).
    error : callable
        Returns the error of a result; the lowest is best.
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

    def measure(self, pairs: list[tuple[Case, Any]]) -> None:
        """Measure cases at points."""
        results = self._measure(pairs)
        for (case, point), result in zip(pairs, results, strict=True):
            self.errors[case][point] = self._error(result)
        self.tried += results

    def follow(self, points: Sequence[Any]) -> None:
        """Measure one point after the other, for each case as long as its error falls."""
        falling = list(self.cases)
        for point in points:
            self.measure([(case, point) for case in falling])
            falling = [case for case in falling if self.best(case) == point]

    def best(self, case: Case) -> Any:
        """Return the point with the lowest error of a case."""
        return min(self.errors[case], key=lambda point: self.errors[case][point])

    def chosen(self) -> dict[Case, Any]:
        """Return the best point of each case."""
        return {case: self.best(case) for case in self.cases}
