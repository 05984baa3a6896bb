"""What a case of the campaign is and what it returns."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Failure:
    """A promise that was broken: in words, with the input (arrays, bytes, text or what JSON can hold) by name."""

    what: str
    input: dict[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What one case found."""

    tried: int = 0
    failures: list[Failure] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Things worth counting that are no failures, such as signals that are marked as inexact."""
    worst: dict[str, tuple[float, str]] = field(default_factory=dict)
    """The largest value seen of a quantity, and where."""

    def see(self, quantity: str, value: float, where: str) -> None:
        """Keep the value if it is the largest so far."""
        if quantity not in self.worst or value > self.worst[quantity][0]:
            self.worst[quantity] = (float(value), where)

    def fail(self, what: str, **given: Any) -> None:
        """Record a failure."""
        self.failures.append(Failure(what, given))


@dataclass(frozen=True)
class Kind:
    """One kind of case: `run(rng)` is one case; the stream of random numbers decides all of it."""

    name: str
    unit: str
    """What is counted: signals, files, kills."""
    run: Callable[[np.random.Generator], Outcome]
    share: float
    """Of the time."""
    limit: float
    """Seconds after which a case counts as hung."""
    promise: str
    """What a case must keep to."""
    again: Callable[[dict[str, Any]], Outcome] | None = None
    """Repeats one input of a search, whose course depends on measured times."""


def generator(kind: str, seed: int, number: int) -> np.random.Generator:
    """Return the random numbers of a case."""
    return np.random.default_rng([seed, zlib.crc32(kind.encode()), number])
