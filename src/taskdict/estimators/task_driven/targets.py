"""The targets of a task: the labels of classes, or columns of numbers.

Targets know the loss of each model, how many models and outputs there are, and which samples a model learns from. They
open the source of batches of a fit, in which targets are numbers: those of the classes, or the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskdict._common.arrays import Floats
from taskdict._common.validation import check_targets, unlabelled
from taskdict._files import storage
from taskdict._learning.committee import Select
from taskdict._learning.comparison import weighed
from taskdict._learning.models import CONSTANT
from taskdict._learning.scaling import size_of
from taskdict._learning.task_settings import TaskSettings
from taskdict.estimators.task_driven.class_coding import ClassCoding, class_coding
from taskdict.estimators.task_driven.labels import class_numbers, class_weigher, find_classes, one_label_each
from taskdict.losses import NAMED, CodeLoss, Loss, SoftmaxLoss, SquaredLoss, is_quadratic
from taskdict.streams import Stream
from taskdict.streams.pairs import ArrayPairs, Source, StreamPairs, check_weights, refuse_unlabelled

LEAST_VALIDATION = 20  # samples in a validation part that nobody has asked for
MAX_LABEL_CHARACTERS = 2**24  # in a file, if all labels were as long as the longest: so NumPy stores them


@dataclass(frozen=True)
class Request:
    """The data of a fit, and how batches are to be drawn from them.

    `X` is a stream, or signals that were checked. `position` is where batches are to continue, None at the beginning.
    """

    X: Any
    y: Any
    sample_weight: Any
    validation: Callable[[int | None], float]  # the fraction to keep, of so many samples with targets
    seed: int
    position: Any = None
    classes: ArrayLike | None = None  # all labels, for a classifier


class Targets(Protocol):
    """What a fit needs to know of its targets."""

    @property
    def settings(self) -> TaskSettings:
        """The parameters of the fit."""

    @property
    def loss(self) -> Loss | CodeLoss:
        """The loss of each model."""

    @property
    def selects(self) -> list[Select]:
        """For each model, a function that returns the rows it learns from and their targets."""

    @property
    def n_outputs(self) -> int:
        """Outputs of each model."""

    @property
    def batch_factor(self) -> float:
        """How many samples a batch needs for each that a model learns from."""

    def like(self, other: Any) -> Self:
        """Return these targets with the classes or columns of an earlier fit."""

    def open(self, request: Request) -> tuple[Source, Self]:
        """Return a source of batches, and these targets with the classes or columns that were found."""

    @property
    def linear_task(self) -> tuple[Loss, int]:
        """The loss and the number of outputs of a linear model, where the task is more than one model of scores."""

    def numbers(self, y: Any) -> Floats:
        """Return the targets of a batch as columns of numbers, for least squares."""

    def errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return the error of each sample times its weight; one minus their mean is the score of the estimator."""

    def linear_errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return the same for the scores of a linear model on the signals."""

    def constant_score(self, y: Any, weights: Floats | None) -> float:
        """Return the score of the best model that is the same for all signals."""

    def scaling(self, y: Floats, fit_intercept: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the size of the targets and their offset, for each output or one for all."""

    def to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return the targets for a model file."""


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Labels of classes; `classes` are those known before, None if they are to be found."""

    settings: TaskSettings
    classes: NDArray[Any] | None = None

    @property
    def coding(self) -> ClassCoding:
        """How classes become the targets of models."""
        assert self.classes is not None
        return class_coding(self.settings.multi_class, self.settings.loss, len(self.classes))

    @property
    def loss(self) -> Loss | CodeLoss:
        """The loss of each model."""
        return self.coding.loss

    @property
    def selects(self) -> list[Select]:
        """For each model, a function that returns the rows it learns from and their targets."""
        return self.coding.selects

    @property
    def n_outputs(self) -> int:
        """Outputs of each model."""
        return self.coding.n_outputs

    @property
    def batch_factor(self) -> float:
        """How many samples a batch needs for each that a model learns from."""
        return self.coding.batch_factor

    @property
    def linear_task(self) -> tuple[Loss, int]:
        """Multinomial logistic regression."""
        assert self.classes is not None
        return SoftmaxLoss(), len(self.classes)

    def numbers(self, y: Any) -> Floats:
        """Return the indicators of the classes."""
        assert self.classes is not None
        indicators: Floats = (y[:, None] == np.arange(len(self.classes))).astype(np.float64)
        return indicators

    def errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return 1 for each sample that gets a wrong class, times its weight."""
        return weighed(np.asarray(self.coding.predict(scores) != y, np.float64), weights)

    def linear_errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return 1 for each sample that gets a wrong class, times its weight."""
        return weighed(np.asarray(scores.argmax(axis=1) != y, np.float64), weights)

    def constant_score(self, y: Any, weights: Floats | None) -> float:
        """Return the share of the most frequent class."""
        sizes = np.bincount(y, weights)
        return float(sizes.max() / sizes.sum())

    def scaling(self, y: Floats, fit_intercept: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return no change: targets are numbers of classes."""
        return (1.0,), (0.0,)

    def like(self, other: ClassTargets) -> ClassTargets:
        """Return these targets with the classes of an earlier fit."""
        return ClassTargets(self.settings, other.classes)

    def open(self, request: Request) -> tuple[Source, ClassTargets]:
        """Return a source of batches, and these targets with their classes."""
        return self._open_stream(request) if isinstance(request.X, Stream) else self._open_array(request)

    def _open_stream(self, request: Request) -> tuple[Source, ClassTargets]:
        X, settings = request.X, self.settings
        _check_stream(X, request, "labels")
        classes = find_classes(X.targets, request.classes) if self.classes is None else self.classes
        use_unlabelled = max(settings.mu) > 0
        source = StreamPairs(
            X,
            lambda labels: class_numbers(labels, classes),
            labels=True,
            validation=self._validation(request),
            use_unlabelled=use_unlabelled,
            weigh=class_weigher(settings.class_weight, classes),
            position=request.position,
        )
        if source.n_unlabelled > 0 and not use_unlabelled:
            refuse_unlabelled(source.n_unlabelled)
        return source, ClassTargets(settings, classes)

    def _validation(self, request: Request) -> float:
        """Return the fraction of a stream to keep for validation.

        Where there are several versions of each sample, a trial would compare on versions of what it has learned from:
        there is a validation part even of few samples.
        """
        if not request.X.has_versions:
            return request.validation(request.X.n_signals)
        fraction = request.validation(None)
        few = fraction * int((~unlabelled(request.X.targets)).sum()) < LEAST_VALIDATION
        return 0.0 if few and self.settings.early_stopping is None and len(self.settings.mu) == 1 else fraction

    def _open_array(self, request: Request) -> tuple[Source, ClassTargets]:
        X, settings = request.X, self.settings
        y = one_label_each(_required(request.y), X.shape[0], "signals")
        weights = check_weights(request.sample_weight, X.shape[0])
        classes = self.classes
        if classes is None:
            classes = find_classes(y if weights is None else y[weights > 0], request.classes)
        numbers = class_numbers(y, classes, weights)
        counted = np.ones(len(y), bool) if weights is None else weights > 0
        if not (numbers[counted] >= 0).any():
            raise ValueError("y must have labels, but all are -1 (unlabelled).")
        use_unlabelled = max(settings.mu) > 0
        n_unlabelled = int(((numbers < 0) & counted).sum())
        if n_unlabelled > 0 and not use_unlabelled:
            refuse_unlabelled(n_unlabelled)
        weigh = class_weigher(settings.class_weight, classes)
        if weigh is not None:
            weights = np.where(numbers >= 0, weigh(numbers), 1) * (1 if weights is None else weights)
        source = ArrayPairs(
            X,
            numbers,
            weights,
            labels=True,
            validation=request.validation(int(((numbers >= 0) & counted).sum())),
            use_unlabelled=use_unlabelled,
            seed=request.seed,
        )
        return source, ClassTargets(settings, classes)

    def to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return the classes for a model file."""
        classes = self.classes
        assert classes is not None
        if classes.dtype.kind in "iufb":
            return {"classes": classes}, {"classes": None}
        if not all(isinstance(label, str) for label in classes):
            raise ValueError("a file can hold labels that are numbers or strings only.")
        return {}, {"classes": [str(label) for label in classes], "object": classes.dtype == object}

    @classmethod
    def from_file(cls, arrays: storage.Arrays, document: dict[str, Any], settings: TaskSettings) -> ClassTargets:
        """Return the targets of a model file, after all checks."""
        if document["classes"] is None:
            classes = arrays["classes"]
        else:
            labels = [str(label) for label in document["classes"]]
            if len(labels) * max(map(len, labels), default=0) > MAX_LABEL_CHARACTERS:
                raise ValueError(f"its labels need more than {MAX_LABEL_CHARACTERS} characters, where all are as long")
            classes = np.array(labels, dtype=object if document["object"] else None)
        if classes.ndim != 1 or not np.array_equal(np.unique(classes), classes):
            raise ValueError("its classes make no sense")
        n, n_models, n_outputs = len(classes), len(arrays["rhos"]), arrays["b"].shape[1]
        n_scores = n * (n - 1) // 2 if settings.multi_class == "ovo" else n  # or one, for two classes
        if n_scores > max(2, n_models, n_outputs):  # before anything is made for each of them
            raise ValueError("its arrays do not fit its classes")
        targets = cls(settings, classes)
        if n_models != len(targets.selects) or n_outputs != targets.n_outputs:
            raise ValueError("its arrays do not fit its classes")
        return targets


@dataclass(frozen=True)
class ColumnTargets:
    """Columns of numbers; `flat` says whether y has one dimension. The number of columns is None if it is not known."""

    settings: TaskSettings
    flat: bool = False
    n_columns: int | None = None

    @property
    def loss(self) -> Loss | CodeLoss:
        """The loss of the model."""
        loss: Loss | CodeLoss = NAMED[self.settings.loss] if isinstance(self.settings.loss, str) else self.settings.loss
        return loss

    @property
    def selects(self) -> list[Select]:
        """One model, which learns from all rows."""
        return [lambda y: (None, y)]

    @property
    def n_outputs(self) -> int:
        """One output for each column."""
        assert self.n_columns is not None
        return self.n_columns

    @property
    def batch_factor(self) -> float:
        """The model learns from all samples."""
        return 1.0

    @property
    def linear_task(self) -> tuple[Loss, int]:
        """Ridge regression."""
        return SquaredLoss(), self.n_outputs

    def numbers(self, y: Any) -> Floats:
        """Return the columns as they are."""
        columns: Floats = y
        return columns

    def errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return squared errors relative to the variance of each column, averaged over the columns, times weights."""
        y, off = np.asarray(y, np.float64), np.square(np.asarray(y, np.float64) - np.asarray(scores, np.float64))
        shares = weighed(np.full(len(y), 1 / max(1, len(y))), weights)
        mean = shares @ y
        spread = shares @ np.square(y - mean)
        rounding = np.square(CONSTANT * np.finfo(scores.dtype).eps * np.abs(mean))
        constant = spread <= rounding  # then a prediction is right or wrong
        relative = np.where(constant, off > rounding, off / np.where(constant, 1, spread))
        return weighed(relative.mean(axis=1), weights)

    def linear_errors(self, y: Any, scores: Floats, weights: Floats | None = None) -> NDArray[np.float64]:
        """Return the same errors."""
        return self.errors(y, scores, weights)

    def constant_score(self, y: Any, weights: Floats | None) -> float:
        """Return the R² of the mean."""
        return 0.0

    def scaling(self, y: Floats, fit_intercept: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return units in which targets are of size one; no change unless the loss is quadratic.

        With an intercept each column has a mean and a size of its own, so that all columns count as much. Without one
        the columns have a common size.
        """
        n_columns = y.shape[1]
        if not is_quadratic(self.loss):
            return (1.0,), (0.0,) * n_columns
        if not fit_intercept:
            return (size_of(y) or 1.0,), (0.0,) * n_columns
        wide = y.astype(np.float64)
        offset = wide.mean(axis=0)
        offset += (wide - offset).mean(axis=0)  # without the rounding of a large mean
        sizes = np.array([size_of(column[:, None]) for column in (wide - offset).T])
        changes = sizes > CONSTANT * np.finfo(y.dtype).eps * np.abs(offset)
        sizes = np.where(changes, sizes * np.sqrt(max(1, changes.sum())), 1.0)
        return tuple(sizes.tolist()), tuple(offset.tolist())

    def like(self, other: ColumnTargets) -> ColumnTargets:
        """Return these targets with the columns of an earlier fit."""
        return ColumnTargets(self.settings, other.flat, other.n_columns)

    def open(self, request: Request) -> tuple[Source, ColumnTargets]:
        """Return a source of batches, and these targets with their number of columns."""
        X, columns = request.X, _Columns(self)
        if isinstance(X, Stream):
            _check_stream(X, request, "targets")
            stream = StreamPairs(
                X,
                columns.read,
                labels=False,
                validation=request.validation(X.n_signals),
                use_unlabelled=False,
                position=request.position,
            )
            return stream, columns.targets
        targets = columns.read(_required(request.y))
        if len(targets) != X.shape[0]:
            raise ValueError(f"y has {len(targets)} targets, but X has {X.shape[0]} signals.")
        weights = check_weights(request.sample_weight, X.shape[0])
        source = ArrayPairs(
            X,
            targets,
            weights,
            labels=False,
            validation=request.validation(len(targets) if weights is None else int((weights > 0).sum())),
            use_unlabelled=False,
            seed=request.seed,
        )
        return source, columns.targets

    def to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return the targets for a model file."""
        return {}, {"targets": [self.flat, self.n_columns]}

    @classmethod
    def from_file(cls, arrays: storage.Arrays, document: dict[str, Any], settings: TaskSettings) -> ColumnTargets:
        """Return the targets of a model file, after all checks."""
        flat, n_columns = document["targets"]
        if arrays["b"].shape[1] != n_columns:
            raise ValueError("its arrays do not fit each other")
        return cls(settings, bool(flat), int(n_columns))


class _Columns:
    """Reads targets as columns of finite numbers; the first ones decide how many there are."""

    def __init__(self, targets: ColumnTargets) -> None:
        self.targets = targets

    def read(self, y: Any) -> Floats:
        """Return targets as columns, as many as before."""
        y = check_targets(y)
        flat = y.ndim == 1
        columns: NDArray[Any] = y[:, None] if flat else y
        columns = columns.astype(np.float64) if columns.dtype.kind != "f" else columns
        known = self.targets
        if known.n_columns is not None and (known.flat, known.n_columns) != (flat, columns.shape[1]):
            raise ValueError(
                f"y has {columns.shape[1]} columns (shape {y.shape}), but the model has {known.n_columns} outputs."
            )
        self.targets = ColumnTargets(known.settings, flat, columns.shape[1])
        return columns


def _required(y: Any) -> Any:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    return y


def _check_stream(stream: Stream, request: Request, targets: str) -> None:
    """Raise unless a stream has targets, and the only ones."""
    if request.y is not None or request.sample_weight is not None:
        raise TypeError(f"y and sample_weight must be None for a stream: taskdict.stream(source, y) has the {targets}.")
    if not stream.has_targets:
        raise TypeError(
            f"X is a stream of signals only: taskdict.stream(source, y) makes one with {targets}; y is 'pairs' for an "
            f"iterator that gives pairs (signals, {targets})."
        )
