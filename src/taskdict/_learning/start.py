"""Where the descent starts (paper, Section 4.2): an unsupervised dictionary, then the convex problem in the model.

Everything here works on a sample of the signals that is held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taskdict._coding.coded_batch import Coding, Part
from taskdict._common.arrays import Floats
from taskdict._common.permutation import permuted
from taskdict._common.validation import check_dictionary
from taskdict._learning.committee import Member
from taskdict._learning.objective import Weights
from taskdict._learning.online import DictionaryProblem, OnlineLearner, OnlineState
from taskdict._learning.task_settings import TaskSettings
from taskdict._native import BadSignalError
from taskdict.constraints import UnitBall
from taskdict.streams.pairs import Batch

UNSUPERVISED_BATCH = 512  # signals
UNSUPERVISED_BATCHES = 60
QUICK_PASSES = 6  # over the signals, of a quick start
LEAST_BATCHES = 10  # of a quick start


class Start:
    """Where the members of a committee begin: dictionaries that are learned without a task, the first Z, and W = 0.

    Parameters
    ----------
    settings : TaskSettings
        Where dictionary and transform come from.
    sample : Batch
        Signals in the units of the training.
    n_atoms : int
        Of each member.
    seed : int
        Of all random choices.
    n_threads : int
        Threads to use.
    quick : bool
        Whether a few passes over the signals are enough for a dictionary.

    Attributes
    ----------
    Z : array of shape (n_measurements, n_features) or None
        The first transform.
    signals : array of shape (n_signals, n_features)
        All signals of the sample, with and without targets, after the transform.
    """

    def __init__(
        self, settings: TaskSettings, sample: Batch, n_atoms: int, seed: int, n_threads: int, *, quick: bool = False
    ) -> None:
        X = sample.X if sample.unlabelled is None else np.concatenate([sample.X, sample.unlabelled])
        self._settings, self._n_atoms = settings, n_atoms
        self._seed, self._n_threads, self._quick = seed, n_threads, quick
        self._ball = UnitBall(settings.positive_dictionary)
        self.Z = _first_transform(settings, X, seed)
        self.signals = self.measured(X)

    def measured(self, X: Floats) -> Floats:
        """Return the signals after the transform."""
        return X if self.Z is None else np.ascontiguousarray(X @ self.Z.T)

    def dictionary(self, coding: Coding, parts: Sequence[Part], first: Floats | None = None) -> Floats:
        """Return the dictionary that all members begin with: that of the settings, or one that is learned.

        Parameters
        ----------
        coding : Coding
            How signals are encoded.
        parts : sequence of Part
            Which rows are a dictionary each.
        first : array or None
            One that was learned with other penalties; a few batches more are then enough.
        """
        shape, given = (self._n_atoms, self.signals.shape[1]), self._settings.dictionary_init
        if given is None or isinstance(given, str):
            atoms = np.zeros(shape, self.signals.dtype) if first is None else first
            return self._learned(self.signals, atoms, coding, parts, 1.0 if first is None else 0.4)
        D = check_dictionary(given, self.signals.dtype, name="dictionary_init")
        if D.shape != shape:
            raise ValueError(f"dictionary_init must have shape (n_components, n_features) = {shape}, got {D.shape}.")
        return np.ascontiguousarray(self._ball.project(D), self.signals.dtype)

    def weights(
        self, members: Sequence[Member], n_outputs: int, sample: Batch, dictionary: Floats | None = None
    ) -> list[Weights]:
        """Return where each member starts.

        Parameters
        ----------
        members : sequence of Member
            The members.
        n_outputs : int
            Of each.
        sample : Batch
            Samples whose targets may be used, in the units of the training.
        dictionary : array or None
            The common dictionary, None if it is still to be found.
        """
        objective = members[0].objective
        if isinstance(self._settings.dictionary_init, str):  # "classes"
            dictionaries = [self._of_classes(member, sample) for member in members]
        else:
            common = self.dictionary(objective.coding, objective.parts) if dictionary is None else dictionary
            dictionaries = [common] * len(members)
        dtype = self.signals.dtype
        W = np.zeros(objective.model.shape(n_outputs, *dictionaries[0].shape), dtype)
        return [Weights(D, W, np.zeros(n_outputs, dtype), self.Z) for D in dictionaries]

    def _of_classes(self, member: Member, sample: Batch) -> Floats:
        """Return a dictionary with as many atoms for each target of a member."""
        mine = member.batch(sample)
        kinds, kind_of = np.unique(mine.y, axis=0, return_inverse=True)
        sizes = [len(share) for share in np.array_split(np.arange(self._n_atoms), max(1, len(kinds)))]
        groups = [self.measured(mine.X[kind_of.ravel() == kind]) for kind in range(len(kinds))] or [self.signals]
        width = self.signals.shape[1]
        atoms = [
            self._learned(group, np.zeros((size, width), self.signals.dtype), member.objective.coding, (), 1.0)
            for group, size in zip(groups, sizes, strict=True)
            if size > 0
        ]
        return np.concatenate(atoms)

    def _learned(self, X: Floats, atoms: Floats, coding: Coding, parts: Sequence[Part], share: float) -> Floats:
        """Return a dictionary learned with a share of the batches."""
        n_batches = UNSUPERVISED_BATCHES
        if self._quick:
            n_batches = min(n_batches, max(LEAST_BATCHES, QUICK_PASSES * len(X) // UNSUPERVISED_BATCH))
        n_batches = max(1, round(share * n_batches))
        return learn_dictionary(X, atoms, coding, self._ball, parts, self._seed, self._n_threads, n_batches)


def _first_transform(settings: TaskSettings, X: Floats, seed: int) -> Floats | None:
    """Return the Z to start from, None if there is to be none."""
    r, m, init = settings.n_measurements, X.shape[1], settings.transform_init
    if r is None:
        return None
    if isinstance(init, str):
        if init == "pca" and r > m:
            raise ValueError(f"n_measurements={r} must be at most the number of features, {m}, to start from PCA.")
        Z = start_transform(X, r, init, seed)
    else:
        Z = check_dictionary(init, X.dtype, name="transform_init")
        if Z.shape != (r, m):
            raise ValueError(f"transform_init must have shape (n_measurements, n_features) = {(r, m)}, got {Z.shape}.")
    if settings.transform_set is not None:
        Z = np.ascontiguousarray(settings.transform_set.project(Z), X.dtype)
    return Z


def learn_dictionary(
    X: Floats,
    start: Floats,
    coding: Coding,
    constraint: UnitBall,
    parts: Sequence[Part],
    seed: int,
    n_threads: int,
    n_batches: int = UNSUPERVISED_BATCHES,
) -> Floats:
    """Return a dictionary for the signals X, learned without targets from `start`, whose zero atoms are to be found.

    Atoms for which there is no signal become random directions.
    """
    rng = np.random.default_rng(seed)
    D = np.zeros_like(start)
    for part in parts or (Part(slice(0, len(D))),):
        signals, atoms = part.signals(X), part.dictionary(start)
        problem = DictionaryProblem(coding.lambda1, coding.lambda2, coding.positive, constraint)
        learner = OnlineLearner(problem, OnlineState.start(constraint.project(atoms)), n_threads)
        size = min(UNSUPERVISED_BATCH, len(signals))
        for k in range(n_batches):
            places = np.arange(k * size, (k + 1) * size)
            epochs, places = places // len(signals), places % len(signals)
            rows = np.concatenate(
                [permuted(places[epochs == e], len(signals), [seed, int(e)]) for e in np.unique(epochs)]
            )
            try:
                learner.step(np.ascontiguousarray(signals[rows]))
            except BadSignalError as bad:
                raise BadSignalError(int(rows[bad.row])) from None
        found = learner.state.dictionary.copy()
        missing = ~found.any(axis=1)
        if missing.any():
            random = (
                np.abs(rng.standard_normal(found.shape)) if constraint.positive else rng.standard_normal(found.shape)
            )
            found[missing] = (random / np.linalg.norm(random, axis=1, keepdims=True))[missing]
        features = slice(None) if part.features is None else part.features
        D[part.atoms, features] = found
    return D


def start_transform(X: Floats, r: int, kind: str, seed: int) -> Floats:
    """Return Z (r × m): the first principal directions of the signals ("pca"), or Gaussian ("random").

    Both keep the norm of a signal on average at most.
    """
    m = X.shape[1]
    if kind == "random":
        gaussian: Floats = np.random.default_rng(seed).standard_normal((r, m)) / np.sqrt(r)
        return gaussian.astype(X.dtype)
    return principal_directions(X - X.mean(axis=0, dtype=np.float64), r).astype(X.dtype)


def principal_directions(X: Floats, r: int) -> NDArray[np.float64]:
    """Return the r orthonormal directions, as rows, that keep most of the squares of signals, which are not centred."""
    wide = X.astype(np.float64)
    _, vectors = np.linalg.eigh(wide.T @ wide)
    directions = vectors[:, ::-1][:, :r].T
    signs = np.sign(directions[np.arange(r), np.abs(directions).argmax(axis=1)])  # the same on every machine
    return np.ascontiguousarray(directions * signs[:, None])
