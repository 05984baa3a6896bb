"""The one place that decides how many threads to use."""

from __future__ import annotations

import contextlib
import functools
import numbers
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import threadpoolctl


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


def in_parallel(function: Callable[[Any], Any], items: Iterable[Any], n_threads: int) -> list[Any]:
    """Return function(item) for each item, in up to `n_threads` threads; the first error is raised at once."""
    items = list(items)
    if len(items) < 2 or n_threads < 2:
        return [function(item) for item in items]
    pool = ThreadPoolExecutor(min(len(items), n_threads))
    try:
        return list(pool.map(function, items))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    finally:
        pool.shutdown(wait=False)


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    """Return what knows the BLAS libraries of this process; finding them takes a while."""
    return threadpoolctl.ThreadpoolController()


_blas_lock = threading.RLock()  # re-entrant: a signal handler may fit while its thread holds it
_blas_users: list[Any] = []  # the limit that the first of them has set, once for each


def _new_blas_lock() -> None:
    """Replace the lock in a forked child: the thread that holds it may be in the parent only."""
    global _blas_lock
    _blas_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_blas_lock)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: its threads spin for a while after each product, on the cores that ours need.

    The limit is that of the process: the first of several Python threads sets it, the last one lifts it. Results do not
    depend on it by more than rounding, but bits do.
    """
    with _blas_lock:
        if _blas_users:
            _blas_users.append(_blas_users[0])
        else:
            with _control_of_blas():
                _blas_users.append(_controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _blas_lock:
            limit = _blas_users.pop()
            if not _blas_users:
                with _control_of_blas():
                    limit.restore_original_limits()


@contextlib.contextmanager
def _control_of_blas() -> Iterator[None]:
    """Let this thread set limits: from threadpoolctl 3.8 on, those of other threads than the first have no effect."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(openblas, "clear_controlling_thread", None)
    if clear is None:
        yield
        return
    clear(force=True)
    try:
        yield
    finally:
        clear(force=True)
