"""What makes the signals of a fit hard to learn from, and can be changed by whoever gives them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from taskdict._common.arrays import Floats
from taskdict._learning.models import CONSTANT

ONE_SCALE = 10.0  # features whose sizes differ by a larger factor are not on one scale
OFF_CENTRE = 2.0  # times the distance of the signals from their mean: a mean that is worth subtracting
FAR_OFF_CENTRE = 5.0  # one that has to be subtracted
FEW = 0.01  # of the signals, at least one
MOST = 0.9  # of the energy of all
LEAST_SIGNALS = 20  # that a word on some of them is worth while with


@dataclass(frozen=True)
class Condition:
    """The condition of a sample of signals.

    Attributes
    ----------
    off_centre : float
        The norm of the mean over the root mean square distance from it; 0 if all signals are the same.
    scales : float
        The largest over the smallest standard deviation of a feature that varies.
    n_signals, n_large : int
        How many signals there are, and how many of them count as few.
    share_of_large : float
        The share of the few largest signals in the squared distances of all from the mean.
    """

    off_centre: float
    scales: float
    n_signals: int
    n_large: int
    share_of_large: float

    @classmethod
    def of(cls, X: Floats) -> Condition:
        """Return the condition of signals."""
        n, top = len(X), float(np.abs(X).max(initial=0)) or 1.0
        mean = X.mean(axis=0, dtype=np.float64) / top
        squares = np.square(X / top - mean)
        of_signals, of_features = squares.sum(axis=1), squares.sum(axis=0)
        energy, spreads = float(of_signals.sum()), np.sqrt(of_features[of_features > 0])
        n_large = max(1, math.ceil(FEW * n))
        largest = float(np.partition(of_signals, n - n_large)[n - n_large :].sum())
        norm, distance = float(np.linalg.norm(mean)), math.sqrt(energy / n)
        return cls(
            norm / distance if distance > CONSTANT * np.finfo(X.dtype).eps * norm else 0.0,
            float(spreads.max() / spreads.min()) if len(spreads) > 0 else 1.0,
            n,
            n_large,
            largest / energy if energy > 0 else 0.0,
        )

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the signals, whatever a fit learns from them."""
        found = []
        if self.off_centre > FAR_OFF_CENTRE:
            found.append(
                f"The mean of the signals is {self.off_centre:.0f} times as large as their distance from it, so their "
                "codes describe little but the mean. Subtract it first, with StandardScaler(with_std=False) in a "
                "pipeline, or with td.UnitNorm() if the level of each signal does not matter."
            )
        if self.n_signals >= LEAST_SIGNALS and self.share_of_large > MOST:
            found.append(
                f"The {self.n_large} largest of {self.n_signals} signals have {100 * self.share_of_large:.1f} % of the "
                "energy of all (squared distances from the mean), so a fit sees little else. Leave them out or clip "
                "them if they are errors; otherwise try RobustScaler, or a logarithm of the features."
            )
        return found

    @property
    def remedy(self) -> str:
        """What to try, as a part of a sentence that follows 'give more samples'."""
        if self.scales >= ONE_SCALE:
            return ", bring the features to one scale (StandardScaler)"
        return ", subtract their mean (StandardScaler(with_std=False))" if self.off_centre > OFF_CENTRE else ""
