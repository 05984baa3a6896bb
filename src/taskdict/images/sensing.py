"""Compressed sensing of whole images, block by block, with a model of small blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict._common.arrays import Floats
from taskdict._common.pixels import from_unit, grey_dtype, to_unit, with_channels
from taskdict.estimators import CompressedSensing


@dataclass(frozen=True, eq=False)
class Measurements:
    """The measurements of an image.

    Attributes
    ----------
    values : array of shape (n_blocks, n_measurements)
        Measurements of the blocks, from left to right and from top to bottom, one channel after the other.
    means, norms : arrays of shape (n_blocks,)
        Mean value of each block, and the norm of the block after its mean is subtracted: two numbers more.
    side : int
        Height and width of a block.
    shape : tuple of int
        Of the image.
    dtype : numpy dtype
        Of the image.
    """

    values: Floats
    means: Floats
    norms: Floats
    side: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def sense(model: CompressedSensing, image: Any) -> Measurements:
    """Measure an image block by block.

    Parameters
    ----------
    model : CompressedSensing
        A model of square patches, centred and of norm one, see :class:`taskdict.UnitNorm`. Their side is that of the
        blocks.
    image : array of shape (height, width) or (height, width, channels)
        An image; uint8, uint16, bool, or floats from 0 to 1. If a side is not a multiple of that of a block, the image
        is mirrored at the edge.

    Returns
    -------
    Measurements

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> image = np.add.outer(np.sin(np.arange(60) / 9), np.cos(np.arange(80) / 7)) / 4 + 0.5
    >>> windows = np.lib.stride_tricks.sliding_window_view(image, (8, 8)).reshape(-1, 64)
    >>> patches = td.UnitNorm().fit_transform(windows)
    >>> model = td.CompressedSensing(6, 30, max_iter=100, random_state=0).fit(patches)
    >>> measured = td.images.sense(model, image)
    >>> measured.values.shape
    (80, 6)
    >>> bool(np.abs(td.images.reconstruct(model, measured) - image).max() < 0.1)
    True
    """
    side = _block_side(model)
    pixels = with_channels(image)
    high, wide = (-(-length // side) for length in pixels.shape[:2])
    margins = [(0, count * side - length) for count, length in zip((high, wide), pixels.shape, strict=False)]
    values = to_unit(np.pad(pixels, [*margins, (0, 0)], mode="symmetric"))
    blocks = values.reshape(high, side, wide, side, -1).transpose(4, 0, 2, 1, 3).reshape(-1, side * side)
    means = blocks.mean(axis=1)
    blocks = blocks - means[:, None]
    norms = np.linalg.norm(blocks, axis=1)
    norms = np.where(norms > np.finfo(blocks.dtype).eps * side, norms, 0)
    measured = model.sense(blocks / np.where(norms > 0, norms, 1)[:, None])
    return Measurements(measured, means, norms, side, np.shape(image), grey_dtype(pixels.dtype))


def reconstruct(model: CompressedSensing, measured: Measurements) -> NDArray[Any]:
    """Reconstruct an image from its measurements.

    Parameters
    ----------
    model : CompressedSensing
        The model that was used to measure the image.
    measured : Measurements
        Measurements from :func:`sense`.

    Returns
    -------
    array of the shape and dtype of the image; uint8 for bool
    """
    if not isinstance(measured, Measurements):
        raise TypeError(f"measured must be the Measurements that sense returns, got {type(measured).__name__}.")
    side = _block_side(model)
    if measured.side != side:
        raise ValueError(f"measured has blocks of {measured.side} by {measured.side}, but the model is for {side}.")
    blocks = model.reconstruct(measured.values) * measured.norms[:, None] + measured.means[:, None]
    high, wide = (-(-length // side) for length in measured.shape[:2])
    values = blocks.reshape(-1, high, wide, side, side).transpose(1, 3, 2, 4, 0).reshape(high * side, wide * side, -1)
    values = values[: measured.shape[0], : measured.shape[1]]
    return from_unit(values.reshape(measured.shape), measured.dtype)


def _block_side(model: CompressedSensing) -> int:
    """Return the height and width of the blocks that a model is for."""
    if not isinstance(model, CompressedSensing):
        raise TypeError(f"model must be a CompressedSensing, got {type(model).__name__}.")
    check_is_fitted(model)
    side = math.isqrt(model.n_features_in_)
    if side * side != model.n_features_in_ or len(model.coef_) != model.n_features_in_:
        raise ValueError(
            f"model must be for square blocks that it reconstructs, but its signals have {model.n_features_in_} "
            f"entries, and its reconstructions have {len(model.coef_)}."
        )
    return side
