"""The paper's search for the learning rate: try several on a sample, and compare them on held-out samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from taskdict._learning.descent import DIVERGENCE_FACTOR, descend
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.rates import DecayingRate
from taskdict._learning.sets import Sets
from taskdict.streams.pairs import Batch

LOWEST_POWER, HIGHEST_POWER = -6.0, 3.0  # of ten, for the learning rates that are tried
FIRST_POWERS = (-3.0, -2.0, -1.0, 0.0)
CHECKS = (0.6, 0.8, 1.0)  # of the batches, after which a candidate is evaluated on the held-out samples


def search_rho(
    objective: Objective,
    sets: Sets,
    start: Weights,
    batches: Sequence[Batch],
    held_out: Batch,
    n_threads: int = 1,
    before_step: Callable[[], None] = lambda: None,
) -> float | None:
    """Return the ρ whose descent over the batches ends with the lowest value on the held-out samples.

    Each candidate starts from the same weights, sees the same batches and is given up when it diverges. The worst of
    three evaluations towards the end counts, so that a candidate that jumps about does not win by luck. Candidates are
    relative to the size of the gradient at the start: powers of ten, then those beside the best, a factor √10 apart. D
    and W share ρ, so signals should have a norm around one: with x → cx the best step for W goes with c⁻², that for D
    stays.

    Returns
    -------
    float or None
        None if every candidate diverges.
    """
    first = objective.value(start, held_out, n_threads)
    starts = [objective.evaluate(start, batch, n_threads) for batch in batches[:5]]
    gradient = starts[0][1]
    blind, to_model = objective.evaluate(replace(start, W=0 * start.W, b=0 * start.b), held_out, n_threads)
    limit = DIVERGENCE_FACTOR * max(abs(first), abs(blind), *(abs(value) for value, _ in starts), 1e-30)
    checks = {round(len(batches) * share) for share in CHECKS}
    ends: dict[float, float] = {}

    def descent_end(rho: float) -> float:
        """Return the worst value on the held-out samples towards the end of a descent, infinity if it diverges."""
        weights, rate, values = start, DecayingRate(rho, len(batches) / 2), []
        for t, batch in enumerate(batches, 1):
            before_step()
            move = descend(objective, sets, weights, batch, rate, t, n_threads=n_threads)
            if not move.finite or move.value > limit:
                return np.inf
            weights = move.weights
            if t in checks:
                values.append(objective.value(weights, held_out, n_threads))
        return max(values)

    def end(power: float) -> float:
        """Return the end of the descent whose first step moves D by about 10^power times itself."""
        if power not in ends:
            ends[power] = descent_end(unit * 10.0**power)
        return ends[power]

    # Steps that would move D by its own size, or W from zero to where it is; ρν above two would make W or Z explode.
    pairs = ((start.D, gradient.D), (start.W, to_model.W))
    norms = [(float(np.linalg.norm(array)), float(np.linalg.norm(slope))) for array, slope in pairs]
    units = [size / slope for size, slope in norms if size > 0 and slope > 0]
    unit = min([*units, *(1 / nu for nu in (objective.nu, objective.nu2) if nu > 0)], default=1.0)
    best = min(FIRST_POWERS, key=end)
    while best == min(ends) and best > LOWEST_POWER and not ends[best] < first:
        best = min((best - 1, best), key=end)
    while best == max(ends) and best < HIGHEST_POWER:
        best = min((best, best + 1), key=end)
    best = min((best - 0.5, best, best + 0.5), key=end)
    return float(unit * 10.0**best) if np.isfinite(ends[best]) else None
