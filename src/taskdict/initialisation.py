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

from taskdict._native import BadSignalError
from taskdict._permutation import permuted
from taskdict.constraints import UnitBall
from taskdict.descent import Batch, Objective, Parameters
from taskdict.gradients import CodedBatch, Coding, Part
from taskdict.losses import CodeLoss, SquaredLoss
from taskdict.models import LinearModel, evaluate
from taskdict.unsupervised import OnlineLearner, Problem, State

Floats = NDArray[Any]

BATCH = 512  # signals in a batch of the unsupervised problem
BATCHES = 60


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
        problem = Problem(coding.lambda1, coding.lambda2, coding.positive, constraint)
        learner = OnlineLearner(problem, State.start(constraint.project(atoms)), n_threads)
        size = min(BATCH, len(signals))
        for k in range(BATCHES):
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


def fit_model(objective: Objective, parameters: Parameters, batch: Batch, n_threads: int = 1) -> Parameters:
    """Return the parameters with the W and b that minimise the task's loss plus ν/2 ‖W‖² at fixed codes.

    Ridge regression in closed form, any other loss by L-BFGS from the W and b that are given.
    """
    n = len(batch.X)
    if n == 0:
        return parameters
    coded = objective.encode(parameters, batch.X, n_threads)
    weights = np.full(n, 1 / n, parameters.D.dtype)
    if batch.weights is not None:
        weights *= batch.weights
    if isinstance(objective.loss, SquaredLoss) and isinstance(objective.model, LinearModel):
        return _ridge(objective, parameters, coded, batch.y, weights)
    task = max(objective.task, np.finfo(np.float64).tiny) if objective.task > 0 else 1.0
    shape, n_outputs = parameters.W.shape, len(parameters.b)
    dtype = parameters.D.dtype

    def value(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        W, b = np.ascontiguousarray(flat[:-n_outputs].reshape(shape), dtype), flat[-n_outputs:].astype(dtype)
        terms, gradient = evaluate(objective.model, objective.loss, coded, batch.y, W, b, weights)
        in_b = gradient.b if objective.fit_intercept else np.zeros_like(b)
        flat_gradient = np.concatenate([gradient.W.ravel(), in_b]).astype(np.float64)
        flat_gradient[:-n_outputs] += objective.nu / task * flat[:-n_outputs]
        penalty = 0.5 * objective.nu / task * float(np.square(flat[:-n_outputs]).sum())
        return float(terms.values.sum(dtype=np.float64)) + penalty, flat_gradient

    first = np.concatenate([parameters.W.ravel(), parameters.b]).astype(np.float64)
    found = minimize(value, first, jac=True, method="L-BFGS-B", options={"maxiter": 500, "maxcor": 20})
    W, b = found.x[:-n_outputs].reshape(shape), found.x[-n_outputs:]
    if isinstance(objective.loss, CodeLoss) and not np.isfinite(found.fun):
        return parameters
    return replace(parameters, W=np.ascontiguousarray(W, dtype), b=b.astype(dtype))


def _ridge(objective: Objective, parameters: Parameters, coded: CodedBatch, y: Floats, weights: Floats) -> Parameters:
    """Solve the normal equations, in float64; the intercept takes part without a penalty."""
    dtype = parameters.D.dtype
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
    b = mean_y - W @ mean_code if objective.fit_intercept else parameters.b
    return replace(parameters, W=np.ascontiguousarray(W, dtype), b=np.asarray(b).astype(dtype))


def ridge(gram: Floats, right: Floats, nu: float, dtype: Any) -> NDArray[np.float64]:
    """Return the W with W (gram + ν) = rightᵀ, where directions that no code uses have no say, also with ν = 0.

    What is at the level of rounding in `dtype` counts as not used.
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
