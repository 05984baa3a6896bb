"""The convex problem in the model: W and b at fixed codes, or for a linear model on the signals themselves.

With features f of the samples (their codes, or the signals), W and b minimise the average of ℓ(y, Wf + b), plus
ν/2 ‖W‖². For ½‖y − s‖² this is ridge regression: its solution has a closed form, and so has its leave-one-out error,
the error on each sample of the model that is fitted to all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from taskdict._coding.coded_batch import CodedBatch
from taskdict._common.arrays import Floats
from taskdict._learning.models import JointModel, LinearModel, Model, SplitModel, evaluate, weighted_terms
from taskdict._learning.objective import Objective, Weights
from taskdict.losses import Loss, is_quadratic, sees_codes
from taskdict.streams.pairs import Batch

MOST_ATOMS = 2048  # for ridge regression in closed form, which needs the products of all pairs of their coefficients
LEAST_FREEDOM = 1e-10  # of a sample from its own prediction, 1 − h; less is rounding
THOROUGH: dict[str, float] = {"maxiter": 500, "maxcor": 20}  # of L-BFGS
QUICK: dict[str, float] = {"maxiter": 100, "maxcor": 20, "ftol": 1e-6}  # as scikit-learn's LogisticRegression
Slopes = tuple[float, Floats, Floats]  # a value, and its gradients in W and b


def fit_model(objective: Objective, start: Weights, batch: Batch, n_threads: int = 1) -> Weights:
    """Return the weights with the W and b that minimise the task's loss plus ν/2 ‖W‖² at fixed codes.

    Ridge regression in closed form, any other loss, or more than `MOST_ATOMS` atoms, by L-BFGS from the W and b that
    are given.
    """
    n = len(batch.X)
    if n == 0:
        return start
    coded = objective.encode(start, batch.X, n_threads)
    weights = np.full(n, 1 / n, start.D.dtype)
    if batch.weights is not None:
        weights *= batch.weights
    has_features = isinstance(objective.model, (LinearModel, SplitModel, JointModel))
    if is_quadratic(objective.loss) and has_features and len(start.D) <= MOST_ATOMS:
        nu = objective.nu / objective.task if objective.task > 0 else objective.nu
        features = design(objective.model, coded)
        found = _ridge(features, batch.y, weights, nu, objective.fit_intercept, start.W, start.b)
        return replace(start, W=found.W, b=found.b)
    task = max(objective.task, np.finfo(np.float64).tiny) if objective.task > 0 else 1.0

    slopes: Callable[[Floats, Floats], Slopes]
    if has_features and isinstance(objective.loss, Loss) and not sees_codes(objective.loss):
        slopes = _slopes(feature_blocks(objective.model, coded), batch.y, weights, objective.loss)
    else:

        def slopes(W: Floats, b: Floats) -> Slopes:
            terms, gradient = evaluate(objective.model, objective.loss, coded, batch.y, W, b, weights)
            return float(terms.values.sum(dtype=np.float64)), gradient.W, gradient.b

    W, b, value = _minimise(slopes, start.W, start.b, objective.nu / task, objective.fit_intercept)
    if sees_codes(objective.loss) and not np.isfinite(value):
        return start
    return replace(start, W=W, b=b)


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model: scores are Wf + b for features f."""

    W: Floats
    b: Floats


def fit_linear(
    features: Floats, y: Any, weights: Floats | None, loss: Loss, start: Linear, nu: float, fit_intercept: bool
) -> Linear:
    """Return the linear model that minimises the average loss plus ν/2 ‖W‖².

    Parameters
    ----------
    features : array of shape (n_samples, n_features)
        Features of the samples.
    y : array
        Targets, as the loss takes them.
    weights : array of shape (n_samples,) or None
        Of the samples.
    loss : Loss
        Of the scores.
    start : Linear
        Where to start.
    nu : float
        Weight of the penalty.
    fit_intercept : bool
        Whether there is an intercept.
    """
    n = len(features)
    shares = np.full(n, 1 / n, features.dtype)
    if weights is not None:
        shares *= weights
    if is_quadratic(loss):
        return _ridge(features, y, shares, nu, fit_intercept, start.W, start.b)
    features, basis = _in_span(features)
    if basis is not None:
        start = replace(start, W=start.W @ basis)
    slopes = _slopes([features], y, shares, loss)
    W, b, _ = _minimise(slopes, start.W, start.b, nu, fit_intercept, options=QUICK)
    return Linear(W if basis is None else W @ basis.T, b)


def _in_span(features: Floats) -> tuple[Floats, Floats | None]:
    """Return fewer features where there are fewer samples: coordinates in their span, and its basis, else None.

    With ν > 0 the rows of the best W lie in that span, and ‖W‖ is the same in its coordinates.
    """
    if len(features) >= features.shape[1]:
        return features, None
    basis, coordinates = np.linalg.qr(features.T)
    return np.ascontiguousarray(coordinates.T), basis


def _slopes(blocks: Sequence[Any], y: Any, shares: Floats, loss: Loss) -> Callable[[Floats, Floats], Slopes]:
    """Return the weighted sum of the loss of Wf + b, as a function; f are the columns of all blocks side by side."""
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]

    def slopes(W: Floats, b: Floats) -> Slopes:
        scores = sum((block @ part.T for block, part in zip(blocks, np.split(W, ends, axis=1), strict=True)), b)
        terms = weighted_terms(loss, y, scores, shares)
        through = np.ascontiguousarray(terms.scores, W.dtype)
        in_W = np.concatenate([through.T @ block for block in blocks], axis=1)
        return float(terms.values.sum(dtype=np.float64)), in_W, through.sum(axis=0)

    return slopes


def _minimise(
    slopes: Callable[[Floats, Floats], Slopes],
    W: Floats,
    b: Floats,
    nu: float,
    fit_intercept: bool,
    options: dict[str, float] = THOROUGH,
) -> tuple[Floats, Floats, float]:
    """Return the W and b that minimise a function plus ν/2 ‖W‖² by L-BFGS from those that are given, and its value."""
    shape, n_outputs, dtype = W.shape, len(b), W.dtype

    def value(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        at = np.ascontiguousarray(flat[:-n_outputs].reshape(shape), dtype), flat[-n_outputs:].astype(dtype)
        found, in_W, in_b = slopes(*at)
        gradient = np.concatenate([in_W.ravel(), in_b if fit_intercept else 0 * in_b]).astype(np.float64)
        gradient[:-n_outputs] += nu * flat[:-n_outputs]
        return found + 0.5 * nu * float(np.square(flat[:-n_outputs]).sum()), gradient

    first = np.concatenate([W.ravel(), b]).astype(np.float64)
    found = minimize(value, first, jac=True, method="L-BFGS-B", options=options)
    W, b = found.x[:-n_outputs].reshape(shape), found.x[-n_outputs:]
    return np.ascontiguousarray(W, dtype), b.astype(dtype), float(found.fun)


def _ridge(features: Any, y: Floats, weights: Floats, nu: float, fit_intercept: bool, W: Floats, b: Floats) -> Linear:
    """Solve the normal equations, in float64; the intercept takes part without a penalty. `W` and `b` give shapes."""
    dtype = W.dtype
    weights = weights.astype(np.float64)
    features, y = features.astype(np.float64), np.asarray(y, np.float64)
    basis = None
    if not sp.issparse(features):
        features, basis = _in_span(features)
    total = weights.sum()
    mean, mean_y = np.zeros(features.shape[1]), np.zeros(y.shape[1])
    if fit_intercept and total > 0:
        mean, mean_y = features.T @ weights / total, weights @ y / total
    if sp.issparse(features):
        weighted = features.multiply(weights[:, None]).tocsr()
        gram = (features.T @ weighted).toarray()
    else:
        weighted = features * weights[:, None]
        gram = features.T @ weighted
    gram = gram - total * np.outer(mean, mean)
    right = weighted.T @ y - total * np.outer(mean, mean_y)
    found = ridge(gram, right, nu, dtype)
    intercept = mean_y - found @ mean if fit_intercept else b
    if basis is not None:
        found = found @ basis.T
    return Linear(np.ascontiguousarray(found, dtype), np.asarray(intercept).astype(dtype))


def feature_blocks(model: Model, coded: CodedBatch) -> list[Any]:
    """Return the features f of each sample, where the scores are Wf + b: the codes, sparse, and maybe the signals."""
    if isinstance(model, LinearModel):
        return [coded.codes]
    split = coded.split
    codes = sp.csr_array((split.values, split.indices, split.indptr), shape=(len(coded.X), 2 * len(coded.D)))
    return [codes, model.features(coded)] if isinstance(model, JointModel) else [codes]


def design(model: Model, coded: CodedBatch) -> Any:
    """Return the features of each sample in one array: sparse if they are codes only."""
    blocks = feature_blocks(model, coded)
    return blocks[0] if len(blocks) == 1 else np.hstack([blocks[0].toarray(), blocks[1]])


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


def leave_one_out(
    features: Floats, targets: Floats, weights: Floats | None, nus: Sequence[float], fit_intercept: bool = True
) -> NDArray[np.float64]:
    """Return the leave-one-out error of ridge regression for each ν, relative to that of the mean alone.

    The prediction ŝᵢ of sample i by the model of all samples has the leverage hᵢ = ∂ŝᵢ/∂yᵢ; by the model of all others
    it is off by (yᵢ − ŝᵢ)/(1 − hᵢ) (the PRESS statistic). One eigendecomposition, of the smaller of the two Gram
    matrices, serves all ν. Weights of samples stay their shares in the whole.

    Parameters
    ----------
    features : array of shape (n_samples, n_features)
        What the model sees of the samples.
    targets : array of shape (n_samples, n_outputs)
        Numbers.
    weights : array of shape (n_samples,) or None
        Of the samples.
    nus : sequence of float
        Penalties on ‖W‖²/2, beside the average of ½‖y − s‖².
    fit_intercept : bool
        Whether there is an intercept.

    Returns
    -------
    array of shape (len(nus),)
        0 is perfect; 1 is as good as the mean.
    """
    F, Y = features.astype(np.float64), targets.astype(np.float64)
    n = len(F)
    shares = np.full(n, 1 / n) if weights is None else weights.astype(np.float64) / weights.sum(dtype=np.float64)
    spread = float(shares @ np.square(Y - shares @ Y).sum(axis=1))
    if fit_intercept:
        F, Y = F - shares @ F, Y - shares @ Y
    roots = np.sqrt(shares)
    F, Y = F * roots[:, None], Y * roots[:, None]  # of the same average with equal weights
    held_out = _held_out_of_many if F.shape[1] < n else _held_out_of_few
    errors = [np.square(off).sum() for off in held_out(F, Y, nus, roots if fit_intercept else np.zeros(n))]
    return np.array(errors) / max(spread, np.finfo(np.float64).tiny)


def _held_out_of_many(F: Floats, Y: Floats, nus: Sequence[float], constant: Floats) -> Iterator[Floats]:
    """Yield leave-one-out residuals for each ν, where there are more samples than features.

    `constant` is the direction of the intercept, zero without one.
    """
    values, vectors = np.linalg.eigh(F.T @ F)
    scores, onto = F @ vectors, vectors.T @ (F.T @ Y)
    squares = np.square(scores)
    for nu in nus:
        inverse = 1 / (np.maximum(values, 0) + max(nu, np.finfo(np.float64).tiny))
        leverage = squares @ inverse + np.square(constant)
        yield (Y - scores @ (inverse[:, None] * onto)) / np.maximum(1 - leverage, LEAST_FREEDOM)[:, None]


def _held_out_of_few(F: Floats, Y: Floats, nus: Sequence[float], constant: Floats) -> Iterator[Floats]:
    """Yield the same where there are at least as many features as samples.

    Residuals and 1 − h are ν times (FFᵀ + ν)⁻¹Y and the diagonal of (FFᵀ + ν)⁻¹, without the direction of the
    intercept. ν cancels, so no digits are lost where the model passes through every sample.
    """
    kernel = F @ F.T
    values, vectors = np.linalg.eigh(kernel + (2 * np.trace(kernel) + 1) * np.outer(constant, constant))
    if constant.any():
        values, vectors = values[:-1], vectors[:, :-1]  # the largest is that of the intercept
    onto = vectors.T @ Y
    for nu in nus:
        inverse = 1 / (np.maximum(values, 0) + max(nu, np.finfo(np.float64).tiny))
        freedom = np.square(vectors) @ inverse
        least = np.finfo(np.float64).eps * inverse.max(initial=1)
        yield (vectors @ (inverse[:, None] * onto)) / np.maximum(freedom, least)[:, None]
