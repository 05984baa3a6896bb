"""The signals of another stream, multiplied by a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict.streams._base import State, Stream

Floats = NDArray[Any]


class MappedStream(Stream):
    """The signals of another stream multiplied by a matrix, with their targets, or themselves as targets."""

    has_targets = True

    def __init__(self, source: Stream, matrix: Floats) -> None:
        super().__init__()
        self._source, self._matrix, self.n_signals = source, matrix, source.n_signals
        self._last: Floats = np.empty((0, 1))

    def _read(self, n: int) -> Floats:
        if self._source.has_targets:
            X, self._last = self._source.take_pairs(n)
        else:
            X = self._source.take(n)
            self._last = X
        return mapped(X, self._matrix)

    def _last_targets(self) -> Floats:
        return self._last

    def name(self, row: int) -> str:
        """Say which signal it is."""
        return self._source.name(row)

    def reads_like(self, state: State | None) -> bool:
        """Return whether the source surely gives the same signals."""
        return self._source.reads_like(state)

    def state(self) -> State:
        """Return where the source is."""
        return self._source.state()

    def restore(self, state: State) -> None:
        """Go to where the source was."""
        self._source.restore(state)


def mapped(X: Floats, matrix: Floats) -> Floats:
    """Return the products of rows of X with a matrix, in the dtype of X."""
    products: Floats = X @ matrix.T.astype(X.dtype, copy=False)
    return products
