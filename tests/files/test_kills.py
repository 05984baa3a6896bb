"""Every learner, killed at random moments and resumed, ends with the bits of a training that was left alone."""

import multiprocessing
import random
import time

import numpy as np
import pytest

import killed

KILLS = 3
PROCESSES = multiprocessing.get_context("forkserver")  # which imports once, and forks before there are any threads
PROCESSES.set_forkserver_preload(["taskdict", "sklearn.datasets"])


def run(kind, path, seconds=None):
    """Train in a process, which is killed after some time unless it has ended before; return its exit code."""
    process = PROCESSES.Process(target=killed.train, args=(kind, path))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode


def nothing():
    """Start the server of processes, so that the first training is timed without its imports."""


def run_killed(kind, path, seconds, rng):
    """Train in a process that is killed several times, each time at a random moment within so many seconds."""
    kills = 0
    while kills < KILLS:
        if run(kind, path, rng.uniform(0, seconds)) == 0:  # too late: begin again, with less time
            for file in path.parent.glob(f"*{path.name}*"):
                file.unlink()
            kills, seconds = 0, seconds / 2
        else:
            kills += 1


@pytest.mark.parametrize("kind", killed.LEARNERS)
def test_killed_at_random_moments(tmp_path, kind):
    process = PROCESSES.Process(target=nothing)
    process.start()
    process.join()
    begin = time.monotonic()
    assert run(kind, tmp_path / "whole") == 0
    run_killed(kind, tmp_path / "broken", 0.8 * (time.monotonic() - begin), random.Random(kind))
    assert run(kind, tmp_path / "broken") == 0
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "broken.npz") as broken:
        assert ("guarded" in kind) == (whole["lowered"] > 1)
        for name in set(whole) - {"lowered"}:
            np.testing.assert_array_equal(broken[name], whole[name])
    assert not list(tmp_path.glob(".*.part"))  # nothing is left of the writes that were cut short
