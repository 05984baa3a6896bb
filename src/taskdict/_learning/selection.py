"""The choice of λ1, of the model and of ν where they are left open, before anything is learned for the task.

For each of a few λ1 a dictionary is learned without targets. The candidates are then compared by the leave-one-out
error of ridge regression from their features to the targets (:func:`taskdict._learning.convex.leave_one_out`), which
needs no held-out samples. A classifier is compared by the indicators of its classes. What was given stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskdict._coding.coded_batch import CodedBatch, Coding, Part
from taskdict._common.arrays import Floats
from taskdict._learning.convex import design, leave_one_out
from taskdict._learning.models import Columns, JointModel, Model, model_named

LAMBDA1S = (0.1, 0.05)  # that are tried, for signals whose distance from their mean is one
NUS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # that are tried, divided by the number of samples
LIKELIHOOD_SHARE = 0.1  # of the best ν of ridge regression, for a loss that flattens out such as the logistic loss
COMPARED_SAMPLES = 1000  # that candidates are compared on, at most
LEAST_SAMPLES = 10  # that a comparison needs

Learn = Callable[[Coding, Floats | None], Floats]  # a dictionary for a coding, from atoms to start from


@dataclass(frozen=True)
class Choice:
    """What was chosen, in the units of the training; ν is divided by the number of samples."""

    lambda1: float
    decision: str
    nu: float
    dictionary: Floats
    error: float  # leave-one-out, relative to that of the mean; NaN if there was no comparison


def choose(
    X: Floats,
    targets: Floats,
    weights: Floats | None,
    learn: Learn,
    coding: Coding,
    parts: tuple[Part, ...],
    *,
    lambda1s: Sequence[float],
    decisions: Sequence[str],
    columns: Columns,
    quadratic: bool,
    fit_intercept: bool,
    n_threads: int,
) -> Choice:
    """Return the best of the candidates.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Signals with targets.
    targets : array of shape (n_samples, n_outputs)
        Numbers that ridge regression predicts.
    weights : array of shape (n_samples,) or None
        Of the samples.
    learn : callable
        Learns a dictionary without targets.
    coding : Coding
        How signals are encoded, with any λ1.
    parts : tuple of Part
        Which rows of a dictionary are one by itself; empty if all are one.
    lambda1s : sequence of float
        The λ1 to compare.
    decisions : sequence of str
        The models to compare. The first of them compares the λ1, and the others are compared with it at the best λ1.
    columns : Columns
        Of the signals, for a joint model.
    quadratic : bool
        Whether the loss is ½‖y − s‖².
    fit_intercept : bool
        Whether models have an intercept.
    n_threads : int
        Threads to use.
    """
    if len(X) < LEAST_SAMPLES:
        first = Coding(lambda1s[0], coding.lambda2, coding.positive)
        return Choice(lambda1s[0], decisions[0], 1.0 if quadratic else LIKELIHOOD_SHARE, learn(first, None), np.nan)
    some = some_rows(len(X))
    compared, wanted = np.ascontiguousarray(X[some]), targets[some]
    shares = None if weights is None else weights[some]
    nus = [nu / len(some) for nu in NUS]

    def errors(model: Model, coded: CodedBatch) -> Floats:
        features = design(model, coded)
        dense = features if isinstance(model, JointModel) else features.toarray()
        return leave_one_out(dense[:, dense.any(axis=0)], wanted, shares, nus, fit_intercept)

    best: tuple[Floats, CodedBatch, Coding, Floats] | None = None
    D = None
    for lambda1 in lambda1s:
        candidate = Coding(lambda1, coding.lambda2, coding.positive)
        D = learn(candidate, D)
        coded = CodedBatch(compared, D, candidate, parts, n_threads)
        found = errors(model_named(decisions[0], columns), coded)
        if best is None or found.min() < best[0].min():
            best = found, coded, candidate, D
    assert best is not None
    found, coded, candidate, D = best
    decision = decisions[0]
    for other in decisions[1:]:
        its = errors(model_named(other, columns), coded)
        if its.min() < found.min():
            found, decision = its, other
    nu = NUS[int(found.argmin())] * (1.0 if quadratic else LIKELIHOOD_SHARE)
    return Choice(candidate.lambda1, decision, nu, D, float(found.min()))


def some_rows(n: int) -> NDArray[np.intp]:
    """Return some of n rows, evenly spaced."""
    return np.linspace(0, n - 1, min(n, COMPARED_SAMPLES)).astype(np.intp)
