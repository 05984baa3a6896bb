"""Streams of patches: of damaged and clean images, of labelled images, and of images of one size.

No patch is stored. Each stream computes its random order and cuts patches from the images as they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict._common.arrays import Floats
from taskdict._common.normalise import unit_norm
from taskdict._common.permutation import permuted
from taskdict._common.pixels import to_unit, with_channels
from taskdict._common.validation import check_count
from taskdict.streams.base import State, Stream, check_state
from taskdict.streams.stored import Order, Shuffled

VIEW_DEVIATIONS = (1.4, 1.1, 0.22)  # standard deviations that the three views of a patch are scaled to
_LEAST_DEVIATION = 1e-6  # a view with a smaller one counts as constant
_PATCHES_PER_READ = 4096
_PATCHES_TO_SCALE = 20_000  # patches that the deviations of the views are estimated from
_PATCHES_PER_SUM = 2_000  # patches whose squares are added up together; the rounding of the scales depends on it


class PatchPairs(Stream):
    """Patches of damaged images, as signals, with the same patches of the clean images, as targets.

    A round gives every patch of every image once, in random order. Values are from 0 to 1. The mean of each channel of
    a damaged patch is subtracted from both patches of a pair.

    Parameters
    ----------
    damaged, clean : sequence of arrays of shape (height, width) or (height, width, channels)
        Images of the same sizes, with the same number of channels.
    patch_size : int
        Height and width of a patch.
    random_state : int, RandomState or None, default=None
        Seed of the order.

    Examples
    --------
    >>> import numpy as np
    >>> from taskdict.images import degrade
    >>> from taskdict.streams.patches import PatchPairs
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
        self._pairs = _checked_pairs(damaged, clean)
        self.n_channels = self._pairs[0][0].shape[2]
        corners = [_corners(bad.shape, self.patch_size) for bad, _ in self._pairs]
        self._columns = [columns for _, columns in corners]
        self._starts = np.cumsum([0, *(rows * columns for rows, columns in corners)])
        self.n_signals = int(self._starts[-1])
        if self.n_signals == 0:
            raise ValueError(f"all images are smaller than a patch of {self.patch_size} by {self.patch_size}.")
        self._order = Order(self.n_signals, int(check_random_state(random_state).randint(2**31 - 1)))
        self._position = 0  # patches given since the beginning
        self._read_ahead: tuple[int, Floats, Floats] | None = None  # number of a block, its signals and targets
        self._last = np.empty((0, 1), np.float32)

    def known_data(self) -> tuple[Any, ...]:
        """Return the size of the patches, and the images."""
        return self.patch_size, *(image for pair in self._pairs for image in pair)

    def _read(self, n: int) -> Floats:
        signals, targets = [], []
        end = self._position + n
        while self._position < end:
            block, start = divmod(self._position, _PATCHES_PER_READ)
            if self._read_ahead is None or self._read_ahead[0] != block:
                rows = self._order.rows(block * _PATCHES_PER_READ, _PATCHES_PER_READ)
                self._read_ahead = block, *self._signals_and_targets(rows)
            part = slice(start, start + end - self._position)
            signals.append(self._read_ahead[1][part])
            targets.append(self._read_ahead[2][part])
            self._position += len(signals[-1])
        self._last = np.concatenate(targets)
        return np.concatenate(signals)

    def _signals_and_targets(self, numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the damaged and the clean patches of these numbers."""
        X, y = self._cut(numbers, self._pairs)
        mean = X.mean(axis=(1, 2), keepdims=True)
        return (X - mean).reshape(len(X), -1), (y - mean).reshape(len(y), -1)

    def _cut(self, numbers: NDArray[np.int64], images: Sequence[tuple[NDArray[Any], ...]]) -> list[Floats]:
        """Return the patches of these numbers from each version of the images."""
        size = self.patch_size
        cut = [np.empty((len(numbers), size, size, self.n_channels), np.float32) for _ in images[0]]
        of = np.searchsorted(self._starts, numbers, side="right") - 1
        for k in np.unique(of):
            mine = np.flatnonzero(of == k)
            row, column = np.divmod(numbers[mine] - self._starts[k], self._columns[k])
            for image, patches in zip(images[k], cut, strict=True):
                patches[mine] = _patches_of(image, size, row, column)
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
        """Return the seed, and the number of patches given so far."""
        return {"kind": "patches", "n_signals": self.n_signals, "seed": self._order.seed, "position": self._position}

    def restore(self, state: State) -> None:
        """Go to the position, and to the seed, at which `state` was taken from a stream of the same images."""
        check_state(state, "patches", ("n_signals", "seed", "position"))
        if state["n_signals"] != self.n_signals:
            raise ValueError(
                f"state belongs to a stream of {state['n_signals']} patches, but this one has {self.n_signals}: "
                "restore it on a stream of the same images and patch size."
            )
        self._order, self._position, self._read_ahead = Order(self.n_signals, state["seed"]), state["position"], None


class RefinementPairs(PatchPairs):
    """Three views of each patch, as signals, with the error of the denoised view, as targets.

    The signals are those of :func:`refinement_signals`. The target is the clean patch minus the denoised one: the
    residual that a refinement learns to predict.

    Parameters
    ----------
    damaged, clean, restored, denoised : sequence of arrays of shape (height, width, channels)
        Four versions of the images. `denoised` is `restored` after its artefacts were removed as noise.
    patch_size : int
        Height and width of a patch.
    random_state : int, RandomState or None
        Seed of the order.

    Attributes
    ----------
    scales : array of shape (3,)
        Factors that bring the views to the deviations `VIEW_DEVIATIONS`. They do not depend on the seed.
    """

    def __init__(
        self,
        damaged: Sequence[Any],
        clean: Sequence[Any],
        restored: Sequence[Floats],
        denoised: Sequence[Floats],
        patch_size: int,
        *,
        random_state: Any = None,
    ) -> None:
        super().__init__(damaged, clean, patch_size, random_state=random_state)
        self._versions = [
            (third, bad, second, good)
            for (bad, good), second, third in zip(self._pairs, restored, denoised, strict=True)
        ]
        self.scales = np.ones(3, np.float32)
        self.scales = self._find_scales()

    def _find_scales(self) -> NDArray[np.float32]:
        squares = np.zeros(3)
        sample = np.unique(np.linspace(0, self.n_signals - 1, _PATCHES_TO_SCALE).astype(np.int64))
        for k in range(0, len(sample), _PATCHES_PER_SUM):
            unscaled, _ = self._signals_and_targets(sample[k : k + _PATCHES_PER_SUM])
            squares += np.square(unscaled).reshape(len(unscaled), 3, -1).sum(axis=(0, 2), dtype=np.float64)
        numbers = len(sample) * self.patch_size**2 * self.n_channels
        deviations = np.maximum(np.sqrt(squares / numbers), _LEAST_DEVIATION)
        scales: NDArray[np.float32] = (VIEW_DEVIATIONS / deviations).astype(np.float32)
        return scales

    def known_data(self) -> tuple[Any, ...]:
        """Return the size of the patches, and all versions of the images."""
        return self.patch_size, *(image for versions in self._versions for image in versions)

    def _signals_and_targets(self, numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the scaled views and the residuals of the patches of these numbers."""
        *views, clean = self._cut(numbers, self._versions)
        return refinement_signals(views, self.scales), (clean - views[0]).reshape(len(clean), -1)


def refinement_signals(views: Sequence[Floats], scales: Floats) -> Floats:
    """Return the signals of patches that a refinement encodes: three views of each, scaled, side by side.

    Parameters
    ----------
    views : sequence of three arrays of shape (n_patches, size, size, channels)
        The denoised, the damaged and the restored patches. The signals are the denoised patch without its mean, the
        damaged minus the denoised patch, and the restored minus the denoised patch.
    scales : array of shape (3,)
        Factors of the views.

    Returns
    -------
    array of shape (n_patches, 3 * size * size * channels)
    """
    denoised, damaged, restored = views
    parts = denoised - denoised.mean(axis=(1, 2), keepdims=True), damaged - denoised, restored - denoised
    return np.concatenate(
        [(scale * part).reshape(len(part), -1) for scale, part in zip(scales, parts, strict=True)], axis=1
    )


class LabelledPatches(Shuffled):
    """Random patches of labelled images, with the labels, drawn evenly over classes and over the images of a class.

    Parameters
    ----------
    images : list of arrays of shape (height, width, channels)
        Images with the same number of channels.
    labels : array of shape (n_images,)
        Labels of the images.
    patch_size : int
        Height and width of a patch.
    n_patches : int
        Number of patches of each class. All positions in an image are used before one is used again.
    normalise : bool
        Whether patches are centred and scaled to norm one.
    random_state : int, RandomState or None
        Seed of the choice and the order.
    """

    def __init__(
        self,
        images: list[NDArray[Any]],
        labels: NDArray[Any],
        patch_size: int,
        *,
        n_patches: int,
        normalise: bool,
        random_state: Any = None,
    ) -> None:
        self.patch_size, self.normalise, self._images = patch_size, normalise, images
        self.n_channels = images[0].shape[2]
        for k, image in enumerate(images):
            if image.shape[2] != self.n_channels:
                raise ValueError(
                    f"images must all have the same number of channels, but images[0] has {self.n_channels} and "
                    f"images[{k}] has {image.shape[2]}."
                )
            if min(image.shape[:2]) < patch_size:
                raise ValueError(
                    f"images[{k}] of shape {image.shape[:2]} is smaller than a patch of {patch_size} by {patch_size}."
                )
        classes, of = np.unique(labels, return_inverse=True)
        self._groups = [np.flatnonzero(of == k) for k in range(len(classes))]  # numbers of the images of each class
        super().__init__(n_patches * len(classes), np.tile(classes, n_patches), random_state, None)

    def known_data(self) -> tuple[Any, ...]:
        """Return the size and normalisation of the patches, the classes, and the images of each class."""
        assert self.targets is not None
        classes = self.targets[: len(self._groups)]
        return self.patch_size, self.normalise, classes, *self._groups, *self._images

    def _rows(self, rows: NDArray[np.int64]) -> Floats:
        turn, label = np.divmod(rows, len(self._groups))
        size = self.patch_size
        patches = np.empty((len(rows), size, size, self.n_channels), np.float32)
        for k, group in enumerate(self._groups):
            mine = np.flatnonzero(label == k)
            nth, of = np.divmod(turn[mine], len(group))
            for j, number in enumerate(group):
                here = of == j
                if here.any():
                    patches[mine[here]] = self._cut(int(number), nth[here])
        return patch_signals(patches.reshape(len(rows), -1), self.normalise)

    def _cut(self, number: int, nth: NDArray[np.int64]) -> Floats:
        """Return the patches at the nth positions of an image, in the random order of its own positions."""
        image = self._images[number]
        rows, columns = _corners(image.shape, self.patch_size)
        rounds, positions = np.divmod(nth, rows * columns)
        chosen = np.empty(len(nth), np.int64)
        for again in np.unique(rounds):
            mine = rounds == again
            chosen[mine] = permuted(positions[mine], rows * columns, [self._order.seed, number, int(again)])
        return _patches_of(image, self.patch_size, *np.divmod(chosen, columns))


def patch_signals(patches: Floats, normalise: bool) -> Floats:
    """Return patches as a classifier of patches gets them: centred and of norm one if they are normalised."""
    return unit_norm(patches) if normalise else patches


def _checked_pairs(damaged: Sequence[Any], clean: Sequence[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return pairs of images of the same shape (height, width, channels), all with the same number of channels."""
    pairs = [
        (with_channels(bad, f"damaged[{k}]"), with_channels(good, f"clean[{k}]"))
        for k, (bad, good) in enumerate(zip(damaged, clean, strict=True))
    ]
    if not pairs:
        raise ValueError("clean must have at least one image.")
    for k, (bad, good) in enumerate(pairs):
        if bad.shape != good.shape:
            raise ValueError(f"damaged[{k}] has shape {bad.shape}, but clean[{k}] has {good.shape}.")
        if bad.shape[2] != pairs[0][0].shape[2]:
            raise ValueError("clean must have images that all have the same number of channels.")
    return pairs


def _corners(shape: tuple[int, ...], size: int) -> tuple[int, int]:
    """Return the number of rows and of columns at which a patch of an image can begin."""
    return max(0, shape[0] - size + 1), max(0, shape[1] - size + 1)


def _patches_of(image: NDArray[Any], size: int, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Floats:
    """Return the patches, of shape (n, size, size, channels), that begin at pairs of a row and a column."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))
    return to_unit(windows[rows, columns].transpose(0, 2, 3, 1))
