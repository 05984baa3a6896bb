"""Atoms that are nearly the same, found without the products of all pairs.

Unit vectors whose angle has a cosine of at least 1 − ε are at most √(2ε) apart, and so are their projections on a few
directions. A tree over the projections gives the few pairs that are as near; only they are multiplied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from taskdict._common.arrays import Floats

COPY = 1e-9  # what the cosine of two atoms that are the same lacks to one, at most
DIRECTIONS = 8  # that atoms are projected on
BLOCK = 1024  # atoms whose neighbours are looked up at once
PAIRS = 1 << 20  # of atoms that are looked up at once, unless one atom has more neighbours
PRODUCTS = 1 << 22  # numbers that are multiplied at once


def duplicates(atoms: Floats, cosine: float, *, either_sign: bool, first: int = 0) -> NDArray[np.intp]:
    """Return the atoms, from `first` on, whose angle with an earlier atom has at least this cosine, in ascending order.

    Parameters
    ----------
    atoms : array of shape (n_atoms, n_features)
        Atoms; one that is zero is no duplicate.
    cosine : float
        Of the angle between two atoms from which on the second is a duplicate; near one.
    either_sign : bool
        Whether d and −d are duplicates.
    first : int
        Atoms before this one are only compared with.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", atoms, atoms, dtype=np.float64))
    if not norms.all():
        directed = np.flatnonzero(norms)
        among = duplicates(atoms[directed], cosine, either_sign=either_sign, first=int((directed < first).sum()))
        return directed[among]
    n, m = atoms.shape
    if n - first <= 0 or n < 2:
        return np.zeros(0, np.intp)
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((m, min(m, DIRECTIONS))))[0]
    places = atoms @ directions.astype(atoms.dtype) / norms[:, None]
    rounding = 8 * np.sqrt(m) * np.finfo(atoms.dtype).eps  # of the projections
    radius = np.sqrt(2 * (1 - cosine)) + rounding
    found = _copies(atoms, norms, np.round(places / radius).astype(np.int64))
    kept = np.flatnonzero(~found)
    found[kept] = _near(atoms[kept] if found.any() else atoms, norms[kept], places[kept], radius, cosine, either_sign)
    return np.flatnonzero(found[first:]) + first


def _copies(atoms: Floats, norms: Floats, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which atoms repeat an earlier one of the same cell, but for rounding and length; there may be many."""
    _, firsts, cell = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    earlier = firsts[cell.ravel()]
    later = np.flatnonzero(earlier < np.arange(len(atoms)))
    found = np.zeros(len(atoms), bool)
    _confirm(atoms, norms, 1 - COPY, later, earlier[later], found)
    return found


def _near(
    atoms: Floats, norms: Floats, places: NDArray[np.float64], radius: float, cosine: float, either_sign: bool
) -> NDArray[np.bool_]:
    """Return which atoms have an earlier one at this cosine, among those whose places are within the radius."""
    n = len(atoms)
    tree = cKDTree(places)
    found = np.zeros(n, bool)
    for sign in (1, -1) if either_sign else (1,):
        start = 0
        while start < n:
            end = min(n, start + BLOCK)
            counts = np.cumsum(tree.query_ball_point(sign * places[start:end], radius, return_length=True))
            end = start + max(1, int(np.searchsorted(counts, PAIRS, side="right")))
            near = tree.query_ball_point(sign * places[start : min(n, end)], radius, return_sorted=True)
            end = start + len(near)
            later = np.repeat(np.arange(start, end), [len(each) for each in near])
            earlier = np.concatenate([np.asarray(each, np.intp) for each in near])
            _confirm(atoms, norms, sign * cosine, later, earlier, found)
            start = end
    return found


def _confirm(
    atoms: Floats,
    norms: Floats,
    cosine: float,
    later: NDArray[np.intp],
    earlier: NDArray[np.intp],
    found: NDArray[np.bool_],
) -> None:
    """Mark the atoms `later` of which a pair has at least this cosine; at most minus this one if it is negative."""
    size = max(1, PRODUCTS // atoms.shape[1])
    while True:
        left = (earlier < later) & ~found[later]
        later, earlier = later[left], earlier[left]
        if len(later) == 0:
            return
        # One pair of each atom at a time: of many equal atoms, few pairs have to be looked at.
        _, chosen = np.unique(later, return_index=True)
        for at in range(0, len(chosen), size):
            some = chosen[at : at + size]
            i, j = later[some], earlier[some]
            products = np.einsum("ij,ij->i", atoms[i], atoms[j], dtype=np.float64) / (norms[i] * norms[j])
            found[i[np.sign(cosine) * products >= abs(cosine)]] = True
        rest = np.ones(len(later), bool)
        rest[chosen] = False
        later, earlier = later[rest], earlier[rest]
