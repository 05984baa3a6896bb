"""Where data are looked for, and downloads."""

from __future__ import annotations

import os
from pathlib import Path

Folder = str | os.PathLike[str] | None


class DataError(OSError):
    """Raised when a data set is not found and cannot be downloaded, or is not what it should be."""


def cache_folder() -> Path:
    """Return where downloads are kept."""
    given = os.environ.get("TASKDICT_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taskdict"


def find(
    folder: str, names: tuple[str, ...], addresses: tuple[str, ...], data: Folder, download: bool, wanted: str = ""
) -> Path:
    """Return a file with one of these names in the folder of a data set, downloaded if it has to be."""
    cache, named = cache_folder(), os.environ.get("TASKDICT_DATA")
    roots = [Path(data)] if data is not None else [*([Path(named)] if named else []), cache]
    for root in roots:
        for name in names:
            if (root / folder / name).is_file():
                return root / folder / name
    wanted = wanted or names[0]
    places = ", ".join(repr(str(root / folder)) for root in roots)
    advice = (
        f"No {wanted} in {places}. Put it there, or name a folder that has {folder}/{wanted} with TASKDICT_DATA or "
        "--data."
    )
    if not download or data is not None:  # who names a folder means that one
        raise DataError(advice)
    try:
        import pooch
    except ImportError:
        raise DataError(f'{advice} To download it, pip install "taskdict[experiments]".') from None
    failed = []
    for address in addresses:
        try:
            pooch.retrieve(address + wanted, known_hash=None, fname=wanted, path=cache / folder)
        except Exception as error:  # whatever the network has for us
            failed.append(f"{address}{wanted}: {type(error).__name__}")
        else:
            return cache / folder / wanted
    raise DataError(f"{advice} Downloading failed ({'; '.join(failed)}).")
