"""Algorithm 1: projected stochastic gradient descent over the dictionary, the model and the transform together.

Minimises, over D in its set (and W, Z in theirs),

    E[(1 − μ) ℓs(y, W, α*(Zx, D)) + μ ℓu(Zx, D)] + ν/2 ‖W‖² + ν2/2 ‖Z‖²

(``eq:formulation``, ``eq:extended``, ``eq:semi``). The intercept b is not penalised. Signals without a target take part
in the second term only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict.constraints import ConstraintSet
from taskdict.gradients import CodedBatch
from taskdict.losses import Loss
from taskdict.models import Model, evaluate

Floats = NDArray[Any]


DIVERGED = 1e3  # times the value at the start: a candidate for the learning rate is given up


class DivergedError(ArithmeticError):
    """Raised when a step leads to values that are not finite; the parameters before it are kept."""


@dataclass(frozen=True)
class Parameters:
    """What is learned, or gradients in it; `Z` is None if the signals are encoded as they are."""

    D: Floats  # (n_components, n_features), or (n_components, n_measurements) with Z
    W: Floats
    b: Floats  # (n_outputs,)
    Z: Floats | None = None  # (n_measurements, n_features)


@dataclass(frozen=True)
class Batch:
    """Signals with targets, and signals without."""

    X: Floats
    y: Any
    weights: Floats | None = None  # of the samples, of average one; None is one each
    unlabelled: Floats | None = None


@dataclass(frozen=True)
class Objective:
    """What is minimised, up to the constraint sets."""

    model: Model
    loss: Loss
    lambda1: float
    lambda2: float = 0.0
    positive_code: bool = False
    nu: float = 0.0
    nu2: float = 0.0
    mu: float = 0.0

    def evaluate(self, parameters: Parameters, batch: Batch, n_threads: int = 1) -> tuple[float, Parameters]:
        """Return the value on a batch and its gradients in all parameters."""
        D, W, b, Z = parameters.D, parameters.W, parameters.b, parameters.Z
        coded = self._encode(parameters, batch.X, n_threads)
        task = evaluate(self.model, self.loss, coded, batch.y, W, b, batch.weights)
        through = coded.through_codes(task.alpha)
        share = (1 - self.mu) / len(batch.X)
        value = share * float(task.values.sum(dtype=np.float64))
        in_D = share * (through.D if task.D is None else through.D + task.D)
        in_x = share * (through.x if task.x is None else through.x + task.x)
        in_Z = None if Z is None else in_x.T @ batch.X
        if self.mu > 0:
            # All signals of the batch are samples of p(x), those with targets too.
            for signals, known in ((batch.X, coded), (batch.unlabelled, None)):
                if signals is None or len(signals) == 0:
                    continue
                total = len(batch.X) + (0 if batch.unlabelled is None else len(batch.unlabelled))
                again = self._encode(parameters, signals, n_threads) if known is None else known
                reconstruction = again.of_reconstruction()
                value += self.mu / total * float(again.reconstruction_objectives().sum())
                in_D = in_D + self.mu / total * reconstruction.D
                if in_Z is not None:
                    in_Z = in_Z + self.mu / total * (reconstruction.x.T @ signals)
        value += 0.5 * self.nu * float(np.square(W).sum(dtype=np.float64))
        in_W = share * task.W + self.nu * W
        if Z is not None and in_Z is not None:
            value += 0.5 * self.nu2 * float(np.square(Z).sum(dtype=np.float64))
            in_Z = (in_Z + self.nu2 * Z).astype(Z.dtype, copy=False)
        dtype = D.dtype
        return value, Parameters(in_D.astype(dtype), in_W.astype(dtype), (share * task.b).astype(dtype), in_Z)

    def _encode(self, parameters: Parameters, X: Floats, n_threads: int) -> CodedBatch:
        Z = parameters.Z
        return CodedBatch.encode(
            X if Z is None else np.ascontiguousarray(X @ Z.T),
            parameters.D,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            positive=self.positive_code,
            n_threads=n_threads,
        )


@dataclass(frozen=True)
class Sets:
    """Where the parameters are kept; None is everywhere."""

    D: ConstraintSet
    W: ConstraintSet | None = None
    Z: ConstraintSet | None = None


@dataclass(frozen=True)
class LearningRate:
    """The step ρ_t = min(ρ, ρ t0 / t) at time t = 1, 2, and so on."""

    rho: float
    t0: float

    def at(self, t: int) -> float:
        """Return ρ_t."""
        return min(self.rho, self.rho * self.t0 / t)


class Descent:
    """Takes one projected gradient step after the other; `parameters` are those after `t` steps."""

    def __init__(
        self, objective: Objective, sets: Sets, parameters: Parameters, rate: LearningRate, n_threads: int = 1
    ) -> None:
        self.objective = objective
        self.sets = sets
        self.parameters = parameters
        self.rate = rate
        self.n_threads = n_threads
        self.t = 0

    def step(self, batch: Batch) -> float:
        """Move against the gradient on a batch; return the value on it before.

        Raises
        ------
        DivergedError
            If the parameters would no longer be finite; they stay as they are.
        """
        value, gradient = self.objective.evaluate(self.parameters, batch, self.n_threads)
        rho = self.rate.at(self.t + 1)
        moved = {
            name: getattr(self.parameters, name) - rho * getattr(gradient, name)
            for name in ("D", "W", "b", "Z")
            if getattr(gradient, name) is not None
        }
        for name in moved:
            kept = getattr(self.sets, name, None)
            projected = moved[name] if kept is None else kept.project(moved[name])
            moved[name] = np.ascontiguousarray(projected, self.parameters.D.dtype)
        if not np.isfinite(value) or not all(np.isfinite(array.sum()) for array in moved.values()):
            raise DivergedError(
                f"step {self.t + 1} of size {rho:.2g} leads out of the finite numbers: take a smaller learning rate. "
                "The parameters before it are kept."
            )
        self.parameters = replace(self.parameters, **moved)
        self.t += 1
        return value


def search_rho(
    objective: Objective,
    sets: Sets,
    start: Parameters,
    batches: Sequence[Batch],
    held_out: Batch,
    n_threads: int = 1,
) -> float:
    """Return the ρ whose descent over the batches ends with the lowest value on the held-out samples.

    The paper's search: each candidate starts from the same parameters, sees the same batches and is given up when it
    diverges. Candidates are relative to the size of the gradient at the start: powers of ten, then those beside the
    best, a factor √10 apart. D and W share ρ, so signals should have a norm around one: with x → cx the best step for
    W goes with c⁻², that for D stays.

    Raises
    ------
    DivergedError
        If no candidate ends below the value at the start.
    """
    first, gradient = objective.evaluate(start, held_out, n_threads)
    ends: dict[float, float] = {}

    def end(power: float) -> float:
        """Return the value after a descent whose first step moves the dictionary by a fraction 10^power of itself."""
        if power not in ends:
            rho = unit * 10.0**power
            descent = Descent(objective, sets, start, LearningRate(rho, len(batches)), n_threads)
            try:
                for batch in batches:
                    if descent.step(batch) > DIVERGED * max(first, 1e-30):
                        raise DivergedError
                ends[power] = objective.evaluate(descent.parameters, held_out, n_threads)[0]
            except DivergedError:
                ends[power] = np.inf
        return ends[power]

    size = float(np.linalg.norm(gradient.D))
    unit = float(np.linalg.norm(start.D)) / size if size > 0 else 1.0
    best = min((-4.0, -3.0, -2.0, -1.0, 0.0), key=end)
    best = min((best - 0.5, best, best + 0.5), key=end)
    if not ends[best] < first:
        raise DivergedError(
            "no learning rate lowers the loss on the held-out samples: give learning_rate a number, or check the data."
        )
    return float(unit * 10.0**best)
