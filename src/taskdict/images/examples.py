"""Examples to learn a restoration from: damaged and clean pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict.images.degrade import resize
from taskdict.images.pixels import check_picture, to_unit

Picture = NDArray[Any]


def damaged_and_clean(images: Any, degrade: Any, upscale: int) -> tuple[list[Picture], list[Picture]]:
    """Return damaged and clean pictures of the same sizes; damaged ones are enlarged by `upscale`.

    Parameters
    ----------
    images, degrade
        As for :meth:`taskdict.ImageRestorer.fit`.
    upscale : int
        By what damaged pictures are smaller.
    """
    if isinstance(images, np.ndarray) and (images.ndim == 2 or (images.ndim == 3 and images.shape[2] <= 4)):
        raise ValueError("images must be a list of pictures, got one picture: put it into a list.")
    if degrade is None:
        try:
            pairs = [(damaged, clean) for damaged, clean in images]
        except (TypeError, ValueError):
            raise ValueError("images must be pairs (damaged, clean), or clean pictures with degrade=...") from None
    elif callable(degrade):
        pairs = [(degrade(untouched(image)), image) for image in images]
    else:
        raise TypeError(f"degrade must be a function of a picture or None, got {degrade!r}.")
    damaged = []
    for k, (bad, good) in enumerate(pairs):
        height, width = check_picture(good, f"clean picture {k}").shape[:2]
        bad = check_picture(bad, f"damaged picture {k}")
        if upscale > 1:
            if bad.shape[:2] != (height // upscale, width // upscale):
                raise ValueError(
                    f"damaged picture {k} is {bad.shape[0]} by {bad.shape[1]}, but must be smaller than the clean "
                    f"one ({height} by {width}) by upscale={upscale}."
                )
            bad = resize(to_unit(bad), height, width)
        elif bad.shape != np.shape(good):
            raise ValueError(
                f"damaged picture {k} has shape {bad.shape}, but the clean one has {np.shape(good)}: they must be "
                "of the same size, or damaged ones smaller by `upscale`."
            )
        damaged.append(bad)
    return damaged, [good for _, good in pairs]


def untouched(image: Any) -> Picture:
    """Return a view of a picture that a function which damages it cannot write to."""
    view = check_picture(image).view()
    view.flags.writeable = False
    return view
