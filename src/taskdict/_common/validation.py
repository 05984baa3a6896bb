"""Checks of arguments: each error names the argument, its value, the rule, and a remedy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted


def is_fitted(estimator: Any) -> bool:
    """Return whether an estimator has been fitted, also by a training that was interrupted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def refuse_masked(name: str, array: Any) -> None:
    """Raise for a masked array, or a list of such: NumPy would use the masked values like others."""
    items = array if isinstance(array, (list, tuple)) else (array,)
    if any(isinstance(item, np.ma.MaskedArray) for item in items):
        raise TypeError(f"{name} must not be a masked array: fill or drop the masked values first.")


def check_signals(X: Any, name: str = "X") -> Any:
    """Return X as a two-dimensional real array or CSR array, without a copy; finiteness is left to the core."""
    if sp.issparse(X):
        if X.format != "csr":
            raise TypeError(
                f"{name} must be dense or in CSR format, got {X.format.upper()}: call {name}.tocsr() first."
            )
        return _check_csr(_check_real_matrix(X, name), name)
    refuse_masked(name, X)
    return _check_real_matrix(np.asarray(X), name)


def _check_csr(X: Any, name: str) -> Any:
    """Return X if its index arrays are sound: the core trusts them."""
    indptr, indices = X.indptr, X.indices
    sound = len(indptr) == X.shape[0] + 1 and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
    sound = sound and indptr[-1] <= min(len(indices), len(X.data))
    used = indices[: indptr[-1]] if sound else indices
    if not sound or (len(used) and (used.min() < 0 or used.max() >= X.shape[1])):
        raise ValueError(f"{name} is not a valid CSR array: its indices or indptr do not fit its shape {X.shape}.")
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"{name} must have fewer than 2**31 features, got {X.shape[1]}.")
    return X


def check_dictionary(dictionary: ArrayLike, dtype: np.dtype[Any], name: str = "dictionary") -> NDArray[Any]:
    """Return the atoms as a finite C-contiguous matrix of the given dtype."""
    if sp.issparse(dictionary):
        raise TypeError(f"{name} must be dense, got a sparse array: call {name}.toarray() first.")
    refuse_masked(name, dictionary)
    return _check_atoms(_check_real_matrix(np.asarray(dictionary), name), dtype, name)


def check_dictionaries(dictionaries: NDArray[Any], dtype: np.dtype[Any], name: str = "dictionary") -> NDArray[Any]:
    """Return several dictionaries, one per entry of the first axis, as `check_dictionary` returns one."""
    n, p, m = dictionaries.shape
    atoms = _check_atoms(_check_real_matrix(dictionaries.reshape(n * p, m), name), dtype, name)
    return atoms.reshape(n, p, m)


def _check_atoms(atoms: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    if atoms.size == 0:
        raise ValueError(f"{name} must have at least one atom and one feature, got shape {atoms.shape}.")
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(atoms, dtype=dtype)
    if not np.isfinite(converted).all():
        row = int(np.flatnonzero(~np.isfinite(converted).all(axis=1))[0])
        if np.isfinite(atoms[row]).all():
            raise ValueError(f"{name} must fit the dtype of X, {dtype}, but atom {row} is too large for it.")
        raise ValueError(f"{name} must be finite, but atom {row} contains NaN or infinity.")
    return converted


def check_number(name: str, value: Any) -> float:
    """Return a real number as a float, infinite if it does not fit."""
    scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(scalar, (bool, np.bool_)) or not isinstance(scalar, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r}.")
    try:
        return float(scalar)
    except OverflowError:
        return math.inf


def check_penalty(name: str, value: Any) -> float:
    """Return a penalty as a finite non-negative float."""
    number = check_number(name, value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} must be finite and at least 0, got {number}.")
    return number


def check_positive(name: str, value: Any) -> float:
    """Return a finite positive float."""
    number = check_number(name, value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be a positive number, got {number}.")
    return number


def check_deviation(name: str, value: Any) -> float:
    """Return a standard deviation of noise in an image whose values are from 0 to 1."""
    deviation = check_positive(name, value)
    if deviation > 1:
        raise ValueError(
            f"{name} must be at most 1, since values are from 0 to 1, got {value!r}. For a standard deviation of "
            f"{value} on a scale of 0 to 255, give {deviation / 255:.3g}."
        )
    return deviation


def check_count(name: str, value: Any) -> int:
    """Return a number of things, at least one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a positive integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_target_kind(y: Any, name: str = "y", kinds: str = "iufbUO", what: str = "numbers or strings") -> NDArray[Any]:
    """Return labels or targets as an array of dtypes that may make sense: by default, those of either."""
    refuse_masked(name, y)
    if sp.issparse(y):
        raise TypeError(f"{name} must be dense, got a sparse array: call {name}.toarray() first.")
    targets: NDArray[Any] = np.asarray(y)
    if targets.dtype.kind not in kinds:
        raise TypeError(f"{name} must hold {what}, got dtype {targets.dtype}.")
    return targets


def check_labels(y: Any, name: str = "y") -> NDArray[Any]:
    """Return labels as an array of finite numbers or of strings; among strings, the number −1 is no label."""
    labels = check_target_kind(y, name)
    if labels.dtype.kind == "O":
        has_strings = any(isinstance(label, str) for label in labels.flat)
        for label in labels.flat:
            if not isinstance(label, str) and not (has_strings and _is_minus_one(label)):
                raise TypeError(
                    f"Unknown label type: {name} must hold numbers or strings, got dtype object with {label!r} in it: "
                    "convert it with astype(int) or astype(str)."
                )
    _check_finite(labels, name)
    return labels


def _is_minus_one(label: Any) -> bool:
    return isinstance(label, numbers.Integral) and label == -1


def check_targets(y: Any, name: str = "y") -> NDArray[Any]:
    """Return targets as an array of finite real numbers of one or two dimensions; those of objects become float64."""
    targets = check_target_kind(y, name, "fiubO", "real numbers")
    if targets.dtype.kind == "O":
        for number in targets.flat:
            if isinstance(number, np.complexfloating) or not hasattr(number, "__float__"):
                raise TypeError(f"{name} must hold real numbers, got dtype object with {number!r} in it.")
        targets = targets.astype(np.float64)
    if targets.ndim not in (1, 2) or (targets.ndim == 2 and targets.shape[1] == 0):
        raise ValueError(f"{name} must have one dimension, or two with at least one column, got shape {targets.shape}.")
    _check_finite(targets, name)
    return targets


def _check_finite(y: NDArray[Any], name: str) -> None:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.argwhere(~np.isfinite(y))[0][0]) if y.ndim > 0 else 0
        raise ValueError(f"{name} must be finite, but row {row} contains NaN or infinity.")


def unlabelled(y: Any) -> NDArray[np.bool_]:
    """Return which labels are −1 for none; where 1 is the only other label, −1 is a class as well."""
    y = np.asarray(y)
    if y.dtype.kind == "O":
        return np.array([not isinstance(label, str) for label in y], bool)
    if y.dtype.kind not in "if":
        return np.zeros(len(y), bool)
    none: NDArray[np.bool_] = y == -1
    one = y == 1
    return np.zeros(len(y), bool) if one.any() and (none | one).all() else none


def _check_real_matrix(array: Any, name: str) -> Any:
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}.")
    if array.ndim != 2:
        hint = " A single vector becomes a row with reshape(1, -1)." if array.ndim == 1 else ""
        raise ValueError(f"{name} must have two dimensions (rows are vectors), got shape {array.shape}.{hint}")
    return array


Check = Callable[[str, Any], Any]


def check_parameters(parameters: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """Return the parameters that a table names, each as its check returns it; a check raises for a bad value."""
    return {name: check(name, parameters[name]) for name, check in checks.items() if name in parameters}


def optional(check: Check) -> Check:
    """Return a check that also takes None."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(*choices: str) -> Check:
    """Return a check for one of some words."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            words = " or ".join(map(repr, choices)) if len(choices) == 2 else f"one of {', '.join(map(repr, choices))}"
            raise ValueError(f"{name} must be {words}, got {value!r}.")
        return value

    return check
