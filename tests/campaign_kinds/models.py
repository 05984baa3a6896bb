"""Mutated model files of every class: `td.load` raises ModelFileError, or returns a model that can be used."""

from __future__ import annotations

import itertools
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import taskdict as td
from campaign_kinds.case import Kind, Outcome
from campaign_kinds.files import BATCH, check, choose, read_all
from mutations import mutated_models, small_models, use

# What using a model may raise: it says that the signals do not fit to it, as for any other model.
IN_USE = (ValueError, td.ModelFileError)


def read(path: Path) -> tuple[str, str]:
    """Load a file and use what it holds; return what came of it, and what was wrong with that."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = td.load(path)
    except td.ModelFileError as error:
        return "refused", "" if str(path) in str(error) else f"the message does not name the file: {error}"[:1000]
    except MemoryError as error:
        return "error", f"load asks for too much memory: {error}"
    except Exception as error:
        return "error", f"load raises {type(error).__name__}: {error}"[:1000]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            use(model)
    except IN_USE:
        return "loaded, cannot be used", ""
    except Exception as error:
        return "error", f"use of a loaded model raises {type(error).__name__}: {error}"[:1000]
    return "loaded and used", ""


@cache
def _files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        contents = {}
        for name, model in small_models().items():
            model.save(Path(folder) / "model")
            contents[name] = (Path(folder) / "model").read_bytes()
        return contents


def run(rng: np.random.Generator) -> Outcome:
    """Mutate the file of one class."""
    outcome = Outcome()
    name = choose(rng, _files())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(_files()[name])
        contents = list(itertools.islice(mutated_models(rng, path), BATCH))
    check("models", contents, [name] * BATCH, outcome)
    return outcome


def again(given: dict[str, Any]) -> Outcome:
    """Load a stored file."""
    outcome = Outcome()
    check("models", [given["content"]], [given.get("label", "")], outcome)
    return outcome


KIND = Kind("models", "files", run, share=0.18, limit=1200, promise="the promised errors, 1000 MB", again=again)

if __name__ == "__main__":
    read_all(read, Path(sys.argv[1]))
