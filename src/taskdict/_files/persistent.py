"""What every estimator with something to keep shares: model files, pickles that name their version, and a display."""

from __future__ import annotations

import dataclasses
import html
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from importlib.metadata import version
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taskdict._common.validation import is_fitted
from taskdict._files import storage
from taskdict._files.values import can_be_written, from_json, of_model, to_json

_VERSION = "_taskdict_version"  # the key of a pickle
_PREFIX = "parameter "  # of the names of arrays in a file that are parameters


class VersionWarning(UserWarning):
    """Given when a pickle of another version of taskdict is loaded."""


class PersistentEstimator(BaseEstimator, ABC):
    """An estimator that can be saved, pickled and displayed.

    A subclass is registered for :func:`taskdict.load` with :func:`taskdict._files.registry.register`.
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, from which :func:`taskdict.load` reads it.

        The file is in the safetensors format: arrays, and a JSON text with the class, the parameters and the version.
        An existing file is replaced only when the new one is complete. Some parameters are not written, and the loaded
        model has their defaults: functions, random generators, and those of a training on one machine (`checkpoint`,
        `warm_start`, `n_threads`, `verbose`, `callbacks`).

        Parameters
        ----------
        path : str or path
            Name of the file.
        """
        check_is_fitted(self)
        arrays, document = self._to_file()
        storage.write(path, type(self).__name__, arrays, document)

    @abstractmethod
    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return the fitted model as arrays and as a document that JSON can hold."""

    @classmethod
    @abstractmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Return the model of a file; raise one of :data:`taskdict._files.storage.UNSOUND` if it is not sound."""

    def _summary(self) -> str:
        """Return one line about the fitted model, for its display."""
        return ""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters and, if the model is fitted, one line about it."""
        parameters: str = super().__repr__(N_CHAR_MAX)
        summary = self._summary() if is_fitted(self) else ""
        return f"{parameters}\n# fitted: {summary}" if summary else parameters

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, Any]:
        """Return the display for notebooks: that of scikit-learn, and one line about the fitted model."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**settings)
        summary = self._summary() if is_fitted(self) else ""
        if summary and "text/html" in bundle:
            bundle["text/html"] += f"<p>fitted: {html.escape(summary)}</p>"
        return bundle

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), _VERSION: version("taskdict")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        theirs, ours = state.pop(_VERSION, None), version("taskdict")
        super().__setstate__(state)
        name = type(self).__name__
        origin = "an earlier version of taskdict" if theirs is None else f"taskdict {theirs}"
        missing = [parameter for parameter in self._get_param_names() if not hasattr(self, parameter)]
        missing += [attribute for value in vars(self).values() for attribute in _missing(value)]
        if missing:
            raise ValueError(
                f"this {name} was pickled by {origin} and has no {', '.join(missing)}, which taskdict {ours} needs: "
                "load it with the version that made it and write a file with save(path), or fit it again."
            )
        if theirs == ours:
            return
        warnings.warn(
            f"this {name} was pickled by {origin}, but this is taskdict {ours}: it may fail or give other results. "
            "Files written by save(path), for taskdict.load, are the way from one version to another.",
            VersionWarning,
            stacklevel=2,
        )


def parameters_to_file(
    estimator: BaseEstimator, but: Collection[str] = (), **learned: Any
) -> tuple[storage.Arrays, dict[str, Any]]:
    """Return the parameters of an estimator as arrays and as a document, without those that files do not hold.

    Parameters
    ----------
    estimator : estimator
        Whose parameters they are.
    but : collection of str
        Names of parameters to leave out.
    **learned
        Values that take the place of parameters, which may have changed since the fit.
    """
    arrays: storage.Arrays = {}
    document: dict[str, Any] = {}
    for name, value in of_model({**estimator.get_params(deep=False), **learned}).items():
        if name in but:
            continue
        if hasattr(value, "__array__") and np.ndim(value) > 0 and np.asarray(value).dtype != object:
            arrays[f"{_PREFIX}{name}"] = np.asarray(value)
        elif can_be_written(value):
            document[name] = to_json(value)
    return arrays, document


def parameters_from_file(arrays: storage.Arrays, document: dict[str, Any]) -> tuple[dict[str, Any], storage.Arrays]:
    """Return the parameters that `parameters_to_file` has described, and the arrays that are no parameters."""
    parameters = {name: from_json(value) for name, value in document.items()}
    parameters.update({key.removeprefix(_PREFIX): arrays[key] for key in arrays if key.startswith(_PREFIX)})
    return of_model(parameters), {key: array for key, array in arrays.items() if not key.startswith(_PREFIX)}


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
