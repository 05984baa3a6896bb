"""Types of arrays, and the sizes of blocks that large ones are worked through in."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Floats = NDArray[Any]  # of float32 or float64
SIGNALS_AT_ONCE = 16_384  # that are encoded, or scored, in one block: a smaller one costs restoration some percent
