"""The one place that decides how many threads to use."""

from __future__ import annotations

import functools
import numbers
import os
from typing import Any

import joblib


@functools.cache
def _usable_cores() -> int:
    """Return the cores of this process by quota and affinity at its start; looking them up takes a while."""
    return int(joblib.cpu_count())


def available_threads() -> int:
    """Threads that a call may use by default.

    The cores this process may run on (CPU affinity, cgroup quotas, ``LOKY_MAX_CPU_COUNT``), and no more than
    ``OMP_NUM_THREADS``, which joblib sets in its workers.
    """
    count = min(_usable_cores(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1 << 16)
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if limit.isdigit() and int(limit) > 0:
        count = min(count, int(limit))
    return max(1, count)


def resolve_threads(n_threads: Any) -> int:
    """Return the number of threads for the argument ``n_threads``; None means all that are available."""
    if n_threads is None:
        return available_threads()
    if isinstance(n_threads, bool) or not isinstance(n_threads, numbers.Integral):
        raise TypeError(f"n_threads must be None or a positive integer, got {n_threads!r}.")
    if n_threads < 1:
        raise ValueError(f"n_threads must be None or a positive integer, got {n_threads}.")
    return min(int(n_threads), 1024)  # more cannot help
