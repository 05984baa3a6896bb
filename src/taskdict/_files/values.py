"""Parameters of estimators as JSON: numbers, strings, None, slices, and lists, tuples and dicts of these."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar

import numpy as np


class Checked(Protocol):
    """An estimator that can check its parameters."""

    def _check_parameters(self) -> None: ...


Model = TypeVar("Model", bound=Checked)

# Parameters of a training on one machine, not of a model: files, threads, output, functions. They are
# neither written to files nor read from them, so that a file cannot name another one to be overwritten.
NOT_IN_FILES = frozenset({"callback", "callbacks", "checkpoint", "n_threads", "verbose", "warm_start"})


def of_model(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that files hold."""
    return {name: value for name, value in parameters.items() if name not in NOT_IN_FILES}


def written(estimator: Any, but: Collection[str] = (), **learned: Any) -> dict[str, Any]:
    """Return the parameters of a model as its file has them: without those of the training, or named in `but`.

    Values in `learned` take the place of parameters, which may have changed since.
    """
    own = of_model({**estimator.get_params(deep=False), **learned})
    return {name: to_json(value) for name, value in own.items() if name not in but and can_be_written(value)}


def read(cls: Callable[..., Model], parameters: dict[str, Any], *arguments: Any) -> Model:
    """Make an estimator with the parameters of a file, which are checked."""
    model = cls(*arguments, **{name: from_json(value) for name, value in of_model(parameters).items()})
    model._check_parameters()
    return model


def can_be_written(value: Any) -> bool:
    """Return whether a file can hold this value: functions, generators and other objects it cannot."""
    try:
        to_json(value)
    except TypeError:
        return False
    return True


def to_json(value: Any) -> Any:
    """Return the value in a form that JSON can hold; raise TypeError if there is none."""
    if isinstance(value, np.ndarray):
        value = value[()] if value.ndim == 0 else value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (list, tuple, range)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [to_json(item) for item in value]}
    if isinstance(value, slice):
        return {"slice": [to_json(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, dict):
        return {"dict": [[to_json(key), to_json(item)] for key, item in value.items()]}
    raise TypeError(f"a file cannot hold {value!r}")


def from_json(value: Any) -> Any:
    """Return the value that `to_json` has described."""
    if not isinstance(value, dict):
        return value
    ((kind, items),) = value.items()
    if kind == "slice":
        return slice(*items)
    if kind == "dict":
        return {from_json(key): from_json(item) for key, item in items}
    if kind == "tuple":
        return tuple(from_json(item) for item in items)
    if kind == "list":
        return [from_json(item) for item in items]
    raise ValueError(f"its parameters have the unknown kind {kind!r}")
