"""Images of atoms, and images side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict.images.io import StoredImage, write_image

Pixels = NDArray[np.uint8]


def mosaic(atoms: NDArray[Any], shape: tuple[int, int], columns: int, zoom: int = 1) -> Pixels:
    """Return an image of atoms in rows, grey where they are zero, with white lines between them."""
    height, width = shape
    rows = -(-len(atoms) // columns)
    image = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1), 255, np.uint8)
    for k, atom in enumerate(atoms):
        top, left = (height + 1) * (k // columns) + 1, (width + 1) * (k % columns) + 1
        grey = 127.5 * (1 + atom / max(np.abs(atom).max(), 1e-12))
        image[top : top + height, left : left + width] = np.round(grey).reshape(shape)
    return np.kron(image, np.ones((zoom, zoom), np.uint8))


def side_by_side(images: Sequence[Pixels], gap: int) -> Pixels:
    """Return images of the same height side by side, `gap` white pixels apart."""
    parts = [part for image in images for part in (np.full((len(image), gap), 255, np.uint8), image)]
    return np.concatenate(parts[1:], axis=1)


def save_image(image: Pixels, path: Path) -> None:
    """Write an image to a .png file, which is replaced if it exists."""
    write_image(path, StoredImage(image), force=True)


def most_used(codes: Any, count: int) -> NDArray[np.intp]:
    """Return the atoms with the largest sums of absolute coefficients, the largest first."""
    return np.argsort(-np.asarray(abs(codes).sum(axis=0)).ravel(), kind="stable")[:count]
