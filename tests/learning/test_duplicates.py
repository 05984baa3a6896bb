"""Atoms that are nearly the same, without the products of all pairs."""

import tracemalloc

import numpy as np
import pytest

from helpers import DTYPES
from taskdict._learning.duplicates import duplicates

COSINE = 1 - 1e-6


def brute(atoms, either_sign, first=0):
    unit = atoms.astype(np.longdouble)
    norms = np.sqrt((unit**2).sum(axis=1, keepdims=True))
    unit = unit / np.where(norms > 0, norms, 1)
    cosines = unit @ unit.T
    cosines = np.tril(np.abs(cosines) if either_sign else cosines, -1)
    return [j for j in range(first, len(atoms)) if cosines[j].max() >= COSINE]


def turned(atom, angle, rng):
    """Return an atom at an angle."""
    other = rng.standard_normal(len(atom))
    other -= other @ atom * atom / (atom @ atom)
    return np.cos(angle) * atom + np.sin(angle) * np.linalg.norm(atom) * other / np.linalg.norm(other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("either_sign", [False, True])
@pytest.mark.parametrize("m", [1, 2, 7, 200])
@pytest.mark.parametrize("offset", [0, 30])  # with a large one, all atoms are near each other
def test_duplicates(m, offset, either_sign, dtype):
    rng = np.random.default_rng(m)
    atoms = rng.standard_normal((400, m)) + offset
    limit = np.arccos(COSINE)
    if m > 1:
        for j in range(100, 200):
            atoms[j] = turned(atoms[j - 100], limit * rng.choice([0, 0.5, 0.98, 1.02, 2]), rng)
    atoms[200:220] = -atoms[:20] * rng.uniform(0.1, 3, (20, 1))
    atoms[[5, 300]] = 0
    atoms = atoms.astype(dtype)
    for first in (0, 150, 400):
        found = duplicates(atoms, COSINE, either_sign=either_sign, first=first)
        np.testing.assert_array_equal(found, brute(atoms, either_sign, first))


def test_many_equal_atoms_cost_little_memory():
    """The pairs of them are not all held at once."""
    n = 20_000
    atoms = np.tile(np.arange(1.0, 5), (n, 1))
    tracemalloc.start()
    assert len(duplicates(atoms, COSINE, either_sign=True)) == n - 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * n * n * 8


def test_no_atoms():
    for n in (0, 1):
        assert len(duplicates(np.ones((n, 3)), COSINE, either_sign=True)) == 0
