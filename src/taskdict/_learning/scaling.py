"""Units: signals and targets are brought to size one before they are learned from. All conversions are here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._learning.models import Columns, JointModel
from taskdict._learning.objective import Weights
from taskdict._learning.sets import ScaledSet, each_output
from taskdict.constraints import ConstraintSet
from taskdict.streams.pairs import Batch

LARGEST = {np.dtype(np.float32): 1e12, np.dtype(np.float64): 1e60}  # size of signals and targets, or one over it


@dataclass(frozen=True)
class Scaling:
    """The units of a training: x/c, and (y − offset)/s for each output.

    The learning rate, which dictionary and model share, then fits both at any scale of the data. The scores of a model
    go with the power `degree` of the signals, so its W is cᵈ/s times that in the units of the user. A joint model sees
    the signals, already divided by c, through `columns`. With one number in `s` or `offset`, it is that of all outputs.
    """

    c: float = 1.0
    s: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)
    degree: int = 1
    columns: Columns | None = None

    @property
    def of_model(self) -> NDArray[np.float64]:
        """How much larger W is than in the units of the user, for each output."""
        return self.c**self.degree / np.array(self.s)

    @property
    def of_targets(self) -> float:
        """The size of the targets together."""
        return math.sqrt(sum(size * size for size in self.s) / len(self.s))

    @property
    def of_reconstruction(self) -> float:
        """The weight of the unsupervised objective beside the loss, for μ = 1."""
        return (self.c / self.of_targets) ** 2

    def lambda1(self, lambda1: float) -> float:
        """Return the weight of the ℓ1 norm of the codes of scaled signals."""
        return lambda1 / self.c

    def nu(self, nu: float) -> float:
        """Return the weight of ‖W‖²."""
        return nu / self.c ** (2 * self.degree)

    def nu_outside(self, nu: float) -> float:
        """Return the weight of ‖W‖² in the units of the user."""
        return nu * self.c ** (2 * self.degree)

    def nu2(self, nu2: float) -> float:
        """Return the weight of ‖Z‖²."""
        return nu2 / self.of_targets / self.of_targets

    def coef_set(self, kept: ConstraintSet | None) -> ScaledSet | None:
        """Return the set of W."""
        if kept is None:
            return None
        return ScaledSet(kept, self.of_model, None if self.columns is None else self.columns.factor)

    def inside(self, batch: Batch) -> Batch:
        """Return a batch in the units of the training."""
        dtype = batch.X.dtype
        y = batch.y
        if y.dtype.kind == "f":
            y = ((y - np.array(self.offset)) / np.array(self.s)).astype(dtype)
        others = None if batch.unlabelled is None else batch.unlabelled * dtype.type(1 / self.c)
        return Batch(batch.X * dtype.type(1 / self.c), y, batch.weights, others)

    def outside(self, weights: Weights) -> Weights:
        """Return learned weights in the units of the user."""
        W, b = weights.W, weights.b
        if self.columns is not None:
            W, b = JointModel(self.columns).in_units_of_signals(W, b)
        W = W * each_output(1 / self.of_model, W)
        b = (b.astype(np.float64) * np.array(self.s) + np.array(self.offset)).astype(b.dtype)
        return replace(weights, W=W, b=b)


def size_of(rows: Floats) -> float:
    """Return the root mean square norm of rows, safe from overflow and underflow; 0 if all are zero."""
    top = float(np.abs(rows).max(initial=0))
    if top == 0:
        return 0.0
    return top * math.sqrt(float(np.square(rows / top, dtype=np.float64).sum(axis=1).mean()))


def sparse_size(X: Any) -> float:
    """Return the root mean square norm of the rows of a sparse array."""
    return size_of(X.data[:, None]) * math.sqrt(X.nnz / max(1, X.shape[0]))


def check_sizes(dtype: np.dtype[Any], X: float, y: Sequence[float]) -> None:
    """Raise if the sizes of signals or targets are too far from one to compute with."""
    largest = LARGEST[dtype]
    for name, size in (("X", X), *(("y", each) for each in y)):
        if not 1 / largest < size < largest:
            raise ValueError(
                f"{name} is of size {size:.1e}, too far from one to compute with in {dtype}: scale it or use float64."
            )
