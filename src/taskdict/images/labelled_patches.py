"""Random patches of labelled pictures, drawn evenly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._normalise import unit_norm
from taskdict._permutation import permuted
from taskdict.images.pixels import Floats, to_unit
from taskdict.streams._stored import Shuffled


class LabelledPatches(Shuffled):
    """Random patches of labelled pictures, with the labels: as many of each class, and of each picture of a class.

    Parameters
    ----------
    pictures : list of arrays of shape (height, width, channels)
        Where patches come from.
    labels : array
        Of the pictures.
    patch_size : int
        Height and width of a patch.
    n_patches : int
        Of each class. All places of a picture are used before one is used again.
    normalise : bool
        Whether patches are centred and scaled to norm one.
    random_state : int, RandomState or None
        Seed of the choice and the order.
    """

    def __init__(
        self,
        pictures: list[NDArray[Any]],
        labels: NDArray[Any],
        patch_size: int,
        *,
        n_patches: int,
        normalise: bool,
        random_state: Any = None,
    ) -> None:
        self.patch_size, self.normalise, self._pictures = patch_size, normalise, pictures
        self.channels = pictures[0].shape[2]
        for k, picture in enumerate(pictures):
            if picture.shape[2] != self.channels:
                raise ValueError(
                    f"images must be all grey or all with as many channels, but images[0] has {self.channels} and "
                    f"images[{k}] has {picture.shape[2]}."
                )
            if min(picture.shape[:2]) < patch_size:
                raise ValueError(
                    f"images[{k}] of shape {picture.shape[:2]} is smaller than a patch of {patch_size} by {patch_size}."
                )
        classes, of = np.unique(labels, return_inverse=True)
        self._groups = [np.flatnonzero(of == k) for k in range(len(classes))]
        super().__init__(n_patches * len(classes), np.tile(classes, n_patches), random_state, None)

    def known_data(self) -> tuple[Any, ...]:
        """Return how patches are cut, the classes, and the pictures of each class."""
        assert self.targets is not None
        classes = self.targets[: len(self._groups)]
        return self.patch_size, self.normalise, classes, *self._groups, *self._pictures

    def _rows(self, rows: NDArray[np.int64]) -> Floats:
        turn, kind = np.divmod(rows, len(self._groups))
        size = self.patch_size
        patches = np.empty((len(rows), size, size, self.channels), np.float32)
        for k, group in enumerate(self._groups):
            mine = np.flatnonzero(kind == k)
            nth, of = np.divmod(turn[mine], len(group))
            for j, number in enumerate(group):
                here = of == j
                if here.any():
                    patches[mine[here]] = self._cut(int(number), nth[here])
        return as_signals(patches.reshape(len(rows), -1), self.normalise)

    def _cut(self, number: int, nth: NDArray[np.int64]) -> Floats:
        """Return the patches at the nth places of a picture, in its own random order of them."""
        picture, size = self._pictures[number], self.patch_size
        high, wide = (side - size + 1 for side in picture.shape[:2])
        rounds, places = np.divmod(nth, high * wide)
        chosen = np.empty(len(nth), np.int64)
        for again in np.unique(rounds):
            mine = rounds == again
            chosen[mine] = permuted(places[mine], high * wide, [self._order.seed, number, int(again)])
        windows = np.lib.stride_tricks.sliding_window_view(picture, (size, size), axis=(0, 1))
        return to_unit(windows[chosen // wide, chosen % wide].transpose(0, 2, 3, 1))


def as_signals(patches: Floats, normalise: bool) -> Floats:
    """Return patches as they are learned from."""
    return unit_norm(patches) if normalise else patches
