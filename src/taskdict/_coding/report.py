"""What is known of codes: how each was found, and how far it is from the optimum."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._native import Encoded


class Status(enum.IntEnum):
    """How the code of a signal was found."""

    CONVERGED = 0
    """By the fast path, with a certificate."""
    EXACT = 1
    """By slower paths in wider arithmetic (ties, nearly dependent atoms, extreme scales), with a certificate."""
    INEXACT = 2
    """The code is not known to satisfy the optimality conditions to the tolerance: rounding its
    coefficients to the dtype costs more than that, or entries over hundreds of magnitudes leave no digits to certify
    it. Seen only where active atoms are nearly dependent, or close to the limits of the dtype. With `max_error` or
    `max_l1`, also a code whose error or norm is not known to be as asked for."""
    UNMET = 3
    """No code has an error as small as `max_error`: the code is the one at lambda1 = 0, with a certificate. With "omp",
    the pursuit has ended before, for example at `n_nonzero` atoms."""
    UNOBSERVED = 4
    """Nothing of the signal was observed. Its code is zero."""


@dataclass(frozen=True)
class Report:
    """The status and the optimality of each code; every array has shape (n_samples,).

    Attributes
    ----------
    status : array of uint8
        A :class:`Status` for each signal.
    kkt : array of the codes' dtype
        The largest violation of the optimality conditions (Lemma 1 of the paper), relative to
        ``max(lambda1, max(abs(dictionary @ x)))``: at most 1e-10 for float64 and 1e-4 for float32 unless the status is
        ``INEXACT``. With "omp", the largest correlation of the residual with an atom of the support, which is zero for
        least squares, relative to ``max(abs(dictionary @ x))``.
    n_steps : array of int32
        Passes over the dictionary ("active-set") or points where the path bends ("homotopy", and rules other than
        `lambda1`); with "omp", the atoms that were chosen.
    lambda1 : array of float64
        The weight of the ℓ1 norm that the code is optimal for: the given one, or where the rule has led to. Encoding a
        signal with this `lambda1` gives the same code, where that is unique. For a zero code under another rule, the
        least weight at which it is zero. NaN with "omp".
    """

    status: NDArray[np.uint8]
    kkt: NDArray[Any]
    n_steps: NDArray[np.int32]
    lambda1: NDArray[np.float64]

    @classmethod
    def of(cls, encoded: Encoded) -> Report:
        """Return the report on codes from the core."""
        return cls(encoded.status, encoded.kkt, encoded.n_steps, encoded.lambda1)

    def __repr__(self) -> str:
        shown = [s for s in Status if s <= Status.INEXACT or (self.status == s).any()]
        counts = ", ".join(f"{int(np.sum(self.status == s))} {s.name.lower()}" for s in shown)
        worst = f"{float(np.max(self.kkt)):.1e}" if len(self.kkt) else "none"
        return f"Report({len(self.status)} signals: {counts}; largest kkt {worst})"
