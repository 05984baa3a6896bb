"""Pictures as numbers from 0 to 1, and back to what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]

_LEAST, _MOST = -1.0, 2.0  # of floats that may be meant to be from 0 to 1
_AT_ONCE = 1_000_000  # numbers that are made whole at once


def check_picture(image: Any, name: str = "image") -> NDArray[Any]:
    """Return a picture as an array of shape (height, width) or (height, width, channels).

    Whole numbers are uint8 or uint16 over their full range, truth values are black and white, and floating-point
    numbers, which must be finite, are from 0 to 1, or a little outside, as noise may bring them.
    """
    if isinstance(image, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: fill what is masked first.")
    array: NDArray[Any] = np.asarray(image)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind != "f" and array.dtype not in (np.uint8, np.uint16, np.bool_):
        raise TypeError(f"{name} must be uint8, uint16, bool or floating-point, got dtype {array.dtype}.")
    if array.ndim not in (2, 3):
        raise ValueError(f"{name} must have shape (height, width) or (height, width, channels), got {array.shape}.")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one pixel, got shape {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, but contains NaN or infinity.")
    if array.dtype.kind == "f" and (array.min() < _LEAST or array.max() > _MOST):
        raise ValueError(
            f"{name} must have values from 0 to 1 if they are floats, got {array.min():g} to {array.max():g}: divide "
            "it by its largest possible value, such as 255."
        )
    return array


def to_unit(image: NDArray[Any]) -> Floats:
    """Return a picture, or part of one, as floats from 0 to 1: float32, or float64 if it is."""
    if image.dtype.kind == "f":
        return np.asarray(image, np.float64 if image.dtype == np.float64 else np.float32)
    if image.dtype == np.bool_:
        return image.astype(np.float32)
    return image * np.float32(1 / np.iinfo(image.dtype).max)


def from_unit(values: Floats, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return floats as a picture of another dtype: rounded and kept in range if it has whole numbers."""
    if dtype.kind == "f":
        return values.astype(dtype, copy=False)
    if dtype == np.bool_:
        return values >= 0.5
    top = np.iinfo(dtype).max
    whole = np.empty(values.shape, dtype)
    rows = max(1, _AT_ONCE // max(1, values[:1].size))
    for k in range(0, len(values), rows):  # a large picture needs no second one in memory
        part = slice(k, k + rows)
        whole[part] = np.clip(np.rint(values[part] * values.dtype.type(top)), 0, top)
    return whole
