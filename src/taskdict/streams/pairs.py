"""Sources of training batches: signals with targets, from arrays or from a stream of pairs.

A training run reads its batches from a source. It gives a sample to start from, then batches without end, and it can
return its position and go back to it. :class:`Source` is the protocol; to add a source, write a class with its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from taskdict._common.arrays import Floats
from taskdict._common.validation import check_target_kind
from taskdict._files.fingerprint import fingerprint
from taskdict.streams.base import MAX_EMPTY_BATCHES, Stream, StreamEndedError, dense_batch, rewind
from taskdict.streams.stored import ArrayStream

Position = dict[str, Any]

SAMPLE_SIGNALS = 20_000  # signals that are held in memory to start from, at most
SAMPLE_BYTES = 1 << 28


@dataclass(frozen=True)
class Batch:
    """Signals with targets, and signals without."""

    X: Floats
    y: Any
    weights: Floats | None = None  # of the samples, of average one over all batches; None is one each
    unlabelled: Floats | None = None

    def rows(self, rows: NDArray[np.intp], unlabelled: Floats) -> Batch:
        """Return some of the samples with targets, with other signals without."""
        return Batch(
            np.ascontiguousarray(self.X[rows]),
            self.y[rows],
            None if self.weights is None else self.weights[rows],
            np.ascontiguousarray(unlabelled) if len(unlabelled) else None,
        )

    @property
    def others(self) -> Floats:
        """The signals without targets, none of them if there are none."""
        return self.unlabelled if self.unlabelled is not None else self.X[:0]

    @property
    def is_empty(self) -> bool:
        """Whether there is no signal at all."""
        return len(self.X) == 0 and len(self.others) == 0


class Source(Protocol):
    """Where the batches of a training come from.

    Attributes
    ----------
    n_features : int
        Features per signal.
    n_labelled : int or None
        Samples with targets, None if unknown.
    validation : Batch or None
        Samples that are never given in batches.
    has_versions : bool
        Whether several versions of a sample are given.
    """

    n_features: int
    n_labelled: int | None
    validation: Batch | None
    has_versions: bool

    def sample(self) -> Batch:
        """Return the samples to start from; the batches are not affected."""

    def take(self, n: int) -> Batch:
        """Return the next batch, of n samples with targets as far as there are so many."""

    def state(self) -> Position:
        """Return where the batches are, as numbers and strings that JSON can hold."""

    def restore(self, state: Position) -> None:
        """Go to where a source of the same data was when `state` was taken."""

    def reads_like(self, state: Any) -> bool:
        """Return whether `state` is surely that of a source which gives the same batches in the same order."""

    def fingerprint(self, n_threads: int) -> str:
        """Return a digest of the data, as far as they are known."""

    def name(self, row: int, unlabelled: bool) -> str:
        """Name a signal of the last batch, for error messages."""


def sample_size(width: int) -> int:
    """Return how many signals of this width the sample has at most."""
    return max(100, min(SAMPLE_SIGNALS, SAMPLE_BYTES // (8 * max(1, width))))


class ArrayPairs:
    """Batches of rows of an array; those with targets and those without are read by themselves.

    Parameters
    ----------
    X : array or CSR array
        Signals.
    y : array
        Targets: numbers of classes, −1 for none, if `labels`, else numbers of shape (n_samples, n_outputs).
    weights : array or None
        Of the samples; those of weight zero are left out.
    labels : bool
        Whether y holds numbers of classes.
    validation : float
        Fraction of the samples with targets to keep for validation; 0 keeps none.
    use_unlabelled : bool
        Whether to read the signals without targets.
    seed : int
        Of the random orders.
    """

    def __init__(
        self, X: Any, y: Any, weights: Any, *, labels: bool, validation: float, use_unlabelled: bool, seed: int
    ) -> None:
        self.n_features = X.shape[1]
        self.has_versions = False
        self._X, self._y, self._weights = X, y, weights
        known = y >= 0 if labels else np.ones(len(y), bool)
        if weights is not None:
            known = known & (weights > 0)
        rows = None if known.all() else np.flatnonzero(known)
        self.n_labelled: int | None = int(known.sum())
        held = None
        if validation > 0:
            rows = np.arange(len(y)) if rows is None else rows
            rows, held = _split(rows, y if labels else None, validation, seed)
        self._labelled = ArrayStream(X, rows=rows, random_state=seed)
        counted = np.ones(len(y), bool) if weights is None else weights > 0
        unlabelled = np.flatnonzero((y < 0) & counted) if labels and use_unlabelled else np.empty(0, np.intp)
        self._unlabelled = None
        if len(unlabelled) > 0:
            self._unlabelled = ArrayStream(X, rows=unlabelled, random_state=seed + 1)
        self._start = self.state()
        self._mean = None if weights is None else float(weights[known if rows is None else rows].mean())
        self.validation = None if held is None else self._batch(dense_batch(X[held]), held)

    def sample(self) -> Batch:
        """Return the signals to begin with; the batches are not affected."""
        here = self.state()
        self.restore(self._start)
        batch = self.take(sample_size(self.n_features))
        self.restore(here)
        return batch

    def take(self, n: int) -> Batch:
        """Return the next n samples with targets and, if there are any, as many without."""
        batch = self._batch(self._labelled.take(min(n, self._labelled.n_signals)), self._labelled.last_rows)
        if self._unlabelled is None:
            return batch
        return replace(batch, unlabelled=self._unlabelled.take(min(n, self._unlabelled.n_signals)))

    def _batch(self, X: Floats, rows: NDArray[np.intp]) -> Batch:
        weights = None if self._weights is None else (self._weights[rows] / self._mean).astype(X.dtype)
        return Batch(X, self._y[rows], weights)

    def name(self, row: int, unlabelled: bool) -> str:
        """Say which row of the array it is."""
        stream = self._unlabelled if unlabelled else self._labelled
        assert stream is not None
        return stream.name(row).removesuffix(" of the source")

    def state(self) -> dict[str, Any]:
        """Return where the batches are."""
        other = None if self._unlabelled is None else self._unlabelled.state()
        return {"kind": "arrays", "labelled": self._labelled.state(), "unlabelled": other}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where the batches were."""
        self._labelled.restore(state["labelled"])
        if self._unlabelled is not None:
            self._unlabelled.restore(state["unlabelled"])

    def reads_like(self, state: Any) -> bool:
        """Return whether `state` is surely that of a source with the same order."""
        known = isinstance(state, dict) and {"labelled", "unlabelled"} <= set(state)
        if not known or state.get("kind") != "arrays":
            return False
        mine = self._unlabelled is None
        return self._labelled.reads_like(state["labelled"]) and mine == (state["unlabelled"] is None)

    def fingerprint(self, n_threads: int) -> str:
        """Identify the data by all signals, targets and weights."""
        return fingerprint((self._X, np.asarray(self._y), self._weights), n_threads)


class StreamPairs:
    """Batches of a stream of pairs, in which unlabelled signals are mixed with the others.

    The first signals are kept as the sample and given again, so that a stream that cannot go back loses nothing.

    Parameters
    ----------
    stream : Stream
        With targets.
    encode : callable
        Maps the targets of a batch to numbers of classes, −1 for none, or to numbers.
    labels : bool
        Whether targets are classes.
    validation : float
        Fraction of the first signals to keep for validation.
    use_unlabelled : bool
        Whether to give the signals without targets.
    weigh : callable or None
        Maps numbers of classes to weights.
    position : dict or None
        A state from which batches continue. The first signals are then those of that time, if the stream can go back
        to them.
    """

    def __init__(
        self,
        stream: Stream,
        encode: Callable[[Any], Any],
        *,
        labels: bool,
        validation: float,
        use_unlabelled: bool,
        weigh: Callable[[Any], Any] | None = None,
        position: Any = None,
    ) -> None:
        self._stream, self._encode, self._labels, self._weigh = stream, encode, labels, weigh
        self._use_unlabelled = use_unlabelled
        self.has_versions = stream.has_versions
        if self.is_state(position) and stream.reads_like(position["begin"]):
            rewind(stream, position["begin"])
        self._begin = stream.state()
        held_out = stream.hold_out(validation)
        if held_out is not None:
            validation = 0.0  # the stream sees to it
        X, y = stream.take_pairs(1)  # for the width
        most = sample_size(X.shape[1])
        wanted = most if stream.n_signals is None else min(most, stream.n_signals)
        parts = [(X, y)]
        try:
            while (count := sum(len(part) for part, _ in parts)) < wanted:
                parts.append(stream.take_pairs(wanted - count))
        except StreamEndedError:
            pass
        self._after = stream.state()  # the first signals
        X, y = np.concatenate([part for part, _ in parts]), np.concatenate([targets for _, targets in parts])
        repeats = np.flatnonzero((X[1:] == X[0]).all(axis=1)) if stream.n_signals is None else np.empty(0, np.intp)
        if len(repeats) > 0:  # an iterable that has started again: once is enough
            X, y = X[: repeats[0] + 1], y[: repeats[0] + 1]
        self._cache = X, self._encode(y)
        X, numbers = self._cache
        self.n_features = X.shape[1]
        self.n_unlabelled = int((numbers < 0).sum()) if labels else 0
        if self.n_unlabelled == len(X):
            raise ValueError(f"the first {len(X)} signals of the stream are all unlabelled (-1).")
        self._mean = 1.0 if weigh is None else float(np.mean(weigh(numbers[numbers >= 0])))
        n_held = int(validation * len(X))
        self._given = self._n_held = n_held  # of the cache
        self._held = {row.tobytes() for row in X[:n_held]}  # a stream that starts again gives them again
        known = encode(stream.targets) >= 0 if labels and stream.targets is not None else None
        self.n_labelled = stream.n_signals if known is None else int(known.sum())
        self.validation = self._batch(X[:n_held], numbers[:n_held]) if n_held else None
        if held_out is not None and len(held_out[0]) > 0:
            self.validation = self._batch(held_out[0], encode(held_out[1]))

    def sample(self) -> Batch:
        """Return the signals to begin with."""
        return self._batch(self._cache[0][self._n_held :], self._cache[1][self._n_held :])

    def take(self, n: int) -> Batch:
        """Return the next n signals, those with targets and those without, but not those kept for validation."""
        for _ in range(MAX_EMPTY_BATCHES):
            X, y = self._cache[0][self._given : self._given + n], self._cache[1][self._given : self._given + n]
            self._given += len(X)
            if len(X) == 0:
                X, targets = self._stream.take_pairs(n)
                if X.shape[1] != self.n_features:
                    raise ValueError(
                        f"a batch of the stream has {X.shape[1]} features per signal, but those before had "
                        f"{self.n_features}. The model learned before it is kept."
                    )
                X = X.astype(self._cache[0].dtype, copy=False)
                y = self._encode(targets)
                if self._held:
                    new = np.array([row.tobytes() not in self._held for row in X])
                    X, y = X[new], y[new]
            batch = self._batch(X, y)
            if not batch.is_empty:
                return batch
        raise ValueError(f"{MAX_EMPTY_BATCHES} batches of the stream in a row had no signal to learn from.")

    def _batch(self, X: Floats, y: Any) -> Batch:
        others = None
        if self._labels and not (y >= 0).all():
            known = y >= 0
            others = np.ascontiguousarray(X[~known]) if self._use_unlabelled else None
            X, y = X[known], y[known]
        weights = None if self._weigh is None else (self._weigh(y) / self._mean).astype(X.dtype)
        return Batch(np.ascontiguousarray(X), y, weights, others)

    def name(self, row: int, unlabelled: bool) -> str:
        """Say as much as is known of which signal it is."""
        return f"{'unlabelled ' if unlabelled else ''}signal {row} of a batch of the stream"

    def state(self) -> dict[str, Any]:
        """Return where the stream began, and where the batches are: in the first signals or later in the stream."""
        inside = self._given < len(self._cache[0])
        stream = None if inside else self._stream.state()
        return {"kind": "stream", "begin": self._begin, "given": self._given, "stream": stream}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where the batches were."""
        wanted = self._after if state["stream"] is None else state["stream"]
        if wanted != self._stream.state():  # an iterator may not be able to go back
            self._stream.restore(wanted)
        self._given = state["given"]

    @staticmethod
    def is_state(state: Any) -> bool:
        """Return whether `state` is that of such a source."""
        return isinstance(state, dict) and state.get("kind") == "stream" and {"begin", "given", "stream"} <= set(state)

    def reads_like(self, state: Any) -> bool:
        """Return whether `state` is surely that of a source with the same order."""
        return self.is_state(state) and bool(state["begin"] == self._begin)

    def fingerprint(self, n_threads: int) -> str:
        """Identify the data by where the stream began, its first signals, and all that it is known to come from."""
        return fingerprint((self._begin, *self._cache, *self._stream.known_data()), n_threads)


def _split(
    rows: NDArray[np.intp], labels: Any, fraction: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to learn from and those to keep, with all classes in both where possible."""
    for stratify in ((labels[rows],) if labels is not None else ()) + (None,):
        try:
            kept, held = train_test_split(rows, test_size=fraction, random_state=seed % 2**32, stratify=stratify)
        except ValueError:
            continue
        return np.sort(kept), np.sort(held)
    raise ValueError(
        f"validation_fraction={fraction} of {len(rows)} samples with targets leaves none on one side: "
        "bring more samples or change the fraction."
    )


def refuse_unlabelled(count: int) -> NoReturn:
    """Raise for signals without a label where nothing could be learned from them."""
    raise ValueError(
        f"y has {count} labels -1, which stand for unlabelled signals, but mu is 0: nothing would be learned from "
        "them. Set mu > 0 to learn the dictionary from them too, or leave them out: X[y != -1], y[y != -1]. If -1 is "
        "one of your classes, give it another label, as np.unique(y, return_inverse=True)[1] does."
    )


def check_weights(sample_weight: Any, n_samples: int) -> NDArray[np.float64] | None:
    """Return the weights of the samples as numbers that are not negative, None if there are none."""
    if sample_weight is None:
        return None
    weights: NDArray[np.float64] = check_target_kind(sample_weight, "sample_weight", "fiub", "real numbers").astype(
        np.float64
    )
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape (n_samples,) = ({n_samples},), got {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be finite, not negative, and not all zero.")
    scaled: NDArray[np.float64] = weights / weights.max()
    return scaled
