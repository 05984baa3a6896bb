"""Pictures as patches: random pairs to learn from, and all overlapping patches of a picture to restore it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict._validation import check_count
from taskdict.images.pixels import Floats, check_picture, from_unit, to_unit
from taskdict.images.progress import Report, silent
from taskdict.images.rows import Channels
from taskdict.streams._base import State, Stream, check_state
from taskdict.streams._stored import Order, Shuffled

_AHEAD = 4096  # patches that are read at once
AT_ONCE = 16_384  # patches of a picture that are in memory at once, about


class PatchPairs(Stream):
    """Patches of damaged pictures, as signals, with the same patches of the clean ones, as targets.

    A round gives every patch of every picture once, in random order; none is stored. Values are from 0 to 1, and the
    mean of each channel of a damaged patch is subtracted from both.

    Parameters
    ----------
    damaged, clean : sequence of arrays of shape (height, width) or (height, width, channels)
        Pictures of the same sizes, all grey or all with as many channels.
    patch_size : int
        Height and width of a patch.
    random_state : int, RandomState or None, default=None
        Seed of the order.

    Examples
    --------
    >>> import numpy as np
    >>> from taskdict.images import degrade
    >>> from taskdict.images.patches import PatchPairs
    >>> clean = np.linspace(0, 1, 30 * 40).reshape(30, 40)
    >>> pairs = PatchPairs([degrade.floyd_steinberg(clean)], [clean], 10, random_state=0)
    >>> pairs.n_signals
    651
    >>> X, y = pairs.take_pairs(200)
    >>> X.shape, y.shape
    ((200, 100), (200, 100))
    """

    n_signals: int
    has_targets = True

    def __init__(
        self, damaged: Sequence[Any], clean: Sequence[Any], patch_size: int, *, random_state: Any = None
    ) -> None:
        super().__init__()
        self.patch_size = check_count("patch_size", patch_size)
        self._pairs = [
            (check_channels(bad, f"damaged[{k}]"), check_channels(good, f"clean[{k}]"))
            for k, (bad, good) in enumerate(zip(damaged, clean, strict=True))
        ]
        if not self._pairs:
            raise ValueError("clean must have at least one picture.")
        for k, (bad, good) in enumerate(self._pairs):
            if bad.shape != good.shape:
                raise ValueError(f"damaged[{k}] has shape {bad.shape}, but clean[{k}] has {good.shape}.")
            if bad.shape[2] != self._pairs[0][0].shape[2]:
                raise ValueError("clean must have pictures that are all grey, or all with as many channels.")
        self.n_channels = self._pairs[0][0].shape[2]
        self._columns = [max(0, bad.shape[1] - self.patch_size + 1) for bad, _ in self._pairs]
        rows = [max(0, bad.shape[0] - self.patch_size + 1) for bad, _ in self._pairs]
        self._starts = np.cumsum([0, *(r * c for r, c in zip(rows, self._columns, strict=True))])
        self.n_signals = int(self._starts[-1])
        if self.n_signals == 0:
            raise ValueError(f"all pictures are smaller than a patch of {self.patch_size} by {self.patch_size}.")
        self._order = Order(self.n_signals, int(check_random_state(random_state).randint(2**31 - 1)))
        self._position = 0  # patches given since the beginning
        self._ahead: tuple[int, Floats, Floats] | None = None  # where patches that were read begin, and those
        self._last = np.empty((0, 1), np.float32)

    def known_data(self) -> tuple[Any, ...]:
        """Return the size of the patches, and the pictures."""
        return self.patch_size, *(picture for pair in self._pairs for picture in pair)

    def _read(self, n: int) -> Floats:
        signals, targets = [], []
        end = self._position + n
        while self._position < end:
            block, start = divmod(self._position, _AHEAD)
            if self._ahead is None or self._ahead[0] != block:
                self._ahead = block, *self._patches(self._order.rows(block * _AHEAD, _AHEAD))
            part = slice(start, start + end - self._position)
            signals.append(self._ahead[1][part])
            targets.append(self._ahead[2][part])
            self._position += len(signals[-1])
        self._last = np.concatenate(targets)
        return np.concatenate(signals)

    def _patches(self, chosen: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the damaged and the clean patches of these numbers."""
        X, y = self._cut(chosen, self._pairs)
        mean = X.mean(axis=(1, 2), keepdims=True)
        return (X - mean).reshape(len(X), -1), (y - mean).reshape(len(y), -1)

    def _cut(self, chosen: NDArray[np.int64], pictures: Sequence[tuple[NDArray[Any], ...]]) -> list[Floats]:
        """Return the patches of these numbers, of each kind of pictures."""
        size = self.patch_size
        cut = [np.empty((len(chosen), size, size, self.n_channels), np.float32) for _ in pictures[0]]
        of = np.searchsorted(self._starts, chosen, side="right") - 1
        for k in np.unique(of):
            mine = np.flatnonzero(of == k)
            row, column = np.divmod(chosen[mine] - self._starts[k], self._columns[k])
            for picture, patches in zip(pictures[k], cut, strict=True):
                windows = np.lib.stride_tricks.sliding_window_view(picture, (size, size), axis=(0, 1))
                patches[mine] = to_unit(windows[row, column].transpose(0, 2, 3, 1))
        return cut

    def _last_targets(self) -> Floats:
        return self._last

    def reads_like(self, state: State | None) -> bool:
        """Return whether the seed and the number of patches are the same."""
        return state is not None and (state.get("seed"), state.get("n_signals")) == (self._order.seed, self.n_signals)

    @property
    def seed(self) -> int:
        """Return the seed of the order."""
        return self._order.seed

    def state(self) -> State:
        """Return the seed, and how many patches have been given."""
        return {"kind": "patches", "n_signals": self.n_signals, "seed": self._order.seed, "position": self._position}

    def restore(self, state: State) -> None:
        """Go to where a stream of the same pictures was when `state` was taken; its seed becomes this one's."""
        check_state(state, "patches", ("n_signals", "seed", "position"))
        if state["n_signals"] != self.n_signals:
            raise ValueError(
                f"state belongs to a stream of {state['n_signals']} patches, but this one has {self.n_signals}: "
                "restore it on a stream of the same pictures and patch size."
            )
        self._order, self._position, self._ahead = Order(self.n_signals, state["seed"]), state["position"], None


class CropPatches(Shuffled):
    """Patches of pictures that are all of one size, a round gives every patch once, in random order; none is stored.

    Parameters
    ----------
    images : array of shape (n_images, height, width)
        Grey pictures.
    patch_size : int
        Height and width of a patch.
    random_state : int, RandomState or None, default=None
        Seed of the order.
    preprocess : callable or None, default=None
        A function of a batch of patches, whose values are from 0 to 1.
    """

    def __init__(
        self,
        images: NDArray[Any],
        patch_size: int,
        *,
        random_state: Any = None,
        preprocess: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        size = check_count("patch_size", patch_size)
        if images.ndim != 3 or min(images.shape[1:]) < size:
            raise ValueError(f"images must be pictures of {size} by {size} pixels or more, got shape {images.shape}.")
        self._windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))
        super().__init__(int(np.prod(self._windows.shape[:3])), None, random_state, preprocess)

    def _rows(self, rows: NDArray[np.int64]) -> Floats:
        patches = self._windows[np.unravel_index(rows, self._windows.shape[:3])]
        return to_unit(patches.reshape(len(rows), -1))


def map_patches(
    image: Any,
    size: int,
    function: Callable[[Floats], Floats],
    *,
    stride: int = 1,
    weights: Floats | None = None,
    one_by_one: bool = False,
    n_found: int | None = None,
    at_once: int = AT_ONCE,
    dtype: Any = np.float32,
    report: Report = silent,
) -> NDArray[Any]:
    """Return the average, at each pixel, of what a function makes of all patches that cover it.

    Parameters
    ----------
    image : array of shape (height, width, channels), or object with this shape that gives slices of rows
        A picture; one that is smaller than a patch is mirrored at its edges.
    size : int
        Height and width of a patch.
    function : callable
        Maps patches of shape (n, size * size * channels), float32, to patches of the same shape, or with `n_found`
        channels.
    stride : int
        Pixels between neighbouring patches, at most their size; the last row and column of patches always touch the
        edge.
    weights : array of shape (size, size) or None
        Positive weights of the pixels of a patch in the average, None if they are all the same.
    one_by_one : bool
        Whether the function gets patches of one channel after the other, or of all channels together.
    n_found : int or None
        Channels of what the function makes of patches of all channels, None if they are those of the picture.
    at_once : int
        How many patches the function gets, about. Memory grows with it and with the picture, not with the number of
        patches in all.
    dtype : numpy dtype
        Of the result, see :func:`taskdict.images.pixels.from_unit`.
    report : callable
        Called with the number of patches that are done, and of all.

    Returns
    -------
    array of the shape of the picture, or with `n_found` channels
    """
    if not 1 <= stride <= size:
        raise ValueError(f"stride must be from 1 to the patch size, {size}: no pixel may be left out, got {stride}.")
    if one_by_one and n_found is not None:
        raise ValueError("n_found is for patches of all channels together, not one by one.")
    height, width, channels = image.shape
    if min(height, width) < size:
        image = np.pad(
            image[:height], [*((0, max(0, size - side)) for side in (height, width)), (0, 0)], mode="symmetric"
        )
    shares = np.ones((size, size), np.float32) if weights is None else np.asarray(weights, np.float32)
    step = 1 if one_by_one else channels
    result = np.empty((*image.shape[:2], channels if n_found is None else n_found), dtype)
    for first in range(0, channels, step):
        part = np.s_[:, :, first : first + step]

        def told(done: int, total: int, before: int = first // step) -> None:
            report(before * total + done, channels // step * total)

        whole = result[part] if one_by_one else result
        _map_part(Channels(image, first, step), size, function, stride, shares, at_once, told, whole)
    return result[:height, :width]


def _map_part(
    image: Channels,
    size: int,
    function: Callable[[Floats], Floats],
    stride: int,
    shares: Floats,
    at_once: int,
    report: Report,
    result: NDArray[Any],
) -> None:
    """Write to `result` what :func:`map_patches` returns, for channels that the function gets together."""
    (height, width), channels = image.shape[:2], result.shape[2]
    down, right = positions(height, size, stride), positions(width, size, stride)
    rows_at_once = max(1, at_once // len(right))
    sums, totals = np.zeros((0, width, channels), np.float32), np.zeros((0, width, 1), np.float32)
    finished = 0  # rows of pixels
    for k in range(0, len(down), rows_at_once):
        rows = down[k : k + rows_at_once]
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
        until = height if k + rows_at_once >= len(down) else int(down[k + rows_at_once])
        ready = until - finished
        result[finished:until] = from_unit(sums[:ready] / totals[:ready], result.dtype)
        sums, totals, finished = sums[ready:], totals[ready:], until


def check_channels(image: Any, name: str = "image") -> NDArray[Any]:
    """Return a picture with an axis for its channels, also if it is grey."""
    image = check_picture(image, name)
    with_channels: NDArray[Any] = image[:, :, None] if image.ndim == 2 else image
    return with_channels


def spread_over(
    values: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64], size: int, shape: tuple[int, ...]
) -> Floats:
    """Return the average, at each pixel of a picture, of the values of the patches over it.

    The values have the shape (rows, columns, anything): one for each patch, whose corner is at a row and a column.
    """
    sums, totals = np.zeros((*shape, values.shape[2]), np.float32), np.zeros((*shape, 1), np.float32)
    for i in range(size):
        for j in range(size):
            _add(sums, rows + i, columns + j, values)
            _add(totals, rows + i, columns + j, np.float32(1))
    return sums / totals


def patches_at(image: NDArray[Any], size: int, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Floats:
    """Return the patches whose corners are at these rows and columns."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))
    patches = windows[rows[:, None], columns].transpose(0, 1, 3, 4, 2)
    return to_unit(patches).astype(np.float32, copy=False).reshape(len(rows) * len(columns), -1)


def positions(length: int, size: int, stride: int) -> NDArray[np.int64]:
    """Return where patches begin along a side; the last one touches its end."""
    return np.unique([*range(0, length - size, stride), length - size]).astype(np.int64)


def _add(sums: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64], values: Any) -> None:
    """Add values at rows and columns, all different; next to each other they need no list."""
    if len(rows) == rows[-1] - rows[0] + 1 and len(columns) == columns[-1] - columns[0] + 1:
        sums[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] += values
    else:
        sums[np.ix_(rows, columns)] += values
