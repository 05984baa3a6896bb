"""A learned restorer: one map of patches, an optional refinement, and the restoration of images with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._common.pixels import check_image, from_unit, grey_dtype, with_channels
from taskdict._common.validation import check_count
from taskdict._files import storage
from taskdict.images.lazy import Channels, Enlarged, Rows
from taskdict.images.patches import map_patches
from taskdict.images.progress import Report, Steps
from taskdict.images.restorer.patch_map import PatchMap
from taskdict.images.restorer.refinement import Refinement, remove_artefacts
from taskdict.images.restorer.settings import RestorerSettings

LARGEST_RESULT = 2**29  # bytes that the restoration of an enlarged image may take
BYTES_OF_FLOATS = 12  # for each number of an image while it is refined or denoised


@dataclass(frozen=True, eq=False, repr=False)
class LearnedRestorer:
    """Everything that a restorer learns.

    Attributes
    ----------
    patch_map : PatchMap
        Maps damaged patches, without their means, to clean ones.
    upscale : int
        The factor that images are enlarged by first.
    n_channels : int
        Channels of a patch. With one, the channels of an image are restored one by one.
    n_iter : int
        Number of batches, of both maps together.
    history : dict
        Objective of each batch, under "objective".
    refinement : Refinement or None
        The second stage, None if there is none.
    """

    patch_map: PatchMap
    upscale: int
    n_channels: int
    n_iter: int
    history: dict[str, Any]
    refinement: Refinement | None = None

    def restore(
        self,
        image: Any,
        *,
        lambda1: float | None,
        stride: int,
        denoise: float | None,
        weighted: bool,
        n_threads: int,
        report: Report,
    ) -> NDArray[Any]:
        """Return a restored image, see :meth:`taskdict.ImageRestorer.restore`."""
        image = check_image(image)
        dtype, damaged = grey_dtype(image.dtype), with_channels(image)
        if self.n_channels not in (1, damaged.shape[2]):
            raise ValueError(
                f"image has {damaged.shape[2]} channels, but the model has learned from images with {self.n_channels}."
            )
        direct = self.refinement is None and denoise is None  # values are rounded at once, and need no floats
        rows: Rows = damaged
        if self.upscale > 1:
            _check_size(damaged.shape, self.upscale, dtype.itemsize + (0 if direct else BYTES_OF_FLOATS))
            rows = Enlarged(damaged, self.upscale)
        n_groups = damaged.shape[2] // self.n_channels
        report = Steps(report, 1 + 2 * n_groups * (self.refinement is not None) + (denoise is not None))
        use: dict[str, Any] = {"stride": stride, "weighted": weighted, "n_threads": n_threads, "report": report}
        values = self.map_once(rows, lambda1=lambda1, dtype=dtype if direct else np.float32, **use)
        if self.refinement is not None:
            self._refine(self.refinement, rows, values, **use)
        if denoise is not None:
            values = remove_artefacts(values, denoise, stride, n_threads, report)
        values = values[:, :, 0] if image.ndim == 2 else values
        return values if direct else from_unit(values, dtype)

    def map_once(
        self,
        image: Rows,
        *,
        lambda1: float | None,
        stride: int,
        weighted: bool,
        n_threads: int,
        report: Report,
        dtype: Any,
    ) -> NDArray[Any]:
        """Return an image of shape (height, width, channels) after the first map, without refinement."""
        patch_map = self.patch_map if lambda1 is None else replace(self.patch_map, lambda1=lambda1)
        function = patch_map.function(n_threads)

        def restore_patches(patches: Floats) -> Floats:
            shape = (len(patches), -1, self.n_channels)
            means = patches.reshape(shape).mean(axis=1, keepdims=True)
            centred = function((patches.reshape(shape) - means).reshape(patches.shape))
            restored: Floats = (centred.reshape(shape) + means).reshape(patches.shape)
            return restored

        return map_patches(
            image,
            self.patch_map.patch_size,
            restore_patches,
            stride=stride,
            weights=self.patch_map.weights if weighted else None,
            one_by_one=self.n_channels == 1,
            dtype=dtype,
            report=report,
        )

    def _refine(
        self,
        refinement: Refinement,
        damaged: Rows,
        values: Floats,
        *,
        stride: int,
        weighted: bool,
        n_threads: int,
        report: Report,
    ) -> None:
        """Refine restored values in place."""
        for first in range(0, values.shape[2], self.n_channels):
            part = np.s_[:, :, first : first + self.n_channels]
            values[part] = refinement.apply(
                Channels(damaged, first, self.n_channels),
                values[part],
                stride=stride,
                weighted=weighted,
                n_threads=n_threads,
                report=report,
            )

    def to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return arrays, and a document that JSON can hold."""
        arrays = {"D": self.patch_map.components, "W": self.patch_map.coef, "weights": self.patch_map.weights}
        document: dict[str, Any] = {"channels": self.n_channels, "n_iter": self.n_iter}
        if self.refinement is not None:
            arrays.update(self.refinement.to_arrays())
            document["refine lambda1"] = self.refinement.patch_map.lambda1
        return arrays, document

    @classmethod
    def from_file(cls, arrays: storage.Arrays, document: dict[str, Any], settings: RestorerSettings) -> Self:
        """Return the restorer of a file; raise ValueError, TypeError or KeyError if it does not fit the settings."""
        n_channels, n_iter = check_count("channels", document["channels"]), int(document["n_iter"])
        D, W, weights = (arrays[name] for name in ("D", "W", "weights"))
        patch_map = PatchMap(D, W, weights, settings.lambda1, settings.lambda2)
        patch_map.check(settings.patch_size, n_channels, n_channels, settings.n_components)
        if n_iter < 0:
            raise ValueError("its number of batches is negative")
        refinement = None
        if settings.refine is not None:
            refinement = Refinement.from_arrays(
                arrays,
                settings.refine,
                document["refine lambda1"],
                settings.patch_size,
                n_channels,
                settings.n_components,
            )
        return cls(patch_map, settings.upscale, n_channels, n_iter, {"objective": []}, refinement)


def _check_size(shape: tuple[int, ...], upscale: int, bytes_per_number: int) -> None:
    """Raise if the restoration of an enlarged image would take too much memory."""
    height, width, n_channels = shape
    if upscale**2 * height * width * n_channels * bytes_per_number > LARGEST_RESULT:
        raise ValueError(
            f"image of {height} by {width} pixels would become {upscale * height} by {upscale * width} with "
            f"upscale={upscale}, and its restoration would take more than {LARGEST_RESULT // 2**20} MB: restore parts "
            "of it."
        )
