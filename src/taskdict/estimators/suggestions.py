"""Parameters worth trying (paper, Section 5.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from taskdict._common.validation import check_signals, check_target_kind

SIZES = (50, 100, 200, 400)
MANY = 100_000  # samples from which on W needs hardly any penalty
LOOKED_AT = 10_000  # signals whose size is measured


def suggest_parameters(X: Any, y: Any = None, *, prefix: str = "") -> dict[str, list[Any]]:
    """Return a grid of parameters worth trying, by the paper's rules of thumb.

    `lambda1` is 0.15 + 0.025 k, for k = −3, …, 3, on signals of norm one, and in proportion to their norm otherwise.
    `n_components` is 50, 100, 200 and 400, as far as there are four signals for each atom. `nu` is small where there
    are many samples, and has several values otherwise. The rest has good defaults.

    Parameters
    ----------
    X : array or sparse array of shape (n_samples, n_features)
        Signals, as the estimator will get them: after the preprocessing of a pipeline.
    y : array of shape (n_samples,) or None, default=None
        Labels; those of −1 do not count as samples for `nu`.
    prefix : str, default=""
        Put before the names, such as ``"taskdrivenclassifier__"`` for a step of a pipeline.

    Returns
    -------
    dict of lists
        For :class:`sklearn.model_selection.GridSearchCV` and its kin. The grid has up to 84 points: a random search
        over it, or over one parameter at a time, is enough.

    Examples
    --------
    >>> import taskdict as td
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> grid = td.suggest_parameters(td.UnitNorm().fit_transform(X), y)
    >>> [round(value, 3) for value in grid["lambda1"]]
    [0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225]
    >>> grid["n_components"]
    [50, 100, 200, 400]
    """
    X = check_signals(X.tocsr() if sp.issparse(X) else X)
    n = X.shape[0]
    if n == 0:
        raise ValueError("X must have at least one signal, got none.")
    some = X[np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(np.intp))]
    some = (some.toarray() if sp.issparse(some) else np.asarray(some)).astype(np.float64)
    if not np.isfinite(some).all():
        raise ValueError("X must be finite, but it contains NaN or infinity.")
    top = float(np.abs(some).max(initial=0))
    if top == 0:
        raise ValueError("X must have signals that are not zero.")
    size = top * float(np.sqrt(np.square(some / top).sum(axis=1).mean()))
    if not 1e-100 < size < 1e100:
        raise ValueError(f"X has signals of size {size:.1e}: scale them first.")
    n_samples = n
    if y is not None:
        y = check_target_kind(y)
        if y.ndim not in (1, 2):
            raise ValueError(f"y must have one dimension, or two for several outputs, got shape {y.shape}.")
        if len(y) != n:
            raise ValueError(f"y has {len(y)} targets, but X has {n} signals.")
        if y.ndim == 1 and y.dtype.kind in "if" and not np.isin(y, (-1, 1)).all():
            n_samples = max(1, int((y != -1).sum()))
    nu = [1e-9] if n_samples >= MANY else [factor / n_samples for factor in (1.0, 0.1, 0.01)]
    return {
        f"{prefix}n_components": [p for p in SIZES if 4 * p <= n] or [max(1, n // 4)],
        f"{prefix}lambda1": [float(size * (0.15 + 0.025 * k)) for k in range(-3, 4)],
        f"{prefix}nu": [float(size**2 * value) for value in nu],
    }
