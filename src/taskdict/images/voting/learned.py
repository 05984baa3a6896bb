"""A learned classifier of patches, and the votes of the patches of an image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskdict.images.patches import PATCHES_PER_CHUNK, Positions, patches_at, positions
from taskdict.streams.patches import patch_signals


class PatchVotes(NamedTuple):
    """The votes of the patches of an image, and the rows and columns at which they begin."""

    classes: NDArray[np.intp]  # numbers of the classes, of shape (n_rows, n_columns)
    rows: Positions
    columns: Positions


@dataclass(frozen=True, eq=False)
class LearnedVoting:
    """A fitted classifier of patches, and how patches become its signals."""

    classifier: Any
    n_channels: int
    normalised: bool

    @property
    def classes(self) -> NDArray[Any]:
        """Labels."""
        classes: NDArray[Any] = self.classifier.classes_
        return classes

    @property
    def patch_size(self) -> int:
        """Height and width of a patch."""
        return math.isqrt(int(self.classifier.n_features_in_) // self.n_channels)

    def vote(self, image: NDArray[Any], stride: int) -> PatchVotes:
        """Return the votes of the patches of an image of shape (height, width, channels)."""
        size = self.patch_size
        if image.shape[2] != self.n_channels:
            raise ValueError(
                f"an image has {image.shape[2]} channels, but the model has learned from images with {self.n_channels}."
            )
        if min(image.shape[:2]) < size:
            raise ValueError(f"an image of shape {image.shape[:2]} is smaller than a patch of {size} by {size}.")
        rows, columns = (positions(side, size, stride) for side in image.shape[:2])
        rows_per_chunk = max(1, PATCHES_PER_CHUNK // len(columns))
        parts = []
        for k in range(0, len(rows), rows_per_chunk):
            patches = patches_at(image, size, rows[k : k + rows_per_chunk], columns)
            labels = self.classifier.predict(patch_signals(patches, self.normalised))
            parts.append(np.searchsorted(self.classes, labels).reshape(-1, len(columns)))
        return PatchVotes(np.concatenate(parts), rows, columns)
