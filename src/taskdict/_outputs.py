"""Files that a command is to write: checked before any work is done, written whole or not at all."""

from __future__ import annotations

from pathlib import Path


def check_output(path: Path, *, force: bool, name: str = "output") -> None:
    """Raise if a file cannot be written there, or if one is there and may not be replaced; `name` is the argument.

    A link to a file stands for that file. A link to nothing is refused, also with `force`: it may be a trap that has
    a file written somewhere else.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"{name} must be the name of a file in a folder that exists, got {str(path)!r}.")
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{str(path)!r} is a link to a file that is not there: remove it, or give another name.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{str(path)!r} is a device or a pipe: give the name of a file.")
    if path.exists() and not force:
        raise FileExistsError(f"{str(path)!r} is there already: give another name, or --force to replace it.")
