"""The attributes and the files of the task-driven estimators; all of them follow from the learned task."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from taskdict._common.arrays import Floats
from taskdict._common.threads import resolve_threads
from taskdict._common.validation import check_flag
from taskdict._files import storage
from taskdict._files.persistent import parameters_from_file
from taskdict._learning.task_settings import TaskSettings
from taskdict.estimators.codes import CodesMixin, check_used, model_file
from taskdict.estimators.features import Features
from taskdict.estimators.task_driven.learned import LearnedTask
from taskdict.estimators.task_driven.targets import ClassTargets, ColumnTargets


class TaskAttributesMixin(CodesMixin):
    """Codes, scores and attributes of an estimator with a learned task in ``_learned``."""

    _LOSSES: tuple[str, ...]  # that have names
    _TARGETS: type[ClassTargets] | type[ColumnTargets]
    _learned: LearnedTask
    n_threads: Any
    get_params: Any

    def _settings(self) -> TaskSettings:
        """Return the parameters, after all checks."""
        return TaskSettings.parse(self.get_params(deep=False), self._LOSSES)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model, also after a training that was interrupted."""
        return "_learned" in vars(self)

    def _task(self) -> LearnedTask:
        check_is_fitted(self)
        return self._learned

    def _codes(self, X: Any) -> sp.csr_array:
        return self._task().codes(X, self.n_threads)

    def _scores(self, X: Any) -> Floats:
        """Return the outputs of all models side by side, of shape (n_samples, outputs)."""
        return self._task().scores(check_used(self, X), resolve_threads(self.n_threads))

    @property
    def components_(self) -> Floats:
        """The atoms of all dictionaries, one after the other."""
        return np.concatenate([weights.D for weights in self._task().training.state.chosen])

    @property
    def coef_(self) -> Floats:
        """The weights W of all models, one after the other."""
        return np.concatenate([weights.W for weights in self._task().weights])

    @property
    def intercept_(self) -> Floats:
        """The intercepts of all models."""
        return np.concatenate([weights.b for weights in self._task().weights])

    @property
    def transform_(self) -> Floats | None:
        """The matrix Z, of shape (n_measurements, n_features), one for each model if there are several."""
        learned = [weights.Z for weights in self._task().training.state.chosen]
        if learned[0] is None:
            return None
        return learned[0] if len(learned) == 1 else np.stack([Z for Z in learned if Z is not None])

    @property
    def learning_rate_(self) -> float | Floats:
        """The ρ of each model, for signals and targets of size one."""
        rhos = self._task().training.state.rhos
        return rhos[0] if len(rhos) == 1 else np.array(rhos)

    @property
    def lambda1_(self) -> float:
        """The weight of the ℓ1 norm that was used."""
        return self._task().training.lambda1

    @property
    def nu_(self) -> float:
        """The weight of the penalty on the model that was used."""
        return self._task().training.nu

    @property
    def decision_(self) -> str:
        """The model that was used."""
        return self._task().training.decision

    @property
    def held_out_scores_(self) -> dict[str, float] | None:
        """Scores on held-out samples of the model and of two baselines, None if no samples were held out."""
        comparison = self._task().training.comparison
        return None if comparison is None else comparison.scores

    @property
    def kept_(self) -> str:
        """Which of the three models of `held_out_scores_` is the result."""
        return self._task().training.best

    @property
    def n_iter_(self) -> int:
        """Number of batches."""
        return len(self._task().training.steps)

    @property
    def history_(self) -> dict[str, list[float]]:
        """The objective of each batch, and the loss of each check on the validation part."""
        steps = self._task().training.steps
        return {
            "objective": [step.objective for step in steps],
            "validation": [step.validation for step in steps if step.validation is not None],
            "validation_iter": [i + 1 for i, step in enumerate(steps) if step.validation is not None],
        }

    @property
    def _n_features_out(self) -> int:
        return sum(len(weights.D) for weights in self._task().training.state.chosen)

    def _summary(self) -> str:
        weights = self._task().training.state.chosen
        n_atoms, width = weights[0].D.shape
        models = f"{len(weights)} models, each with " if len(weights) > 1 else ""
        return (
            f"{models}{n_atoms} atoms of {width} {'features' if weights[0].Z is None else 'measurements'}, "
            f"lambda1 {self.lambda1_:.3g}, {self.n_iter_} batches"
        )

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        learned = self._task()
        return model_file(self, *learned.to_file(learned.training), learned.targets.settings.given)

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        parameters, arrays = parameters_from_file(arrays, document["parameters"])
        model = cls(**parameters)
        check_flag("sparse_output", model.sparse_output)
        model._learned = LearnedTask.from_file(arrays, document["learned"], model._settings(), cls._TARGETS)
        Features.from_document(document, model._learned.n_features).publish(model)
        return model
