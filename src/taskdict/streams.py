"""Where batches come from: streams give signals forever, in random order where the source allows it.

A stream has two methods for its readers, ``take(n)`` and ``batches(n)``, and two for those who stop and go on later,
``state()`` and ``restore(state)``. Its memory does not grow with the number of signals: the random order is computed,
not stored. To add a source, derive from :class:`Stream` and write ``_read``, ``state`` and ``restore``.
"""

from __future__ import annotations

import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict._permutation import permuted
from taskdict._validation import check_signals

State = dict[str, Any]
_MOST_EMPTY = 1000  # batches in a row of which preprocess may leave nothing
_CHUNK = 8192  # places of the random order that are computed at once


class StreamEndedError(ValueError):
    """Raised by ``take`` when a stream has no more signals."""


class Stream(ABC):
    """Signals in batches; see :func:`stream` for how to make one.

    Attributes
    ----------
    n_signals : int or None
        Number of different signals, None if it is unknown.
    """

    n_signals: int | None = None

    def __repr__(self) -> str:
        """Say what the stream is and where."""
        return f"<{type(self).__name__} {self.state()}>"

    def __init__(self, preprocess: Callable[[NDArray[Any]], Any] | None = None) -> None:
        if preprocess is not None and not callable(preprocess):
            raise TypeError(f"preprocess must be a function of a batch or None, got {preprocess!r}.")
        self.preprocess = preprocess

    def take(self, n: int) -> NDArray[Any]:
        """Return the next n signals and move on.

        Fewer come back only from an iterator that is about to end, or if `preprocess` drops some, but at least one.

        Parameters
        ----------
        n : int
            How many signals.

        Returns
        -------
        array of shape (n, n_features), float32 or float64

        Raises
        ------
        StreamEndedError
            If there is no signal left.
        """
        n = operator.index(n)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}.")
        if self.preprocess is None:
            return dense_batch(self._read(n), "the batch")
        for _ in range(_MOST_EMPTY):
            batch = dense_batch(self.preprocess(self._read(n)), "what preprocess returned")
            if len(batch) > 0:
                return batch
        raise ValueError(f"preprocess has left no signal of {_MOST_EMPTY} batches in a row.")

    def batches(self, n: int) -> Iterator[NDArray[Any]]:
        """Give batches of n signals until the stream ends, which most never do."""
        while True:
            try:
                batch = self.take(n)
            except StreamEndedError:
                return
            yield batch

    def name(self, row: int) -> str:
        """Say which signal is in this row of the batch that was last taken."""
        return f"signal {row} of the batch"

    def reads_like(self, state: State | None) -> bool:
        """Return whether `state` is surely that of a stream which gives the same signals in the same order."""
        return False

    @abstractmethod
    def _read(self, n: int) -> Any:
        """Return the next signals as they are in the source."""

    @abstractmethod
    def state(self) -> State:
        """Return where the stream is, as numbers and strings that JSON can hold."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Go to where a stream of the same source was when `state` was taken."""


class _Shuffled(Stream):
    """A stream of n_signals rows in a new random order each time round."""

    n_signals: int

    def __init__(self, n_signals: int, random_state: Any, preprocess: Callable[[NDArray[Any]], Any] | None) -> None:
        super().__init__(preprocess)
        if n_signals == 0:
            raise ValueError("a stream needs at least one signal, got n_samples=0.")
        self.n_signals = n_signals
        self._seed = int(check_random_state(random_state).randint(2**31 - 1))
        self._position = 0  # signals given since the beginning
        self._last: NDArray[np.int64] = np.empty(0, np.int64)  # the rows that were last given
        self._chunk: tuple[int, NDArray[np.int64]] | None = None

    @abstractmethod
    def _rows(self, rows: NDArray[np.int64]) -> Any:
        """Return these rows of the source, in any order."""

    def _read(self, n: int) -> Any:
        self._last = self._order(self._position, n)
        batch = self._rows(self._last)
        self._position += n
        return batch

    def name(self, row: int) -> str:
        """Say which row of the source it is, unless a function may have moved it."""
        return f"row {self._last[row]} of the source" if self.preprocess is None else super().name(row)

    def reads_like(self, state: State | None) -> bool:
        """Return whether the seed and the number of signals are the same."""
        return state is not None and (state.get("seed"), state.get("n_signals")) == (self._seed, self.n_signals)

    def _order(self, position: int, n: int) -> NDArray[np.int64]:
        """Return the rows at places position to position + n of the endless random order."""
        parts = []
        while n > 0:
            epoch, place = divmod(position, self.n_signals)
            number, start = divmod(place, _CHUNK)
            key = epoch * (self.n_signals // _CHUNK + 1) + number
            if self._chunk is None or self._chunk[0] != key:
                places = np.arange(number * _CHUNK, min(self.n_signals, (number + 1) * _CHUNK))
                self._chunk = key, permuted(places, self.n_signals, [self._seed, epoch])
            part = self._chunk[1][start : start + n]
            parts.append(part)
            position += len(part)
            n -= len(part)
        return np.concatenate(parts)

    def state(self) -> State:
        """Return the seed of the random orders, which of them this is, and the place in it."""
        return {
            "kind": "shuffled",
            "n_signals": self.n_signals,
            "seed": self._seed,
            "epoch": self._position // self.n_signals,
            "place": self._position % self.n_signals,
        }

    def restore(self, state: State) -> None:
        """Go to where a stream of as many signals was when `state` was taken; its seed becomes this one's."""
        _check_state(state, "shuffled", ("n_signals", "seed", "epoch", "place"))
        if state["n_signals"] != self.n_signals:
            raise ValueError(
                f"state belongs to a stream of {state['n_signals']} signals, but this one has {self.n_signals}: "
                "restore it on a stream of the same source."
            )
        self._seed = state["seed"]
        self._position = state["epoch"] * self.n_signals + state["place"]
        self._chunk = None


class ArrayStream(_Shuffled):
    """The rows of an array, which may be memory-mapped, or of a sparse array."""

    def __init__(
        self, X: Any, *, random_state: Any = None, preprocess: Callable[[NDArray[Any]], Any] | None = None
    ) -> None:
        self._X = check_signals(X.tocsr() if sp.issparse(X) else X, "the source of a stream")
        super().__init__(self._X.shape[0], random_state, preprocess)

    def _rows(self, rows: NDArray[np.int64]) -> Any:
        if sp.issparse(self._X) or not self._X.flags.c_contiguous:
            return self._X[rows]
        return np.take(self._X, rows, axis=0)  # faster, but copies the whole array unless it is contiguous


class FileStream(_Shuffled):
    """The rows of one or more ``.npy`` files, which are memory-mapped, shuffled across all files."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        random_state: Any = None,
        preprocess: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        if len(paths) == 0:
            raise ValueError("a stream of files needs at least one path, got none.")
        self._files = [_open_npy(Path(path)) for path in paths]
        for path, file in zip(paths, self._files, strict=True):
            if file.shape[1] != self._files[0].shape[1]:
                raise ValueError(
                    f"{os.fspath(path)!r} has {file.shape[1]} features per signal, but {os.fspath(paths[0])!r} has "
                    f"{self._files[0].shape[1]}: all files of a stream must have the same number of columns."
                )
        self._paths = [os.fspath(path) for path in paths]
        self._ends = np.cumsum([len(file) for file in self._files])
        self._dtype = np.result_type(*(file.dtype for file in self._files))
        super().__init__(int(self._ends[-1]), random_state, preprocess)

    def _rows(self, rows: NDArray[np.int64]) -> Any:
        batch = np.empty((len(rows), self._files[0].shape[1]), self._dtype)
        order = np.argsort(rows)  # one file after the other, and forward on the disk
        number = np.searchsorted(self._ends, rows[order], side="right")
        for which in np.unique(number):
            here = order[number == which]
            start = self._ends[which] - len(self._files[which])
            batch[here] = self._files[which][rows[here] - start]
        return batch

    def name(self, row: int) -> str:
        """Say which row of which file it is, unless a function may have moved it."""
        if self.preprocess is not None:
            return super().name(row)
        which = int(np.searchsorted(self._ends, self._last[row], side="right"))
        return f"row {self._last[row] - self._ends[which] + len(self._files[which])} of {self._paths[which]!r}"


class IteratorStream(Stream):
    """What an iterable gives, in its order: signals (one dimension) or blocks of signals (two).

    An iterable that can be read again, such as a list or an object with ``__iter__``, is started again at its end, and
    so is a function that returns an iterator. An iterator or generator ends when it ends.
    """

    def __init__(
        self,
        source: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        preprocess: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        super().__init__(preprocess)
        self._start = source if callable(source) else lambda: iter(source)
        self._iterator = iter(self._start())
        self._once = self._iterator is source
        self._left: list[NDArray[Any]] = []  # blocks that are not used up
        self._position = 0
        self._count = 0  # of the signals that were last given

    def _read(self, n: int) -> NDArray[Any]:
        blocks = self._left  # stays what is left if the iterator raises
        while (count := sum(len(block) for block in blocks)) < n:
            block = self._next_block()
            if block is None:
                break
            blocks.append(block)
        if count == 0:
            raise StreamEndedError(f"the stream ended after {self._position} signals.")
        widths = {block.shape[1] for block in blocks}
        if len(widths) > 1:
            raise ValueError(
                f"the iterator of the stream gave signals of different widths near signal {self._position}: "
                f"{', '.join(map(str, sorted(widths)))} features."
            )
        rows = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        rows, rest = rows[:n], rows[n:]
        self._left = [rest] if len(rest) > 0 else []
        self._position += len(rows)
        self._count = len(rows)
        return rows

    def _next_block(self) -> NDArray[Any] | None:
        """Return the next block of at least one signal, None at the end."""
        for restarted in (False, True):
            if restarted:
                if self._once:
                    return None
                self._iterator = iter(self._start())
            for item in self._iterator:
                if isinstance(item, (str, os.PathLike)):
                    raise TypeError(f"the iterator gives paths ({item!r}): make a list of them to read the files.")
                item = item.toarray() if sp.issparse(item) else np.array(item)  # a copy: the source may use it again
                block: NDArray[Any] = check_signals(np.atleast_2d(item), "an item of the iterator")
                if len(block) > 0:
                    return block
        return None

    def name(self, row: int) -> str:
        """Say which signal of the iterator it is, unless a function may have moved it."""
        if self.preprocess is not None:
            return super().name(row)
        return f"signal {self._position - self._count + row} of the stream"

    def state(self) -> State:
        """Return how many signals have been given."""
        return {"kind": "iterator", "position": self._position}

    def restore(self, state: State) -> None:
        """Skip the signals that the stream had given when `state` was taken; it cannot go back."""
        _check_state(state, "iterator", ("position",))
        if state["position"] < self._position:
            raise ValueError(
                f"the stream has given {self._position} signals and an iterator cannot go back to {state['position']}: "
                "restore the state on a new stream."
            )
        while self._position < state["position"]:
            self._read(min(_CHUNK, state["position"] - self._position))


def stream(source: Any, *, random_state: Any = None, preprocess: Callable[[NDArray[Any]], Any] | None = None) -> Stream:
    """Make a stream of signals for the learners.

    A stream gives batches with ``take(n)``, and endless batches with ``batches(n)``. It keeps its place: who reads it
    next gets the signals that come next. ``state()`` tells the place, ``restore(state)`` goes there.

    Parameters
    ----------
    source : array, sparse array, path, list of paths, iterable, or function
        An array of shape (n_samples, n_features), which may be memory-mapped; the path of a ``.npy`` file or a list of
        such paths, which are memory-mapped; any iterable of signals or of blocks of signals; or a function without
        arguments that returns one. Arrays and files are read forever in random order, a new one each time round.
        Iterables are read in their own order, and again from the start if they allow it: a generator ends, the
        function that makes it is called again.
    random_state : int, RandomState or None, default=None
        Seed of the random order.
    preprocess : callable or None, default=None
        A function of a batch that returns what to learn from, such as one that centres the signals.

    Returns
    -------
    Stream

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> signals = td.stream(np.arange(6.0).reshape(3, 2), random_state=0)
    >>> signals.take(2).shape
    (2, 2)
    >>> state = signals.state()  # numbers and strings: may be written as JSON
    >>> batch = signals.take(4)
    >>> signals.restore(state)
    >>> bool((signals.take(4) == batch).all())
    True
    """
    if isinstance(source, Stream):
        raise TypeError("source is a stream already: use it as it is.")
    if isinstance(source, (str, os.PathLike)):
        return FileStream([source], random_state=random_state, preprocess=preprocess)
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, os.PathLike)) for s in source):
        return FileStream(source, random_state=random_state, preprocess=preprocess)
    if sp.issparse(source) or hasattr(source, "__array__"):
        return ArrayStream(source, random_state=random_state, preprocess=preprocess)
    if (isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray))) or callable(source):
        return IteratorStream(source, preprocess=preprocess)
    raise TypeError(
        "source must be an array, the path of a .npy file, a list of such paths, an iterable, or a function that "
        f"returns one, got {source!r}."
    )


def dense_batch(batch: Any, name: str = "X") -> NDArray[Any]:
    """Return signals as the learners want them: dense, contiguous, float32 if they were, else float64."""
    batch = check_signals(batch, name)
    if batch.shape[1] == 0:
        raise ValueError(f"{name} must have at least one feature per signal, got shape {batch.shape}.")
    if sp.issparse(batch):
        batch = batch.toarray()
    single = batch.dtype.kind == "f" and batch.dtype.itemsize == 4
    return np.ascontiguousarray(batch, dtype=np.float32 if single else np.float64)


def _open_npy(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{str(path)!r} is not a .npy file of numbers: {error}") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{str(path)!r} must be a .npy file with one array, got {type(array).__name__}.")
    checked: NDArray[Any] = check_signals(array, f"the array in {str(path)!r}")
    return checked


def _check_state(state: Any, kind: str, numbers: tuple[str, ...]) -> None:
    good = isinstance(state, dict) and state.get("kind") == kind
    if not good or not all(isinstance(state.get(name), int) and state[name] >= 0 for name in numbers):
        raise ValueError(f"state must come from the state() of a stream of the same kind ({kind}), got {state!r}.")
