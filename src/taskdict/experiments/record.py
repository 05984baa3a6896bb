"""The folder of an experiment, and the record in it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from taskdict._common.atomic_files import replace_text
from taskdict.experiments.environment import environment

Json = dict[str, Any]

NUMBERS_OVER_LINES = re.compile(r"\[\n\s+-?\d[\d.eE+-]*(?:,\n\s+-?\d[\d.eE+-]*)*\n\s+\]")


def open_folder(folder: Path, experiment: str) -> None:
    """Create the folder of an experiment, and print its name; raise if it is a file, or has another experiment."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output must be a folder, but {str(folder)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "record.json"
    if written.exists() and json.loads(written.read_text(encoding="utf-8")).get("experiment") != experiment:
        raise ValueError(f"{str(folder)!r} has another experiment: give another --output.")
    print(f"results go to {str(folder)!r}; after a break, the same command resumes from there", flush=True)


def write_record(folder: Path, experiment: str, settings: Any, data: Json, **found: Any) -> Json:
    """Write the record of an experiment to ``record.json``, and return it.

    Parameters
    ----------
    folder : Path
        Folder of the experiment.
    experiment : str
        Name of the experiment.
    settings : dataclass
        Its settings.
    data : dict
        Name and digest of the data.
    **found : anything that JSON can hold
        The results; lists are results of runs, whose seconds are added up.
    """
    seconds = sum(run["seconds"] for runs in found.values() if isinstance(runs, list) for run in runs)
    record = {
        "experiment": experiment,
        "settings": asdict(settings),
        "data": data,
        **found,
        "seconds": round(seconds, 1),
        "environment": environment(),
    }
    write_json(folder / "record.json", record)
    return record


def is_small(record: Json) -> bool:
    """Return whether a record is of the small version of an experiment, which is not compared with the paper."""
    return bool(record["settings"].get("is_small", False))


def write_json(path: Path, content: Json) -> None:
    """Write a JSON file with lists of numbers in one line; an existing one is replaced when the new one is complete."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    short = NUMBERS_OVER_LINES.sub(lambda found: f"[{' '.join(found[0][1:-1].split())}]", text)
    replace_text(path, f"{short}\n")
