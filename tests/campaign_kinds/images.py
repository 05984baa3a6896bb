"""Mutated image files: read right, or refused with the promised error that names the file."""

from __future__ import annotations

import itertools
import struct
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from campaign_kinds.case import Kind, Outcome
from campaign_kinds.files import BATCH, check, choose, read_all
from mutations import mutated_images, small_images
from taskdict.images.io import ImageFileError, read_image

EXTREMES = 0.2  # of the whole numbers of a type are its least or largest


def read(path: Path) -> tuple[str, str]:
    """Read an image; return what came of it, and what was wrong with that."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = read_image(path).pixels
    except ImageFileError as error:
        return "refused", "" if str(path) in str(error) else f"the message does not name the file: {error}"[:500]
    except Exception as error:
        return "error", f"reading raises {type(error).__name__}: {error}"[:500]
    if pixels.ndim not in (2, 3) or pixels.dtype not in (np.bool_, np.uint8, np.uint16) or pixels.size == 0:
        return "read", f"an image of shape {pixels.shape} and {pixels.dtype} is returned"
    return "read", ""


def tiff(pixels: Any, order: str) -> bytes:
    """Return a TIFF file with these grey pixels, whatever their type."""
    height, width = pixels.shape
    data = pixels.astype(pixels.dtype.newbyteorder(order)).tobytes()
    form = {"u": 1, "i": 2, "f": 3}[pixels.dtype.kind]
    entries = [(256, width), (257, height), (258, 8 * pixels.itemsize), (259, 1), (262, 1), (273, 8)]
    entries += [(277, 1), (278, height), (279, len(data)), (339, form)]
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8 + len(data))
    folder = b"".join(struct.pack(order + "HHII", tag, 4, 1, value) for tag, value in entries)
    return head + data + struct.pack(order + "H", len(entries)) + folder + b"\0\0\0\0"


def _check_values(rng: np.random.Generator, outcome: Outcome) -> None:
    """Read sound TIFF files of every type of pixels: the values are right, or the file is refused."""
    for dtype in ("u1", "u2", "u4", "i1", "i2", "i4", "f4"):
        shape = tuple(int(side) for side in rng.integers(1, 9, 2))
        if dtype == "f4":
            pixels = rng.standard_normal(shape).astype(dtype)
        else:
            info = np.iinfo(dtype)
            pixels = rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
            pixels = np.where(rng.random(shape) < EXTREMES, rng.choice([info.min, info.max], shape), pixels).astype(
                dtype
            )
        order = str(rng.choice(["<", ">"]))
        content = tiff(pixels, order)
        outcome.tried += 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "image.tif"
            path.write_bytes(content)
            try:
                found = read_image(path).pixels
            except ImageFileError:
                outcome.counts[f"TIFF of {dtype} refused"] += 1
                continue
        if found.shape != shape or not np.array_equal(found.astype(float), pixels.astype(float)):
            what = f"pixels of {np.dtype(dtype)} ({order}) are read as others, of {found.dtype}"
            outcome.fail(what, content=content, pixels=pixels, found=found)


@cache
def _files() -> dict[str, bytes]:
    return small_images()


def run(rng: np.random.Generator) -> Outcome:
    """Mutate one image."""
    outcome = Outcome()
    name = choose(rng, _files())
    contents = list(itertools.islice(mutated_images(rng, _files()[name]), BATCH))
    check("images", contents, [name] * BATCH, outcome)
    _check_values(rng, outcome)
    return outcome


def again(given: dict[str, Any]) -> Outcome:
    """Read a stored file."""
    outcome = Outcome()
    check("images", [given["content"]], [given.get("label", "")], outcome)
    return outcome


KIND = Kind("images", "files", run, share=0.08, limit=1200, promise="the promised errors, 1000 MB", again=again)

if __name__ == "__main__":
    read_all(read, Path(sys.argv[1]))
