"""Whole pictures by few measurements: block after block, with a model of small blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict.estimators import CompressedSensing
from taskdict.images.patches import check_channels
from taskdict.images.pixels import Floats, check_picture, from_unit, to_unit


@dataclass(frozen=True, eq=False)
class Measurements:
    """What is kept of a picture.

    Attributes
    ----------
    values : array of shape (n_blocks, n_measurements)
        Measurements of the blocks, from left to right and from top to bottom, one channel after the other.
    means, norms : arrays of shape (n_blocks,)
        Mean value of each block, and the norm of what is left without it: two numbers more.
    side : int
        Height and width of a block.
    shape : tuple of int
        Of the picture.
    dtype : numpy dtype
        Of the picture.
    """

    values: Floats
    means: Floats
    norms: Floats
    side: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def sense(model: CompressedSensing, image: Any) -> Measurements:
    """Measure a picture block by block.

    Parameters
    ----------
    model : CompressedSensing
        One that has learned from square patches, centred and of norm one, see :class:`taskdict.UnitNorm`. Their side
        is that of the blocks.
    image : array of shape (height, width) or (height, width, channels)
        A picture; uint8, uint16, bool, or floats from 0 to 1. Sides that are not multiples of that of a block are
        mirrored at the edge.

    Returns
    -------
    Measurements

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> picture = np.add.outer(np.sin(np.arange(60) / 9), np.cos(np.arange(80) / 7)) / 4 + 0.5
    >>> windows = np.lib.stride_tricks.sliding_window_view(picture, (8, 8)).reshape(-1, 64)
    >>> patches = td.UnitNorm().fit_transform(windows)
    >>> model = td.CompressedSensing(6, 30, max_iter=100, random_state=0).fit(patches)
    >>> measured = td.images.sense(model, picture)
    >>> measured.values.shape
    (80, 6)
    >>> bool(np.abs(td.images.reconstruct(model, measured) - picture).max() < 0.1)
    True
    """
    side = _side(model)
    picture = check_channels(check_picture(image))
    high, wide = (-(-length // side) for length in picture.shape[:2])
    margins = [(0, count * side - length) for count, length in zip((high, wide), picture.shape, strict=False)]
    values = to_unit(np.pad(picture, [*margins, (0, 0)], mode="symmetric"))
    blocks = values.reshape(high, side, wide, side, -1).transpose(4, 0, 2, 1, 3).reshape(-1, side * side)
    means = blocks.mean(axis=1)
    blocks = blocks - means[:, None]
    norms = np.linalg.norm(blocks, axis=1)
    norms = np.where(norms > np.finfo(blocks.dtype).eps * side, norms, 0)
    seen = model.sense(blocks / np.where(norms > 0, norms, 1)[:, None])
    dtype = np.dtype(np.uint8) if picture.dtype == np.bool_ else picture.dtype
    return Measurements(seen, means, norms, side, np.shape(image), dtype)


def reconstruct(model: CompressedSensing, measured: Measurements) -> NDArray[Any]:
    """Return the picture that measurements tell of.

    Parameters
    ----------
    model : CompressedSensing
        The model that has measured it.
    measured : Measurements
        What :func:`sense` returns.

    Returns
    -------
    array of the shape and dtype of the picture; uint8 for bool
    """
    if not isinstance(measured, Measurements):
        raise TypeError(f"measured must be what sense returns, got {type(measured).__name__}.")
    side = _side(model)
    if measured.side != side:
        raise ValueError(f"measured has blocks of {measured.side} by {measured.side}, but the model is for {side}.")
    blocks = model.reconstruct(measured.values) * measured.norms[:, None] + measured.means[:, None]
    high, wide = (-(-length // side) for length in measured.shape[:2])
    values = blocks.reshape(-1, high, wide, side, side).transpose(1, 3, 2, 4, 0).reshape(high * side, wide * side, -1)
    values = values[: measured.shape[0], : measured.shape[1]]
    return from_unit(values.reshape(measured.shape), measured.dtype)


def _side(model: CompressedSensing) -> int:
    """Return the side of the blocks that a model is for."""
    if not isinstance(model, CompressedSensing):
        raise TypeError(f"model must be a CompressedSensing, got {type(model).__name__}.")
    check_is_fitted(model)
    side = math.isqrt(model.n_features_in_)
    if side * side != model.n_features_in_ or len(model.coef_) != model.n_features_in_:
        raise ValueError(
            f"model must be for square blocks that it reconstructs, but its signals have {model.n_features_in_} "
            f"entries, and what it reconstructs has {len(model.coef_)}."
        )
    return side
