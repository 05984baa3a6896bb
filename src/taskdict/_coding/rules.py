"""Rules: which point of the path of codes from λmax, where they are zero, to λ1 = 0 is the code of a signal."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.validation import check_number, refuse_masked
from taskdict._native import Encoded

RULES = ("lambda1", "n_nonzero", "max_error", "max_l1")
"""The arguments that name a rule, in the order of the documentation."""

_MEANINGS = {
    "lambda1": "the weight of the ℓ1 norm",
    "n_nonzero": "the largest number of nonzeros",
    "max_error": "the largest ‖x − Dα‖²",
    "max_l1": "the largest ‖α‖₁",
}


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule with its amounts: one number for all signals, or one per signal.

    Parameters
    ----------
    name : {"lambda1", "n_nonzero", "max_error", "max_l1"}
        What the amounts are.
    amounts : array of shape (1,) or (n_samples,)
        In float64; for "n_nonzero" they are whole numbers.
    per_signal : bool
        Whether the amounts are an array, with one number per signal.
    """

    name: str
    amounts: NDArray[np.float64]
    per_signal: bool = False

    @classmethod
    def parse(cls, arguments: Mapping[str, Any], *, scalar: bool = False) -> Rule:
        """Return the rule of the one argument that is not None; with `scalar`, arrays are refused."""
        given = {name: arguments[name] for name in RULES if arguments.get(name) is not None}
        if len(given) != 1:
            found = (
                " and ".join(f"{name}={_short(value)}" for name, value in given.items()) if given else "none of them"
            )
            raise ValueError(
                f"exactly one of {', '.join(RULES)} must be given, got {found}: "
                + ("leave out all but one." if given else "for example n_nonzero=10, or lambda1=0.1.")
            )
        ((name, value),) = given.items()
        if np.ndim(value) == 0:
            return cls(name, np.array([_check_amount(name, value)]))
        if scalar:
            raise TypeError(
                f"{name} must be one number for all signals, got an array of shape {np.shape(value)}: pass one number "
                "per signal to taskdict.sparse_encode."
            )
        return cls(name, _check_amounts(name, value), per_signal=True)

    @classmethod
    def of_estimator(cls, parameters: Mapping[str, Any]) -> Rule | None:
        """Return the rule that replaces `lambda1` in an estimator, None if there is none."""
        given = {name: parameters.get(name) for name in RULES[1:]}
        if all(value is None for value in given.values()):
            return None
        return cls.parse(given, scalar=True)

    @property
    def amount(self) -> float:
        """The amount for all signals."""
        (amount,) = self.amounts
        return float(amount)

    def parameter(self, name: str) -> float | int | None:
        """Return the value of an argument that leads to this rule, for one amount: None for those of other rules."""
        if name != self.name:
            return None
        return int(self.amount) if name == "n_nonzero" else self.amount

    @property
    def least_norm(self) -> float:
        """The norm that a signal must exceed for a code on atoms of norm one that is not zero."""
        if self.name == "lambda1":
            return float(self.amounts.min(initial=np.inf)) if len(self.amounts) else 0.0
        return float(np.sqrt(self.amounts.min())) if self.name == "max_error" else 0.0

    def check_fits(self, n_samples: int, n_components: int) -> None:
        """Raise unless there is one number, or one per signal, and no number of nonzeros exceeds that of atoms."""
        if self.per_signal and self.amounts.shape != (n_samples,):
            raise ValueError(
                f"{self.name} must be one number, or one per signal, shape ({n_samples},), got shape "
                f"{self.amounts.shape}."
            )
        if self.name == "n_nonzero" and len(self.amounts) and self.amounts.max() > n_components:
            raise ValueError(
                f"n_nonzero must be at most the number of atoms, {n_components}, got {int(self.amounts.max())}: lower "
                "it, or use a larger dictionary."
            )

    def objectives(self, encoded: Encoded, penalised: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each signal what the choice of a dictionary is to lower under this rule.

        Parameters
        ----------
        encoded : Encoded
            The codes.
        penalised : array of shape (n_samples,)
            ½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖² at the λ1 of each code.

        Returns
        -------
        array of shape (n_samples,)
            For `lambda1` the same. For `max_error` ‖α‖₁, since the error is given. Else ½‖x − Dα‖² + λ2/2‖α‖².
        """
        if self.name == "lambda1":
            return penalised
        rows = np.repeat(np.arange(len(penalised)), np.diff(encoded.indptr))
        sizes = np.abs(encoded.values).astype(np.float64)
        norms: NDArray[np.float64] = np.bincount(rows, sizes, len(penalised)).astype(np.float64)
        return norms if self.name == "max_error" else penalised - encoded.lambda1 * norms


def _check_amount(name: str, value: Any) -> float:
    """Return one amount; an error names it."""
    if name == "n_nonzero":
        scalar = value[()] if isinstance(value, np.ndarray) else value
        if isinstance(scalar, (bool, np.bool_)) or not isinstance(scalar, numbers.Integral):
            raise TypeError(f"n_nonzero must be an integer, {_MEANINGS[name]}, got {value!r}.")
        number = float(int(scalar))
    else:
        number = check_number(name, value)
    if not 0 <= number < np.inf:
        raise ValueError(f"{name} must be finite and at least 0, since it is {_MEANINGS[name]}, got {value!r}.")
    return number


def _check_amounts(name: str, values: Any) -> NDArray[np.float64]:
    """Return one amount per signal as a contiguous array."""
    refuse_masked(name, values)
    array = np.asarray(values)
    kinds, what = ("iu", "integers") if name == "n_nonzero" else ("iuf", "real numbers")
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must hold {what}, {_MEANINGS[name]} of each signal, got dtype {array.dtype}.")
    if array.ndim != 1:
        raise ValueError(f"{name} must be one number, or one per signal, got shape {array.shape}.")
    amounts = np.array(array, np.float64)
    bad = np.flatnonzero(~((amounts >= 0) & np.isfinite(amounts)))
    if len(bad):
        raise ValueError(
            f"{name} must be finite and at least 0, since it is {_MEANINGS[name]}, but entry {bad[0]} is "
            f"{array[bad[0]]}."
        )
    return amounts


def _short(value: Any) -> str:
    return repr(value) if np.ndim(value) == 0 else f"an array of shape {np.shape(value)}"
