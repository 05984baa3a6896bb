"""Online dictionary learning (Mairal, Bach, Ponce, Sapiro, 2010): the unsupervised problem of the paper.

Minimises the expectation of ½‖x − Dα*‖² + λ1‖α*‖₁ + λ2/2‖α*‖² over dictionaries D in a constraint set
(``eq:ell1penalty``, ``eq:C``, ``eq:datadict``). Each batch is encoded on the dictionary so far; its codes enter the
statistics (:mod:`taskdict._learning.statistics`); then each atom moves to the minimiser that they give.

Values of signals may be missing: NaN stands for them if the problem says so. The objective is then that of what was
observed, ½‖o ∘ (x − Dα)‖² with o = 1 there and 0 elsewhere, in the codes and in the atoms.

A signal's weight w fades as others come, see :func:`fading`. The weights are those of signals, not of batches, so that
the sizes of batches do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._coding.rules import Rule
from taskdict._common.arrays import Floats
from taskdict._learning.duplicates import duplicates
from taskdict._learning.statistics import FullStatistics, Statistics, no_statistics, statistics_of
from taskdict._native import BadSignalError, Encoded, Encoder, decode
from taskdict.constraints import UnitBall

DUPLICATE_COSINE = 1 - 1e-6  # cosine of the angle between two atoms from which on the second is a duplicate
UNUSED_LIMIT = 100  # an atom is dead when it was not used while each atom was used so many times on average


@dataclass(frozen=True)
class DictionaryProblem:
    """The objective, see `Rule.objectives`: penalties, signs of the codes, the set of dictionaries."""

    lambda1: float
    lambda2: float
    positive_code: bool
    constraint: UnitBall
    rule: Rule | None = None  # instead of lambda1
    missing: bool = False  # whether NaN stands for values that were not observed

    @property
    def coding_rule(self) -> Rule:
        """The rule that chooses the codes."""
        return Rule.parse({"lambda1": self.lambda1}) if self.rule is None else self.rule


@dataclass(frozen=True)
class OnlineState:
    """Where learning is after some batches; a step makes a new one, so that an interrupted step changes nothing."""

    dictionary: Floats  # (n_components, n_features); an atom that no signal has been found for yet is zero
    statistics: Statistics  # of the signals so far
    last_used: NDArray[np.int64]  # of each atom: how many signals had been seen when it was last used; −1 if it is zero
    n_batches: int = 0
    n_signals: int = 0
    n_nonzeros: int = 0
    position: Any = None  # where the stream of signals was after the last batch

    @classmethod
    def start(cls, dictionary: Floats, statistics: Statistics | None = None) -> OnlineState:
        """Begin with this dictionary and no signal seen; `statistics` of none, if they are to be of a certain kind."""
        return cls(dictionary, statistics or no_statistics(dictionary), np.where(dictionary.any(axis=1), 0, -1))

    def unborn(self) -> NDArray[np.bool_]:
        """Return which atoms are still zero."""
        return self.last_used < 0

    def to_file(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return the arrays of the state, and the rest as what JSON can hold."""
        names = ("n_batches", "n_signals", "n_nonzeros", "position")
        arrays = {"dictionary": self.dictionary, "last_used": self.last_used, **self.statistics.arrays()}
        return arrays, {name: getattr(self, name) for name in names}

    @classmethod
    def from_file(cls, arrays: dict[str, Floats], numbers: dict[str, Any]) -> OnlineState:
        """Return the state that `to_file` has described; the core trusts the shapes, so they are checked here."""
        dictionary, last_used = arrays["dictionary"], arrays["last_used"]
        p, _ = dictionary.shape
        if last_used.shape != (p,) or last_used.dtype != np.int64 or dictionary.dtype not in ("f4", "f8"):
            raise ValueError("its arrays do not fit each other")
        statistics = statistics_of(arrays, dictionary)
        counts = {name: int(numbers[name]) for name in ("n_batches", "n_signals", "n_nonzeros")}
        if not all(0 <= count < 2**62 for count in counts.values()) or counts["n_batches"] > counts["n_signals"]:
            raise ValueError("its counts make no sense")
        if not np.isfinite(dictionary).all():
            raise ValueError("its arrays are not finite")
        if numbers["position"] is not None and not isinstance(numbers["position"], dict):
            raise ValueError("its place in a stream makes no sense")
        return cls(dictionary, statistics, last_used, **counts, position=numbers["position"])


@dataclass(frozen=True)
class OnlineStep:
    """Averages over the signals of a batch, on the dictionary before they changed it."""

    objective: float
    nonzeros: float
    n_replaced: int


class OnlineLearner:
    """Learns from one batch at a time; ``state`` is the result so far."""

    def __init__(self, problem: DictionaryProblem, state: OnlineState, n_threads: int) -> None:
        self.problem = problem
        self.state = state
        self.steps: list[OnlineStep] = []  # at least those of the batches that count
        self.n_threads = n_threads
        self._made: list[Statistics] = []  # the last that this learner has made, to be written over

    @property
    def counted(self) -> list[OnlineStep]:
        """The steps of the batches that count."""
        return self.steps[: self.state.n_batches]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what holds nothing."""
        return {**vars(self), "_made": []}

    def step(self, X: Floats, position: Any = None) -> OnlineStep:
        """Learn from the signals in the rows of X, of the dictionary's dtype and contiguous.

        Either the whole batch counts or, if anything is raised, nothing of it.

        Raises
        ------
        BadSignalError
            If a signal is not finite; the state is then as before.
        """
        state, n_now = self.state, self.state.n_signals + len(X)
        if X.shape[1] != state.dictionary.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features per signal, but the atoms have {state.dictionary.shape[1]}.")
        kept, observed = None, None
        if self.problem.missing:
            observed = (~np.isnan(X)).view(np.uint8)
            X = np.where(observed, X, X.dtype.type(0))
        if state.unborn().any():
            state, rows = self._give_birth(X)
            if len(rows) < len(X):  # a signal that became an atom would only reinforce it
                kept = np.delete(np.arange(len(X)), rows)
                X = X[kept]
                observed = None if observed is None else observed[kept]
        varies = observed is not None and not observed.all()
        encoder = self._encoder(state.dictionary, len(X), varies)
        try:
            if varies:
                encoder.encode_varied(X, observed, None)
            else:
                encoder.encode(X)
        except BadSignalError as bad:
            raise BadSignalError(bad.row if kept is None else int(kept[bad.row])) from None
        encoded = encoder.release()
        estimates = self._estimates(state.dictionary, encoded, X) if varies else None
        if observed is None or estimates is None:
            penalised = encoder.objectives(encoded, X)
        else:
            penalised = _objectives(encoded, np.where(observed, X - estimates, 0), self.problem.lambda2)
        objectives = self.problem.coding_rule.objectives(encoded, penalised)

        fade = fading(state.n_signals, n_now, len(state.dictionary)) if state.n_batches > 0 else 0.0
        room = next(
            (made for made in self._made if made is not state.statistics), None
        )  # those of the state before last
        statistics, dictionary = state.statistics.step(
            state.dictionary, encoded, X, fade, self.problem.constraint.positive, self.n_threads, room, observed
        )
        lost = len(encoded.indices) > 0 and statistics.largest_curvature() <= np.finfo(dictionary.dtype).tiny
        if lost or not np.isfinite(dictionary.sum()):
            raise ValueError(
                f"the squares of codes and signals of this size {'under' if lost else 'over'}flow {dictionary.dtype}: "
                "divide the signals and lambda1 by the size of the largest signal."
            )
        last_used = state.last_used.copy()
        last_used[encoded.indices] = n_now
        new = OnlineState(
            dictionary,
            statistics,
            last_used,
            n_batches=state.n_batches + 1,
            n_signals=n_now,
            n_nonzeros=state.n_nonzeros + len(encoded.indices),
            position=position,
        )
        useless = _useless(new, self._twins(state, encoder))
        if useless.any():
            whole = X if observed is None or estimates is None else np.where(observed, X, estimates)
            replaced = self._replace(new, useless, whole, np.argsort(-objectives, kind="stable"))
        else:
            replaced = 0

        step = OnlineStep(float(objectives.mean()), len(encoded.indices) / len(X), replaced)
        self.steps[state.n_batches :] = [step]
        if isinstance(statistics, FullStatistics):
            self._made = [*self._made, statistics][-2:]
        self.state = new  # from here on, the batch counts
        return step

    def _encoder(self, dictionary: Floats, n_signals: int, varies: bool) -> Encoder:
        return Encoder(
            dictionary,
            rule=self.problem.coding_rule,
            lambda2=self.problem.lambda2,
            positive=self.problem.positive_code,
            n_threads=self.n_threads,
            n_signals=n_signals,
            varies=varies,
        )

    def _estimates(self, dictionary: Floats, encoded: Encoded, X: Floats) -> Floats:
        """Return Dα for each signal."""
        estimates = np.empty_like(X)
        decode(encoded, encoded.values, dictionary, 0.0, estimates, estimates, self.n_threads)
        return estimates

    def _twins(self, state: OnlineState, encoder: Encoder) -> NDArray[Any]:
        """Return which atoms of an encoder's dictionary are duplicates of earlier ones."""
        if isinstance(state.statistics, FullStatistics):  # few atoms: the encoder has all their products
            return encoder.duplicates(DUPLICATE_COSINE)
        return duplicates(state.dictionary, DUPLICATE_COSINE, either_sign=not self.problem.positive_code)

    def _give_birth(self, X: Floats) -> tuple[OnlineState, NDArray[np.intp]]:
        """Put signals of X, in their order, in the place of atoms that are still zero; return which.

        Missing values are zero: an atom's entries there are learned from other signals.
        """
        state = self.state
        empty = np.flatnonzero(state.unborn())
        rows, atoms = self._new_atoms(X, np.arange(len(X)), state.dictionary, len(empty))
        places = empty[: len(rows)]
        dictionary, last_used = state.dictionary.copy(), state.last_used.copy()
        dictionary[places] = atoms
        last_used[places] = state.n_signals
        return replace(state, dictionary=dictionary, last_used=last_used), rows

    def _replace(self, state: OnlineState, useless: NDArray[np.bool_], X: Floats, worst_first: NDArray[np.intp]) -> int:
        """Put badly coded signals in the place of useless atoms, and forget what those were used for."""
        rows, atoms = self._new_atoms(X, worst_first, state.dictionary, int(useless.sum()))
        places = np.flatnonzero(useless)[: len(rows)]
        state.dictionary[places] = atoms
        state.statistics.forget(places)
        state.last_used[places] = state.n_signals
        return len(places)

    def _new_atoms(
        self, X: Floats, order: NDArray[np.intp], dictionary: Floats, count: int
    ) -> tuple[NDArray[np.intp], Floats]:
        """Return up to `count` rows of X, the first in `order`, whose atoms differ from each other and all others."""
        others = dictionary[dictionary.any(axis=1)]
        rows, atoms = order[:0], X[:0]
        size = count + 32  # most signals are fit to be atoms
        for start in range(0, len(order), size):
            some = order[start : start + size]
            some = some[np.isfinite(X[some]).all(axis=1)]
            some = some[_norms(X[some])[:, 0] > self.problem.coding_rule.least_norm]  # else no code would use the atom
            more = self._as_atoms(X[some])
            useful = more.any(axis=1)
            rows, atoms = np.concatenate([rows, some[useful]]), np.concatenate([atoms, more[useful]])
            if len(rows) == 0:
                continue
            together, either_sign = np.concatenate([others, atoms]), not self.problem.positive_code
            repeated = duplicates(together, DUPLICATE_COSINE, either_sign=either_sign, first=len(others)) - len(others)
            rows, atoms = np.delete(rows, repeated), np.delete(atoms, repeated, axis=0)
            if len(rows) >= count:
                break
        return rows[:count], atoms[:count]

    def _as_atoms(self, signals: Floats) -> Floats:
        """Return atoms of norm one that suit these signals best, zero where there is none."""
        project = self.problem.constraint.project
        atoms = project(_unit(signals))
        if self.problem.constraint.positive and not self.problem.positive_code:  # −x may suit better
            opposite = project(_unit(-signals))
            atoms = np.where(_norms(opposite) > _norms(atoms), opposite, atoms)
        return _unit(atoms)


def fading(n_before: int, n_now: int, n_components: int) -> float:
    """Return by how much the weight of old signals falls while the number of signals seen grows.

    The t-th signal has the weight (t + 5p)⁴ (t + 300p)¹², relative to the others. So the statistics are mostly made of
    the last p signals at first, then of the last quarter of all, in the end of the last sixteenth: the codes of older
    signals are stale. The exponents were chosen by trial on MNIST digits (p = 300) and Kodak patches (p = 500), where
    larger ones gained late and lost early, smaller ones the reverse.
    """
    near, far = ((n_before + start * n_components) / (n_now + start * n_components) for start in (5, 300))
    return float(near**4 * far**12)


def has_converged(objectives: Sequence[float], tol: float) -> bool:
    """Return whether doubling the number of batches has surely lowered the objective by less than the fraction `tol`.

    Compares the average of the last half of the batches with that of the quarter before, and wants the gain to be
    below the bound by twice the error of the difference, which comes from how much successive batches differ.
    """
    n = len(objectives)
    before, recent = np.array(objectives[n // 4 : n // 2]), np.array(objectives[n // 2 :])
    if len(before) < 10:
        return False
    error = np.sqrt(sum(np.square(np.diff(part)).mean() / 2 / len(part) for part in (before, recent)))
    return bool(before.mean() - recent.mean() + 2 * error <= tol * recent.mean())


def _objectives(encoded: Encoded, residuals: Floats, lambda2: float) -> NDArray[np.float64]:
    """Return ½‖r‖² + λ1‖α‖₁ + λ2/2‖α‖² for each signal, at the λ1 of its code."""
    n, values = len(residuals), encoded.values.astype(np.float64)
    rows = np.repeat(np.arange(n), np.diff(encoded.indptr))
    penalty = encoded.lambda1 * np.bincount(rows, np.abs(values), n) + lambda2 / 2 * np.bincount(rows, values**2, n)
    objectives: NDArray[np.float64] = np.einsum("ij,ij->i", residuals, residuals, dtype=np.float64) / 2 + penalty
    return objectives


def _useless(state: OnlineState, twins: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which atoms no code has used for long, or had a twin among the atoms before them in the last encoding."""
    p = len(state.dictionary)
    uses_per_signal = state.n_nonzeros / state.n_signals / p
    useless: NDArray[np.bool_] = (state.n_signals - state.last_used) * uses_per_signal > UNUSED_LIMIT
    useless[twins] = True
    return useless & ~state.unborn()


def _norms(rows: Floats) -> Floats:
    """Return the norms of the rows as a column, in float64 and safe from overflow and underflow."""
    top = np.abs(rows).max(axis=1, keepdims=True, initial=0).astype(np.float64)
    norms: Floats = top * np.linalg.norm(rows / np.where(top > 0, top, 1), axis=1, keepdims=True)
    return norms


def _unit(rows: Floats) -> Floats:
    """Return the rows scaled to norm one; zero rows stay."""
    norms = _norms(rows)
    unit: Floats = (rows / np.where(norms > 0, norms, 1)).astype(rows.dtype)
    return unit
