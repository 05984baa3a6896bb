"""Where the descent starts (paper, Section 4.2): an unsupervised dictionary, then the convex problem in the model.

Everything here works on a sample of the signals that is held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from taskdict._coding.coded_batch import CodedBatch, Coding, Part
from taskdict._common.arrays import Floats
from taskdict._common.permutation import permuted
from taskdict._common.validation import check_dictionary
from taskdict._learning.committee import Member
from taskdict._learning.models import LinearModel, evaluate
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.online import DictionaryProblem, OnlineLearner, OnlineState
from taskdict._learning.task_settings import TaskSettings
from taskdict._native import BadSignalError
from taskdict.constraints import UnitBall
from taskdict.losses import is_quadratic, sees_codes
from taskdict.streams.pairs import Batch

UNSUPERVISED_BATCH = 512  # signals
UNSUPERVISED_BATCHES = 60


def first_weights(
    settings: TaskSettings,
    members: Sequence[Member],
    sample: Batch,
    n_atoms: int,
    n_outputs: int,
    seed: int,
    n_threads: int,
) -> list[Weights]:
    """Return where each member starts: a dictionary learned without a task, the first transform, and W = 0.

    Parameters
    ----------
    settings : TaskSettings
        Where dictionary and transform come from.
    members : sequence of Member
        The models.
    sample : Batch
        Signals in the units of the training.
    n_atoms, n_outputs : int
        Of each member.
    seed : int
        Of all random choices.
    n_threads : int
        Threads to use.
    """
    X = sample.X if sample.unlabelled is None else np.concatenate([sample.X, sample.unlabelled])
    Z = _first_transform(settings, X, seed)
    objective, ball = members[0].objective, UnitBall(settings.positive_dictionary)
    shape = (n_atoms, X.shape[1] if Z is None else len(Z))

    def learned(signals: Floats, atoms: int, parts: Sequence[Part]) -> Floats:
        measured = signals if Z is None else np.ascontiguousarray(signals @ Z.T)
        zero = np.zeros((atoms, shape[1]), X.dtype)
        return learn_dictionary(measured, zero, objective.coding, ball, parts, seed, n_threads)

    if settings.dictionary_init is None:
        dictionaries = [learned(X, n_atoms, objective.parts)] * len(members)
    elif isinstance(settings.dictionary_init, str):  # "classes"
        dictionaries = []
        for member in members:
            mine = member.batch(sample)
            kinds, kind_of = np.unique(mine.y, axis=0, return_inverse=True)
            sizes = [len(share) for share in np.array_split(np.arange(n_atoms), max(1, len(kinds)))]
            groups = [mine.X[kind_of.ravel() == kind] for kind in range(len(kinds))] or [X]
            atoms = [learned(group, size, ()) for group, size in zip(groups, sizes, strict=True) if size > 0]
            dictionaries.append(np.concatenate(atoms))
    else:
        D = check_dictionary(settings.dictionary_init, X.dtype, name="dictionary_init")
        if D.shape != shape:
            raise ValueError(f"dictionary_init must have shape (n_components, n_features) = {shape}, got {D.shape}.")
        dictionaries = [np.ascontiguousarray(ball.project(D), X.dtype)] * len(members)
    W, b = np.zeros(objective.model.shape(n_outputs, *shape), X.dtype), np.zeros(n_outputs, X.dtype)
    return [Weights(D, W, b, Z) for D in dictionaries]


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
    X: Floats, start: Floats, coding: Coding, constraint: UnitBall, parts: Sequence[Part], seed: int, n_threads: int
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
        for k in range(UNSUPERVISED_BATCHES):
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


def fit_model(objective: Objective, start: Weights, batch: Batch, n_threads: int = 1) -> Weights:
    """Return the weights with the W and b that minimise the task's loss plus ν/2 ‖W‖² at fixed codes.

    Ridge regression in closed form, any other loss by L-BFGS from the W and b that are given.
    """
    n = len(batch.X)
    if n == 0:
        return start
    coded = objective.encode(start, batch.X, n_threads)
    weights = np.full(n, 1 / n, start.D.dtype)
    if batch.weights is not None:
        weights *= batch.weights
    if is_quadratic(objective.loss) and isinstance(objective.model, LinearModel):
        return _ridge(objective, start, coded, batch.y, weights)
    task = max(objective.task, np.finfo(np.float64).tiny) if objective.task > 0 else 1.0
    shape, n_outputs = start.W.shape, len(start.b)
    dtype = start.D.dtype

    def value(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        W, b = np.ascontiguousarray(flat[:-n_outputs].reshape(shape), dtype), flat[-n_outputs:].astype(dtype)
        terms, gradient = evaluate(objective.model, objective.loss, coded, batch.y, W, b, weights)
        in_b = gradient.b if objective.fit_intercept else np.zeros_like(b)
        flat_gradient = np.concatenate([gradient.W.ravel(), in_b]).astype(np.float64)
        flat_gradient[:-n_outputs] += objective.nu / task * flat[:-n_outputs]
        penalty = 0.5 * objective.nu / task * float(np.square(flat[:-n_outputs]).sum())
        return float(terms.values.sum(dtype=np.float64)) + penalty, flat_gradient

    first = np.concatenate([start.W.ravel(), start.b]).astype(np.float64)
    found = minimize(value, first, jac=True, method="L-BFGS-B", options={"maxiter": 500, "maxcor": 20})
    W, b = found.x[:-n_outputs].reshape(shape), found.x[-n_outputs:]
    if sees_codes(objective.loss) and not np.isfinite(found.fun):
        return start
    return replace(start, W=np.ascontiguousarray(W, dtype), b=b.astype(dtype))


def _ridge(objective: Objective, start: Weights, coded: CodedBatch, y: Floats, weights: Floats) -> Weights:
    """Solve the normal equations, in float64; the intercept takes part without a penalty."""
    dtype = start.D.dtype
    weights = weights.astype(np.float64)
    codes, y = coded.codes.astype(np.float64), np.asarray(y, np.float64)
    total = weights.sum()
    mean_code, mean_y = np.zeros(codes.shape[1]), np.zeros(y.shape[1])
    if objective.fit_intercept and total > 0:
        mean_code, mean_y = codes.T @ weights / total, weights @ y / total
    weighted = codes.multiply(weights[:, None]).tocsr()
    gram = (codes.T @ weighted).toarray() - total * np.outer(mean_code, mean_code)
    right = weighted.T @ y - total * np.outer(mean_code, mean_y)
    nu = objective.nu / objective.task if objective.task > 0 else objective.nu
    W = ridge(gram, right, nu, dtype)
    b = mean_y - W @ mean_code if objective.fit_intercept else start.b
    return replace(start, W=np.ascontiguousarray(W, dtype), b=np.asarray(b).astype(dtype))


def ridge(gram: Floats, right: Floats, nu: float, dtype: Any) -> NDArray[np.float64]:
    """Return the W with W (gram + ν) = rightᵀ, without directions that no code uses, also with ν = 0.

    A direction at the level of rounding in `dtype` counts as not used.
    """
    values, vectors = np.linalg.eigh(gram)
    kept = np.maximum(values, 0) + nu
    floor = max(float(kept.max(initial=0)) * float(np.finfo(dtype).eps) * len(kept), np.finfo(np.float64).tiny)
    inverse = np.where(kept > floor, 1 / np.maximum(kept, floor), 0)
    W: NDArray[np.float64] = (vectors @ (inverse[:, None] * (vectors.T @ right))).T
    return W


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
