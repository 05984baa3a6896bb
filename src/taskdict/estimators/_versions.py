"""Pickles of estimators carry the version that made them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from sklearn.base import BaseEstimator

_KEY = "_taskdict_version"


class VersionWarning(UserWarning):
    """Given when a pickle of another version of taskdict is loaded."""


class VersionedEstimator(BaseEstimator):
    """An estimator whose pickles name the version of taskdict; loading one of another version warns.

    What another version did not store cannot be made up: a pickle without it is refused.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), _KEY: version("taskdict")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        theirs, ours = state.pop(_KEY, None), version("taskdict")
        super().__setstate__(state)
        if theirs == ours:
            return
        name = type(self).__name__
        origin = "an earlier version of taskdict" if theirs is None else f"taskdict {theirs}"
        missing = [parameter for parameter in self._get_param_names() if not hasattr(self, parameter)]
        missing += [attribute for value in vars(self).values() for attribute in _missing(value)]
        if missing:
            raise ValueError(
                f"this {name} was pickled by {origin} and has no {', '.join(missing)}, which taskdict {ours} needs: "
                "load it with the version that made it and write a file with save(path), or fit it again."
            )
        warnings.warn(
            f"this {name} was pickled by {origin}, but this is taskdict {ours}: it may fail or give other results. "
            "Files written by save(path), for taskdict.load, are the way from one version to another.",
            VersionWarning,
            stacklevel=2,
        )


def _missing(value: Any) -> Iterator[str]:
    """Yield the fields that records in an attribute do not have."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                yield from _missing(getattr(value, field.name))
            else:
                yield f"{type(value).__name__}.{field.name}"
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _missing(item)
    elif type(value).__module__.startswith("taskdict.") and not isinstance(value, BaseEstimator):  # it checks itself
        for item in vars(value).values():
            yield from _missing(item)
