"""Streams of small images with data augmentation: shifts and elastic distortions, new each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict._common.arrays import Floats
from taskdict._common.normalise import unit_norm
from taskdict._common.permutation import permuted
from taskdict._common.validation import check_penalty, refuse_masked, unlabelled
from taskdict._native import bend as distort
from taskdict.streams.base import State, Stream, check_state
from taskdict.streams.stored import Order, open_targets

Shift = tuple[int, int]  # pixels down, pixels to the right

_ACROSS: tuple[Shift, ...] = ((0, 1), (0, -1), (1, 0), (-1, 0))
_DIAGONAL: tuple[Shift, ...] = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_SIGNALS_PER_DRAW = 256  # signals whose distortions are drawn together
_IMAGES_PER_CHECK = 256  # images that are checked for NaN together
_KNOTS = 5  # of the random displacement field of an image, along each side


class ImageStream(Stream):
    """Small images as signals, with data augmentation by shifts and elastic distortions. No augmented image is stored.

    A round gives every shift of every image once, in random order. Signals are centred and of norm one, float32.
    If some images are unlabelled (−1), every second signal is one of them, and both kinds have rounds of their own.

    Parameters
    ----------
    images : array of shape (n_images, height, width)
        Images of any numeric dtype. They are read as they are needed, so the array may be memory-mapped.
    y : array of shape (n_images,) or None, default=None
        Labels, −1 for none.
    shifts : {0, 4, 8} or sequence of (down, right), default=0
        Shifts of an image, beside the image itself: none, by one pixel in the four directions or in the eight, or by
        the pixels of a list. The smallest value of all images comes in at the edges.
    bend : float, default=0.0
        Size in pixels of an elastic distortion: a smooth random displacement, new each time. It varies over a quarter
        of the image, so it rotates, stretches and slants as well.
    directions : array of shape (n_directions, height * width) or None, default=None
        Signals are the products of the pixels, centred and of norm one, with these; None gives the pixels.
    random_state : int, RandomState or None, default=None
        Seed of the order and of the distortions.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import taskdict as td
    >>> digits = load_digits()
    >>> stream = td.streams.ImageStream(digits.images, digits.target, shifts=8, random_state=0)
    >>> stream.n_signals  # 1,797 digits in nine places each
    16173
    >>> X, y = stream.take_pairs(200)
    >>> X.shape
    (200, 64)
    """

    n_signals: int

    def __init__(
        self,
        images: Any,
        y: Any = None,
        *,
        shifts: int | Sequence[Shift] = 0,
        bend: float = 0.0,
        directions: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__()
        self._images = check_images(images)
        self.directions = check_directions(directions, self._images.shape[1:])
        self.shifts = check_shifts("shifts", shifts)
        self.bend = check_penalty("bend", bend)
        self.targets = open_targets(y, len(self._images))
        self.has_targets = self.targets is not None
        if self.targets is not None and self.targets.ndim != 1:
            raise ValueError(f"y must have one label for each image, got shape {self.targets.shape}.")
        self.n_signals = len(self._images) * len(self.shifts)
        self.background = float(self._images.min())
        self._size = 1.0  # of the pixels, where float32 might not hold them
        if self._images.dtype == np.float64:
            self._size = max(abs(self.background), abs(float(self._images.max()))) or 1.0
        check_reach("shifts", self.shifts, self._images.shape[1:])
        if self.bend >= max(self._images.shape[1:]):
            raise ValueError(f"bend must be less than the size of the images, {self._images.shape[1:]}, got {bend}.")
        self._held = 0.0  # fraction of the labelled images that are held out
        self._position = 0  # signals given since the beginning
        self._last = np.empty(0, np.int64)  # the images that were last given
        self._fields: tuple[int, Floats] | None = None  # number of a block of signals, and the knots of its fields
        self._use_seed(int(check_random_state(random_state).randint(2**31 - 1)))

    def _use_seed(self, seed: int) -> None:
        self._seed = seed
        every = np.arange(len(self._images))
        none = np.zeros(len(every), bool) if self.targets is None else unlabelled(self.targets)
        known = every[~none]
        mixed = known[permuted(np.arange(len(known)), len(known), [seed, 2**31])] if self._held > 0 else known
        count = int(self._held * len(known))
        self._kept_back = np.sort(mixed[:count])
        groups = [np.sort(mixed[count:]), every[none]]
        self._groups = [group for group in groups if len(group) > 0]  # images that take turns
        self._orders = [Order(len(group) * len(self.shifts), seed + k) for k, group in enumerate(self._groups)]
        self._fields = None

    @property
    def has_versions(self) -> bool:
        """Whether it gives several versions of an image: shifted, or distorted."""
        return len(self.shifts) > 1 or self.bend > 0

    def hold_out(self, fraction: float) -> tuple[Floats, NDArray[Any]] | None:
        """Hold out a fraction of the labelled images, with all their shifts; return them without augmentation."""
        if self.targets is None:
            return None
        self._held = fraction
        self._use_seed(self._seed)
        rows = self._kept_back
        held = image_signals(self._images[rows], self.directions) if len(rows) else np.empty((0, 1), np.float32)
        return held, self.targets[rows]

    def _read(self, n: int) -> Floats:
        places = np.arange(self._position, self._position + n)
        turns = len(self._groups)
        self._last, version = np.empty(n, np.int64), np.empty(n, np.int64)
        for k, (group, order) in enumerate(zip(self._groups, self._orders, strict=True)):
            mine = places % turns == k
            if mine.any():
                chosen = order.rows(int(places[mine][0]) // turns, int(mine.sum()))
                self._last[mine], version[mine] = group[chosen // len(self.shifts)], chosen % len(self.shifts)
        images = as_floats(self._images[self._last])
        offsets = np.array(self.shifts)[version]
        if self.bend > 0:
            knots = np.float32(self.bend) * self._draw_knots(n)
            images = distorted(images / self._size, offsets, knots, self.background / self._size)
        elif len(self.shifts) > 1:
            images = shifted(images, offsets, self.background)
        self._position += n
        return image_signals(images, self.directions)

    def known_data(self) -> tuple[Any, ...]:
        """Return the images, the targets, and the parameters of the augmentation."""
        return self._images, self.targets, self.shifts, self.bend, self.directions

    def _last_targets(self) -> NDArray[Any]:
        assert self.targets is not None
        return np.asarray(self.targets[self._last])

    def _draw_knots(self, n: int) -> Floats:
        """Return the knots of the displacement fields of the next n signals, (n, 2, KNOTS, KNOTS), standard normal."""
        parts = []
        position, end = self._position, self._position + n
        while position < end:
            block, start = divmod(position, _SIGNALS_PER_DRAW)
            if self._fields is None or self._fields[0] != block:
                rng = np.random.default_rng([self._seed, block])
                self._fields = block, rng.standard_normal((_SIGNALS_PER_DRAW, 2, _KNOTS, _KNOTS), np.float32)
            parts.append(self._fields[1][start : start + end - position])
            position += len(parts[-1])
        return np.concatenate(parts)

    def name(self, row: int) -> str:
        """Return the name of an image."""
        return f"image {self._last[row]} of the source"

    def reads_like(self, state: State | None) -> bool:
        """Return whether the seed and the number of signals are the same."""
        return state is not None and (state.get("seed"), state.get("n_signals")) == (self._seed, self.n_signals)

    def state(self) -> State:
        """Return the seed, and the number of signals given so far."""
        return {"kind": "images", "n_signals": self.n_signals, "seed": self._seed, "position": self._position}

    def restore(self, state: State) -> None:
        """Go to the position, and to the seed, at which `state` was taken from a stream of the same images."""
        check_state(state, "images", ("n_signals", "seed", "position"))
        if state["n_signals"] != self.n_signals:
            raise ValueError(
                f"state belongs to a stream of {state['n_signals']} signals, but this one has {self.n_signals}: "
                "restore it on a stream of the same images and shifts."
            )
        self._use_seed(state["seed"])
        self._position = state["position"]


def check_images(images: Any, name: str = "images") -> NDArray[Any]:
    """Return images as an array of shape (n_images, height, width)."""
    refuse_masked(name, images)
    array: NDArray[Any] = np.asanyarray(images)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}.")
    if array.ndim != 3:
        raise ValueError(f"{name} must have shape (n_images, height, width), got {array.shape}.")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one image with pixels, got shape {array.shape}.")
    if array.dtype.kind == "f":
        for k in range(0, len(array), _IMAGES_PER_CHECK):
            bad = np.flatnonzero(~np.isfinite(array[k : k + _IMAGES_PER_CHECK]).all(axis=(1, 2)))
            if len(bad) > 0:
                raise ValueError(f"{name} must be finite, but image {k + bad[0]} contains NaN or infinity.")
    return array


def check_reach(name: str, shifts: tuple[Shift, ...], shape: tuple[int, ...]) -> None:
    """Raise if a shift moves an image out of its own frame."""
    for down, right in shifts:
        if abs(down) >= shape[0] or abs(right) >= shape[1]:
            raise ValueError(f"{name} must be smaller than images of shape {shape}, got {(down, right)}.")


def as_floats(images: NDArray[Any]) -> Floats:
    """Return images as float32, or as float64 if they are: the range may matter until they are scaled."""
    return np.asarray(images, np.float64 if images.dtype == np.float64 else np.float32)


def image_signals(images: NDArray[Any], directions: Floats | None = None) -> Floats:
    """Return images as rows, centred and of norm one, float32, or their products with directions."""
    pixels: Floats = unit_norm(as_floats(images).reshape(len(images), -1)).astype(np.float32, copy=False)
    return pixels if directions is None else pixels @ directions.T


def check_directions(directions: Any, shape: tuple[int, ...]) -> Floats | None:
    """Return directions in the space of images of a shape, as float32."""
    if directions is None:
        return None
    refuse_masked("directions", directions)
    array = np.ascontiguousarray(directions, np.float32)
    if array.ndim != 2 or len(array) == 0 or array.shape[1] != shape[0] * shape[1] or not np.isfinite(array).all():
        raise ValueError(
            f"directions must be finite and of shape (n_directions, height * width) = (n, {shape[0] * shape[1]}), "
            f"got shape {array.shape}."
        )
    return array


def check_shifts(name: str, shifts: Any) -> tuple[Shift, ...]:
    """Return the shifts of an image; the first is none."""
    if isinstance(shifts, (int, np.integer)) and not isinstance(shifts, bool):
        named = {0: (), 4: _ACROSS, 8: _ACROSS + _DIAGONAL}
        if int(shifts) not in named:
            raise ValueError(f"{name} must be 0, 4, 8 or a list of (down, right), got {shifts}.")
        return ((0, 0), *named[int(shifts)])
    try:
        pairs = np.asarray(shifts if isinstance(shifts, (list, tuple, np.ndarray)) else None)
    except ValueError:
        pairs = np.empty(0)
    if pairs.shape == (0,) and isinstance(shifts, (list, tuple)) and len(shifts) == 0:
        return ((0, 0),)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"{name} must be 0, 4, 8 or a list of (down, right) in whole pixels, got {shifts!r}.")
    return ((0, 0), *(pair for pair in dict.fromkeys((int(a), int(b)) for a, b in pairs) if pair != (0, 0)))


def shifted(images: Floats, offsets: NDArray[np.int64], background: float) -> Floats:
    """Return each image shifted by its own offset."""
    n, height, width = images.shape
    margin = int(np.abs(offsets).max(initial=0))
    framed = np.full((n, height + 2 * margin, width + 2 * margin), background, images.dtype)
    framed[:, margin : margin + height, margin : margin + width] = images
    windows = np.lib.stride_tricks.sliding_window_view(framed, (height, width), axis=(1, 2))
    return windows[np.arange(n), margin - offsets[:, 0], margin - offsets[:, 1]]


def distorted(images: Floats, offsets: NDArray[np.int64], knots: Floats, background: float) -> Floats:
    """Return each image shifted and displaced by the smooth field of its knots, bilinear between pixels, float32."""
    _, height, width = images.shape
    images, knots = (np.ascontiguousarray(array, np.float32) for array in (images, knots))
    return distort(images, np.ascontiguousarray(offsets), knots, knot_weights(height), knot_weights(width), background)


@cache
def knot_weights(side: int) -> Floats:
    """Return the weights of the knots at the pixels of a side: Gaussians as wide as their distance, of norm one."""
    pixels, knots = np.linspace(0, 1, side), np.linspace(0, 1, _KNOTS)
    gaussians = np.exp(-0.5 * ((pixels[:, None] - knots) * (_KNOTS - 1)) ** 2)
    unit: Floats = (gaussians / np.linalg.norm(gaussians, axis=1, keepdims=True)).astype(np.float32)
    return unit
