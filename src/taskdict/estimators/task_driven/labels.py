"""Labels of classes: which there are, their numbers, their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from taskdict._common.validation import check_labels, unlabelled


def different_labels(y: Any, name: str = "y") -> NDArray[Any]:
    """Return the different labels, without −1 unless there is only 1 beside it."""
    y = check_labels(y, name)
    if y.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {y.shape}.")
    return np.unique(y[~unlabelled(y)])


def one_label_each(y: Any, n: int, things: str, name: str = "y") -> NDArray[Any]:
    """Return the labels of n things, one for each: finite whole numbers, or strings."""
    y = check_labels(y, name)
    if y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] != 1):
        raise ValueError(f"{name} must have one dimension, got shape {y.shape}.")
    if len(y) != n:
        raise ValueError(f"{name} has {len(y)} entries, but there are {n} {things}.")
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    check_classification_targets(labels[~unlabelled(labels)] if labels.dtype.kind == "O" else labels)
    return labels


def find_classes(y: Any, given: Any) -> NDArray[Any]:
    """Return the classes: those that are given or, if None, the labels of the samples."""
    if given is None and y is None:
        raise ValueError("classes must be passed to fit a stream whose labels are not known before.")
    classes = different_labels(y) if given is None else different_labels(given, "classes")
    if len(classes) < 2:
        raise ValueError(
            f"{'y' if given is None else 'classes'} must have at least two classes, got {len(classes)} class "
            f"({', '.join(map(str, classes))}). "
            "Unlabelled signals (-1) do not count; a class of that label needs another one."
        )
    return classes


def class_numbers(y: Any, classes: NDArray[Any], weights: NDArray[Any] | None = None) -> NDArray[np.intp]:
    """Return the numbers of the classes, −1 for unlabelled signals."""
    y = check_labels(y)
    if y.ndim != 1:
        raise ValueError(f"y must have one label for each signal, got shape {y.shape}.")
    numeric = y.dtype.kind in "iufb"
    if numeric != (classes.dtype.kind in "iufb"):
        raise ValueError(f"y has labels of dtype {y.dtype}, but the classes are {classes.tolist()}.")
    none = (y == -1) if numeric and y.dtype.kind != "u" else np.zeros(len(y), bool)
    if y.dtype.kind == "O":
        none = unlabelled(y)
        y = np.where(none, classes[0], y)
    numbers = np.searchsorted(classes, y)
    numbers[numbers == len(classes)] = 0
    known = (classes[numbers] == y) & ~(none if y.dtype.kind == "O" else np.zeros(len(y), bool))
    if weights is not None:  # samples that do not count may have any label
        none = none | (weights == 0)
    if not (known | none).all():
        raise ValueError(f"y has the label {y[~(known | none)][0]}, which is not among the classes {classes.tolist()}.")
    return np.where(known, numbers, -1)


def class_weigher(class_weight: Any, classes: NDArray[Any]) -> Callable[[NDArray[np.intp]], NDArray[np.float64]] | None:
    """Return a function of class numbers that gives weights, "balanced" on those that it is first called with."""
    if class_weight is None:
        return None
    weights: NDArray[np.float64] | None = None

    def weigh(numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        nonlocal weights
        if weights is None:
            labels = classes[numbers[numbers >= 0]] if isinstance(class_weight, str) else classes
            present = np.unique(labels)
            weights = np.ones(len(classes))
            weights[np.searchsorted(classes, present)] = compute_class_weight(class_weight, classes=present, y=labels)
            if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
                raise ValueError(
                    "class_weight must be finite, not negative and not all zero, got "
                    f"{dict(zip(classes.tolist(), weights.tolist(), strict=True))}."
                )
        return weights[numbers]

    return weigh
