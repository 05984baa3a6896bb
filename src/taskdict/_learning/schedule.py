"""How long to learn, and with which weights and steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

HIGHEST_PACE = 0.05  # of adaptive steps


@dataclass(frozen=True)
class Schedule:
    """How long to learn: `max_iter` batches for each μ, unless early stopping ends it."""

    max_iter: int
    mus: tuple[float, ...] = (0.0,)
    rho: float | None = None  # None searches for it, or is found without a search if `adaptive`
    adaptive: bool = False  # whether each atom moves at its own pace
    first_pace: float | None = None  # see `pace`, None to find it
    t0: float | None = None  # from when on steps fall like 1 / t; None is max_iter / 10, a cosine if `adaptive`
    reconstruction: float = 1.0  # weight of ℓu for μ = 1
    patience: int | None = None  # checks on the validation part without a gain before learning stops; None: never stops
    average: bool = True  # whether the result for a μ may be the average of the parameters over its last tenth
    relative_nu: bool = False  # whether ν is meant for μ = 0, and goes with 1 − μ

    @property
    def total(self) -> int:
        """Number of batches in all."""
        return self.max_iter * len(self.mus)

    @property
    def check_every(self) -> int:
        """Batches between two checks on the validation part."""
        return max(1, self.max_iter // 50)

    @property
    def pace(self) -> float:
        """How far each atom moves per batch in the beginning, if `adaptive`: the less, the more batches there are."""
        return self.first_pace or min(HIGHEST_PACE, 2 / math.sqrt(max(1, self.max_iter)))

    def tail(self, t: int) -> int:
        """Return how many batches of the last tenth for this μ the t-th batch completes, 0 if it is not one of them."""
        inside = (t - 1) % self.max_iter + 1
        return max(0, inside - self.max_iter + max(1, self.max_iter // 10))

    def stage(self, t: int) -> int:
        """Return which μ the batch after t batches is for; the last one after the end."""
        return min(t // max(1, self.max_iter), len(self.mus) - 1)
