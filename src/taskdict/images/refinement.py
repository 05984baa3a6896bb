"""A second look at a restored picture: what the first has missed, learned from what it has made of the examples."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from taskdict import storage
from taskdict._validation import check_penalty
from taskdict.images.mapping import PatchMapping
from taskdict.images.noise import PATCH as DENOISED
from taskdict.images.noise import denoise
from taskdict.images.patches import PatchPairs, map_patches
from taskdict.images.pixels import Floats
from taskdict.images.progress import Report, silent
from taskdict.images.rows import Stacked

DEVIATIONS = (1.4, 1.1, 0.22)  # of the numbers of the three views of a patch
LAMBDA1 = 0.15  # times the side of a patch
TO_SCALE = 20_000  # patches that show how large the numbers of the views are
AT_ONCE = 2_000  # of them
LEAST = 1e-6  # deviation that is told from none


@dataclass(eq=False, repr=False)
class Refinement:
    """What maps three views of a patch to what its denoised view is short of.

    The views are the restored patch after its artefacts were removed as noise, without its mean; what the damaged
    patch differs from it by; and what the removal has taken away. The restored patch alone does not tell a faint
    texture from an artefact, the damaged one does.
    """

    sigma: float  # deviation of the artefacts
    scales: Floats  # what the views are multiplied with
    mapping: PatchMapping

    def apply(
        self, damaged: Any, restored: Floats, *, stride: int, weighted: bool, n_threads: int, report: Report
    ) -> Floats:
        """Return a restored picture, of shape (height, width, channels), refined.

        The damaged one may be of any dtype, and may be computed as it is read, see :mod:`taskdict.images.rows`.
        """
        clear = without_artefacts(restored, self.sigma, stride, n_threads, report)
        mapped, size, n_channels = self.mapping.function(n_threads), self.mapping.patch_size, restored.shape[2]

        def missing(patches: Floats) -> Floats:
            views = np.split(patches.reshape(len(patches), size, size, -1), 3, axis=3)
            return mapped(signals(views, self.scales))

        found = map_patches(
            Stacked([clear, damaged, restored]),
            size,
            missing,
            stride=stride,
            weights=self.mapping.weights if weighted else None,
            n_found=n_channels,
            report=report,
        )
        found += clear
        return found

    def arrays(self) -> storage.Arrays:
        """Return what a file holds."""
        return {
            "refine D": self.mapping.components,
            "refine W": self.mapping.coef,
            "refine weights": self.mapping.weights,
            "refine scales": self.scales,
        }

    @classmethod
    def from_arrays(
        cls, arrays: storage.Arrays, sigma: float, lambda1: float, patch_size: int, channels: int, n_components: int
    ) -> Self:
        """Return what `arrays` was made from; raises ValueError or KeyError if they do not fit."""
        D, W, weights, scales = (arrays[f"refine {name}"] for name in ("D", "W", "weights", "scales"))
        mapping = PatchMapping(D, W, weights, check_penalty("lambda1", lambda1))
        mapping.check(patch_size, 3 * channels, channels, n_components)
        if scales.shape != (3,) or scales.dtype != np.float32 or not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError("its scales must be positive")
        return cls(sigma, scales, mapping)


def without_artefacts(restored: Floats, sigma: float, stride: int, n_threads: int, report: Report = silent) -> Floats:
    """Return a restored picture from 0 to 1 with its artefacts removed as noise."""
    clear: Floats = denoise(
        np.clip(restored, 0, 1), sigma, stride=min(stride, DENOISED), n_threads=n_threads, report=report
    )
    return clear


def signals(views: Sequence[Floats], scales: Floats) -> Floats:
    """Return the signals of patches from (n, size, size, channels) of them: denoised, damaged, and restored."""
    clear, damaged, restored = views
    parts = clear - clear.mean(axis=(1, 2), keepdims=True), damaged - clear, restored - clear
    return np.concatenate(
        [(scale * part).reshape(len(part), -1) for scale, part in zip(scales, parts, strict=True)], axis=1
    )


class RefinementPairs(PatchPairs):
    """The three views of patches, as signals, with what the denoised one is short of, as targets.

    Parameters
    ----------
    damaged, clean, restored, clear : sequence of arrays of shape (height, width, channels)
        Pictures as they were damaged, as they should be, as they were restored, and without artefacts.
    patch_size : int
        Height and width of a patch.
    random_state : int, RandomState or None
        Seed of the order.
    """

    def __init__(
        self,
        damaged: Sequence[Any],
        clean: Sequence[Any],
        restored: Sequence[Floats],
        clear: Sequence[Floats],
        patch_size: int,
        *,
        random_state: Any = None,
    ) -> None:
        super().__init__(damaged, clean, patch_size, random_state=random_state)
        self._views = [
            (second, bad, first, good) for (bad, good), first, second in zip(self._pairs, restored, clear, strict=True)
        ]
        self.scales = np.ones(3, np.float32)
        squares = np.zeros(3)
        some = np.unique(np.linspace(0, self.n_signals - 1, TO_SCALE).astype(np.int64))  # whatever the order is
        for k in range(0, len(some), AT_ONCE):
            unscaled, _ = self._patches(some[k : k + AT_ONCE])
            squares += np.square(unscaled).reshape(len(unscaled), 3, -1).sum(axis=(0, 2), dtype=np.float64)
        numbers = len(some) * self.patch_size**2 * self.n_channels
        self.scales = (DEVIATIONS / np.maximum(np.sqrt(squares / numbers), LEAST)).astype(np.float32)

    def known_data(self) -> tuple[Any, ...]:
        """Return the size of the patches, and the pictures in all their versions."""
        return self.patch_size, *(picture for views in self._views for picture in views)

    def _patches(self, chosen: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return signals and targets of these numbers."""
        *views, clean = self._cut(chosen, self._views)
        return signals(views, self.scales), (clean - views[0]).reshape(len(clean), -1)


def refinement_checkpoint(checkpoint: str | os.PathLike[str]) -> str:
    """Return the file that the training of a refinement is kept in, beside that of the first mapping."""
    return f"{os.fspath(checkpoint)}.refine"


def pictures_to_refine(
    damaged: Sequence[NDArray[Any]], restore: Callable[[Floats], Floats], sigma: float, n_threads: int, report: Report
) -> tuple[list[Floats], list[Floats]]:
    """Return damaged pictures restored, and those without artefacts."""
    restored: list[Floats] = []
    clear: list[Floats] = []
    for k, picture in enumerate(damaged):
        restored.append(restore(picture))
        clear.append(without_artefacts(restored[-1], sigma, 1, n_threads))
        report(k + 1, len(damaged))
    return restored, clear
