"""Streams of the signals of an iterable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taskdict._common.validation import check_signals, check_target_kind, refuse_masked
from taskdict.streams.base import State, Stream, StreamEndedError, check_state

_CHUNK = 8192  # signals that are skipped at once


class IteratorStream(Stream):
    """What an iterable gives, in its order: signals (one dimension) or blocks of signals (two).

    An iterable that can be read again, such as a list or an object with ``__iter__``, is started again at its end, and
    so is a function that returns an iterator. An iterator or generator ends when it ends.
    """

    def __init__(
        self,
        source: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        pairs: bool = False,
        preprocess: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        super().__init__(preprocess)
        self.has_targets = pairs
        self._start = source if callable(source) else lambda: iter(source)
        self._iterator = iter(self._start())
        self._once = self._iterator is source
        self._left: list[tuple[NDArray[Any], NDArray[Any]]] = []  # blocks that are not used up
        self._position = 0
        self._last_y = np.empty(0)  # of the signals that were last given

    def _read(self, n: int) -> NDArray[Any]:
        blocks = self._left  # unchanged if the iterator raises
        count = sum(len(block) for block, _ in blocks)
        while count < n:
            block = self._next_block()
            if block is None:
                break
            blocks.append(block)
            count += len(block[0])
        if count == 0:
            raise StreamEndedError(f"the stream ended after {self._position} signals.")
        widths = {block.shape[1] for block, _ in blocks}
        if len(widths) > 1:
            raise ValueError(
                f"the iterator of the stream gave signals of different widths near signal {self._position}: "
                f"{', '.join(map(str, sorted(widths)))} features."
            )
        rows = np.concatenate([block for block, _ in blocks]) if len(blocks) > 1 else blocks[0][0]
        y = np.concatenate([targets for _, targets in blocks]) if len(blocks) > 1 else blocks[0][1]
        self._left = [(rows[n:], y[n:])] if len(rows) > n else []
        self._last_y = y[:n]
        self._position += len(self._last_y)
        return rows[:n]

    def _last_targets(self) -> NDArray[Any]:
        return self._last_y

    def _next_block(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the next block of at least one signal, with its targets if there are any, None at the end."""
        for restarted in (False, True):
            if restarted:
                if self._once:
                    return None
                self._iterator = iter(self._start())
            for item in self._iterator:
                targets = None
                if self.has_targets:
                    if not isinstance(item, (tuple, list)) or len(item) != 2:
                        raise TypeError(f"the iterator must give pairs (signals, targets), got {type(item).__name__}.")
                    item, targets = item
                if isinstance(item, (str, os.PathLike)):
                    raise TypeError(f"the iterator gives paths ({item!r}): make a list of them to read the files.")
                refuse_masked("an item of the iterator", item)
                item = item.toarray() if sp.issparse(item) else np.array(item)  # a copy: the source may use it again
                block: NDArray[Any] = check_signals(np.atleast_2d(item), "an item of the iterator")
                y = np.zeros(len(block)) if targets is None else np.atleast_1d(np.array(check_target_kind(targets)))
                if len(y) != len(block):
                    raise ValueError(f"the iterator gave a pair of {len(block)} signals and {len(y)} targets.")
                if len(block) > 0:
                    return block, y
        return None

    def name(self, row: int) -> str:
        """Say which signal of the iterator it is, unless a function may have moved it."""
        if self.preprocess is not None:
            return super().name(row)
        return f"signal {self._position - len(self._last_y) + row} of the stream"

    def state(self) -> State:
        """Return how many signals have been given."""
        return {"kind": "iterator", "position": self._position}

    def restore(self, state: State) -> None:
        """Skip the signals that the stream had given when `state` was taken; it cannot go back."""
        check_state(state, "iterator", ("position",))
        if state["position"] < self._position:
            raise ValueError(
                f"the stream has given {self._position} signals and an iterator cannot go back to {state['position']}: "
                "restore the state on a new stream."
            )
        while self._position < state["position"]:
            self._read(min(_CHUNK, state["position"] - self._position))
