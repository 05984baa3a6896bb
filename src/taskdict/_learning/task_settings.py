"""The parameters of a task-driven training, parsed once into a frozen value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskdict._coding.coded_batch import Part
from taskdict._common.validation import (
    Check,
    check_count,
    check_flag,
    check_number,
    check_parameters,
    check_penalty,
    one_of,
    optional,
)
from taskdict._learning.models import MODELS, Model, model_named
from taskdict._learning.scaling import Scaling
from taskdict._learning.schedule import Schedule
from taskdict.constraints import ConstraintSet
from taskdict.losses import LogisticLoss, is_loss

DEFAULT_LAMBDA1 = 0.15  # for signals of norm one, as in the paper
OF_THE_MODEL = (  # parameters that the codes and scores of a learned model depend on
    "n_components",
    "lambda2",
    "positive_code",
    "views",
    "decision",
    "n_measurements",
    "loss",
    "multi_class",
)
DEFAULT_COMPONENTS = 256  # atoms of a dictionary with n_components=None, at most
FEW_COMPONENTS = 100  # but so many as soon as there are signals and features enough
SIGNALS_PER_ATOM = 15  # beyond that
FEATURES_TIMES = 4  # atoms for each feature, at most
PASSES = 12  # over the samples with max_iter=None
LEAST_BATCHES, MOST_BATCHES = 60, 1000  # with max_iter=None
MANY_SAMPLES = 5000  # from which on a validation part costs little
VALIDATION_SAMPLES = 2000  # of such a part, at most
AUTO = "auto"


@dataclass(frozen=True)
class RateChoice:
    """The parameter `learning_rate`: a number ρ, or a rule that finds it."""

    rho: float | None  # None is to be found
    adaptive: bool = False
    pace: float | None = None  # of adaptive steps, None is to be found


@dataclass(frozen=True)
class TaskSettings:
    """The parameters that :class:`TaskDrivenClassifier` and :class:`TaskDrivenRegressor` share, after all checks.

    Every field has the name of its parameter; `parse` is the only place that raises for one.
    """

    n_components: tuple[int, ...] | None  # of each dictionary; None is to be found
    lambda1: float | None
    lambda2: float
    nu: float | None
    loss: Any
    decision: str
    mu: tuple[float, ...]
    n_measurements: int | None
    transform_init: Any
    nu2: float
    views: Sequence[Any] | None
    positive_code: bool
    positive_dictionary: bool
    coef_set: ConstraintSet | None
    transform_set: ConstraintSet | None
    fit_intercept: bool
    batch_size: int
    max_iter: int | None  # None is to be found
    learning_rate: RateChoice
    average: bool
    dictionary_init: Any
    early_stopping: bool | None  # None is to be found
    validation_fraction: float
    n_iter_no_change: int
    warm_start: bool
    multi_class: str = ""
    class_weight: Any = None
    given: Mapping[str, Any] = field(default_factory=dict)  # the parameters that a model file must hold as they were

    @classmethod
    def parse(cls, parameters: Mapping[str, Any], losses: Sequence[str]) -> TaskSettings:
        """Return the settings of an estimator; raise for parameters that make no sense.

        Parameters
        ----------
        parameters : dict
            Of the estimator.
        losses : sequence of str
            The losses that it has names for.
        """
        values = check_parameters(parameters, {**CHECKS, "loss": _loss_check(losses)})
        sizes, views = values["n_components"], values["views"]
        if sizes is not None and views is not None and not np.iterable(parameters["n_components"]):
            values["n_components"] = sizes * len(views)
        given = {name: parameters[name] for name in OF_THE_MODEL if name in parameters}
        if values.get("multi_class") == AUTO and not isinstance(values["loss"], (str, LogisticLoss)):
            given["multi_class"] = "ovr"  # as "auto" is for this loss, which a file does not hold
        settings = cls(**values, given=given)
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        """Raise for parameters that make no sense together."""
        if self.n_components is not None and self.views is not None and len(self.n_components) != len(self.views):
            raise ValueError(
                f"n_components names {len(self.n_components)} dictionaries, but there are {len(self.views)} views."
            )
        if self.validation_fraction == 0 and self.early_stopping:
            raise ValueError(
                "validation_fraction must be between 0 and 1, and 0 only without early_stopping, "
                f"got {self.validation_fraction!r}."
            )
        if self.n_measurements is not None and self.views is not None:
            raise ValueError("views and n_measurements cannot be used together: measurements mix all features.")
        if self.n_measurements is not None and self.decision == "joint":
            raise ValueError(
                "decision='joint' and n_measurements cannot be used together: the model would see all of the signal."
            )
        if self.n_measurements is not None:
            one_of_or_array("transform_init", self.transform_init, "pca", "random")
        if isinstance(self.dictionary_init, str):
            if not self.multi_class:
                raise TypeError(f"dictionary_init must be an array or None, got {self.dictionary_init!r}.")
            if self.dictionary_init != "classes":
                raise ValueError(f"dictionary_init must be 'classes', an array or None, got {self.dictionary_init!r}.")
            if self.views is not None or (self.n_components is not None and len(self.n_components) > 1):
                raise ValueError("dictionary_init='classes' is for one dictionary per model, not for several or views.")
        if not isinstance(self.loss, str) and self.multi_class in ("softmax", "onehot"):
            raise ValueError(
                f"multi_class={self.multi_class!r} has a loss of its own: a loss object is for 'ovr' and 'ovo'."
            )

    @property
    def n_dictionaries(self) -> int:
        """The number of dictionaries of a model."""
        if self.n_components is not None:
            return len(self.n_components)
        return 1 if self.views is None else len(self.views)

    @property
    def model(self) -> Model:
        """How scores follow from codes, for signals in any units; with "auto", it is to be found."""
        return model_named(self.decision)

    @property
    def decisions(self) -> tuple[str, ...]:
        """The models to choose from."""
        if self.decision != AUTO:
            return (self.decision,)
        codes = "linear" if self.positive_code else "split"  # the negative parts of such codes are zero
        return (codes,) if self.n_measurements is not None else (codes, "joint")

    @property
    def is_open(self) -> bool:
        """Whether λ1 or the model is to be found."""
        return self.lambda1 is None or self.decision == AUTO

    def validation(self, n_samples: int | None) -> float:
        """Return the fraction of the samples to keep for validation, 0 if there is nothing to choose on it.

        Parameters
        ----------
        n_samples : int or None
            Samples with targets, None if unknown.
        """
        if self.early_stopping or len(self.mu) > 1:
            return self.validation_fraction
        if self.early_stopping is False or self.max_iter is not None:
            return 0.0
        if n_samples is None:
            return self.validation_fraction
        return min(self.validation_fraction, VALIDATION_SAMPLES / n_samples) if n_samples >= MANY_SAMPLES else 0.0

    @property
    def is_tried(self) -> bool:
        """Whether a trial on a part of the samples comes first, if there is no validation part."""
        return self.early_stopping is None and self.max_iter is None and self.validation_fraction > 0

    def stops_early(self, has_validation: bool) -> bool:
        """Return whether the training may end before its last batch, with a validation part or without."""
        if self.early_stopping is None:
            return has_validation and len(self.mu) == 1
        return self.early_stopping

    def samples_of_batch(self, batch_factor: float) -> int:
        """Return the number of samples to take for each batch, of which each model sees a part."""
        return max(1, round(batch_factor * self.batch_size))

    def n_batches(self, n_samples: int | None, batch_factor: float = 1.0) -> int:
        """Return the number of batches for each μ."""
        if self.max_iter is not None:
            return self.max_iter
        if n_samples is None:
            return MOST_BATCHES
        batches = round(PASSES * n_samples / self.samples_of_batch(batch_factor))
        return min(MOST_BATCHES, max(LEAST_BATCHES, batches))

    def sizes(self, n_features: int, n_signals: int | None) -> tuple[int, ...]:
        """Return the number of atoms of each dictionary of a model for so many signals, None if unknown."""
        if self.n_components is not None:
            return self.n_components
        if self.dictionary_init is not None and not isinstance(self.dictionary_init, str):
            return self._sizes_of_given_atoms(len(self.dictionary_init))
        width = n_features if self.n_measurements is None else self.n_measurements
        most = min(DEFAULT_COMPONENTS, FEATURES_TIMES * width)
        if n_signals is None:
            wanted = FEW_COMPONENTS
        else:
            wanted = min(max(FEW_COMPONENTS, n_signals // SIGNALS_PER_ATOM), n_signals // 2)
        return (max(1, min(wanted, most)),) * self.n_dictionaries

    def _sizes_of_given_atoms(self, n_atoms: int) -> tuple[int, ...]:
        """Return the number of atoms of each dictionary where all of them are given."""
        each, rest = divmod(n_atoms, self.n_dictionaries)
        if rest != 0 or each == 0:
            raise ValueError(
                f"n_components must say how many of the {n_atoms} atoms in dictionary_init belong to each of the "
                f"{self.n_dictionaries} views."
            )
        return (each,) * self.n_dictionaries

    def candidate_sizes(
        self, n_features: int, n_samples: int | None, n_signals: int | None
    ) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of atoms to choose from: for all signals and, if some have no target, for the others."""
        found = [self.sizes(n_features, n_signals)]
        if self.is_open and n_samples != n_signals:
            found.append(self.sizes(n_features, n_samples))
        return tuple(dict.fromkeys(found))

    def parts(self, sizes: Sequence[int], n_features: int) -> tuple[Part, ...]:
        """Return the dictionaries of a model, nothing if it has one for all features."""
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

    def schedule(self, scaling: Scaling) -> Schedule:
        """Return how long to learn, and with which steps; the number of batches must be known."""
        assert self.max_iter is not None
        return Schedule(
            self.max_iter,
            self.mu,
            rho=self.learning_rate.rho,
            adaptive=self.learning_rate.adaptive,
            first_pace=self.learning_rate.pace,
            reconstruction=scaling.of_reconstruction,
            patience=self.n_iter_no_change if self.early_stopping else None,
            average=self.average,
            relative_nu=self.nu is None,
        )


def default_components(n_features: int, n_signals: int) -> int:
    """Return a number of atoms: as many as features, but not many, nor more than signals."""
    return max(1, min(n_features, DEFAULT_COMPONENTS, n_signals))


def one_of_or_array(name: str, value: Any, *words: str) -> Any:
    """Return one of some words, or an array, which is checked where its shape is known."""
    if isinstance(value, str) and value not in words:
        raise ValueError(f"{name} must be {', '.join(map(repr, words))} or an array, got {value!r}.")
    return value


def _loss_check(losses: Sequence[str]) -> Check:
    def check(name: str, value: Any) -> Any:
        if isinstance(value, str):
            if value not in losses:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, losses))} or a loss, got {value!r}.")
        elif not is_loss(value):
            raise TypeError(
                f"{name} must be a string or have a method evaluate or evaluate_codes, see taskdict.losses, "
                f"got {value!r}."
            )
        return value

    return check


def _check_sizes(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        sizes = tuple(check_count(name, size) for size in value)
        if len(sizes) == 0:
            raise ValueError(f"{name} must name at least one dictionary, got an empty sequence.")
        return sizes
    return (check_count(name, value),)


def _check_views(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)) or len(value) == 0:
        raise TypeError(f"{name} must be a list of slices or of lists of features, or None, got {value!r}.")
    return value


def _check_mus(name: str, value: Any) -> tuple[float, ...]:
    values = list(value) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) else [value]
    if len(values) == 0:
        raise ValueError(f"{name} must be a number or a sequence of numbers between 0 and 1, got an empty sequence.")
    numbers = tuple(check_number(name, number) for number in values)
    if not all(0 <= number <= 1 for number in numbers):
        raise ValueError(f"{name} must be between 0 and 1, got {value!r}.")
    return numbers


def _check_rate(name: str, value: Any) -> RateChoice:
    message = (
        f"{name} must be 'auto', a positive number, 'adaptive', or ('adaptive', pace) with a positive number, got "
        f"{value!r}."
    )
    if isinstance(value, str):
        if value not in ("auto", "adaptive"):
            raise ValueError(message)
        return RateChoice(None, value == "adaptive")
    if isinstance(value, (tuple, list)):
        if len(value) != 2 or value[0] != "adaptive" or not 0 < check_number(name, value[1]) < np.inf:
            raise ValueError(message)
        return RateChoice(None, True, float(value[1]))
    if check_number(name, value) <= 0:
        raise ValueError(message)
    return RateChoice(float(value))


def _check_fraction(name: str, value: Any) -> float:
    fraction = check_number(name, value)
    if not 0 <= fraction < 1:
        raise ValueError(f"{name} must be between 0 and 1, and 0 only without early_stopping, got {value!r}.")
    return fraction


def _check_early_stopping(name: str, value: Any) -> bool | None:
    if isinstance(value, str) and value == AUTO:
        return None
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True, False or 'auto', got {value!r}.")
    return bool(value)


def _check_set(name: str, value: Any) -> Any:
    if not callable(getattr(value, "project", None)):
        raise TypeError(f"{name} must have a method project, see taskdict.constraints, or be None, got {value!r}.")
    return value


def _check_class_weight(name: str, value: Any) -> Any:
    if not (isinstance(value, dict) or (isinstance(value, str) and value == "balanced")):
        raise ValueError(f"{name} must be a dict, 'balanced' or None, got {value!r}.")
    return value


def _anything(name: str, value: Any) -> Any:
    """Return a value that is checked with others, or where the shape of the signals is known."""
    return value


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "views": optional(_check_views),
    "n_components": optional(_check_sizes),
    "lambda1": optional(check_penalty),
    "lambda2": check_penalty,
    "nu": optional(check_penalty),
    "decision": one_of(AUTO, *MODELS),
    "mu": _check_mus,
    "n_measurements": optional(check_count),
    "transform_init": _anything,
    "nu2": check_penalty,
    "positive_code": check_flag,
    "positive_dictionary": check_flag,
    "coef_set": optional(_check_set),
    "transform_set": optional(_check_set),
    "fit_intercept": check_flag,
    "batch_size": check_count,
    "max_iter": optional(check_count),
    "learning_rate": _check_rate,
    "average": check_flag,
    "dictionary_init": _anything,
    "early_stopping": _check_early_stopping,
    "validation_fraction": _check_fraction,
    "n_iter_no_change": check_count,
    "warm_start": check_flag,
    "multi_class": one_of(AUTO, "ovr", "ovo", "softmax", "onehot"),
    "class_weight": optional(_check_class_weight),
}
