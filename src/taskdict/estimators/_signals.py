"""Signals as scikit-learn checks them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from taskdict._validation import refuse_masked


def validated(estimator: Any, X: Any, **settings: Any) -> Any:
    """Return what :func:`sklearn.utils.validation.validate_data` makes of X.

    It takes masked arrays and dates for numbers; they are refused here.
    """
    refuse_masked("X", X)
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "mMV":
        raise TypeError(f"X must hold real numbers, got dtype {dtype}.")
    return validate_data(estimator, X, **settings)
