"""All overlapping patches of an image: mapped by a function and averaged, or with one value each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._common.pixels import from_unit, to_unit
from taskdict.images.lazy import Channels, Rows
from taskdict.images.progress import Report, silent

PATCHES_PER_CHUNK = 16_384  # patches of an image that are in memory at once, about

Positions = NDArray[np.int64]


def map_patches(
    image: Rows,
    size: int,
    function: Callable[[Floats], Floats],
    *,
    stride: int = 1,
    weights: Floats | None = None,
    one_by_one: bool = False,
    n_outputs: int | None = None,
    patches_per_chunk: int = PATCHES_PER_CHUNK,
    dtype: Any = np.float32,
    report: Report = silent,
) -> NDArray[Any]:
    """Map all patches of an image by a function, and average the results that cover each pixel.

    Parameters
    ----------
    image : array of shape (height, width, channels), or lazy image
        An image, see :mod:`taskdict.images.lazy`. If it is smaller than a patch, it is mirrored at its edges.
    size : int
        Height and width of a patch.
    function : callable
        Maps patches of shape (n, size * size * channels), float32, to patches of the same shape, or with `n_outputs`
        channels.
    stride : int
        Pixels between neighbouring patches, at most their size; the last row and column of patches always touch the
        edge.
    weights : array of shape (size, size) or None
        Positive weights of the pixels of a patch in the average, None for equal ones.
    one_by_one : bool
        Whether the function gets patches of one channel after the other, or of all channels together.
    n_outputs : int or None
        Number of channels that the function returns for patches of all channels, None for those of the image.
    patches_per_chunk : int
        Number of patches that the function gets, about. Memory grows with it and with the image, not with the total
        number of patches.
    dtype : numpy dtype
        Of the result, see :func:`taskdict._common.pixels.from_unit`.
    report : callable
        Called with the number of patches that are done, and of all.

    Returns
    -------
    array of the shape of the image, or with `n_outputs` channels
    """
    if not 1 <= stride <= size:
        raise ValueError(
            f"stride must be from 1 to the patch size, {size}, so that patches cover every pixel, got {stride}."
        )
    if one_by_one and n_outputs is not None:
        raise ValueError("n_outputs is for patches of all channels together, not one by one.")
    height, width, channels = image.shape
    if min(height, width) < size:
        image = np.pad(
            image[:height], [*((0, max(0, size - side)) for side in (height, width)), (0, 0)], mode="symmetric"
        )
    shares = np.ones((size, size), np.float32) if weights is None else np.asarray(weights, np.float32)
    step = 1 if one_by_one else channels
    result = np.empty((*image.shape[:2], channels if n_outputs is None else n_outputs), dtype)
    for first in range(0, channels, step):
        part = np.s_[:, :, first : first + step]

        def report_part(done: int, total: int, before: int = first // step) -> None:
            report(before * total + done, channels // step * total)

        whole = result[part] if one_by_one else result
        _map_part(Channels(image, first, step), size, function, stride, shares, patches_per_chunk, report_part, whole)
    return result[:height, :width]


def _map_part(
    image: Rows,
    size: int,
    function: Callable[[Floats], Floats],
    stride: int,
    shares: Floats,
    patches_per_chunk: int,
    report: Report,
    result: NDArray[Any],
) -> None:
    """Write the result of :func:`map_patches` to `result`, for channels that the function gets together.

    Sums are kept for the rows of pixels that patches of the next chunk may still cover; finished rows are written.
    """
    (height, width), channels = image.shape[:2], result.shape[2]
    down, right = positions(height, size, stride), positions(width, size, stride)
    rows_per_chunk = max(1, patches_per_chunk // len(right))
    sums, totals = np.zeros((0, width, channels), np.float32), np.zeros((0, width, 1), np.float32)
    finished = 0  # rows of pixels
    for k in range(0, len(down), rows_per_chunk):
        rows = down[k : k + rows_per_chunk]
        patches = patches_at(image[int(rows[0]) : int(rows[-1]) + size], size, rows - rows[0], right)
        values = np.asarray(function(patches), np.float32).reshape(len(rows), len(right), size, size, channels)
        missing = rows[-1] + size - finished - len(sums)
        sums, totals = (
            np.concatenate([array, np.zeros((missing, *array.shape[1:]), np.float32)]) for array in (sums, totals)
        )
        for i in range(size):
            for j in range(size):
                _add(sums, rows - finished + i, right + j, shares[i, j] * values[:, :, i, j])
                _add(totals, rows - finished + i, right + j, shares[i, j])
        report((k + len(rows)) * len(right), len(down) * len(right))
        until = height if k + rows_per_chunk >= len(down) else int(down[k + rows_per_chunk])
        ready = until - finished
        result[finished:until] = from_unit(sums[:ready] / totals[:ready], result.dtype)
        sums, totals, finished = sums[ready:], totals[ready:], until


def average_over_pixels(
    values: Floats, rows: Positions, columns: Positions, size: int, shape: tuple[int, ...]
) -> Floats:
    """Return the average, at each pixel of an image, of the values of the patches that cover it.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns, n_values)
        Values of the patches.
    rows, columns : arrays of shape (n_rows,) and (n_columns,)
        Where the patches begin.
    size : int
        Height and width of a patch.
    shape : tuple of int
        Height and width of the image.

    Returns
    -------
    array of shape (height, width, n_values)
    """
    sums, totals = np.zeros((*shape, values.shape[2]), np.float32), np.zeros((*shape, 1), np.float32)
    for i in range(size):
        for j in range(size):
            _add(sums, rows + i, columns + j, values)
            _add(totals, rows + i, columns + j, np.float32(1))
    return sums / totals


def patches_at(image: NDArray[Any], size: int, rows: Positions, columns: Positions) -> Floats:
    """Return the patches that begin at each of these rows and each of these columns, as rows of float32."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))
    patches = windows[rows[:, None], columns].transpose(0, 1, 3, 4, 2)
    return to_unit(patches).astype(np.float32, copy=False).reshape(len(rows) * len(columns), -1)


def positions(length: int, size: int, stride: int) -> Positions:
    """Return where patches begin along a side; the last one touches its end."""
    return np.unique([*range(0, length - size, stride), length - size]).astype(np.int64)


def _add(sums: Floats, rows: Positions, columns: Positions, values: Any) -> None:
    """Add values at rows and columns, all different; adjacent ones are a slice, which is faster."""
    if len(rows) == rows[-1] - rows[0] + 1 and len(columns) == columns[-1] - columns[0] + 1:
        sums[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] += values
    else:
        sums[np.ix_(rows, columns)] += values
