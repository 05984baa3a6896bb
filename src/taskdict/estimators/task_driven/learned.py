"""A learned task: weights, units and targets together. It gives codes and scores, and it can be written to a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from taskdict._coding.coded_batch import Coding, Part
from taskdict._coding.encode import sparse_encode
from taskdict._common.arrays import SIGNALS_AT_ONCE, Floats
from taskdict._common.threads import in_parallel, one_blas_thread
from taskdict._files import storage
from taskdict._learning.models import Model
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.task_settings import TaskSettings
from taskdict._learning.training import Training
from taskdict._native import BadSignalError
from taskdict.estimators.task_driven.targets import ClassTargets, ColumnTargets, Targets


@dataclass(frozen=True, eq=False)
class LearnedTask:
    """What a task-driven estimator has learned.

    A method reads the state of `training` once, since a training run may be changing it in another thread.

    Attributes
    ----------
    targets : Targets
        Classes or columns.
    training : Training
        Weights in the units of the training, and the units.
    model : Model
        How scores follow from codes.
    lambda2 : float
        Weight of the squared ℓ2 norm of the codes.
    positive : bool
        Whether codes are not negative.
    parts : tuple of Part
        The dictionaries of a model, empty if it has one.
    """

    targets: Targets
    training: Training
    model: Model
    lambda2: float
    positive: bool
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, settings: TaskSettings, targets: Targets, training: Training) -> LearnedTask:
        """Return a learned task with the settings of its fit."""
        D, Z = training.state.weights[0].D, training.state.weights[0].Z
        n_features = D.shape[1] if Z is None else Z.shape[1]
        sizes = settings.n_components or (len(D) // settings.n_dictionaries,) * settings.n_dictionaries
        parts = settings.parts(sizes, n_features)
        return cls(targets, training, settings.model, settings.lambda2, settings.positive_code, parts)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of atoms of each dictionary of a model."""
        if not self.parts:
            return (len(self.training.state.weights[0].D),)
        return tuple(part.atoms.stop - part.atoms.start for part in self.parts)

    @property
    def n_features(self) -> int:
        """Features per signal."""
        first = self.training.state.weights[0]
        return int(first.D.shape[1] if first.Z is None else first.Z.shape[1])

    @property
    def weights(self) -> list[Weights]:
        """The weights of each model, in the units of the user."""
        training = self.training
        return [training.scaling.outside(weights) for weights in training.state.chosen]

    def scores(self, X: Any, n_threads: int) -> Floats:
        """Return the outputs of all models side by side, of shape (n_samples, outputs)."""
        learned = self.weights
        coding = Coding(self.training.lambda1, self.lambda2, self.positive)
        objective = Objective(self.model, self.targets.loss, coding, self.parts)
        blocks = []
        for start, block in _blocks(X):

            @np.errstate(over="ignore", invalid="ignore")  # noticed below
            def scores(k: int, block: Floats = block) -> Floats:
                return objective.scores(_cast(learned[k], block.dtype), block, max(1, n_threads // len(learned)))

            try:
                with one_blas_thread():
                    blocks.append(np.concatenate(in_parallel(scores, range(len(learned)), n_threads), axis=1))
            except BadSignalError:
                row = start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
                raise ValueError(
                    f"X must be finite, but row {row} contains NaN or infinity. Remove or impute such values first."
                ) from None
        outputs = np.concatenate(blocks)
        if not np.isfinite(outputs).all():
            row = int(np.flatnonzero(~np.isfinite(outputs).all(axis=1))[0])
            raise ValueError(f"X has a signal in row {row} that is too large to compute with in {outputs.dtype}.")
        return outputs

    def codes(self, X: Any, n_threads: int | None) -> sp.csr_array:
        """Return the codes on the dictionaries of all models, side by side."""
        training = self.training
        columns = []
        for weights in training.state.chosen:
            Z, D = weights.Z, weights.D
            signals = X
            if Z is not None:
                signals = np.concatenate([block @ Z.T.astype(block.dtype, copy=False) for _, block in _blocks(X)])
            for part in self.parts or (Part(slice(0, len(D))),):
                seen = signals if part.features is None else signals[:, part.features]
                columns.append(
                    sparse_encode(
                        seen,
                        part.dictionary(D),
                        lambda1=training.lambda1,
                        lambda2=self.lambda2,
                        positive=self.positive,
                        n_threads=n_threads,
                    )
                )
        return columns[0] if len(columns) == 1 else sp.csr_array(sp.hstack(columns, format="csr"))

    def to_file(self, training: Training) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return arrays and a document for a model file, with this record or an earlier one."""
        arrays, document = training.to_file()
        others, targets = self.targets.to_file()
        return {**arrays, **others}, {**document, **targets}

    @classmethod
    def from_file(
        cls,
        arrays: storage.Arrays,
        document: dict[str, Any],
        settings: TaskSettings,
        kind: type[ClassTargets] | type[ColumnTargets],
    ) -> LearnedTask:
        """Return the learned task of a file, after all checks."""
        n_atoms = arrays["D"].shape[1] if settings.n_components is None else sum(settings.n_components)
        if settings.n_components is None and n_atoms % settings.n_dictionaries:
            raise ValueError("its arrays do not fit each other")
        targets = kind.from_file(arrays, document, settings)
        training = Training.from_file(arrays, document, settings.decision, n_atoms)
        return cls.of(replace(settings, decision=training.decision), targets, training)


def _blocks(X: Any) -> Iterator[tuple[int, Floats]]:
    """Yield signals in blocks of bounded size, dense and of one dtype, each with the number of its first row."""
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    for start in range(0, X.shape[0], SIGNALS_AT_ONCE):
        block = X[start : start + SIGNALS_AT_ONCE]
        yield start, np.ascontiguousarray(block.toarray() if sp.issparse(block) else block, dtype)


def _cast(weights: Weights, dtype: Any) -> Weights:
    """Return the weights in a dtype."""
    arrays = {name: np.ascontiguousarray(a, dtype) for name, a in vars(weights).items() if a is not None}
    return Weights(**arrays)
