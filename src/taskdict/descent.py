"""Algorithm 1: projected stochastic gradient descent over the dictionary, the model and the transform together.

Minimises, over D in its set (and W, Z in theirs),

    E[(1 − μ) ℓs(y, W, α*(Zx, D)) + μ ℓu(Zx, D)] + ν/2 ‖W‖² + ν2/2 ‖Z‖²

(``eq:formulation``, ``eq:extended``, ``eq:semi``). The intercept b is not penalised. Signals without a target take part
in the second term only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict.constraints import ConstraintSet
from taskdict.gradients import CodedBatch, Coding, Part
from taskdict.losses import CodeLoss, Loss
from taskdict.models import Model, evaluate

Floats = NDArray[Any]


LOWEST_POWER, HIGHEST_POWER = -6.0, 3.0  # of ten, for the learning rates that are tried
SHARE = 0.01  # of a batch in the mean squares that adaptive steps are divided by
MOST = 3.0  # times its usual size that a gradient counts in adaptive steps
DIVERGED = 1e3  # times the values at the start: a candidate for the learning rate is given up


class DivergedError(ArithmeticError):
    """Raised when a step leads to values that are not finite; the parameters before it are kept."""


@dataclass(frozen=True)
class Parameters:
    """What is learned, or gradients in it; `Z` is None if the signals are encoded as they are."""

    D: Floats  # (n_components, n_features), or (n_components, n_measurements) with Z
    W: Floats
    b: Floats  # (n_outputs,)
    Z: Floats | None = None  # (n_measurements, n_features)

    def each(self, function: Callable[..., Floats], *others: Parameters) -> Parameters:
        """Return what a function makes of each array, and of those of the same name in others."""
        names = [name for name, array in vars(self).items() if array is not None]
        return Parameters(**{name: function(*(getattr(each, name) for each in (self, *others))) for name in names})

    def squares(self) -> Parameters:
        """Return the squares of the norms of the rows of D and Z, and of the numbers of W and b."""
        rows = [None if rows is None else np.square(rows).sum(axis=1, keepdims=True) for rows in (self.D, self.Z)]
        assert rows[0] is not None
        return Parameters(rows[0], np.square(self.W), np.square(self.b), rows[1])


@dataclass(frozen=True)
class Batch:
    """Signals with targets, and signals without."""

    X: Floats
    y: Any
    weights: Floats | None = None  # of the samples, of average one over all batches; None is one each
    unlabelled: Floats | None = None


@dataclass(frozen=True)
class Objective:
    """What is minimised, up to the constraint sets; `task` and `reconstruction` stand for 1 − μ and μ."""

    model: Model
    loss: Loss | CodeLoss
    coding: Coding
    parts: tuple[Part, ...] = ()
    nu: float = 0.0
    nu2: float = 0.0
    task: float = 1.0
    reconstruction: float = 0.0
    fit_intercept: bool = True

    def evaluate(self, parameters: Parameters, batch: Batch, n_threads: int = 1) -> tuple[float, Parameters]:
        """Return the value on a batch and its gradients in all parameters."""
        D, W, b, Z = parameters.D, parameters.W, parameters.b, parameters.Z
        n = len(batch.X)
        others = batch.unlabelled if batch.unlabelled is not None and self.reconstruction > 0 else batch.X[:0]
        # All signals of the batch are samples of p(x), those with targets too.
        each = self.reconstruction / max(1, n + len(others))
        value = 0.5 * self.nu * _square(W)
        in_D, in_W, in_b = None, self.nu * W, np.zeros_like(b)
        in_Z = None if Z is None else self.nu2 * Z
        if n > 0:
            coded = self.encode(parameters, batch.X, n_threads)
            weights = np.full(n, self.task / n, D.dtype)
            if batch.weights is not None:
                weights *= batch.weights
            terms, through = evaluate(self.model, self.loss, coded, batch.y, W, b, weights)
            gradient = coded.through_codes(through.alpha, each)
            value += float(terms.values.sum(dtype=np.float64))
            if each > 0:
                value += each * float(coded.reconstruction_objectives().sum())
            in_D = gradient.D if terms.D is None else gradient.D + terms.D
            in_W = in_W + through.W
            if self.fit_intercept:
                in_b = through.b
            if in_Z is not None:
                in_Z = in_Z + (gradient.x if through.x is None else gradient.x + through.x).T @ batch.X
        if len(others) > 0:
            coded = self.encode(parameters, others, n_threads)
            gradient = coded.through_codes(np.zeros_like(coded.encoded.values), each)
            value += each * float(coded.reconstruction_objectives().sum())
            in_D = gradient.D if in_D is None else in_D + gradient.D
            if in_Z is not None:
                in_Z = in_Z + gradient.x.T @ others
        if Z is not None:
            value += 0.5 * self.nu2 * _square(Z)
        return value, Parameters(np.zeros_like(D) if in_D is None else in_D, in_W, in_b, in_Z)

    def encode(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> CodedBatch:
        """Encode signals."""
        Z = parameters.Z
        signals = X if Z is None else np.ascontiguousarray(X @ Z.T)
        return CodedBatch(signals, parameters.D, self.coding, self.parts, n_threads)

    def scores(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> Floats:
        """Return what the model makes of signals."""
        return self.model.scores(self.encode(parameters, X, n_threads), parameters.W, parameters.b)


def _square(array: Floats) -> float:
    return float(np.square(array).sum(dtype=np.float64))


@dataclass(frozen=True)
class Sets:
    """Where the parameters are kept; None is everywhere."""

    D: ConstraintSet
    W: ConstraintSet | None = None
    Z: ConstraintSet | None = None

    def project(self, parameters: Parameters) -> Parameters:
        """Return the nearest parameters in the sets."""
        moved = {}
        for name in ("D", "W", "Z"):
            kept, array = getattr(self, name), getattr(parameters, name)
            if kept is not None and array is not None:
                moved[name] = np.ascontiguousarray(kept.project(array), array.dtype)
        return replace(parameters, **moved)


@dataclass(frozen=True)
class LearningRate:
    """The step ρ_t = min(ρ, ρ t0 / t) at time t = 1, 2, and so on."""

    rho: float
    t0: float

    def at(self, t: int) -> float:
        """Return ρ_t."""
        return min(self.rho, self.rho * self.t0 / t)

    def moves(self, gradient: Parameters, sizes: Parameters | None, t: int) -> tuple[Parameters, None]:
        """Return by how much to move against the gradient."""
        rho = gradient.D.dtype.type(self.at(t))
        return gradient.each(lambda array: rho * array), None


@dataclass(frozen=True)
class AdaptiveRate:
    """Steps for which every atom, every row of Z and every number of W and b moves at its own pace.

    A gradient is divided by its own size, the root of the mean of its square over the last hundred batches or so; what
    is left, at most `MOST`, is multiplied by a number that falls from `size` to zero over `total` steps like a cosine.
    An atom that few signals use, or one whose signals are all told apart already, then moves as far as the others.
    """

    size: float
    total: int
    t0: float | None = None  # if given, the number falls without an end, like t0 / t from step t0 on

    def at(self, t: int) -> float:
        """Return the number."""
        if self.t0 is not None:
            return self.size * min(1.0, self.t0 / t)
        return self.size * 0.5 * (1 + math.cos(math.pi * min(1.0, (t - 1) / self.total)))

    def moves(self, gradient: Parameters, sizes: Parameters | None, t: int) -> tuple[Parameters, Parameters]:
        """Return by how much to move against the gradient, and the mean squares from those before."""
        number = gradient.D.dtype.type
        rho, share, least = number(self.at(t)), number(max(SHARE, 1 / t)), np.finfo(number).tiny
        squares = gradient.squares()
        means = squares if sizes is None else sizes.each(lambda old, new: old + share * (new - old), squares)

        def move(array: Floats, mean: Floats, square: Floats) -> Floats:
            usual = np.sqrt(np.maximum(np.maximum(mean, square / number(MOST**2)), least))
            return np.asarray(rho * array / usual)

        return gradient.each(move, means, squares), means


class Descent:
    """Takes one projected gradient step after the other; `parameters` are those after `t` steps.

    `sizes` is what the rate knows of the gradients so far, if it wants to.
    """

    def __init__(
        self,
        objective: Objective,
        sets: Sets,
        parameters: Parameters,
        rate: LearningRate | AdaptiveRate,
        n_threads: int = 1,
        sizes: Parameters | None = None,
    ) -> None:
        self.objective = objective
        self.sets = sets
        self.parameters = parameters
        self.rate = rate
        self.n_threads = n_threads
        self.sizes = sizes
        self.t = 0

    def step(self, batch: Batch) -> float:
        """Move against the gradient on a batch; return the value on it before.

        Raises
        ------
        DivergedError
            If the parameters would no longer be finite; they stay as they are.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # noticed below
            value, gradient = self.objective.evaluate(self.parameters, batch, self.n_threads)
            moves, sizes = self.rate.moves(gradient, self.sizes, self.t + 1)
            parameters = self.sets.project(self.parameters.each(np.subtract, moves))
            arrays = [array for array in vars(parameters).values() if array is not None]
            finite = np.isfinite(value) and all(np.isfinite(array.sum()) for array in arrays)
        if not finite:
            raise DivergedError(
                f"step {self.t + 1} of size {self.rate.at(self.t + 1):.2g} leads out of the finite numbers. Take a "
                "smaller learning rate: most are between 0.1 and 10."
            )
        self.parameters, self.sizes = parameters, sizes
        self.t += 1
        return value


def search_rho(
    objective: Objective,
    sets: Sets,
    start: Parameters,
    batches: Sequence[Batch],
    held_out: Batch,
    n_threads: int = 1,
    before_step: Callable[[], None] = lambda: None,
) -> float:
    """Return the ρ whose descent over the batches ends with the lowest value on the held-out samples.

    The paper's search: each candidate starts from the same parameters, sees the same batches and is given up when it
    diverges. What counts is the worst of three looks towards the end, so that one that jumps about does not win by
    luck. Candidates are relative to the size of the gradient at the start: powers of ten, then those beside the
    best, a factor √10 apart. D and W share ρ, so signals should have a norm around one: with x → cx the best step for
    W goes with c⁻², that for D stays.

    Raises
    ------
    DivergedError
        If every candidate diverges.
    """
    first, _ = objective.evaluate(start, held_out, n_threads)
    starts = [objective.evaluate(start, batch, n_threads) for batch in batches[:5]]
    gradient = starts[0][1]
    blind, to_model = objective.evaluate(replace(start, W=0 * start.W, b=0 * start.b), held_out, n_threads)
    limit = DIVERGED * max(abs(first), abs(blind), *(abs(value) for value, _ in starts), 1e-30)
    ends: dict[float, float] = {}

    def end(power: float) -> float:
        """Return the value towards the end of a descent whose first step moves D by about 10^power times itself."""
        if power not in ends:
            rho = unit * 10.0**power
            descent = Descent(objective, sets, start, LearningRate(rho, len(batches) / 2), n_threads)
            looks = {round(len(batches) * share) for share in (0.6, 0.8, 1.0)}
            values = []
            try:
                for batch in batches:
                    before_step()
                    if descent.step(batch) > limit:
                        raise DivergedError
                    if descent.t in looks:
                        values.append(objective.evaluate(descent.parameters, held_out, n_threads)[0])
                ends[power] = max(values)
            except DivergedError:
                ends[power] = np.inf
        return ends[power]

    # Steps that would move D by its own size, or W from zero to where it is; ρν above two would make W or Z explode.
    pairs = ((start.D, gradient.D), (start.W, to_model.W))
    sizes = [(float(np.linalg.norm(array)), float(np.linalg.norm(slope))) for array, slope in pairs]
    units = [size / slope for size, slope in sizes if size > 0 and slope > 0]
    unit = min([*units, *(1 / nu for nu in (objective.nu, objective.nu2) if nu > 0)], default=1.0)
    best = min((-3.0, -2.0, -1.0, 0.0), key=end)
    while best == min(ends) and best > LOWEST_POWER and not ends[best] < first:
        best = min((best - 1, best), key=end)
    while best == max(ends) and best < HIGHEST_POWER:
        best = min((best, best + 1), key=end)
    best = min((best - 0.5, best, best + 0.5), key=end)
    if not np.isfinite(ends[best]):
        raise DivergedError("every learning rate diverges: check the scale of signals and targets.")
    return float(unit * 10.0**best)
