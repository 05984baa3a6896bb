"""What all streams share."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taskdict._common.validation import check_signals

State = dict[str, Any]
MAX_EMPTY_BATCHES = 1000  # batches in a row of which preprocess may leave nothing


class StreamEndedError(ValueError):
    """Raised by ``take`` when a stream has no more signals."""


class Stream(ABC):
    """Signals in batches; see :func:`stream` for how to make one.

    Attributes
    ----------
    n_signals : int or None
        Number of different signals, None if it is unknown.
    has_targets : bool
        Whether each signal comes with a target, for ``take_pairs``.
    targets : array or None
        The targets of all samples, if they are known before they are given.
    """

    n_signals: int | None = None
    has_targets: bool = False
    targets: NDArray[Any] | None = None

    def __repr__(self) -> str:
        """Return the kind of the stream and its state."""
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
        for _ in range(MAX_EMPTY_BATCHES):
            batch = dense_batch(self.preprocess(self._read(n)), "what preprocess returned")
            if len(batch) > 0:
                return batch
        raise ValueError(f"preprocess has left no signal of {MAX_EMPTY_BATCHES} batches in a row.")

    def take_pairs(self, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the next n signals with their targets and move on, see `take`.

        Parameters
        ----------
        n : int
            How many signals.

        Returns
        -------
        X : array of shape (n, n_features), float32 or float64
        y : array of shape (n,) or (n, n_outputs)
        """
        if not self.has_targets:
            raise TypeError(
                "the stream has signals only: taskdict.stream(source, y) makes one with targets; y is 'pairs' for an "
                "iterator that gives pairs (signals, targets)."
            )
        signals = self.take(n)
        targets = self._last_targets()
        if len(signals) != len(targets):
            raise ValueError(
                f"preprocess has made {len(signals)} signals of {len(targets)}: with targets their number must stay."
            )
        return signals, targets

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

    @property
    def has_versions(self) -> bool:
        """Whether it gives several versions of a sample."""
        return False

    def hold_out(self, fraction: float) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Keep a fraction of the samples with targets from being given, and return them; 0 keeps none.

        Only for streams that give several versions of a sample, which must not be on both sides; others return None.
        """
        return None

    def known_data(self) -> tuple[Any, ...]:
        """Return all that the signals and targets come from, as far as it is known: arrays, and numbers that matter.

        The fingerprint in a checkpoint covers them. Without any it covers the first signals only.
        """
        return ()

    def _last_targets(self) -> NDArray[Any]:
        """Return the targets of the signals that were last read."""
        raise NotImplementedError

    @abstractmethod
    def _read(self, n: int) -> Any:
        """Return the next signals as they are in the source."""

    @abstractmethod
    def state(self) -> State:
        """Return where the stream is, as numbers and strings that JSON can hold."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Go to where a stream of the same source was when `state` was taken."""


def rewind(stream: Stream, state: State | None) -> bool:
    """Go to where a stream was at an earlier time, if `state` is that of such a stream; return whether it was.

    A state of another stream is ignored. Those who resume a training compare its data by their fingerprint.
    """
    if state is None:
        return False
    try:
        stream.restore(state)
    except (ValueError, KeyError, TypeError):
        return False
    return True


def dense_batch(batch: Any, name: str = "X") -> NDArray[Any]:
    """Return signals as the learners want them: dense, contiguous, float32 if they were, else float64."""
    batch = check_signals(batch, name)
    if batch.shape[1] == 0:
        raise ValueError(f"{name} must have at least one feature per signal, got shape {batch.shape}.")
    if sp.issparse(batch):
        batch = batch.toarray()
    single = batch.dtype.kind == "f" and batch.dtype.itemsize == 4
    return np.ascontiguousarray(batch, dtype=np.float32 if single else np.float64)


def check_state(state: Any, kind: str, numbers: tuple[str, ...]) -> None:
    """Raise unless `state` is that of a stream of this kind."""
    good = isinstance(state, dict) and state.get("kind") == kind
    if not good or not all(isinstance(state.get(name), int) and state[name] >= 0 for name in numbers):
        raise ValueError(f"state must come from the state() of a stream of the same kind ({kind}), got {state!r}.")
