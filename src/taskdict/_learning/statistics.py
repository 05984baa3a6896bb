"""What online learning keeps of the signals it has seen, and how the atoms move by it.

The dictionary is to minimise Σ w ½‖x − Dα‖² over the signals x so far, with their weights w and codes α. There are two
ways to keep them, of which :func:`no_statistics` chooses one:

- :class:`FullStatistics`: A = Σ w α αᵀ and B = Σ w α xᵀ, which say all about the minimisers. For p atoms of m features,
  A has p² numbers, and an update costs p² m operations.
- :class:`WindowStatistics`: the last signals with their codes, some for each atom, so that memory is of the order of
  p m, and an update costs the nonzeros of their codes times m.

Where values of signals are missing, the sum is Σ w ½‖o ∘ (x − Dα)‖², with o = 1 for what was observed and 0 elsewhere.
Full statistics would be p² numbers for each feature then, so a window serves dictionaries of any size.

Objects of both do not change after a step; a step makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._native import (
    Encoded,
    decode,
    sum_outer,
    sum_outer_sparse,
    update_atoms,
    update_atoms_on_window,
)

# With more atoms than this, signals are kept in a window. On one core an update costs some 0.02 ns · p² m from full
# statistics, and 0.65 ns · 2p k m from a window of codes with k nonzeros: the same for p = 65 k. So the window is
# cheaper beyond for k up to 30; more nonzeros cost more to encode than to learn from. Memory: p² numbers against 3 p m.
FULL_ATOMS = 2048
# Signals that are kept for each atom. On digits and Kodak patches with p = 2,048, the objective after 4p signals in two
# batches is 0.0 % above that of full statistics with two signals, 0.1 to 0.6 % with one, 0.3 to 1.8 % with a half;
# later all are closer.
WINDOW = 2
# At least so many signals are kept where values are missing: few atoms would see too little of each feature.
MASKED_WINDOW = 8192

_OVERFLOWS = np.errstate(over="ignore", invalid="ignore")  # the learner notices them


class Statistics(Protocol):
    """What is kept of the signals so far."""

    def step(
        self,
        dictionary: Floats,
        encoded: Encoded,
        X: Floats,
        fade: float,
        positive: bool,
        n_threads: int,
        room: Any,
        observed: NDArray[np.uint8] | None = None,
    ) -> tuple[Statistics, Floats]:
        """Return the statistics and the dictionary after a batch X; the weights of earlier signals fade.

        `room` is None, or earlier statistics of the same kind whose arrays may be written over. `observed` is 1 where a
        value was observed and 0 elsewhere, where X is zero; it is None exactly if no values can be missing.
        """

    def largest_curvature(self) -> float:
        """Return the largest Σ w α² of an atom."""

    def forget(self, atoms: NDArray[np.intp]) -> None:
        """Forget what some atoms were used for, in place; only for statistics that nobody has seen yet."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, as `from_arrays` takes them."""


def no_statistics(dictionary: Floats, *, missing: bool = False) -> Statistics:
    """Return the statistics of no signal, of the kind that pays for this size, or that can do with missing values."""
    if missing:
        return WindowStatistics.start(dictionary, missing=True)
    kind = FullStatistics if len(dictionary) <= FULL_ATOMS else WindowStatistics
    return kind.start(dictionary)


def statistics_of(arrays: Mapping[str, NDArray[Any]], dictionary: Floats) -> Statistics:
    """Return the statistics whose arrays these are; raise ValueError if they are unsound."""
    kind = FullStatistics if "A" in arrays else WindowStatistics
    return kind.from_arrays(arrays, dictionary)


@dataclass(frozen=True, eq=False)
class FullStatistics:
    """Sums over all signals, from which the surrogate ½ tr(DᵀD A) − tr(DᵀB) follows."""

    A: Floats  # Σ w α αᵀ
    B: Floats  # Σ w α xᵀ, of the shape of the dictionary

    @classmethod
    def start(cls, dictionary: Floats) -> Self:
        """Return the statistics of no signal."""
        p = len(dictionary)
        return cls(np.zeros((p, p), dictionary.dtype), np.zeros_like(dictionary))

    def step(
        self,
        dictionary: Floats,
        encoded: Encoded,
        X: Floats,
        fade: float,
        positive: bool,
        n_threads: int,
        room: FullStatistics | None,
        observed: NDArray[np.uint8] | None = None,
    ) -> tuple[FullStatistics, Floats]:
        """Return the statistics and the dictionary after a batch."""
        if observed is not None:
            raise TypeError("observed must be None: full statistics are of signals without missing values.")
        new = FullStatistics(np.empty_like(self.A), np.empty_like(self.B)) if room is None else room
        sum_outer_sparse(encoded, fade, self.A, new.A, n_threads)
        sum_outer(encoded, encoded.values, X, fade, self.B, new.B, n_threads)
        dictionary = dictionary.copy()
        update_atoms(dictionary, new.A, new.B, positive, n_threads)
        return new, dictionary

    def largest_curvature(self) -> float:
        """Return the largest Σ w α² of an atom."""
        return float(self.A.diagonal().max())

    def forget(self, atoms: NDArray[np.intp]) -> None:
        """Forget what some atoms were used for."""
        self.A[atoms, :] = 0
        self.A[:, atoms] = 0
        self.B[atoms] = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays."""
        return {"A": self.A, "B": self.B}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], dictionary: Floats) -> Self:
        """Return the statistics whose arrays these are."""
        A, B = arrays["A"], arrays["B"]
        p = len(dictionary)
        if A.shape != (p, p) or B.shape != dictionary.shape or {A.dtype, B.dtype} != {dictionary.dtype}:
            raise ValueError("its arrays do not fit each other")
        if not np.isfinite(A).all() or not np.isfinite(B).all():
            raise ValueError("its arrays are not finite")
        return cls(A, B)


class WindowCodes(NamedTuple):
    """Codes in compressed rows, one per signal."""

    values: Floats
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]

    def rows(self, start: int, stop: int) -> WindowCodes:
        """Return the codes of some signals that follow each other."""
        first, last = self.indptr[start], self.indptr[stop]
        return WindowCodes(self.values[first:last], self.indices[first:last], self.indptr[start : stop + 1] - first)

    @classmethod
    def joined(cls, parts: Sequence[WindowCodes]) -> WindowCodes:
        """Return the codes of all parts, one after the other."""
        ends = np.cumsum([part.indptr[-1] for part in parts[:-1]], dtype=np.int64)
        indptr = [parts[0].indptr, *(part.indptr[1:] + end for part, end in zip(parts[1:], ends, strict=True))]
        values, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "indices"))
        return cls(values, indices, np.concatenate(indptr))


@dataclass(frozen=True, eq=False)
class WindowStatistics:
    """The last signals with their codes, and for each atom what is left of the signals before them.

    While it is in the window, a signal counts as ½ w ‖x − Dα‖², as in the full statistics. When it leaves, its residual
    r = x − Dα on the dictionary of that moment is kept for each atom alone: the target Σ w α_j (r + α_j d_j) and the
    curvature Σ w α_j². The atom is drawn to target / curvature, the best one if the other atoms had stayed since then.
    Where values are missing, r is zero there, and each feature has a curvature of its own.
    """

    X: Floats  # the last signals
    codes: WindowCodes  # their codes, each on the dictionary that it came to
    weights: Floats  # their weights
    targets: Floats  # of the shape of the dictionary
    curvatures: Floats  # one per atom; of the shape of the dictionary if values may be missing
    observed: NDArray[np.uint8] | None = None  # 1 where a value of X was observed, 0 elsewhere; None if none can miss

    @classmethod
    def start(cls, dictionary: Floats, *, missing: bool = False) -> Self:
        """Return the statistics of no signal; of signals whose values may be missing if `missing`."""
        (p, m), dtype = dictionary.shape, dictionary.dtype
        codes = WindowCodes(np.zeros(0, dtype), np.zeros(0, np.int32), np.zeros(1, np.int64))
        curvatures = np.zeros((p, m) if missing else p, dtype)
        observed = np.zeros((0, m), np.uint8) if missing else None
        return cls(np.zeros((0, m), dtype), codes, np.zeros(0, dtype), np.zeros((p, m), dtype), curvatures, observed)

    @_OVERFLOWS
    def step(
        self,
        dictionary: Floats,
        encoded: Encoded,
        X: Floats,
        fade: float,
        positive: bool,
        n_threads: int,
        room: WindowStatistics | None,
        observed: NDArray[np.uint8] | None = None,
    ) -> tuple[WindowStatistics, Floats]:
        """Return the statistics and the dictionary after a batch."""
        if (observed is None) != (self.observed is None):
            raise TypeError("observed must be given if and only if values may be missing.")
        dtype = dictionary.dtype
        size = WINDOW * len(dictionary) if observed is None else max(WINDOW * len(dictionary), MASKED_WINDOW)
        batch = WindowCodes(encoded.values, encoded.indices, encoded.indptr)
        leaving = min(len(self.X), max(0, len(self.X) + len(X) - size))
        passing = max(0, len(X) - size)  # signals of the batch that are followed by a window of others
        faded = self.weights * dtype.type(fade)

        targets, curvatures = self.targets * dtype.type(fade), self.curvatures * dtype.type(fade)
        parts = (
            (self.X, self.codes, faded, leaving, self.observed),
            (X, batch, np.ones(len(X), dtype), passing, observed),
        )
        for signals, codes, weights, count, seen in parts:
            if count > 0:
                targets, curvatures = _let_go(
                    dictionary,
                    signals[:count],
                    codes.rows(0, count),
                    weights[:count],
                    targets,
                    curvatures,
                    n_threads,
                    None if seen is None else seen[:count],
                )
        new = WindowStatistics(
            np.concatenate([part[0][part[3] :] for part in parts]),
            WindowCodes.joined([part[1].rows(part[3], len(part[0])) for part in parts]),
            np.concatenate([part[2][part[3] :] for part in parts]),
            targets,
            curvatures,
            None if observed is None else np.concatenate([part[4][part[3] :] for part in parts if part[4] is not None]),
        )
        dictionary = dictionary.copy()
        update_atoms_on_window(
            dictionary,
            new.codes,
            new.codes.values,
            new.weights,
            new.X,
            targets,
            curvatures,
            positive,
            n_threads,
            new.observed,
        )
        return new, dictionary

    @_OVERFLOWS
    def largest_curvature(self) -> float:
        """Return the largest Σ w α² of an atom; a bound of it if values may be missing."""
        old = self.curvatures if self.curvatures.ndim == 1 else self.curvatures.max(axis=1)
        return float((old + _squares(self.codes, self.weights, len(old))).max())

    def forget(self, atoms: NDArray[np.intp]) -> None:
        """Forget what some atoms were used for."""
        forgotten = np.zeros(len(self.curvatures), bool)
        forgotten[atoms] = True
        self.codes.values[forgotten[self.codes.indices]] = 0
        self.targets[atoms] = 0
        self.curvatures[atoms] = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays."""
        masked = {} if self.observed is None else {"window observed": self.observed}
        return {
            "window X": self.X,
            "window values": self.codes.values,
            "window indices": self.codes.indices,
            "window indptr": self.codes.indptr,
            "window weights": self.weights,
            "targets": self.targets,
            "curvatures": self.curvatures,
            **masked,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], dictionary: Floats) -> Self:
        """Return the statistics whose arrays these are; the core trusts them, so they are checked here."""
        X, weights = arrays["window X"], arrays["window weights"]
        codes = WindowCodes(*(arrays[f"window {name}"] for name in WindowCodes._fields))
        targets, curvatures = arrays["targets"], arrays["curvatures"]
        (p, m), n = dictionary.shape, len(X)
        floats = {"X": (X, (n, m)), "weights": (weights, (n,)), "values": (codes.values, codes.indices.shape)}
        observed = arrays.get("window observed")
        floats |= {"targets": (targets, (p, m)), "curvatures": (curvatures, (p,) if observed is None else (p, m))}
        fits = all(array.dtype == dictionary.dtype and array.shape == shape for array, shape in floats.values())
        fits = fits and codes.indices.dtype == np.int32 and codes.indices.ndim == 1
        fits = fits and codes.indptr.dtype == np.int64 and codes.indptr.shape == (n + 1,)
        if observed is not None:
            fits = fits and observed.dtype == np.uint8 and observed.shape == (n, m)
        if not fits:
            raise ValueError("its arrays do not fit each other")
        ends = codes.indptr
        ordered = ends[0] == 0 and ends[-1] == len(codes.indices) and (np.diff(ends) >= 0).all()
        if not ordered or not ((codes.indices >= 0) & (codes.indices < p)).all():
            raise ValueError("its codes make no sense")
        if not all(np.isfinite(array).all() for array, _ in floats.values()):
            raise ValueError("its arrays are not finite")
        if (weights < 0).any() or (curvatures < 0).any():
            raise ValueError("its weights make no sense")
        if observed is not None and ((observed > 1).any() or X[observed == 0].any()):
            raise ValueError("its missing values make no sense")
        return cls(X, codes, weights, targets, curvatures, observed)


def _let_go(
    dictionary: Floats,
    X: Floats,
    codes: WindowCodes,
    weights: Floats,
    targets: Floats,
    curvatures: Floats,
    n_threads: int,
    observed: NDArray[np.uint8] | None,
) -> tuple[Floats, Floats]:
    """Return the targets and curvatures with those of signals that leave the window."""
    residuals, after = np.empty_like(X), np.empty_like(targets)
    decode(codes, -codes.values, dictionary, 1.0, X, residuals, n_threads)
    repeated = np.repeat(weights, np.diff(codes.indptr))
    if observed is not None:
        residuals *= observed
        sum_outer(codes, codes.values * repeated, residuals, 1.0, targets, after, n_threads)
        seen = observed.astype(X.dtype)
        squares = np.empty_like(curvatures)
        sum_outer(codes, np.square(codes.values) * repeated, seen, 0.0, curvatures, squares, n_threads)
        return after + squares * dictionary, curvatures + squares
    sum_outer(codes, codes.values * repeated, residuals, 1.0, targets, after, n_threads)
    squares = _squares(codes, weights, len(curvatures)).astype(curvatures.dtype)
    after += squares[:, None] * dictionary
    return after, curvatures + squares


def _squares(codes: WindowCodes, weights: Floats, n_atoms: int) -> NDArray[np.float64]:
    """Return Σ w α² of each atom."""
    terms = np.square(codes.values, dtype=np.float64) * np.repeat(weights, np.diff(codes.indptr))
    return np.asarray(np.bincount(codes.indices, terms, n_atoms), np.float64)
