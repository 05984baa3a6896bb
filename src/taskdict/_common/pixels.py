"""Images as values from 0 to 1, and back to their own dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats

_FLOAT_RANGE = (-1.0, 2.0)  # values outside of it are surely not meant to be from 0 to 1
_NUMBERS_PER_CHUNK = 1_000_000


def check_image(image: Any, name: str = "image") -> NDArray[Any]:
    """Return an image as an array of shape (height, width) or (height, width, channels).

    Integers are uint8 or uint16 over their full range. Booleans are black and white. Floating-point values must be
    finite, and from 0 to 1, or slightly outside, because noise may have been added.
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
    if array.dtype.kind == "f" and (array.min() < _FLOAT_RANGE[0] or array.max() > _FLOAT_RANGE[1]):
        raise ValueError(
            f"{name} must have values from 0 to 1 if they are floats, got {array.min():g} to {array.max():g}: divide "
            "it by its largest possible value, such as 255."
        )
    return array


def with_channels(image: Any, name: str = "image") -> NDArray[Any]:
    """Return an image as an array of shape (height, width, channels); a grey one has one channel."""
    image = check_image(image, name)
    array: NDArray[Any] = image[:, :, None] if image.ndim == 2 else image
    return array


def grey_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that holds shades of grey: uint8 for black and white, else the dtype itself."""
    return np.dtype(np.uint8) if dtype == np.bool_ else dtype


def to_unit(image: NDArray[Any]) -> Floats:
    """Return an image, or part of one, as floats from 0 to 1: float32, or float64 if it is."""
    if image.dtype.kind == "f":
        return np.asarray(image, np.float64 if image.dtype == np.float64 else np.float32)
    if image.dtype == np.bool_:
        return image.astype(np.float32)
    return image * np.float32(1 / np.iinfo(image.dtype).max)


def from_unit(values: Floats, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return floats from 0 to 1 as an image of another dtype; integers are rounded and clipped to their range."""
    if dtype.kind == "f":
        return values.astype(dtype, copy=False)
    if dtype == np.bool_:
        return values >= 0.5
    top = np.iinfo(dtype).max
    integers = np.empty(values.shape, dtype)
    rows = max(1, _NUMBERS_PER_CHUNK // max(1, values[:1].size))
    for k in range(0, len(values), rows):  # no second copy of a large image in memory
        part = slice(k, k + rows)
        integers[part] = np.clip(np.rint(values[part] * values.dtype.type(top)), 0, top)
    return integers
