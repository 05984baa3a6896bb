"""Large pictures that are computed some rows at a time, as they are read: only ``shape`` and slices of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._pillow import pillow
from taskdict.images.pixels import Floats, to_unit


class Enlarged:
    """A picture of shape (height, width, channels) enlarged by bicubic interpolation; values from 0 to 1, float32.

    The rows are those that :func:`taskdict.images.degrade.resize` gives, up to rounding, which has all of them in
    memory.
    """

    def __init__(self, image: NDArray[Any], factor: int) -> None:
        Image = pillow()
        height, width, channels = image.shape
        self.shape = (factor * height, factor * width, channels)
        self._factor, self._bicubic = factor, Image.Resampling.BICUBIC
        self._channels = [
            Image.fromarray(np.ascontiguousarray(to_unit(image[:, :, k]), np.float32)) for k in range(channels)
        ]

    def __getitem__(self, rows: slice) -> Floats:
        first, last, _ = rows.indices(self.shape[0])
        low, high = first // self._factor, -(-last // self._factor)  # whole rows: Pillow's boxes are float32
        size, part = (self.shape[1], (high - low) * self._factor), slice(first - low * self._factor, None)
        found = np.empty((last - first, *self.shape[1:]), np.float32)
        for k, channel in enumerate(self._channels):
            rows_of_it = channel.resize(size, self._bicubic, box=(0, low, channel.width, high))
            found[:, :, k] = np.asarray(rows_of_it)[part][: last - first]
        return found


class Stacked:
    """Pictures of the same size on top of each other, as channels of one; values from 0 to 1, float32."""

    def __init__(self, pictures: Sequence[Any]) -> None:
        self._pictures = pictures
        self.shape = (*pictures[0].shape[:2], sum(picture.shape[2] for picture in pictures))

    def __getitem__(self, rows: slice) -> Floats:
        return np.concatenate(
            [to_unit(picture[rows]).astype(np.float32, copy=False) for picture in self._pictures], axis=2
        )


class Channels:
    """Some channels of a picture."""

    def __init__(self, picture: Any, first: int, count: int) -> None:
        self._picture, self._part = picture, slice(first, first + count)
        self.shape = (*picture.shape[:2], count)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        part: NDArray[Any] = self._picture[rows][:, :, self._part]
        return part
