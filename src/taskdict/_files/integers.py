"""A matrix as whole numbers of few bits, for devices without floating point."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.atomic_files import replace_file
from taskdict._common.validation import check_count

Integers = NDArray[np.int32]


def quantise(matrix: NDArray[Any], bits: int) -> tuple[Integers, int]:
    """Return whole numbers that fit `bits` bits with their sign, and s, so that matrix ≈ integers / 2**s."""
    bits = check_count("bits", bits)
    if not 2 <= bits <= 16:
        raise ValueError(f"bits must be from 2 to 16, got {bits}.")
    largest = float(np.abs(matrix).max(initial=0.0))
    most = 2 ** (bits - 1) - 1
    shift = math.floor(math.log2(most / largest)) if largest > 0 else 0
    return np.rint(np.ldexp(np.asarray(matrix, np.float64), shift)).astype(np.int32), shift


def write_integers(path: Path, integers: Integers, shift: int, bits: int) -> None:
    """Write them as a .h, .csv or .npy file; an existing file is replaced when the new one is complete."""
    kind = np.dtype(np.int8 if bits <= 8 else np.int16)
    rows = [", ".join(map(str, row)) for row in integers.tolist()]
    ending = path.suffix.lower()
    if ending == ".h":
        lines = [
            f"/* Measurements: (Z[r][m] times the signal) / 2^{shift}, {bits} bits; a shift below 0 multiplies. */",
            "#include <stdint.h>",
            f"enum {{ Z_ROWS = {integers.shape[0]}, Z_COLUMNS = {integers.shape[1]}, Z_SHIFT = {shift} }};",
            f"static const {kind.name}_t Z[Z_ROWS][Z_COLUMNS] = {{",
            *(f"    {{{row}}}," for row in rows),
            "};",
        ]
        content = "\n".join([*lines, ""]).encode()
    elif ending == ".csv":
        content = "\n".join([*(row.replace(", ", ",") for row in rows), ""]).encode()
    elif ending == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, integers.astype(kind))
        content = buffer.getvalue()
    else:
        raise ValueError(f"path must end in .h, .csv or .npy, got {str(path)!r}.")
    replace_file(path, lambda: content)
