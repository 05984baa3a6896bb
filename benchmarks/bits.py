"""What the library computes for fixed seeds, as digests: run it at two commits to see that no bit has changed.

Only the public interface is used. The cases are in bits_signals.py, bits_tasks.py, bits_images.py and bits_files.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import bits_files
import bits_images
import bits_signals
import bits_tasks
import taskdict as td
from bits_common import RUN

CASES: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {
    "encoding": bits_signals.encoding,
    "streams": bits_signals.streams,
    "losses and sets": bits_signals.losses_and_sets,
    "dictionaries": bits_signals.dictionaries,
    "classifiers": bits_tasks.classifiers,
    "regressors": bits_tasks.regressors,
    "long": bits_tasks.long,
    "large": bits_tasks.large,
    "compressed sensing": bits_images.compressed_sensing,
    "image classifiers": bits_images.image_classifiers,
    "degradations": bits_images.degradations,
    "restorers": bits_images.restorers,
    "voters": bits_images.voters,
    "interrupted": bits_files.interrupted,
    "round trips": bits_files.round_trips,
    "corpus": bits_files.corpus,
    "files": bits_files.files,
}


def feed(sha: Any, value: Any) -> None:
    """Put the bits of a value into a digest, with all that tells it from other values."""
    if sp.issparse(value):
        value = {"format": value.format, "shape": value.shape, "parts": [value.data, value.indices, value.indptr]}
    if isinstance(value, dict):
        value = [[key, value[key]] for key in sorted(value)]
    if isinstance(value, (np.ndarray, np.generic)):
        sha.update(f"{type(value).__name__} {value.dtype.str} {value.shape};".encode())
        sha.update(repr(value.tolist()).encode() if value.dtype == object else np.ascontiguousarray(value).tobytes())
    elif isinstance(value, (list, tuple)):
        sha.update(f"{type(value).__name__} {len(value)};".encode())
        for part in value:
            feed(sha, part)
    elif isinstance(value, (bool, int, float, str, bytes, type(None))):
        sha.update(f"{type(value).__name__} {value!r};".encode())  # the digits of a float tell all of its bits
    else:
        raise TypeError(f"a {type(value).__name__} has no digest")


def digest(value: Any) -> str:
    sha = hashlib.sha256()
    feed(sha, value)
    return sha.hexdigest()


def compute(names: list[str]) -> tuple[dict[str, str], dict[str, float]]:
    """Return the digests of cases, and how long each has taken; a case that raises is over, which is recorded."""
    digests: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for name in names:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            RUN.folder = Path(folder)
            try:
                for what, value in CASES[name]():
                    key = f"{name}: {what}"
                    if key in digests:
                        raise AssertionError(f"two values have the name {key!r}")
                    digests[key] = digest(value)
            except Exception as error:
                print(f"{name}: raises {type(error).__name__}: {error}", file=sys.stderr)
                digests[f"{name}: raises"] = digest(type(error).__name__)
            digests[f"{name}: warnings"] = digest(sorted({warning.category.__name__ for warning in caught}))
        seconds[name] = round(time.monotonic() - begin, 1)
        print(f"{name}: {seconds[name]} s", file=sys.stderr)
    return digests, seconds


def settings() -> dict[str, Any]:
    """Return what the bits may depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    known = dict([part.strip() for part in line.split(":", 1)] for line in reversed(lines) if ":" in line)
    flags = known.get("flags", "").split()
    return {
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "pillow")},
        "python": platform.python_version(),
        "processor": known.get("model name", platform.processor()),
        "instructions": [flag for flag in ("sse4_2", "avx2", "fma", "avx512f") if flag in flags],
        "TASKDICT_ISA": os.environ.get("TASKDICT_ISA"),
        "cores": len(os.sched_getaffinity(0)),
        "threads": RUN.threads,
        "taskdict": f"{td.__version__} in {Path(td.__file__).parent}",
    }


def compare(before: dict[str, Any], names: list[str]) -> int:
    """Print what is the same and what is not; return 1 if anything differs, else 0."""
    now = settings()
    for name in sorted({*now, *before["settings"]}):
        if now.get(name) != before["settings"].get(name):
            print(f"setting {name}: {before['settings'].get(name)!r} before, {now.get(name)!r} now")
    old = {name: value for name, value in before["digests"].items() if name.split(":")[0] in names}
    new, _ = compute(names)
    different = 0
    for name in sorted({*old, *new}):
        same = old.get(name) == new.get(name)
        verdict = "same" if same else "missing now" if name not in new else "new" if name not in old else "differs"
        print(f"{verdict:12}{name}")
        different += verdict in ("differs", "missing now")
    print(f"{len(old)} digests before, {len(new)} now, {different} differ or are missing now")
    return int(different > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("record", type=Path, help="JSON file with the digests")
    parser.add_argument("--files", type=Path, help="folder of model files: record writes them, compare loads them")
    parser.add_argument("--threads", type=int, default=1, help="of all models; the bits do not depend on it")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="cases to compute")
    given = parser.parse_args()
    RUN.threads, RUN.files = given.threads, given.files
    names = [name for name in given.only if name != "files" or given.files is not None]
    if given.command == "compare":
        return compare(json.loads(given.record.read_text()), names)
    begin = time.monotonic()
    if given.files is not None:
        bits_files.write_files(given.files)
    digests, seconds = compute(names)
    seconds["all"] = round(time.monotonic() - begin, 1)
    result = {"settings": settings(), "digests": digests, "seconds": seconds}
    given.record.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(digests)} digests in {seconds['all']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
