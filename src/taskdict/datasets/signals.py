"""Signals that are made, not measured: for examples, tests and benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict._common.validation import check_count, check_penalty

LEAST_FEATURES = 16  # of a waveform


def make_waveforms(
    n_samples: int = 2000, n_features: int = 256, *, noise: float = 0.06, random_state: Any = None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return pulses of four kinds, anywhere in the signal and of either sign, in noise.

    The kinds are a bump, its derivative, a wave packet, and a sudden rise that decays. Since place and sign of a pulse
    are arbitrary, a linear model is hardly better than chance: features must be found first.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of signals.
    n_features : int, default=256
        Samples of a signal, at least 16.
    noise : float, default=0.06
        Standard deviation of the noise in each sample of a signal; pulses have norm one.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        Signals.
    y : array of shape (n_samples,)
        Their kinds, from 0 to 3.

    Examples
    --------
    >>> import taskdict as td
    >>> X, y = td.datasets.make_waveforms(100, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((100, 256), [0, 1, 2, 3])
    """
    n, m = check_count("n_samples", n_samples), check_count("n_features", n_features)
    if m < LEAST_FEATURES:
        raise ValueError(f"n_features must be at least {LEAST_FEATURES}, got {m}.")
    noise, rng = check_penalty("noise", noise), check_random_state(random_state)
    y = rng.randint(4, size=n).astype(np.intp)
    time = np.arange(m) - rng.uniform(m / 4, 3 * m / 4, (n, 1))
    width = rng.uniform(m / 32, 3 * m / 64, (n, 1))
    bump = np.exp(-np.square(time / width))
    kinds = np.stack(
        [
            bump,
            -2 * time / width * bump,
            np.cos(2 * np.pi * time / (m / 21)) * np.exp(-np.square(time / (m / 16))),
            (time > 0) * np.exp(-np.maximum(time, 0) / (m / 17)),
        ]
    )
    pulses = kinds[y, np.arange(n)]
    signs = rng.choice([-1.0, 1.0], (n, 1))
    X: NDArray[np.float64] = signs * pulses / np.linalg.norm(pulses, axis=1, keepdims=True)
    return X + noise * rng.standard_normal((n, m)), y
