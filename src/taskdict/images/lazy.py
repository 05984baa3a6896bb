"""Lazy images: large images that are computed some rows at a time, as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._common.pillow import pillow
from taskdict._common.pixels import to_unit


class Rows(Protocol):
    """An image of shape (height, width, channels) that is read by slices of rows: an array, or a lazy image."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Height, width and number of channels."""

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Return some rows of pixels."""


class Enlarged:
    """An image of shape (height, width, channels) enlarged by bicubic interpolation; values from 0 to 1, float32.

    Up to rounding, the rows are those of :func:`taskdict.images.degrade.resize`, which has all of them in memory.
    """

    def __init__(self, image: NDArray[Any], factor: int) -> None:
        Image = pillow()
        height, width, channels = image.shape
        self.shape: tuple[int, ...] = (factor * height, factor * width, channels)
        self._factor, self._bicubic = factor, Image.Resampling.BICUBIC
        self._channels = [
            Image.fromarray(np.ascontiguousarray(to_unit(image[:, :, k]), np.float32)) for k in range(channels)
        ]

    def __getitem__(self, rows: slice) -> Floats:
        first, last, _ = rows.indices(self.shape[0])
        low, high = first // self._factor, -(-last // self._factor)  # whole rows: Pillow's boxes are float32
        size, part = (self.shape[1], (high - low) * self._factor), slice(first - low * self._factor, None)
        enlarged = np.empty((last - first, *self.shape[1:]), np.float32)
        for k, channel in enumerate(self._channels):
            resized = channel.resize(size, self._bicubic, box=(0, low, channel.width, high))
            enlarged[:, :, k] = np.asarray(resized)[part][: last - first]
        return enlarged


class Stacked:
    """Images of the same size as the channels of one image; values from 0 to 1, float32."""

    def __init__(self, images: Sequence[Rows]) -> None:
        self._images = images
        self.shape: tuple[int, ...] = (*images[0].shape[:2], sum(image.shape[2] for image in images))

    def __getitem__(self, rows: slice) -> Floats:
        return np.concatenate([to_unit(image[rows]).astype(np.float32, copy=False) for image in self._images], axis=2)


class Channels:
    """Some channels of an image."""

    def __init__(self, image: Rows, first: int, count: int) -> None:
        self._image, self._part = image, slice(first, first + count)
        self.shape: tuple[int, ...] = (*image.shape[:2], count)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        part: NDArray[Any] = self._image[rows][:, :, self._part]
        return part
