"""Pairs of damaged and clean images, from the argument of `fit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.pixels import check_image, to_unit
from taskdict.images.degrade import resize

Images = list[NDArray[Any]]


def damaged_and_clean(images: Any, degrade: Callable[[Any], Any] | None, upscale: int) -> tuple[Images, Images]:
    """Return damaged and clean images of the same sizes; damaged ones are enlarged by `upscale`.

    Parameters
    ----------
    images, degrade
        As for :meth:`taskdict.ImageRestorer.fit`.
    upscale : int
        Ratio of the sizes of clean and damaged images.
    """
    if isinstance(images, np.ndarray) and (images.ndim == 2 or (images.ndim == 3 and images.shape[2] <= 4)):
        raise ValueError("images must be a list of images, got one image: put it into a list.")
    if not isinstance(images, Iterable):
        raise TypeError(f"images must be a list of images, or of pairs of them, got {images!r}.")
    if degrade is None:
        try:
            pairs = [(damaged, clean) for damaged, clean in images]
        except (TypeError, ValueError):
            raise ValueError("images must be pairs (damaged, clean), or clean images with degrade=...") from None
    elif callable(degrade):
        pairs = [(degrade(_read_only(image)), image) for image in images]
    else:
        raise TypeError(f"degrade must be a function of an image or None, got {degrade!r}.")
    damaged = [_check_pair(k, bad, good, upscale) for k, (bad, good) in enumerate(pairs)]
    return damaged, [good for _, good in pairs]


def _check_pair(k: int, damaged: Any, clean: Any, upscale: int) -> NDArray[Any]:
    """Return the kth damaged image, in the size of the clean one."""
    height, width = check_image(clean, f"clean image {k}").shape[:2]
    pixels = check_image(damaged, f"damaged image {k}")
    if upscale > 1:
        if pixels.shape[:2] != (height // upscale, width // upscale):
            raise ValueError(
                f"damaged image {k} is {pixels.shape[0]} by {pixels.shape[1]}, but must be smaller than the clean "
                f"one ({height} by {width}) by upscale={upscale}."
            )
        return resize(to_unit(pixels), height, width)
    if pixels.shape != np.shape(clean):
        raise ValueError(
            f"damaged image {k} has shape {pixels.shape}, but the clean one has {np.shape(clean)}: they must be "
            "of the same size, or damaged ones smaller by `upscale`."
        )
    return pixels


def _read_only(image: Any) -> NDArray[Any]:
    """Return a view of an image that a degradation cannot write to."""
    view = check_image(image).view()
    view.flags.writeable = False
    return view
