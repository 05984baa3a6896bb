"""Streams of signals that are stored: in memory or in files, in a new random order each time round."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from taskdict._common.permutation import permuted
from taskdict._common.validation import check_signals, check_target_kind
from taskdict.streams.base import State, Stream, check_state

_CHUNK = 8192  # places of the random order that are computed at once


class Order:
    """The endless random order of n things, a new one each time round; it is computed, not stored."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed
        self._chunk: tuple[int, NDArray[np.int64]] | None = None

    def rows(self, position: int, count: int) -> NDArray[np.int64]:
        """Return the things at places position to position + count."""
        parts = []
        while count > 0:
            epoch, place = divmod(position, self.n)
            number, start = divmod(place, _CHUNK)
            key = epoch * (self.n // _CHUNK + 1) + number
            if self._chunk is None or self._chunk[0] != key:
                places = np.arange(number * _CHUNK, min(self.n, (number + 1) * _CHUNK))
                self._chunk = key, permuted(places, self.n, [self.seed, epoch])
            part = self._chunk[1][start : start + count]
            parts.append(part)
            position += len(part)
            count -= len(part)
        return np.concatenate(parts)


class Shuffled(Stream):
    """A stream of n_signals rows in a new random order each time round."""

    n_signals: int

    def __init__(
        self, n_signals: int, y: Any, random_state: Any, preprocess: Callable[[NDArray[Any]], Any] | None
    ) -> None:
        super().__init__(preprocess)
        if n_signals == 0:
            raise ValueError("a stream needs at least one signal, got n_samples=0.")
        self.n_signals = n_signals
        self.targets = open_targets(y, n_signals)
        self.has_targets = self.targets is not None
        self._order = Order(n_signals, int(check_random_state(random_state).randint(2**31 - 1)))
        self._position = 0  # signals given since the beginning
        self._last: NDArray[np.int64] = np.empty(0, np.int64)  # the rows that were last given

    @abstractmethod
    def _rows(self, rows: NDArray[np.int64]) -> Any:
        """Return these rows of the source, in any order."""

    def _read(self, n: int) -> Any:
        self._last = self._order.rows(self._position, n)
        batch = self._rows(self._last)
        self._position += n
        return batch

    def _last_targets(self) -> NDArray[Any]:
        assert self.targets is not None
        return np.asarray(self.targets[self._last])

    def name(self, row: int) -> str:
        """Say which row of the source it is, unless a function may have moved it."""
        return f"row {self._last[row]} of the source" if self.preprocess is None else super().name(row)

    def reads_like(self, state: State | None) -> bool:
        """Return whether the seed and the number of signals are the same."""
        return state is not None and (state.get("seed"), state.get("n_signals")) == (self._order.seed, self.n_signals)

    def state(self) -> State:
        """Return the seed of the random orders, which of them this is, and the place in it."""
        return {
            "kind": "shuffled",
            "n_signals": self.n_signals,
            "seed": self._order.seed,
            "epoch": self._position // self.n_signals,
            "place": self._position % self.n_signals,
        }

    def restore(self, state: State) -> None:
        """Go to where a stream of as many signals was when `state` was taken; its seed becomes this one's."""
        check_state(state, "shuffled", ("n_signals", "seed", "epoch", "place"))
        if state["n_signals"] != self.n_signals:
            raise ValueError(
                f"state belongs to a stream of {state['n_signals']} signals, but this one has {self.n_signals}: "
                "restore it on a stream of the same source."
            )
        self._order = Order(self.n_signals, state["seed"])
        self._position = state["epoch"] * self.n_signals + state["place"]


class ArrayStream(Shuffled):
    """The rows of an array, which may be memory-mapped, or of a sparse array; only some of them if `rows` says so."""

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        rows: NDArray[np.intp] | None = None,
        random_state: Any = None,
        preprocess: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        self._X = check_signals(X.tocsr() if sp.issparse(X) else X, "the source of a stream")
        self._chosen = rows
        super().__init__(self._X.shape[0] if rows is None else len(rows), y, random_state, preprocess)

    @property
    def last_rows(self) -> NDArray[np.intp]:
        """The rows of the array that were last given."""
        return self._last if self._chosen is None else self._chosen[self._last]

    def name(self, row: int) -> str:
        """Say which row of the array it is, unless a function may have moved it."""
        return f"row {self.last_rows[row]} of the source" if self.preprocess is None else super().name(row)

    def known_data(self) -> tuple[Any, ...]:
        """Return the array, which of its rows are given, and the targets."""
        return self._X, self._chosen, self.targets

    def _rows(self, rows: NDArray[np.int64]) -> Any:
        if self._chosen is not None:
            rows = self._chosen[rows]
        if sp.issparse(self._X) or not self._X.flags.c_contiguous:
            return self._X[rows]
        return np.take(self._X, rows, axis=0)  # faster, but copies the whole array unless it is contiguous


class NpyFile:
    """The rows of a ``.npy`` file, an array-like that reads the rows that are asked for.

    It is read with system calls, not through a memory map: where a file has been cut, a map ends the process (SIGBUS).
    Files in Fortran order are mapped nevertheless, since their rows are scattered, and their size is checked before
    each read.
    """

    def __init__(self, path: Path, array: np.memmap[Any, Any]) -> None:
        self.path, self.shape, self.dtype, self.ndim = path, array.shape, array.dtype, array.ndim
        self._start, self._row_bytes = array.offset, array.nbytes // max(1, len(array))
        self._end = array.offset + array.nbytes
        self._map = None if array.flags.c_contiguous else array
        self._file = os.open(path, os.O_RDONLY)  # the same file if another one takes its name
        weakref.finalize(self, os.close, self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_npy, (self.path,)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self._map is not None:
            return np.asarray(self[np.arange(len(self))], dtype)
        found = np.empty(self.shape, self.dtype)
        self._read(_bytes(found), self._start)
        return np.asarray(found, dtype)

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> NDArray[Any]:
        """Return these rows; raises ValueError if the file has been cut."""
        if self._map is not None:
            if os.fstat(self._file).st_size < self._end:
                raise self._cut()
            return np.asarray(self._map[rows])
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step != 1:
                return self[np.arange(start, stop, step)]
            found = np.empty((max(0, stop - start), *self.shape[1:]), self.dtype)
            self._read(_bytes(found), self._start + start * self._row_bytes)
            return found
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        room = _bytes(found)
        for k, row in enumerate(rows.tolist()):
            self._read(room[k * self._row_bytes : (k + 1) * self._row_bytes], self._start + row * self._row_bytes)
        return found

    def _read(self, room: memoryview, offset: int) -> None:
        """Fill the room with the bytes at this offset."""
        while len(room) > 0:
            try:
                count = os.preadv(self._file, [room], offset)
            except OSError as error:
                raise OSError(error.errno, error.strerror, os.fspath(self.path)) from None
            if count == 0:
                raise self._cut()
            room, offset = room[count:], offset + count

    def _cut(self) -> ValueError:
        size = os.fstat(self._file).st_size
        return ValueError(
            f"{str(self.path)!r} has been cut while it was in use: it has {size} bytes, but had {self._end} when it "
            "was opened. Write a new version to another name and rename it."
        )


def _bytes(array: NDArray[Any]) -> memoryview:
    """Return the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


class FileStream(Shuffled):
    """The rows of one or more ``.npy`` files, which are read as they are needed, shuffled across all files."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        y: Any = None,
        *,
        random_state: Any = None,
        preprocess: Callable[[NDArray[Any]], Any] | None = None,
    ) -> None:
        if len(paths) == 0:
            raise ValueError("a stream of files needs at least one path, got none.")
        self._files = [open_npy(Path(path)) for path in paths]
        for path, file in zip(paths, self._files, strict=True):
            if file.shape[1] != self._files[0].shape[1]:
                raise ValueError(
                    f"{os.fspath(path)!r} has {file.shape[1]} features per signal, but {os.fspath(paths[0])!r} has "
                    f"{self._files[0].shape[1]}: all files of a stream must have the same number of columns."
                )
        self._paths = [os.fspath(path) for path in paths]
        self._ends = np.cumsum([len(file) for file in self._files])
        self._dtype = np.result_type(*(file.dtype for file in self._files))
        super().__init__(int(self._ends[-1]), y, random_state, preprocess)

    def known_data(self) -> tuple[Any, ...]:
        """Return the arrays of the files, and the targets."""
        return *self._files, self.targets

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


def open_npy(path: Path) -> NpyFile:
    """Return the rows of a file, which must be a matrix of real numbers."""
    array = _map(path, f"{str(path)!r}")
    check_signals(array, f"the array in {str(path)!r}")
    return NpyFile(path, array)


def _map(path: Path, name: str) -> np.memmap[Any, Any]:
    """Return the array of a ``.npy`` file as a memory map."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError(f"{name} is not a .npy file of numbers, or it was cut short.") from None
    if not isinstance(array, np.memmap):
        raise ValueError(f"{name} must be a .npy file with one array, got {type(array).__name__}.")
    return array


def open_targets(y: Any, n_signals: int) -> Any:
    """Return the targets as an array; those of a file with several outputs are read as they are needed."""
    if y is None:
        return None
    if isinstance(y, (str, os.PathLike)):
        path = Path(y)
        array = _map(path, f"y: {str(path)!r}")
        check_target_kind(array)
        y = NpyFile(path, array)
        if array.ndim == 1:
            y = np.asarray(y)  # small, and numbers are slow to read one by one
    targets: Any = y if isinstance(y, NpyFile) else check_target_kind(y)
    if targets.ndim not in (1, 2):
        raise ValueError(f"y must have one dimension, or two for several outputs, got shape {targets.shape}.")
    if len(targets) != n_signals:
        raise ValueError(f"y has {len(targets)} targets, but there are {n_signals} signals.")
    return targets
