"""Which classes a model file may hold. The classes register themselves."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from taskdict._common.text import message
from taskdict._files import storage

Class = TypeVar("Class", bound=type)

CLASSES: dict[str, Any] = {}


def register(cls: Class) -> Class:
    """Let :func:`load` read files of this class, which has a class method ``_from_file``."""
    CLASSES[cls.__name__] = cls
    return cls


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that its method ``save`` has written.

    Only numbers and text are read: nothing in the file is executed.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Returns
    -------
    estimator
        The fitted model, as it was saved.

    Raises
    ------
    ModelFileError
        If the file is not a model, of a format that this version does not know, cut short, damaged, or changed.
    """
    arrays, document = storage.read(path)
    kind = CLASSES.get(str(document.get("class")))
    if kind is None:
        raise storage.ModelFileError(
            message(
                f"{os.fspath(path)!r} holds a {document.get('class')!r}, which this version of taskdict does not know; "
                f"it was written by version {document.get('taskdict')!r}."
            )
        )
    try:
        return kind._from_file(arrays, document)
    except storage.UNSOUND as error:
        raise storage.ModelFileError(message(f"{os.fspath(path)!r} is not a sound model: {error}.")) from None
