"""Find the files of a data set, or download them."""

from __future__ import annotations

import os
from pathlib import Path

Folder = str | os.PathLike[str] | None


class DataError(OSError):
    """Raised when a data set is not found and cannot be downloaded, or its content is wrong."""


def cache_folder() -> Path:
    """Return the folder of downloads."""
    given = os.environ.get("TASKDICT_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taskdict"


def find_file(
    folder: str, names: tuple[str, ...], addresses: tuple[str, ...], data: Folder, download: bool, wanted: str = ""
) -> Path:
    """Return the path of a file of a data set, which is downloaded if it is not found.

    Parameters
    ----------
    folder : str
        Folder of the data set, in each of the folders that are searched.
    names : tuple of str
        Names that the file may have, in order of preference.
    addresses : tuple of str
        Where the file can be downloaded.
    data : path or None
        The only folder to search; None searches ``TASKDICT_DATA`` and the cache.
    download : bool
        Whether the file may be downloaded, if `data` is None.
    wanted : str
        Name of the file to download, by default the first of `names`.
    """
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
    if not download or data is not None:  # a folder that is passed is the only one
        raise DataError(advice)
    try:
        import pooch
    except ImportError:
        raise DataError(f'{advice} To download it, pip install "taskdict[experiments]".') from None
    failed = []
    for address in addresses:
        try:
            pooch.retrieve(address + wanted, known_hash=None, fname=wanted, path=cache / folder)
        except Exception as error:  # of any kind: the network's
            failed.append(f"{address}{wanted}: {type(error).__name__}")
        else:
            return cache / folder / wanted
    raise DataError(f"{advice} Downloading failed ({'; '.join(failed)}).")
