"""The record of a training: everything that it has learned, everything needed to resume it, and its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskdict._common.validation import check_penalty
from taskdict._files import storage
from taskdict._learning.comparison import NAMES, TASK_DRIVEN, Comparison
from taskdict._learning.models import MODELS, Columns, JointModel, Model, model_named
from taskdict._learning.objective import Weights
from taskdict._learning.scaling import Scaling
from taskdict._learning.state import Each, State, Step


@dataclass
class Training:
    """All that was learned, and all that is needed to resume. Its training run alone changes `state` and `steps`."""

    scaling: Scaling
    lambda1: float
    nu: float
    seed: int
    state: State
    steps: list[Step]
    fingerprint: str = ""  # of the data
    decision: str = "linear"  # the model, if it was to be found
    max_iter: int = 0  # batches for each μ, if that was to be found
    comparison: Comparison | None = None  # with baselines, on held-out samples
    best: str = TASK_DRIVEN  # of the three, and what was learned

    @property
    def is_concluded(self) -> bool:
        """Whether no comparison with the baselines is pending; it is between the last batch and the end of a fit."""
        return self.comparison is None or self.comparison.is_complete

    def is_left_out(self, max_iter: int | None) -> bool:
        """Return whether the training was left out for a baseline, and no number of batches asks for it."""
        return self.best != TASK_DRIVEN and max_iter is None

    def to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return all this as arrays and as a document that JSON can hold."""
        state = self.state
        arrays = {}
        kept = {
            "": state.weights,
            "mean ": state.mean,
            "best ": state.best,
            "sizes ": state.moments,
            "before ": state.before,
        }
        for prefix, learned in kept.items():
            if learned is not None:
                for name in ("D", "W", "b", "Z"):
                    stacked = [getattr(weights, name) for weights in learned]
                    if stacked[0] is not None:
                        arrays[f"{prefix}{name}"] = np.stack(stacked)
        arrays["rhos"] = np.array(state.rhos)
        if state.limits is not None:
            arrays["limits"] = np.array(state.limits)
        arrays["history objective"] = np.array([step.objective for step in self.steps], np.float64)
        if self.scaling.columns is not None:
            arrays["columns mean"], arrays["columns factor"] = self.scaling.columns.mean, self.scaling.columns.factor
        if self.comparison is not None:
            arrays.update(self.comparison.to_file())
        checks = [np.nan if step.validation is None else step.validation for step in self.steps]
        arrays["history validation"] = np.array(checks, np.float64)
        document = {
            "scaling": [self.scaling.c, list(self.scaling.s), list(self.scaling.offset)],
            "lambda1": self.lambda1,
            "nu": self.nu,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "t": state.t,
            "position": state.position,
            "best_value": state.best_value if np.isfinite(state.best_value) else None,
            "stale": state.stale,
            "stopped": state.stopped,
            "decision": self.decision,
            "max_iter": self.max_iter,
            "best": self.best,
            "trial": self.comparison is not None and self.comparison.of_trial,
        }
        return arrays, document

    @classmethod
    def from_file(cls, arrays: storage.Arrays, document: dict[str, Any], decision: str, n_atoms: int) -> Training:
        """Return the record of a file; the core trusts the shapes, so they are checked here.

        Parameters
        ----------
        arrays, document : dict
            Of the file.
        decision : str
            The parameter of the estimator, for files that do not say which model was found.
        n_atoms : int
            Of each member.
        """
        decision = document.get("decision", decision)
        if decision not in MODELS:
            raise ValueError("its model is unknown")
        max_iter, result = int(document.get("max_iter", 0)), document.get("best", TASK_DRIVEN)
        if result not in NAMES:
            raise ValueError("its result makes no sense")
        model = model_named(decision)
        weights = _weights(arrays, "", model, n_atoms)
        mean, best, before = (
            _weights(arrays, prefix, model, n_atoms) if f"{prefix}D" in arrays else None
            for prefix in ("mean ", "best ", "before ")
        )
        if any(other is not None and _shapes(other) != _shapes(weights) for other in (mean, best, before)):
            raise ValueError("its arrays do not fit each other")
        state = State(
            weights,
            tuple(float(rho) for rho in arrays["rhos"]),
            int(document["t"]),
            document["position"],
            _moments(arrays, weights),
            before,
            _limits(arrays),
            mean,
            best,
            np.inf if document["best_value"] is None else float(document["best_value"]),
            int(document["stale"]),
            bool(document["stopped"]),
        )
        if not (
            0 <= state.t < 2**62
            and 0 <= max_iter < 2**62
            and 0 <= state.stale < 2**62
            and 0 <= int(document["seed"]) < 2**32
        ):
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
        sizes = s if isinstance(s, list) else [s]  # one number in files of taskdict 0.1
        sound = all(0 < number < np.inf for number in (c, *sizes)) and np.isfinite(offset).all()
        if not sound or any(len(numbers) not in (1, len(weights[0].b)) for numbers in (sizes, offset)):
            raise ValueError("its scaling makes no sense")
        columns = _columns(arrays, model, weights)
        units = [tuple(float(number) for number in numbers) for numbers in (sizes, offset)]
        scaling = Scaling(float(c), units[0], units[1], model.degree, columns)
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
            decision,
            max_iter,
            Comparison.from_file(arrays, bool(document.get("trial", False))),
            result,
        )


def _weights(arrays: storage.Arrays, prefix: str, model: Model, n_atoms: int) -> Each:
    """Return the weights of each member of a committee."""
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
        Weights(D[k].copy(), W[k].copy(), b[k].copy(), None if Z is None else Z[k].copy()) for k in range(count)
    )


def _columns(arrays: storage.Arrays, model: Model, weights: Each) -> Columns | None:
    """Return the features of a joint model, None for other models."""
    if not isinstance(model, JointModel):
        return None
    mean, factor, D = arrays["columns mean"], arrays["columns factor"], weights[0].D
    for array in (mean, factor):
        if array.shape != (D.shape[1],) or array.dtype != D.dtype or not np.isfinite(array).all():
            raise ValueError("its columns do not fit its dictionary")
    if weights[0].Z is not None or (factor < 0).any():
        raise ValueError("its columns do not fit its dictionary")
    return Columns(mean.copy(), factor.copy())


def _shapes(learned: Each) -> list[Any]:
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


def _moments(arrays: storage.Arrays, weights: Each) -> Each | None:
    """Return the second moments of the gradients, None if there are none."""
    found = {name: arrays[f"sizes {name}"] for name in ("D", "W", "b", "Z") if f"sizes {name}" in arrays}
    if not found:
        return None
    first = weights[0]
    names = [name for name, array in vars(first).items() if array is not None]
    for name in names:
        shape, dtype = getattr(first, name).shape, first.D.dtype
        wanted = (len(weights), *((shape[0], 1) if name in ("D", "Z") else shape))
        array = found[name]
        if array.shape != wanted or array.dtype != dtype or not np.isfinite(array).all() or (array < 0).any():
            raise ValueError("its sizes do not fit its weights")
    return tuple(Weights(**{name: found[name][k].copy() for name in names}) for k in range(len(weights)))
