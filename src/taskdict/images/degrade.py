"""Degradations of images: halftoning, noise, blur, down-sampling, missing pixels, JPEG.

Each function takes an image (grey or colour; uint8, uint16, bool, or floats from 0 to 1) and returns one of the same
dtype. Any function that does so can be used in their place. To add one, write such a function. To make it available on
the command line, add it to `DEGRADATIONS`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from sklearn.utils import check_random_state

from taskdict._common.arrays import Floats
from taskdict._common.pillow import pillow
from taskdict._common.pixels import check_image, from_unit, to_unit
from taskdict._common.validation import check_count, check_deviation, check_positive
from taskdict._native import diffuse_errors

Pixels = NDArray[Any]
Tap = tuple[int, int, float]  # pixels down, pixels to the right, share of the error

_FLOYD_STEINBERG: tuple[Tap, ...] = ((0, 1, 7 / 16), (1, -1, 3 / 16), (1, 0, 5 / 16), (1, 1, 1 / 16))
_JARVIS: tuple[Tap, ...] = tuple(
    (down, right, share / 48)
    for down, shares in enumerate(((0, 0, 0, 7, 5), (3, 5, 7, 5, 3), (1, 3, 5, 3, 1)))
    for right, share in enumerate(shares, start=-2)
    if share > 0
)


def floyd_steinberg(image: Any) -> Pixels:
    """Return a halftone by the error diffusion of Floyd and Steinberg: 7, 3, 5 and 1 sixteenths.

    Pixels become black or white, row by row from left to right. The error of a pixel is passed on to its neighbours
    that come later. Each channel of a colour image becomes a halftone.
    """
    return _apply_by_channel(lambda channel: _diffused(channel, _FLOYD_STEINBERG), image)


def jarvis(image: Any) -> Pixels:
    """Return a halftone by the error diffusion of Jarvis, Judice and Ninke, over twelve neighbours."""
    return _apply_by_channel(lambda channel: _diffused(channel, _JARVIS), image)


def ordered_dither(image: Any, size: int = 8) -> Pixels:
    """Return a halftone by ordered dithering: pixels are white above the thresholds of a repeated Bayer matrix.

    Parameters
    ----------
    image : array
        An image.
    size : int
        Size of the matrix, a power of two.
    """
    size = check_count("size", size)
    if size & (size - 1):
        raise ValueError(f"size must be a power of two, got {size}.")
    bayer = np.zeros((1, 1))
    while len(bayer) < size:
        bayer = np.block([[4 * bayer, 4 * bayer + 2], [4 * bayer + 3, 4 * bayer + 1]])

    def dithered(channel: Floats) -> Floats:
        height, width = channel.shape
        repeats = (-(-height // size), -(-width // size))
        thresholds = np.tile((bayer + 0.5) / size**2, repeats)[:height, :width]
        return (channel > thresholds).astype(channel.dtype)

    return _apply_by_channel(dithered, image)


def gaussian_noise(image: Any, sigma: float = 0.1, random_state: Any = None) -> Pixels:
    """Return an image with Gaussian noise of standard deviation `sigma`, as a share of the range, at most 1."""
    sigma, rng = check_deviation("sigma", sigma), check_random_state(random_state)
    return _apply(lambda values: values + sigma * rng.standard_normal(values.shape), image)


def blur(image: Any, sigma: float = 1.5) -> Pixels:
    """Return an image after a Gaussian blur of standard deviation `sigma` pixels; edges are mirrored."""
    sigma = check_positive("sigma", sigma)
    return _apply_by_channel(lambda channel: gaussian_filter(channel, sigma, mode="reflect"), image)


def downsample(image: Any, factor: int = 2) -> Pixels:
    """Return an image with `factor` times fewer pixels along each side, by bicubic interpolation without aliasing."""
    factor = check_count("factor", factor)
    height, width = check_image(image).shape[:2]
    if min(height, width) < factor:
        raise ValueError(f"image must be at least factor={factor} pixels high and wide, got {height} by {width}.")
    return resize(image, height // factor, width // factor)


def missing_pixels(image: Any, fraction: float = 0.5, random_state: Any = None) -> Pixels:
    """Return an image in which a fraction of the pixels, at random positions, is black."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be from 0 to 1, got {fraction}.")
    image = check_image(image)
    lost = check_random_state(random_state).random_sample(image.shape[:2]) < fraction
    damaged: Pixels = image.copy()
    damaged[lost] = 0
    return damaged


def jpeg(image: Any, quality: int = 10) -> Pixels:
    """Return an image after JPEG compression of a quality from 1 to 95; needs Pillow."""
    Image = pillow()
    if check_count("quality", quality) > 95:
        raise ValueError(f"quality must be from 1 to 95, got {quality}.")
    image = check_image(image)
    if image.ndim == 3 and image.shape[2] != 3:  # JPEG has grey and colour only
        return np.stack([jpeg(image[:, :, k], quality) for k in range(image.shape[2])], axis=2)
    shown = from_unit(to_unit(image), np.dtype(np.uint8))
    with io.BytesIO() as file:
        Image.fromarray(shown).save(file, "JPEG", quality=quality)
        file.seek(0)
        read = np.asarray(Image.open(file))
    return from_unit(to_unit(read), image.dtype).reshape(image.shape)


DEGRADATIONS: dict[str, Callable[..., Pixels]] = {
    "floyd-steinberg": floyd_steinberg,
    "jarvis": jarvis,
    "ordered": ordered_dither,
    "noise": gaussian_noise,
    "blur": blur,
    "downsample": downsample,
    "missing": missing_pixels,
    "jpeg": jpeg,
}


def resize(image: Any, height: int, width: int) -> Pixels:
    """Return an image of another size, by bicubic interpolation; needs Pillow."""
    Image = pillow()

    def resized(channel: Floats) -> Floats:
        small = Image.fromarray(np.ascontiguousarray(channel, np.float32)).resize(
            (width, height), Image.Resampling.BICUBIC
        )
        return np.asarray(small, channel.dtype)

    return _apply_by_channel(resized, image)


def _diffused(channel: Floats, taps: Sequence[Tap]) -> Floats:
    halftone: Floats = channel.copy()
    diffuse_errors(halftone, taps)
    return halftone


def _apply(function: Callable[[Floats], Floats], image: Any) -> Pixels:
    """Apply a function of values from 0 to 1 to an image."""
    image = check_image(image)
    values = to_unit(image)
    return from_unit(np.asarray(function(values), values.dtype), image.dtype)


def _apply_by_channel(function: Callable[[Floats], Floats], image: Any) -> Pixels:
    """Apply a function of values from 0 to 1 to each channel of an image."""

    def each(values: Floats) -> Floats:
        if values.ndim == 2:
            return function(np.ascontiguousarray(values))
        channels = [function(np.ascontiguousarray(values[:, :, k])) for k in range(values.shape[2])]
        return np.stack(channels, axis=2)

    return _apply(each, image)
