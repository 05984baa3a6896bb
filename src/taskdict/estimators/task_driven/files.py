"""What a task-driven model has learned, in units that suit the descent, and how it is written to files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict import storage
from taskdict._validation import check_penalty
from taskdict.descent import Batch, Parameters
from taskdict.models import Model
from taskdict.training import State, Step

Floats = NDArray[Any]


@dataclass(frozen=True)
class Scaling:
    """Signals and targets are brought to size one before they are learned from: x/c, (y − offset)/s.

    The learning rate, which dictionary and model share, then fits both at any scale of the data. W, of a model whose
    scores go with the power `degree` of the signals, is then cᵈ/s times that of the user.
    """

    c: float = 1.0
    s: float = 1.0
    offset: tuple[float, ...] = (0.0,)
    degree: int = 1

    @property
    def of_model(self) -> float:
        """How much larger W is than as the user means it."""
        return self.c**self.degree / self.s

    def inside(self, batch: Batch) -> Batch:
        """Return a batch as it is learned from."""
        dtype = batch.X.dtype
        y = batch.y
        if y.dtype.kind == "f":
            y = ((y - np.array(self.offset)) / self.s).astype(dtype)
        others = None if batch.unlabelled is None else batch.unlabelled * dtype.type(1 / self.c)
        return Batch(batch.X * dtype.type(1 / self.c), y, batch.weights, others)

    def outside(self, parameters: Parameters) -> Parameters:
        """Return learned parameters as they fit the signals and targets of the user."""
        W = parameters.W * parameters.W.dtype.type(1 / self.of_model)
        b = (parameters.b.astype(np.float64) * self.s + np.array(self.offset)).astype(parameters.b.dtype)
        return replace(parameters, W=W, b=b)


@dataclass
class Training:
    """All that a model has learned and what it takes to go on."""

    scaling: Scaling
    lambda1: float
    nu: float
    seed: int
    state: State
    steps: list[Step]
    fingerprint: str = ""  # of the data

    def to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return all this as arrays and as what JSON can hold."""
        state = self.state
        arrays = {}
        kept = {
            "": state.parameters,
            "mean ": state.mean,
            "best ": state.best,
            "sizes ": state.sizes,
            "before ": state.before,
        }
        for prefix, learned in kept.items():
            if learned is not None:
                for name in ("D", "W", "b", "Z"):
                    stacked = [getattr(parameters, name) for parameters in learned]
                    if stacked[0] is not None:
                        arrays[f"{prefix}{name}"] = np.stack(stacked)
        arrays["rhos"] = np.array(state.rhos)
        if state.limits is not None:
            arrays["limits"] = np.array(state.limits)
        arrays["history objective"] = np.array([step.objective for step in self.steps], np.float64)
        checks = [np.nan if step.validation is None else step.validation for step in self.steps]
        arrays["history validation"] = np.array(checks, np.float64)
        document = {
            "scaling": [self.scaling.c, self.scaling.s, list(self.scaling.offset)],
            "lambda1": self.lambda1,
            "nu": self.nu,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "t": state.t,
            "position": state.position,
            "best_value": state.best_value if np.isfinite(state.best_value) else None,
            "stale": state.stale,
            "stopped": state.stopped,
        }
        return arrays, document

    @classmethod
    def from_file(cls, arrays: storage.Arrays, document: dict[str, Any], model: Model, n_atoms: int) -> Training:
        """Return what `to_file` has described; the core trusts the shapes, so they are checked here."""
        parameters = _parameters(arrays, "", model, n_atoms)
        mean, best, before = (
            _parameters(arrays, prefix, model, n_atoms) if f"{prefix}D" in arrays else None
            for prefix in ("mean ", "best ", "before ")
        )
        if any(other is not None and _shapes(other) != _shapes(parameters) for other in (mean, best, before)):
            raise ValueError("its arrays do not fit each other")
        state = State(
            parameters,
            tuple(float(rho) for rho in arrays["rhos"]),
            int(document["t"]),
            document["position"],
            _sizes(arrays, parameters),
            before,
            _limits(arrays),
            mean,
            best,
            np.inf if document["best_value"] is None else float(document["best_value"]),
            int(document["stale"]),
            bool(document["stopped"]),
        )
        if not (0 <= state.t < 2**62 and 0 <= state.stale < 2**62 and 0 <= int(document["seed"]) < 2**32):
            raise ValueError("its counts make no sense")
        if state.position is not None and not isinstance(state.position, dict):
            raise ValueError("its place in a stream makes no sense")
        objectives, checks = arrays["history objective"], arrays["history validation"]
        kinds = {objectives.dtype, checks.dtype}
        if objectives.ndim != 1 or objectives.shape != checks.shape or kinds != {np.dtype(np.float64)}:
            raise ValueError("its arrays do not fit each other")
        steps = [
            Step(float(value), None if np.isnan(check) else float(check))
            for value, check in zip(objectives, checks, strict=True)
        ]
        c, s, offset = document["scaling"]
        sound = 0 < c < np.inf and 0 < s < np.inf and np.isfinite(offset).all()
        if not sound or len(offset) not in (1, len(parameters[0].b)):
            raise ValueError("its scaling makes no sense")
        scaling = Scaling(float(c), float(s), tuple(float(number) for number in offset), model.degree)
        with np.errstate(over="ignore", invalid="ignore"):
            used = [scaling.outside(learned) for learned in state.chosen]
        if not all(np.isfinite(learned.W).all() and np.isfinite(learned.b).all() for learned in used):
            raise ValueError("its scaling makes no sense")
        return cls(
            scaling,
            check_penalty("lambda1", document["lambda1"]),
            check_penalty("nu", document["nu"]),
            int(document["seed"]),
            state,
            steps,
            str(document["fingerprint"]),
        )


def _parameters(arrays: storage.Arrays, prefix: str, model: Model, n_atoms: int) -> tuple[Parameters, ...]:
    """Return the parameters of each model of a committee."""
    count = len(arrays["rhos"])
    D, W, b = (arrays[f"{prefix}{name}"] for name in ("D", "W", "b"))
    Z = arrays.get(f"{prefix}Z")
    every = [D, W, b] if Z is None else [D, W, b, Z]
    sound = D.ndim == 3 and len(D) == count > 0 and D.shape[1] == n_atoms and b.ndim == 2 and len(b) == count
    sound = sound and W.shape == (count, *model.shape(b.shape[1], D.shape[1], D.shape[2]))
    sound = sound and (Z is None or (Z.ndim == 3 and Z.shape[:2] == (count, D.shape[2])))
    if not sound or {array.dtype for array in every} not in ({np.dtype("f4")}, {np.dtype("f8")}):
        raise ValueError("its arrays do not fit each other")
    if not all(np.isfinite(array).all() for array in every):
        raise ValueError("its arrays are not finite")
    return tuple(
        Parameters(D[k].copy(), W[k].copy(), b[k].copy(), None if Z is None else Z[k].copy()) for k in range(count)
    )


def _shapes(learned: tuple[Parameters, ...]) -> list[Any]:
    """Return the shapes and dtypes of all arrays of a committee."""
    return [[None if a is None else (a.shape, a.dtype) for a in vars(each).values()] for each in learned]


def _limits(arrays: storage.Arrays) -> tuple[float, ...] | None:
    """Return the objectives above which models have diverged, None if there are none."""
    if "limits" not in arrays:
        return None
    limits = arrays["limits"]
    if limits.shape != arrays["rhos"].shape or limits.dtype != np.float64 or not (limits >= 0).all():
        raise ValueError("its limits do not fit its models")
    return tuple(float(limit) for limit in limits)


def _sizes(arrays: storage.Arrays, parameters: tuple[Parameters, ...]) -> tuple[Parameters, ...] | None:
    """Return the mean squares of the gradients, None if there are none."""
    found = {name: arrays[f"sizes {name}"] for name in ("D", "W", "b", "Z") if f"sizes {name}" in arrays}
    if not found:
        return None
    first = parameters[0]
    names = [name for name, array in vars(first).items() if array is not None]
    for name in names:
        shape, dtype = getattr(first, name).shape, first.D.dtype
        wanted = (len(parameters), *((shape[0], 1) if name in ("D", "Z") else shape))
        array = found[name]
        if array.shape != wanted or array.dtype != dtype or not np.isfinite(array).all() or (array < 0).any():
            raise ValueError("its sizes do not fit its parameters")
    return tuple(Parameters(**{name: found[name][k].copy() for name in names}) for k in range(len(parameters)))
