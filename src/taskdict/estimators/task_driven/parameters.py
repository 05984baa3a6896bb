"""The parameters of the task-driven estimators: checks, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskdict._validation import check_count, check_flag, check_number, check_penalty
from taskdict.gradients import Part
from taskdict.losses import CodeLoss, Loss
from taskdict.models import BilinearModel, LinearModel, Model


class TaskParameters:
    """Reads the parameters that :class:`TaskDrivenClassifier` and :class:`TaskDrivenRegressor` share."""

    _LOSSES: tuple[str, ...]  # names of losses
    n_components: Any
    lambda1: Any
    lambda2: Any
    nu: Any
    loss: Any
    decision: str
    mu: Any
    n_measurements: Any
    transform_init: Any
    nu2: Any
    views: Any
    positive_code: Any
    positive_dictionary: Any
    coef_set: Any
    transform_set: Any
    fit_intercept: Any
    batch_size: Any
    max_iter: Any
    learning_rate: Any
    average: Any
    dictionary_init: Any
    early_stopping: Any
    validation_fraction: Any
    n_iter_no_change: Any
    checkpoint: Any
    random_state: Any
    n_threads: Any
    verbose: Any
    callbacks: Any
    warm_start: Any

    def _check_parameters(self) -> None:
        """Raise for parameters that make no sense, before anything is read."""
        self._sizes()
        for name in ("lambda2", "nu2"):
            check_penalty(name, getattr(self, name))
        for name in ("lambda1", "nu"):
            if getattr(self, name) is not None:
                check_penalty(name, getattr(self, name))
        for name in (
            "positive_code",
            "positive_dictionary",
            "fit_intercept",
            "average",
            "early_stopping",
            "warm_start",
        ):
            check_flag(name, getattr(self, name))
        for name in ("batch_size", "max_iter", "n_iter_no_change"):
            check_count(name, getattr(self, name))
        self._mus()
        if self.decision not in ("linear", "bilinear"):
            raise ValueError(f"decision must be 'linear' or 'bilinear', got {self.decision!r}.")
        self._check_loss()
        self._steps()
        fraction = check_number("validation_fraction", self.validation_fraction)
        if not 0 <= fraction < 1 or (fraction == 0 and self.early_stopping):
            raise ValueError(
                "validation_fraction must be between 0 and 1, and 0 only without early_stopping, "
                f"got {self.validation_fraction!r}."
            )
        for name in ("coef_set", "transform_set"):
            kept = getattr(self, name)
            if kept is not None and not callable(getattr(kept, "project", None)):
                raise TypeError(
                    f"{name} must have a method project, see taskdict.constraints, or be None, got {kept!r}."
                )
        if self.n_measurements is not None:
            check_count("n_measurements", self.n_measurements)
            if self.views is not None:
                raise ValueError("views and n_measurements cannot be used together: measurements mix all features.")
            if isinstance(self.transform_init, str) and self.transform_init not in ("pca", "random"):
                raise ValueError(f"transform_init must be 'pca', 'random' or an array, got {self.transform_init!r}.")
        self._check_dictionary_init()

    def _steps(self) -> tuple[float | None, bool, float | None]:
        """Return ρ, whether steps are adaptive, and the pace of these; None for what is to be found."""
        rate = self.learning_rate
        message = (
            "learning_rate must be 'auto', a positive number, 'adaptive', or ('adaptive', pace) with a positive "
            f"number, got {rate!r}."
        )
        if isinstance(rate, str):
            if rate not in ("auto", "adaptive"):
                raise ValueError(message)
            return None, rate == "adaptive", None
        if isinstance(rate, (tuple, list)):
            if len(rate) != 2 or rate[0] != "adaptive" or not 0 < check_number("learning_rate", rate[1]) < np.inf:
                raise ValueError(message)
            return None, True, float(rate[1])
        if check_number("learning_rate", rate) <= 0:
            raise ValueError(message)
        return float(rate), False, None

    def _check_dictionary_init(self) -> None:
        if isinstance(self.dictionary_init, str):
            raise TypeError(f"dictionary_init must be an array or None, got {self.dictionary_init!r}.")

    def _check_loss(self) -> None:
        if isinstance(self.loss, str):
            if self.loss not in self._LOSSES:
                raise ValueError(
                    f"loss must be one of {', '.join(map(repr, self._LOSSES))} or a loss, got {self.loss!r}."
                )
        elif isinstance(self.loss, type) or not isinstance(self.loss, (Loss, CodeLoss)):
            raise TypeError(
                "loss must be a string or have a method evaluate or evaluate_codes, see taskdict.losses, "
                f"got {self.loss!r}."
            )

    def _mus(self) -> tuple[float, ...]:
        """Return μ, or the values that it takes one after the other."""
        mu = self.mu
        values = list(mu) if isinstance(mu, (Sequence, np.ndarray)) and not isinstance(mu, str) else [mu]
        if len(values) == 0:
            raise ValueError("mu must be a number or a sequence of numbers between 0 and 1, got an empty sequence.")
        numbers = tuple(check_number("mu", value) for value in values)
        if not all(0 <= number <= 1 for number in numbers):
            raise ValueError(f"mu must be between 0 and 1, got {mu!r}.")
        return numbers

    def _sizes(self) -> list[int]:
        """Return the number of atoms of each dictionary of a model."""
        if self.views is not None and (not isinstance(self.views, (list, tuple)) or len(self.views) == 0):
            raise TypeError(f"views must be a list of slices or of lists of features, or None, got {self.views!r}.")
        several = self.n_components
        if isinstance(several, (Sequence, np.ndarray)) and not isinstance(several, str):
            sizes = [check_count("n_components", size) for size in several]
            if len(sizes) == 0:
                raise ValueError("n_components must name at least one dictionary, got an empty sequence.")
        else:
            sizes = [check_count("n_components", several)] * (1 if self.views is None else len(self.views))
        if self.views is not None and len(sizes) != len(self.views):
            raise ValueError(f"n_components names {len(sizes)} dictionaries, but there are {len(self.views)} views.")
        return sizes

    def _parts(self, n_features: int) -> tuple[Part, ...]:
        """Return the dictionaries of a model, nothing if it has one for all features."""
        sizes = self._sizes()
        if len(sizes) == 1 and self.views is None:
            return ()
        ends = np.cumsum([0, *sizes])
        parts = []
        for k in range(len(sizes)):
            features = None
            if self.views is not None:
                try:
                    features = np.arange(n_features)[self.views[k]]
                except (IndexError, TypeError):
                    features = np.empty(0, np.intp)
                if features.ndim != 1 or len(features) == 0 or len(np.unique(features)) != len(features):
                    raise ValueError(
                        f"views[{k}] must be a slice or a list of different features below {n_features}, "
                        f"got {self.views[k]!r}."
                    )
            parts.append(Part(slice(int(ends[k]), int(ends[k + 1])), features))
        return tuple(parts)

    def _model(self) -> Model:
        return LinearModel() if self.decision == "linear" else BilinearModel()
