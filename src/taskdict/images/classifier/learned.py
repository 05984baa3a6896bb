"""A learned classifier of images: scores with test-time augmentation, codes, and principal directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taskdict._common.arrays import SIGNALS_AT_ONCE, Floats
from taskdict._common.threads import one_blas_thread
from taskdict._learning.start import principal_directions
from taskdict.estimators.task_driven import TaskDrivenClassifier
from taskdict.images.classifier.settings import ImageClassifierSettings
from taskdict.streams.images import Shift, as_floats, check_reach, image_signals, shifted

IMAGES_FOR_DIRECTIONS = 20_000  # images, with their shifts, that principal directions are found from, at most


@dataclass(frozen=True, eq=False)
class LearnedImageClassifier:
    """A classifier of signals, and how images become signals."""

    classifier: TaskDrivenClassifier
    shape: tuple[int, int]
    background: float
    directions: Floats | None

    def scores(self, images: NDArray[Any], shifts: tuple[Shift, ...]) -> NDArray[Any]:
        """Return the scores of images, averaged over shifts of them."""
        return self._averaged(self.classifier.decision_function, images, shifts)

    def probabilities(self, images: NDArray[Any], shifts: tuple[Shift, ...]) -> NDArray[Any]:
        """Return the probabilities of the classes, averaged over shifts of the images."""
        return self._averaged(self.classifier.predict_proba, images, shifts)

    def _averaged(
        self, function: Callable[[Floats], NDArray[Any]], images: NDArray[Any], shifts: tuple[Shift, ...]
    ) -> NDArray[Any]:
        """Return the mean of a function of signals over shifts of images."""
        parts = []
        for chunk in _chunks(images):
            pixels = as_floats(chunk)
            total: Any = 0.0
            for shift in shifts:
                augmented = shifted(pixels, np.tile(shift, (len(pixels), 1)), self.background)
                total = total + function(image_signals(augmented, self.directions))
            parts.append(total / np.float32(len(shifts)))
        return np.concatenate(parts)

    def codes(self, images: NDArray[Any]) -> sp.csr_array | NDArray[Any]:
        """Return the codes of images."""
        parts = [self.classifier.transform(image_signals(chunk, self.directions)) for chunk in _chunks(images)]
        return sp.csr_array(sp.vstack(parts, format="csr")) if sp.issparse(parts[0]) else np.concatenate(parts)


def _chunks(images: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(images), SIGNALS_AT_ONCE):
        yield images[start : start + SIGNALS_AT_ONCE]


def find_directions(images: NDArray[Any], settings: ImageClassifierSettings) -> NDArray[np.float64] | None:
    """Return the principal directions of some of the images with all their shifts, the same in every call."""
    if settings.n_directions is None:
        return None
    n_pixels = images.shape[1] * images.shape[2]
    if settings.n_directions > n_pixels:
        raise ValueError(f"n_directions must be at most the number of pixels, {n_pixels}, got {settings.n_directions}.")
    check_reach("shifts", settings.shifts, images.shape[1:])
    count = max(1, IMAGES_FOR_DIRECTIONS // len(settings.shifts))
    rows = np.unique(np.linspace(0, len(images) - 1, count).astype(np.intp))
    some, background = as_floats(images[rows]), float(images.min())
    signals = [image_signals(shifted(some, np.tile(shift, (len(some), 1)), background)) for shift in settings.shifts]
    with one_blas_thread():
        return principal_directions(np.concatenate(signals), settings.n_directions)
