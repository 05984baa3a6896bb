"""Model files: safetensors with JSON metadata. Loading reads numbers and text and never executes anything.

A file holds named arrays and one JSON document (``taskdict`` in the safetensors metadata) with the format number, the
version of the library, a class name, and the rest of the model. A digest over both detects a change of the file.
An existing file is replaced only when the new one is complete (:mod:`taskdict._common.atomic_files`).
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from taskdict._common.atomic_files import check_file, replace_file
from taskdict._common.text import message

FORMAT = 1
# What reading a damaged file may raise: a reader reports it as a ModelFileError.
UNSOUND = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
Arrays = dict[str, NDArray[Any]]


class ModelFileError(ValueError):
    """Raised for a file that is not a model, or one that was damaged or changed."""


def write(path: str | os.PathLike[str], kind: str, arrays: Arrays, document: dict[str, Any]) -> None:
    """Write arrays and a JSON document; an existing file is replaced only when the new one is complete."""
    arrays = {name: _plain(array) for name, array in arrays.items()}
    text = _text({"format": FORMAT, "taskdict": version("taskdict"), "class": kind, **document})
    metadata = {"taskdict": text, "digest": _digest(text, arrays)}
    replace_file(path, lambda: safetensors.save(arrays, metadata=metadata))


def as_read(arrays: Arrays, document: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Return what `read` would return of what `write` was given."""
    return {name: _plain(array) for name, array in arrays.items()}, json.loads(_text(document))


def read(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the document of a file, after all checks."""
    check_file(path)
    name = str(os.fspath(path))
    content = Path(path).read_bytes()
    try:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        metadata = header.get("__metadata__") or {}
        arrays = dict(safetensors.load(content))
    except (SafetensorError, *UNSOUND) as error:
        raise ModelFileError(
            f"{name!r} is not a model file of taskdict, or it was cut short ({type(error).__name__}: {message(error)})."
        ) from None
    if "taskdict" not in metadata:
        raise ModelFileError(f"{name!r} is a safetensors file, but not one that taskdict wrote.")
    try:
        document = json.loads(metadata["taskdict"])
        number = document["format"]
    except UNSOUND:
        raise ModelFileError(f"{name!r} is damaged: its description cannot be read.") from None
    if number != FORMAT:
        theirs = f"{name!r} has format number {number!r}, written by taskdict {document.get('taskdict')!r}"
        raise ModelFileError(
            f"{message(theirs)}; this version ({version('taskdict')}) reads format {FORMAT}. Use a version of taskdict "
            "that reads it."
        )
    if metadata.get("digest") != _digest(metadata["taskdict"], arrays):
        raise ModelFileError(f"{name!r} was changed after it was written, or damaged: its digest does not fit.")
    for key, array in arrays.items():
        if array.size == 0 and array.ndim > 1:  # such a shape costs no byte, and what is made of it may cost many
            raise ModelFileError(f"{name!r} is not a sound model: its array {message(key)!r} has shape {array.shape}.")
    return arrays, document


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as it is written: contiguous, in the order of bytes of this machine."""
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, allow_nan=False)


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"\0{name}\0{arrays[name].dtype.str}\0{arrays[name].shape}\0".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()
