"""Residual refinement of a restored image (a cascade): a second map of patches predicts the error that is left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

import numpy as np

from taskdict._common.arrays import Floats
from taskdict._common.validation import check_penalty
from taskdict._files import storage
from taskdict.images.denoising import PATCH_SIZE, denoise
from taskdict.images.lazy import Rows, Stacked
from taskdict.images.patches import map_patches
from taskdict.images.progress import Report, silent
from taskdict.images.restorer.patch_map import PatchMap
from taskdict.streams.patches import refinement_signals


@dataclass(frozen=True, eq=False, repr=False)
class Refinement:
    """The second stage of a restoration: a map from three views of a patch to the error of its denoised view.

    The views are those of :func:`taskdict.streams.patches.refinement_signals`: the restored patch after its artefacts
    were removed as noise, the difference of the damaged patch from it, and the removed artefacts. The restored patch
    alone does not distinguish a faint texture from an artefact; the damaged patch does.

    Attributes
    ----------
    sigma : float
        Standard deviation of the artefacts.
    scales : array of shape (3,)
        Factors of the views.
    patch_map : PatchMap
        The map.
    """

    sigma: float
    scales: Floats
    patch_map: PatchMap

    def apply(
        self, damaged: Rows, restored: Floats, *, stride: int, weighted: bool, n_threads: int, report: Report
    ) -> Floats:
        """Return the refined image.

        Parameters
        ----------
        damaged : array or lazy image of shape (height, width, channels)
            The damaged image, of any dtype.
        restored : array of shape (height, width, channels)
            The restored image, float32.
        stride : int
            Pixels between neighbouring patches.
        weighted : bool
            Whether overlapping patches have weights in the average.
        n_threads : int
            Threads to use.
        report : callable
            Called with the number of patches that are done, and of all; patches are counted twice.
        """
        denoised = remove_artefacts(restored, self.sigma, stride, n_threads, report)
        function, size = self.patch_map.function(n_threads), self.patch_map.patch_size

        def residual(patches: Floats) -> Floats:
            views = np.split(patches.reshape(len(patches), size, size, -1), 3, axis=3)
            return function(refinement_signals(views, self.scales))

        refined = map_patches(
            Stacked([denoised, damaged, restored]),
            size,
            residual,
            stride=stride,
            weights=self.patch_map.weights if weighted else None,
            n_outputs=restored.shape[2],
            report=report,
        )
        refined += denoised
        return refined

    def to_arrays(self) -> storage.Arrays:
        """Return the arrays of a file."""
        return {
            "refine D": self.patch_map.components,
            "refine W": self.patch_map.coef,
            "refine weights": self.patch_map.weights,
            "refine scales": self.scales,
        }

    @classmethod
    def from_arrays(
        cls, arrays: storage.Arrays, sigma: float, lambda1: float, patch_size: int, n_channels: int, n_components: int
    ) -> Self:
        """Return the refinement with the arrays of a file; raise ValueError or KeyError if they do not fit."""
        D, W, weights, scales = (arrays[f"refine {name}"] for name in ("D", "W", "weights", "scales"))
        patch_map = PatchMap(D, W, weights, check_penalty("lambda1", lambda1))
        patch_map.check(patch_size, 3 * n_channels, n_channels, n_components)
        if scales.shape != (3,) or scales.dtype != np.float32 or not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError("its scales must be positive")
        return cls(sigma, scales, patch_map)


def remove_artefacts(restored: Floats, sigma: float, stride: int, n_threads: int, report: Report = silent) -> Floats:
    """Return a restored image from 0 to 1 with its artefacts removed as noise of this deviation."""
    denoised: Floats = denoise(
        np.clip(restored, 0, 1), sigma, stride=min(stride, PATCH_SIZE), n_threads=n_threads, report=report
    )
    return denoised


def refinement_checkpoint(checkpoint: str | os.PathLike[str]) -> str:
    """Return the file of the training of a refinement, beside that of the first map."""
    return f"{os.fspath(checkpoint)}.refine"
