"""Where batches come from: streams give signals forever, in random order where the source allows it.

A stream is read with ``take(n)`` or ``batches(n)``. ``state()`` returns its position, ``restore(state)`` goes there.
Its memory does not grow with the number of signals: the random order is computed, not stored. To add
a source, derive from :class:`Stream` and write ``_read``, ``state`` and ``restore``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import scipy.sparse as sp
from numpy.typing import NDArray

from taskdict.streams.base import Stream, StreamEndedError, dense_batch
from taskdict.streams.images import ImageStream
from taskdict.streams.iterated import IteratorStream
from taskdict.streams.stored import ArrayStream, FileStream

__all__ = [
    "ArrayStream",
    "FileStream",
    "ImageStream",
    "IteratorStream",
    "Stream",
    "StreamEndedError",
    "dense_batch",
    "stream",
]


def stream(
    source: Any,
    y: Any = None,
    *,
    random_state: Any = None,
    preprocess: Callable[[NDArray[Any]], Any] | None = None,
) -> Stream:
    """Make a stream of signals for the learners.

    A stream gives batches with ``take(n)``, and endless batches with ``batches(n)``. It keeps its
    position: the next reader gets the next signals. ``state()`` returns the position, ``restore(state)`` goes there.

    Parameters
    ----------
    source : array, sparse array, path, list of paths, iterable, or function
        An array of shape (n_samples, n_features), which may be memory-mapped; the path of a ``.npy`` file or a list of
        such paths, whose rows are read as they are needed; any iterable of signals or of blocks of signals; or a
        function without arguments that returns one. Arrays and files are read forever in random order, a new one each
        time round. Iterables are read in their own order, and again from the start if they allow it: a generator
        ends, the function that makes it is called again. A file that is cut while it is in use gives a ValueError if
        its path was given. Behind a memory map that was given as an array, the operating system ends the process.
    y : array, path, "pairs" or None, default=None
        Targets for the learners that need them: one for each signal of an array or of files, or the path of a ``.npy``
        file with them; "pairs" if an iterable gives pairs of signals and targets. They come with ``take_pairs(n)``.
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
    iterated = (isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray))) or callable(source)
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if isinstance(source, (list, tuple)) and source and all(isinstance(s, (str, os.PathLike)) for s in source):
        return FileStream(source, y, random_state=random_state, preprocess=preprocess)
    if sp.issparse(source) or hasattr(source, "__array__"):
        return ArrayStream(source, y, random_state=random_state, preprocess=preprocess)
    if iterated:
        if y is not None and not (isinstance(y, str) and y == "pairs"):
            raise TypeError('y must be "pairs" for an iterable, which then gives pairs (signals, targets), or None.')
        return IteratorStream(source, pairs=y is not None, preprocess=preprocess)
    raise TypeError(
        "source must be an array, the path of a .npy file, a list of such paths, an iterable, or a function that "
        f"returns one, got {source!r}."
    )
