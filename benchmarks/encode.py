"""Speed and optimality of sparse encoding: taskdict and its peers in one process, one after the other.

Every repetition runs us and each peer once on the same work, so that a machine that is slow for a while is slow for
all; the table has ratios of medians. Times by themselves mean little: only ratios are compared.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import encode_large
import encode_rows
import encode_six
from encode_figures import Figure, Options, figures_table
from machine import heading, publish, stamp
from taskdict import _core

GROUPS = {
    "six": encode_six.group,
    "large": encode_large.group,
    "omp": encode_rows.omp,
    "rules": encode_rows.rules,
    "few": encode_rows.few,
    "voxels": encode_rows.voxels,
}
PACKAGES = ("numpy", "scipy", "scikit-learn", "spams-bin", "torch")


def versions() -> dict[str, str]:
    """Return the versions of the packages that are there."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def tables(result: dict, figures: list[Figure]) -> str:
    """Return the rows with their aims, and all numbers of the six."""
    named = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    parts = [
        f"{heading(result)}; kernels for {result['instruction_set']}; {named}; load before "
        f"{result['load']['before']:.1f}, after {result['load']['after']:.1f}; medians of {result['repeats']}",
        figures_table(figures),
    ]
    if "six" in result["records"]:
        parts += ["The six rows:", encode_six.table(result["records"]["six"])]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TASKDICT_DATA"), help="folder with real data")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS), help="groups of rows")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--share", type=float, default=1.0, help="share of the signals but those of large")
    parser.add_argument("--output", type=Path, help="write the tables (.md) and the record (.json) under this name")
    given = parser.parse_args()
    options = Options(Path(given.data) if given.data else None, given.repeats, given.threads, given.share)

    threads = " ".join(map(str, options.threads))
    command = f"python benchmarks/encode.py --repeats {options.repeats} --threads {threads} --share {options.share:g}"
    if given.only != list(GROUPS):
        command += f" --only {' '.join(given.only)}"
    begin, load = time.monotonic(), os.getloadavg()[0]
    figures, records, seconds = [], {}, {}
    for name in given.only:
        start = time.monotonic()
        found, records[name] = GROUPS[name](options)
        figures += found
        seconds[name] = round(time.monotonic() - start)
        result = {
            **stamp(begin, command),
            "instruction_set": _core.instruction_set(),
            "python": platform.python_version(),
            "versions": versions(),
            "load": {"before": load, "after": os.getloadavg()[0]},  # of the last minute; ours adds up to two
            "seed": 0,
            "repeats": options.repeats,
            "seconds_of_groups": seconds,
            "figures": [{**asdict(figure), "reached": figure.reached} for figure in figures],
            "records": records,
        }
        publish(result, tables(result, figures), given.output)  # a run that is stopped leaves what it has


if __name__ == "__main__":
    main()
