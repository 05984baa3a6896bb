"""A task-driven model as it is used: its attributes, codes, scores and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._native import BadSignalError
from taskdict._threads import in_parallel, resolve_threads
from taskdict.coding import sparse_encode
from taskdict.descent import Objective, Parameters
from taskdict.estimators._base import DictionaryEstimator
from taskdict.estimators._signals import validated
from taskdict.estimators.task_driven.files import Training
from taskdict.estimators.task_driven.parameters import TaskParameters
from taskdict.gradients import Coding, Part
from taskdict.losses import CodeLoss, Loss
from taskdict.streams import Stream

Floats = NDArray[Any]

SCORED = 4096  # signals whose scores are computed at once


class TaskModel(TaskParameters, DictionaryEstimator):
    """What was learned is in `_training`; everything else is computed from it.

    A method reads `_training` and its state once: another thread may be learning.
    """

    _training: Training

    @abstractmethod
    def _loss(self) -> Loss | CodeLoss:
        """Return the loss of each model."""

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return "_training" in vars(self)

    def _outside(self) -> list[Parameters]:
        check_is_fitted(self)
        return _outside(self._training)

    @property
    def components_(self) -> Floats:  # type: ignore[override] # others store theirs
        """The atoms of all dictionaries, one after the other."""
        check_is_fitted(self)
        return np.concatenate([parameters.D for parameters in self._training.state.chosen])

    @property
    def coef_(self) -> Floats:
        """The parameters W of all models, one after the other."""
        return np.concatenate([parameters.W for parameters in self._outside()])

    @property
    def intercept_(self) -> Floats:
        """The intercepts of all models."""
        return np.concatenate([parameters.b for parameters in self._outside()])

    @property
    def transform_(self) -> Floats | None:
        """The matrix Z, of shape (n_measurements, n_features), one for each model if there are several."""
        check_is_fitted(self)
        learned = [parameters.Z for parameters in self._training.state.chosen]
        if learned[0] is None:
            return None
        return learned[0] if len(learned) == 1 else np.stack([Z for Z in learned if Z is not None])

    @property
    def learning_rate_(self) -> float | Floats:
        """The ρ of each model, for signals and targets that were brought to size one."""
        check_is_fitted(self)
        rhos = self._training.state.rhos
        return rhos[0] if len(rhos) == 1 else np.array(rhos)

    @property
    def lambda1_(self) -> float:
        """The weight of the ℓ1 norm that was used."""
        check_is_fitted(self)
        return self._training.lambda1

    @property
    def nu_(self) -> float:
        """The weight of the penalty on the model that was used."""
        check_is_fitted(self)
        return self._training.nu

    @property
    def n_iter_(self) -> int:
        """Number of batches."""
        check_is_fitted(self)
        return len(self._training.steps)

    @property
    def history_(self) -> dict[str, list[float]]:
        """What each batch showed, and each look at the validation part."""
        check_is_fitted(self)
        steps = self._training.steps
        return {
            "objective": [step.objective for step in steps],
            "validation": [step.validation for step in steps if step.validation is not None],
            "validation_iter": [i + 1 for i, step in enumerate(steps) if step.validation is not None],
        }

    @property
    def _n_features_out(self) -> int:
        return sum(len(parameters.D) for parameters in self._training.state.chosen)

    def _n_features_seen(self) -> int:
        first = self._training.state.parameters[0]
        return int(first.D.shape[1] if first.Z is None else first.Z.shape[1])

    def _chunks(self, X: Any) -> Iterator[tuple[int, Floats]]:
        """Yield signals in blocks of bounded size, dense and of one dtype."""
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        for start in range(0, X.shape[0], SCORED):
            chunk = X[start : start + SCORED]
            yield start, np.ascontiguousarray(chunk.toarray() if sp.issparse(chunk) else chunk, dtype)

    def _check_used(self, X: Any) -> Any:
        check_is_fitted(self)
        if isinstance(X, Stream):
            raise TypeError("X must be an array, got a stream: pass stream.take(n), as often as you like.")
        return validated(self, X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, reset=False)

    def _scores(self, X: Any) -> Floats:
        """Return the outputs of all models side by side, of shape (n_samples, outputs)."""
        X = self._check_used(X)
        training = self._training
        learned = _outside(training)
        n_threads = resolve_threads(self.n_threads)
        coding = Coding(training.lambda1, float(self.lambda2), bool(self.positive_code))
        objective = Objective(self._model(), self._loss(), coding, self._parts(X.shape[1]))
        blocks = []
        for start, chunk in self._chunks(X):

            def scores(k: int, chunk: Floats = chunk) -> Floats:
                return objective.scores(_cast(learned[k], chunk.dtype), chunk, max(1, n_threads // len(learned)))

            try:
                blocks.append(np.concatenate(in_parallel(scores, range(len(learned)), n_threads), axis=1))
            except BadSignalError:
                row = start + int(np.flatnonzero(~np.isfinite(chunk).all(axis=1))[0])
                raise ValueError(
                    f"X must be finite, but row {row} contains NaN or infinity. Remove or impute such values first."
                ) from None
        outputs = np.concatenate(blocks)
        if not np.isfinite(outputs).all():
            row = int(np.flatnonzero(~np.isfinite(outputs).all(axis=1))[0])
            raise ValueError(f"X has a signal in row {row} that is too large to compute with in {outputs.dtype}.")
        return outputs

    def _encode(self, X: Any) -> sp.csr_array:
        parts, training = self._parts(X.shape[1]), self._training
        settings = {
            "lambda1": training.lambda1,
            "lambda2": self.lambda2,
            "positive": self.positive_code,
            "n_threads": self.n_threads,
        }
        columns = []
        for parameters in training.state.chosen:
            Z, D = parameters.Z, parameters.D
            signals = X
            if Z is not None:
                blocks = [chunk @ Z.T.astype(chunk.dtype, copy=False) for _, chunk in self._chunks(X)]
                signals = np.concatenate(blocks)
            for part in parts or (Part(slice(0, len(D))),):
                seen = signals if part.features is None else signals[:, part.features]
                columns.append(sparse_encode(seen, part.dictionary(D), **settings))
        return columns[0] if len(columns) == 1 else sp.csr_array(sp.hstack(columns, format="csr"))

    def _learned(self) -> tuple[storage.Arrays, dict[str, Any]]:
        return self._training.to_file()

    def _set_learned(self, arrays: storage.Arrays, learned: dict[str, Any]) -> None:
        self._check_parameters()
        self._publish(Training.from_file(arrays, learned, self._model(), sum(self._sizes())))
        self._parts(self.n_features_in_)

    def _publish(self, training: Training) -> None:
        self._training = training
        self.n_features_in_ = self._n_features_seen()


def _outside(training: Training) -> list[Parameters]:
    """Return the parameters of each model as they fit the signals and targets of the user."""
    return [training.scaling.outside(parameters) for parameters in training.state.chosen]


def _cast(parameters: Parameters, dtype: Any) -> Parameters:
    """Return the parameters in a dtype."""
    arrays = {name: np.ascontiguousarray(a, dtype) for name, a in vars(parameters).items() if a is not None}
    return Parameters(**arrays)
