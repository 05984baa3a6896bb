"""A stream of the patches of many images of one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._common.pixels import to_unit
from taskdict._common.validation import check_count
from taskdict.streams.stored import Shuffled


class CropPatches(Shuffled):
    """Patches of grey images of one size. A round gives every patch once, in random order.

    Parameters
    ----------
    images : array of shape (n_images, height, width)
        Grey images.
    patch_size : int
        Height and width of a patch.
    random_state : int, RandomState or None, default=None
        Seed of the order.
    preprocess : callable or None, default=None
        A function of a batch of patches, whose values are from 0 to 1.
    """

    def __init__(
        self,
        images: NDArray[Any],
        patch_size: int,
        *,
        random_state: Any = None,
        preprocess: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        size = check_count("patch_size", patch_size)
        if images.ndim != 3 or min(images.shape[1:]) < size:
            raise ValueError(f"images must have {size} by {size} pixels or more, got shape {images.shape}.")
        self._windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))
        super().__init__(int(np.prod(self._windows.shape[:3])), None, random_state, preprocess)

    def _rows(self, rows: NDArray[np.int64]) -> Floats:
        patches = self._windows[np.unravel_index(rows, self._windows.shape[:3])]
        return to_unit(patches.reshape(len(rows), -1))
