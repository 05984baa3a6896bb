"""Streams made of other streams: multiplied by a matrix, or with the first signals given again."""

from __future__ import annotations

from typing import Any

import numpy as np

from taskdict._common.arrays import Floats
from taskdict.streams.base import State, Stream, check_state


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

    def known_data(self) -> tuple[Any, ...]:
        """Return the known data of the source, and the matrix."""
        return *self._source.known_data(), self._matrix

    def state(self) -> State:
        """Return where the source is."""
        return self._source.state()

    def restore(self, state: State) -> None:
        """Go to where the source was."""
        self._source.restore(state)


class ReplayedStream(Stream):
    """Signals that were taken from a stream which cannot go back, then those that come next."""

    def __init__(self, signals: Floats, targets: Floats | None, source: Stream) -> None:
        super().__init__()
        self._first, self._targets, self._source = signals, targets, source
        self.has_targets = targets is not None
        self._given = 0  # of the first signals
        self._last: Floats = np.empty((0, 1))

    def _read(self, n: int) -> Floats:
        if self._given < len(self._first):
            part = slice(self._given, self._given + n)
            if self._targets is not None:
                self._last = self._targets[part]
            self._given = min(part.stop, len(self._first))
            return self._first[part]
        if self._targets is None:
            return self._source.take(n)
        X, self._last = self._source.take_pairs(n)
        return X

    def again(self) -> None:
        """Give the first signals once more."""
        self._given = 0

    def _last_targets(self) -> Floats:
        return self._last

    def known_data(self) -> tuple[Any, ...]:
        """Return the first signals, and the known data of the source."""
        return self._first, self._targets, *self._source.known_data()

    def state(self) -> State:
        """Return how many of the first signals were given, and where the source is."""
        return {"kind": "replayed", "given": self._given, "source": self._source.state()}

    def restore(self, state: State) -> None:
        """Go to where a stream with the same first signals was."""
        check_state(state, "replayed", ("given",))
        if state["given"] >= len(self._first):
            self._source.restore(state["source"])
        self._given = min(state["given"], len(self._first))


def mapped(X: Floats, matrix: Floats) -> Floats:
    """Return the products of rows of X with a matrix, in the dtype of X."""
    products: Floats = X @ matrix.T.astype(X.dtype, copy=False)
    return products
