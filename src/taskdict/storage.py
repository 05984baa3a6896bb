"""Model files: safetensors with JSON metadata. Loading reads numbers and text and never executes anything.

A file holds named arrays and one JSON document (``taskdict`` in the safetensors metadata) with the format number, the
version of the library, a class name, and whatever else the writer puts there. A digest over both tells a file that was
changed. Files are written under a temporary name and then moved, so that a crash leaves the old file as it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from taskdict._text import message

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


def replace_file(path: str | os.PathLike[str], content: Callable[[], bytes]) -> None:
    """Write what a function returns to a file, which appears, or is replaced, only when it is complete.

    Temporary files that a process which was killed has left of the same file are removed.
    """
    target = Path(os.path.realpath(path))  # of a link, the file that it stands for is replaced
    check_file(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path must be in a folder that exists, but there is no {str(target.parent)!r}.")
    remove_stale_parts(target)
    whole = content()
    with _part_of(target) as (file, part):
        if target.exists():
            shutil.copymode(target, part)
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())
        part.replace(target)


def check_file(path: str | os.PathLike[str], name: str = "path") -> None:
    """Raise unless a path is that of a regular file, or of nothing yet. It is looked at and never opened.

    Reading a device may not end, and opening a FIFO waits for another process.

    Parameters
    ----------
    path : str or path
        What is to be read or written.
    name : str
        Of the argument, for the error.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "directory", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        kind = kinds.get(stat.S_IFMT(mode), "device")
        error = IsADirectoryError if stat.S_ISDIR(mode) else OSError
        raise error(f"{name} must be the path of a regular file, but {os.fspath(path)!r} is a {kind}.")


def check_writable(path: str | os.PathLike[str], name: str = "path") -> None:
    """Raise OSError if no file can be written at a path; nothing is left behind.

    Parameters
    ----------
    path : str or path
        What is to be written.
    name : str
        Of the argument, for the error.
    """
    check_file(path, name)
    target = Path(os.path.realpath(path))
    try:
        with _part_of(target):
            pass
    except OSError as error:
        raise type(error)(
            f"{name} must be the path of a file that can be written, got {os.fspath(path)!r}: {error}."
        ) from None


def remove_stale_parts(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that processes which were killed have left of a file, not those still being written.

    A process that writes one holds a lock on it, which the system releases when the process ends.
    """
    target = Path(os.path.realpath(path))
    name = re.compile(re.escape(_part_prefix(target)) + r"[0-9a-f]{16}\.part")
    parts: list[Path] = []
    with contextlib.suppress(OSError):  # of a folder that may be written to but not read
        parts = [part for part in target.parent.iterdir() if name.fullmatch(part.name) and part.is_file()]
    for part in parts:
        with contextlib.suppress(OSError), part.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if it is being written
            part.unlink()


@contextlib.contextmanager
def _part_of(target: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a temporary file beside a target, locked; it is removed afterwards unless it was moved."""
    while True:
        part = target.with_name(f"{_part_prefix(target)}{secrets.token_hex(8)}.part")
        with part.open("xb") as file:
            try:
                with contextlib.suppress(OSError):  # where there are no locks, stale files are not removed either
                    fcntl.flock(file, fcntl.LOCK_EX)
                if part.exists():  # else another process has found it before it was locked
                    yield file, part
                    return
            finally:
                part.unlink(missing_ok=True)


def _part_prefix(target: Path) -> str:
    """Return what the names of the temporary files of a target begin with."""
    name = os.fsencode(target.name)
    return f".{target.name if len(name) <= 100 else hashlib.sha256(name).hexdigest()[:32]}."


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
