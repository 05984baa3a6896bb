"""Random problems of sparse coding, ordinary and hard ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import taskdict as td
from taskdict import _native

Rng = np.random.Generator
Floats = NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """Signals to encode on a dictionary, and how."""

    label: str
    """The kinds of dictionary, signals and penalty that it was made of."""
    ordinary: bool
    """Whether the dtype can represent it without trouble, so that a code that is marked as inexact is a surprise."""
    X: Any
    D: Floats
    lambda1: float
    lambda2: float
    positive: bool
    method: str
    direct: bool = False
    """Whether it is encoded without a Gram matrix, as if the dictionary were large."""

    @property
    def dense(self) -> Floats:
        """The signals as a dense array."""
        return self.X.toarray() if sp.issparse(self.X) else np.asarray(self.X)

    def encode(self, X: Any = None, n_threads: int = 1) -> tuple[sp.csr_array, td.Report]:
        """Encode the signals, or others in their place."""
        with patch.object(_native, "needs_no_gram", lambda n_signals, dictionary: self.direct):
            return td.sparse_encode(
                self.X if X is None else X,
                self.D,
                lambda1=self.lambda1,
                lambda2=self.lambda2,
                positive=self.positive,
                method=self.method,
                n_threads=n_threads,
                return_report=True,
            )

    def describe(self) -> str:
        """Return it in a line."""
        n, m = self.X.shape
        return (
            f"{self.label}: {n} signals, {m} features, {len(self.D)} atoms, {self.D.dtype}, lambda1={self.lambda1!r}, "
            f"lambda2={self.lambda2!r}, positive={self.positive}, method={self.method!r}"
            + (", direct" if self.direct else "")
        )


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms == 0, 1, norms)


def _dct(p: int, m: int) -> Floats:
    return _unit(np.cos(np.pi / p * np.arange(p)[:, None] * (np.arange(m) + 0.5)))


# Each makes p atoms of m features.
DICTIONARIES = {
    "gaussian": lambda rng, p, m: _unit(rng.standard_normal((p, m))),
    "raw gaussian": lambda rng, p, m: rng.standard_normal((p, m)),
    "binary": lambda rng, p, m: rng.integers(0, 2, (p, m)).astype(float),
    "signs": lambda rng, p, m: rng.choice([-1.0, 1.0], (p, m)),
    "integers": lambda rng, p, m: rng.integers(-2, 3, (p, m)).astype(float),
    "identity": lambda rng, p, m: np.eye(p, m),
    "dct": lambda rng, p, m: _dct(p, m),
    "non-negative": lambda rng, p, m: _unit(np.abs(rng.standard_normal((p, m)))),
    "duplicates": lambda rng, p, m: _duplicates(rng, p, m),
    "dependent": lambda rng, p, m: _dependent(rng, p, m),
    "nearly parallel": lambda rng, p, m: (
        rng.standard_normal(m) + 10.0 ** -rng.uniform(0, 9) * rng.standard_normal((p, m))
    ),
    "offset": lambda rng, p, m: 1000 + rng.standard_normal((p, m)),
    "zero atoms": lambda rng, p, m: rng.standard_normal((p, m)) * (rng.random((p, 1)) < 0.7),
    "monomials": lambda rng, p, m: np.vander(np.linspace(0, 1, m), p, increasing=True).T,
    "norms over decades": lambda rng, p, m: rng.standard_normal((p, m)) * 10.0 ** rng.uniform(-8, 8, (p, 1)),
    "features over decades": lambda rng, p, m: rng.standard_normal((p, m)) * 10.0 ** rng.uniform(-8, 8, m),
    "entries over decades": lambda rng, p, m: rng.standard_normal((p, m)) * 10.0 ** rng.uniform(-12, 12, (p, m)),
    "entries over hundreds of decades": lambda rng, p, m: (
        rng.standard_normal((p, m)) * 10.0 ** rng.uniform(-150, 150, (p, m))
    ),
}
ORDINARY_DICTIONARIES = ("gaussian", "raw gaussian", "binary", "signs", "integers", "identity", "dct", "non-negative")


def _duplicates(rng: Rng, p: int, m: int) -> Floats:
    few = rng.standard_normal((max(1, p // 3), m))
    return few[rng.integers(0, len(few), p)] * rng.choice([-1.0, 1.0, 1.0, 2.0], (p, 1))


def _dependent(rng: Rng, p: int, m: int) -> Floats:
    rank = int(rng.integers(1, max(2, min(p, m))))
    return rng.standard_normal((p, rank)) @ rng.standard_normal((rank, m))


# Each makes n signals for the dictionary D.
SIGNALS = {
    "gaussian": lambda rng, n, D: rng.standard_normal((n, D.shape[1])),
    "unit norm": lambda rng, n, D: _unit(rng.standard_normal((n, D.shape[1]))),
    "binary": lambda rng, n, D: rng.integers(0, 2, (n, D.shape[1])).astype(float),
    "signs": lambda rng, n, D: rng.choice([-1.0, 1.0], (n, D.shape[1])),
    "integers": lambda rng, n, D: rng.integers(-3, 4, (n, D.shape[1])).astype(float),
    "constant": lambda rng, n, D: np.full((n, D.shape[1]), 0.7) * rng.standard_normal((n, 1)),
    "combinations": lambda rng, n, D: _combinations(rng, n, D),
    "atoms": lambda rng, n, D: D[rng.integers(0, len(D), n)] * rng.choice([-1.0, 1.0, 0.5, 3.0], (n, 1)),
    "some zero": lambda rng, n, D: rng.standard_normal((n, D.shape[1])) * (rng.random((n, 1)) < 0.5),
    "few nonzeros": lambda rng, n, D: rng.standard_normal((n, D.shape[1])) * (rng.random((n, D.shape[1])) < 0.1),
    "nearly orthogonal": lambda rng, n, D: _nearly_orthogonal(rng, n, D),
    "one large negative": lambda rng, n, D: _one_large_negative(rng, n, D),
    "norms over decades": lambda rng, n, D: rng.standard_normal((n, D.shape[1])) * 10.0 ** rng.uniform(-8, 8, (n, 1)),
    "entries over decades": lambda rng, n, D: (
        rng.standard_normal((n, D.shape[1])) * 10.0 ** rng.uniform(-12, 12, (n, D.shape[1]))
    ),
    "entries over hundreds of decades": lambda rng, n, D: (
        rng.standard_normal((n, D.shape[1])) * 10.0 ** rng.uniform(-150, 150, (n, D.shape[1]))
    ),
    "denormal": lambda rng, n, D: rng.standard_normal((n, D.shape[1])) * 10.0 ** rng.uniform(-45, -36, (n, 1)),
}
ORDINARY_SIGNALS = (
    "gaussian",
    "unit norm",
    "binary",
    "signs",
    "integers",
    "constant",
    "combinations",
    "atoms",
    "some zero",
    "few nonzeros",
)


def _combinations(rng: Rng, n: int, D: Floats) -> Floats:
    codes = rng.standard_normal((n, len(D))) * (rng.random((n, len(D))) < min(1, 3 / len(D)))
    return codes @ D + 0.01 * rng.standard_normal((n, D.shape[1])) * np.abs(D).max(initial=0)


def _nearly_orthogonal(rng: Rng, n: int, D: Floats) -> Floats:
    X = rng.standard_normal((n, D.shape[1]))
    basis = np.linalg.svd(_unit(np.nan_to_num(D)), full_matrices=False)[2]
    for _ in range(2):
        X = X - (X @ basis.T) @ basis
    return X + 10.0 ** -rng.uniform(6, 14, (n, 1)) * rng.standard_normal((n, D.shape[1]))


def _one_large_negative(rng: Rng, n: int, D: Floats) -> Floats:
    X = rng.standard_normal((n, D.shape[1]))
    return X - 10.0 ** rng.uniform(2, 8, (n, 1)) * _unit(D)[rng.integers(0, len(D), n)]


# (weight, features, atoms, signals): how large a problem is, and how many signals it has.
SIZES = [
    (2, (1, 5), (1, 6), 3000),
    (3, (2, 25), (2, 40), 1500),
    (2, (20, 80), (20, 150), 500),
    (1, (1, 12), (60, 300), 300),
    (1, (100, 400), (1, 12), 600),
    (0.3, (100, 250), (100, 350), 40),
]
RATIOS = ("zero", "tiny", "small", "medium", "near the largest", "largest", "just above", "mixed")


def _ratios(rng: Rng, mode: str, n: int) -> Floats:
    """Return λ1/λmax for each signal."""
    sizes = {
        "tiny": lambda: 10.0 ** -rng.uniform(4, 10, n),
        "small": lambda: 10.0 ** -rng.uniform(1, 3, n),
        "medium": lambda: rng.uniform(0.1, 0.95, n),
        "near the largest": lambda: 1 - 10.0 ** -rng.uniform(1, 16, n),
        "largest": lambda: np.ones(n),
        "just above": lambda: 1 + 10.0 ** -rng.uniform(1, 16, n),
    }
    if mode != "mixed":
        return sizes[mode]()
    several = np.stack([sizes[name]() for name in ("small", "medium", "near the largest", "just above")])
    return several[rng.integers(0, len(several), n), np.arange(n)]


def _pick(rng: Rng, names: Any, weights: Any = None) -> Any:
    return list(names)[int(rng.choice(len(names), p=weights))]


def draw(rng: Rng, *, fewer: int = 1) -> Problem:
    """Draw a problem; `fewer` divides the number of its signals."""
    if rng.random() < 0.02:
        return _long_rows(rng)
    weights = np.array([size[0] for size in SIZES])
    _, features, atoms, n = _pick(rng, SIZES, weights / weights.sum())
    m, p = (int(rng.integers(low, high + 1)) for low, high in (features, atoms))
    # One in two problems is made of ordinary parts only.
    tame = bool(rng.random() < 0.5)
    of_dictionary = _pick(rng, ORDINARY_DICTIONARIES if tame else DICTIONARIES)
    of_signals = _pick(rng, ORDINARY_SIGNALS if tame else SIGNALS)
    of_lambda = _pick(rng, RATIOS, [0.08, 0.1, 0.2, 0.27, 0.15, 0.05, 0.05, 0.1])
    dtype = np.dtype(_pick(rng, (np.float32, np.float64)))
    positive = bool(rng.random() < 0.4)
    method = _pick(rng, ("auto", "active-set", "homotopy"), [0.6, 0.1, 0.3])
    if not tame or of_lambda in ("zero", "tiny"):
        n = max(2, n // 4)
    n = max(2, n // fewer)
    with np.errstate(all="ignore"):
        D = DICTIONARIES[of_dictionary](rng, p, m)
        X = SIGNALS[of_signals](rng, n, D)
        scale_D, scale_X = _scales(rng, tame, dtype)
        D, X = _fit(D * scale_D, dtype), _fit(X * scale_X, dtype)
        X, lambda1 = _penalised(rng, X, D, of_lambda, positive)
        X = _fit(X, dtype)
        square = float(np.max(np.square(D.astype(np.longdouble)).sum(axis=1), initial=0))
    lambda2 = _lambda2(rng, square)
    label = f"{of_dictionary} / {of_signals} / {of_lambda}"
    # The dtype limits what a code of nearly dependent atoms can reach; penalties that vanish make them likely.
    ordinary = tame and of_lambda not in ("zero", "tiny")
    X = _laid_out(rng, X)
    direct = method != "homotopy" and of_lambda != "zero" and bool(rng.random() < 0.4)
    return Problem(label, ordinary, X, D, lambda1, lambda2, positive, method, direct)


def _scales(rng: Rng, tame: bool, dtype: Any) -> tuple[float, float]:
    if tame or rng.random() < 0.6:
        return 1.0, 1.0
    if rng.random() < 0.5:
        return tuple(10.0 ** rng.choice([-12, 0, 12], 2))
    decades = 15 if dtype == np.float32 else 140
    return tuple(10.0 ** rng.uniform(-decades, decades, 2))


def _fit(values: Any, dtype: Any) -> Floats:
    """Return the values in the dtype; those that it cannot hold become its largest."""
    most = np.finfo(dtype).max
    return np.clip(np.nan_to_num(np.asarray(values, np.float64)), -most / 4, most / 4).astype(dtype)


def _penalised(rng: Rng, X: Floats, D: Floats, mode: str, positive: bool) -> tuple[Floats, float]:
    """Return signals scaled so that one λ1 is the wanted part of the λmax of each, and this λ1."""
    if mode == "zero":
        return X, 0.0
    wide = X.astype(np.float64)
    products = wide @ D.T.astype(np.float64)
    tops = (products if positive else np.abs(products)).max(axis=1, initial=0)
    usable = np.isfinite(tops) & (tops > 0)
    if not usable.any():
        return X, float(10.0 ** rng.uniform(-6, 2))
    ratios = _ratios(rng, mode, len(X))
    how = rng.random()
    if how < 0.2:  # as they are: one signal has the wanted part, ties stay ties
        row = int(rng.choice(np.flatnonzero(usable)))
        return X, min(float(tops[row] * ratios[row]), 1e300)
    lambda1 = float(np.median(tops[usable]))
    factors = np.where(usable, lambda1 / np.where(usable, tops, 1) / ratios, 1.0)
    if how < 0.4:  # by powers of two: ties stay ties
        factors = np.exp2(np.rint(np.log2(factors)))
    return wide * factors[:, None], lambda1


def _lambda2(rng: Rng, square: float) -> float:
    chance = rng.random()
    size = min(square, 1e300) or 1.0
    if chance < 0.5:
        return 0.0
    if chance < 0.65:
        return min(size * 10.0 ** -rng.uniform(6, 14), 1e300)
    if chance < 0.9:
        return min(size * 10.0 ** -rng.uniform(0, 4), 1e300)
    return min(size * 10.0 ** rng.uniform(0, 6), 1e300)


def _laid_out(rng: Rng, X: Floats) -> Any:
    """Return the signals in some memory layout."""
    layout = _pick(rng, ("rows", "columns", "strided", "reversed", "csr"), [0.5, 0.1, 0.1, 0.05, 0.25])
    if layout == "columns":
        return np.asfortranarray(X)
    if layout == "strided":
        room = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
        room[::2, ::3] = X
        return room[::2, ::3]
    if layout == "reversed":
        return X[::-1, ::-1].copy()[::-1, ::-1]
    return sp.csr_array(X) if layout == "csr" else X


def _long_rows(rng: Rng) -> Problem:
    """Sparse signals with very many nonzeros: sums that lose much by rounding."""
    m = int(rng.integers(50_000, 200_000))
    n, p = int(rng.integers(2, 12)), int(rng.integers(1, 12))
    dtype = np.dtype(_pick(rng, (np.float32, np.float64)))
    values = _pick(rng, ("binary", "unit norm", "equal"))
    X = rng.integers(0, 2, (n, m)).astype(float) if values == "binary" else np.abs(rng.standard_normal((n, m)))
    X = np.full((n, m), 0.7) if values == "equal" else X
    of_dictionary = _pick(rng, ("binary", "non-negative", "gaussian"))
    D = _unit(DICTIONARIES[of_dictionary](rng, p, m)).astype(dtype)
    X, lambda1 = _penalised(rng, _unit(X).astype(dtype), D, _pick(rng, ("small", "medium", "near the largest")), False)
    X = sp.csr_array(_fit(X, dtype)) if rng.random() < 0.8 else _fit(X, dtype)
    method = _pick(rng, ("auto", "homotopy"))
    return Problem(f"long rows, {of_dictionary} / {values}", True, X, D, lambda1, 0.0, bool(rng.random() < 0.3), method)
