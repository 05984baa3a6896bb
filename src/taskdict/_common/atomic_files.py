"""Files are replaced at once or not at all, whatever ends the process that writes them.

A file is written under a temporary name beside its target (a part), flushed to the disk, and then moved to its place. A
lock on the part marks it as being written: a part without a lock was left by a process that was killed, and is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO


def replace_file(path: str | os.PathLike[str], content: Callable[[], bytes]) -> None:
    """Write the bytes that a function returns; the file appears, or is replaced, only when it is complete.

    A link is followed: the file that it points to is replaced. A file that is replaced keeps its permissions. Parts of
    the same file that a killed process has left are removed.
    """
    target = Path(os.path.realpath(path))
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


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8 as :func:`replace_file` does."""
    replace_file(path, text.encode)


def check_file(path: str | os.PathLike[str], name: str = "path") -> None:
    """Raise unless a path is that of a regular file, or of nothing yet. The file is not opened.

    Reading a device may not end, and opening a FIFO waits for another process.

    Parameters
    ----------
    path : str or path
        Name of the file to read or write.
    name : str
        Name of the argument, for the error.
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
        Name of the file to write.
    name : str
        Name of the argument, for the error.
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


def check_output(path: Path, *, force: bool, name: str = "output") -> None:
    """Raise if a command cannot write a file at a path, or if there is one and `force` is not set.

    A link to a file stands for that file. A link to nothing is refused, also with `force`: it may be a trap that leads
    the output somewhere else.

    Parameters
    ----------
    path : Path
        Name of the file to write.
    force : bool
        Whether an existing file may be replaced.
    name : str
        Name of the argument, for the error.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"{name} must be the name of a file in a folder that exists, got {str(path)!r}.")
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{str(path)!r} is a link to a file that is not there: remove it, or give another name.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{str(path)!r} is a device or a pipe: give the name of a file.")
    if path.exists() and not force:
        raise FileExistsError(f"{str(path)!r} is there already: give another name, or --force to replace it.")


def remove_stale_parts(path: str | os.PathLike[str]) -> None:
    """Remove the parts of a file that killed processes have left, not those that are being written.

    A process that writes a part holds a lock on it, which the system releases when the process ends.
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
    """Open a part beside a target, locked; it is removed afterwards unless it was moved."""
    while True:
        part = target.with_name(f"{_part_prefix(target)}{secrets.token_hex(8)}.part")
        with part.open("xb") as file:
            try:
                with contextlib.suppress(OSError):  # where there are no locks, stale parts are not removed either
                    fcntl.flock(file, fcntl.LOCK_EX)
                if part.exists():  # else another process has removed it before it was locked
                    yield file, part
                    return
            finally:
                part.unlink(missing_ok=True)


def _part_prefix(target: Path) -> str:
    """Return the beginning of the names of the parts of a target; a long name is replaced by its digest."""
    name = os.fsencode(target.name)
    return f".{target.name if len(name) <= 100 else hashlib.sha256(name).hexdigest()[:32]}."
