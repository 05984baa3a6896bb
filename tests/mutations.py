"""Damaged files, seeded: small models of every class and small images of every format, and mutations of them.

`mutated_models` and `mutated_images` yield the contents of files without end. Some have random bytes changed. Others
are crafted: the file is sound as far as its digest or checksums can tell, and one thing in it is not.
"""

from __future__ import annotations

import copy
import io
import json
import os
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from PIL import Image
from safetensors.numpy import save

import taskdict as td
from taskdict._files import storage
from taskdict._learning import statistics
from taskdict.images import degrade

# ---------------------------------------------------------------------------------------------------------- models

# Nested so deep that JSON can, or cannot, read it, or that a recursive function fails; by what stands for it.
DEEP = {
    "deep lists": "[" * 900 + "]" * 900,
    "deeper lists": "[" * 100_000 + "]" * 100_000,
    "deep parameters": '{"tuple": [' * 430 + "]}" * 430,
}
STRANGE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 400, 2**31, 2**63, 2**70, -(2**70), 0.5, -0.0, 1e-320, 1e300, -1e300),
    *(float("nan"), float("inf"), -float("inf")),
    *(
        "",
        "a",
        "0.1",
        "softmax",
        "ovo",
        "bilinear",
        "random",
        "adaptive",
        "\x1b[31m",
        "\u202eabc",
        "\ud800",
        "x" * 5000,
    ),
    *([], [[]], [1], [0, 0], ["a", "b"], [None], [[1, 2], [3, 4]], list(range(300)), ["a", 1, None]),
    *({}, {"a": 1}, {"list": []}, {"tuple": [1, 2]}, {"list": 5}, {"slice": [0, 1, None]}, {"slice": ["a"]}),
    *({"dict": [[1, 2]]}, {"dict": [[{"list": []}, 1]]}, {"list": [{"slice": [0, None, None]}]}, {"set": [1]}),
    *DEEP,
]
NAMES = (
    "checkpoint",
    "warm_start",
    "n_threads",
    "verbose",
    "callbacks",
    "upscale",
    "pool",
    "views",
    "classes",
    "refine",
)
SIZES = (0, 1, 2, 3, 5, 64, 1000, 2**20)
DTYPES = ("f4", "f8", "f2", "i8", "i4", "u1", "?", "u8", "i2")
NUMBERS = (0.0, -1.0, 1e-40, 1e30, 1e300, np.nan, np.inf, -np.inf)


def small_models() -> dict[str, Any]:
    """Return fitted models of every class that files may hold, by name."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 16)), rng.integers(0, 3, 60)
    few: dict[str, Any] = {"max_iter": 3, "batch_size": 20, "random_state": 0}
    clean = np.add.outer(np.sin(np.arange(20) / 5), np.cos(np.arange(24) / 4)) / 4 + 0.5
    patches: dict[str, Any] = {"max_iter": 3, "random_state": 0, "lambda1": 0.1}
    inner = td.TaskDrivenClassifier(4, **few)
    views = [slice(0, 8), list(range(8, 16))]
    with warnings.catch_warnings(action="ignore", category=td.BaselineWarning):  # these learn hardly anything
        stopped = td.TaskDrivenRegressor(4, n_measurements=6, early_stopping=True, **few).fit(X, X[:, :2])
    return {
        "SparseCoder": td.SparseCoder(X[:5]).fit(X),
        "UnitNorm": td.UnitNorm().fit(X),
        "DictionaryLearning": td.DictionaryLearning(5, lambda1=0.1, max_iter=3, random_state=0).fit(X),
        "DictionaryLearning window": learned_from_a_window(X),
        "TaskDrivenClassifier": td.TaskDrivenClassifier(4, **few).fit(X, np.array(["a", "b", "c"])[y]),
        "TaskDrivenClassifier ovo": td.TaskDrivenClassifier(4, multi_class="ovo", decision="bilinear", **few).fit(X, y),
        "TaskDrivenRegressor": stopped,
        "TaskDrivenRegressor views": td.TaskDrivenRegressor(3, views=views, learning_rate="adaptive", **few).fit(
            X, X[:, 0]
        ),
        "ImageClassifier": td.ImageClassifier(inner, n_directions=6, pool=4, random_state=0).fit(
            X.reshape(-1, 4, 4), y
        ),
        "PatchVotingClassifier": td.PatchVotingClassifier(inner, patch_size=4, n_patches=50, random_state=0).fit(
            [clean, 1 - clean.T, clean[::-1]], [0, 1, 0]
        ),
        "ImageRestorer": td.ImageRestorer(4, 5, upscale=2, **patches).fit([clean], degrade=degrade.downsample),
        "ImageRestorer refine": td.ImageRestorer(4, 5, refine=0.05, **patches).fit([clean], degrade=degrade.blur),
        "CompressedSensing": td.CompressedSensing(5, 8, max_iter=3, random_state=0).fit(X),
    }


def learned_from_a_window(X: Any) -> td.DictionaryLearning:
    """Return a model that holds its last signals, as those with thousands of atoms do."""
    most = statistics.FULL_ATOMS
    statistics.FULL_ATOMS = 0
    try:
        return td.DictionaryLearning(5, lambda1=0.1, max_iter=3, random_state=0).fit(X)
    finally:
        statistics.FULL_ATOMS = most


def use(model: Any) -> None:
    """Use a model of `small_models`, or what was loaded in its place: a little of everything that it can do."""
    rng = np.random.default_rng(1)
    signals, image = rng.standard_normal((5, 16)), rng.random((9, 11))
    if isinstance(model, td.ImageRestorer):
        model.restore(image, stride=2)
    elif isinstance(model, td.PatchVotingClassifier):
        model.predict([image])
    elif isinstance(model, td.CompressedSensing):
        model.reconstruct(model.sense(signals))
    elif isinstance(model, td.ImageClassifier):
        model.predict(signals.reshape(-1, 4, 4))
    else:
        model.transform(signals)
        if isinstance(model, td.DictionaryLearning):
            model.partial_fit(signals)
        if hasattr(model, "predict"):
            model.predict(signals)


def crafted(arrays: storage.Arrays, document: Any) -> bytes:
    """Return a model file with a digest that fits."""
    text = json.dumps(document)
    for name, deep in DEEP.items():
        text = text.replace(json.dumps(name), deep)
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content: bytes = save(whole, {"taskdict": text, "digest": storage._digest(text, whole)})
    return content


def mutated_models(rng: Generator, path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield mutations of a model file."""
    content = Path(path).read_bytes()
    arrays, document = storage.read(path)
    while True:
        kind = rng.integers(8)
        if kind == 0:
            yield _flipped(rng, content)
        elif kind == 1:
            yield _with_header(content, lambda header: _mutate_json(rng, header))
        elif kind <= 4:
            changed = copy.deepcopy(document)
            for _ in range(rng.integers(1, 3)):
                _mutate_json(rng, changed)
            yield crafted(arrays, changed)
        else:
            mutated = dict(arrays)
            for _ in range(rng.integers(1, 3)):
                _mutate_arrays(rng, mutated)
            yield crafted(mutated, document)


def _choice(rng: Generator, items: Any) -> Any:
    return items[rng.integers(len(items))]


def _flipped(rng: Generator, content: bytes) -> bytes:
    """Return bytes of which some are changed, or lost, or there twice."""
    changed = bytearray(content)
    for position in rng.integers(0, len(content), rng.integers(1, 6)):
        changed[position] = rng.integers(256) if rng.random() < 0.5 else changed[position] ^ (1 << int(rng.integers(8)))
    first, last = sorted(int(k) for k in rng.integers(0, len(content), 2))
    kind = rng.integers(6)
    if kind == 0:
        return bytes(changed[:first])
    if kind == 1:
        return bytes(changed[:first] + changed[last:])
    if kind == 2:
        return bytes(changed[:last] + changed[first:])
    return bytes(changed)


def _with_header(content: bytes, change: Callable[[Any], None]) -> bytes:
    """Return a safetensors file with another header."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return all containers in a JSON value with their keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        container = waiting.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        found += [(container, key) for key in keys]
        waiting += [container[key] for key in keys if isinstance(container[key], (dict, list))]
    return found


def _mutate_json(rng: Generator, document: Any) -> None:
    """Change one thing in a JSON value."""
    places = _places(document)
    if not places:
        return
    container, key = _choice(rng, places)
    kind = rng.integers(6)
    if kind == 0:
        del container[key]
    elif kind == 1:
        other, name = _choice(rng, places)
        container[key] = copy.deepcopy(other[name])
    elif kind == 2 and isinstance(container, dict):
        container[_choice(rng, [*NAMES, "".join(chr(c) for c in rng.integers(1, 300, 3))])] = _choice(rng, STRANGE)
    elif kind == 3 and isinstance(container[key], (int, float)) and not isinstance(container[key], bool):
        container[key] *= _choice(rng, (-1, 2, 3, 10, 1000, 0.5))
    else:
        container[key] = copy.deepcopy(_choice(rng, STRANGE))


def _mutate_arrays(rng: Generator, arrays: storage.Arrays) -> None:
    """Change one array."""
    if not arrays:
        return
    name = _choice(rng, sorted(arrays))
    array, kind = arrays[name], rng.integers(10)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[_choice(rng, [*(f"parameter {other}" for other in NAMES), "surprise"])] = array
    elif kind == 2:
        arrays[name] = arrays[_choice(rng, sorted(arrays))]
    elif kind == 3:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(_choice(rng, DTYPES))
    elif kind == 4:
        arrays[name] = array[None] if rng.random() < 0.5 else array.ravel()
    elif kind == 5:
        arrays[name] = array[: rng.integers(0, len(array) + 1)] if array.ndim else array
    elif kind == 6:
        arrays[name] = array.T
    elif kind == 7:  # nothing, of an enormous shape
        shape = [int(_choice(rng, SIZES)) for _ in range(array.ndim)]
        shape[rng.integers(len(shape))] = 0
        arrays[name] = np.empty(shape, array.dtype)
    else:
        changed = array.copy()
        if changed.size:
            with np.errstate(all="ignore"):
                number = np.array(_choice(rng, NUMBERS)).astype(changed.dtype)
            changed.flat[rng.integers(changed.size) if kind == 8 else slice(None)] = number
        arrays[name] = changed


# ---------------------------------------------------------------------------------------------------------- images


def small_images() -> dict[str, bytes]:
    """Return small image files of every format and kind of pixels, by name."""
    rng = np.random.default_rng(0)
    grey, colour = rng.integers(0, 256, (9, 12), np.uint8), rng.integers(0, 256, (9, 12, 3), np.uint8)
    deep = rng.integers(0, 65536, (9, 12)).astype(np.uint16)
    modes = {
        "1": Image.fromarray(grey > 100),
        "L": Image.fromarray(grey),
        "LA": Image.fromarray(np.dstack([grey, grey])),
        "P": Image.fromarray(colour).quantize(8),
        "RGB": Image.fromarray(colour),
        "RGBA": Image.fromarray(np.dstack([colour, grey])),
        "I;16": Image.fromarray(deep),
        "CMYK": Image.fromarray(colour).convert("CMYK"),
        "I": Image.fromarray(deep.astype(np.int32)),
        "F": Image.fromarray(grey / np.float32(255)),
    }
    kept = {
        "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
        "PPM": ("1", "L", "RGB", "I;16"),
        "TIFF": tuple(modes),
        "JPEG": ("L", "RGB", "CMYK"),
        "BMP": ("1", "L", "P", "RGB", "RGBA"),
        "GIF": ("L", "P"),
        "WEBP": ("RGB", "RGBA"),
    }
    found: dict[str, bytes] = {}
    for kind, names in kept.items():
        for name in names:
            found[f"{kind} {name}"] = _saved(modes[name], kind)
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        found[f"TIFF {compression}"] = _saved(modes["RGB"], "TIFF", compression=compression)
    found["PGM text"] = b"P2\n# a comment\n3 2\n255\n0 50 100 150 200 255\n"
    found["PNG interlaced palette"] = _saved(modes["P"], "PNG", transparency=3)
    exif = Image.Exif()
    exif[0x010E] = "a title"
    found["JPEG exif"] = _saved(modes["RGB"], "JPEG", exif=exif)
    return found


def _saved(image: Any, kind: str, **options: Any) -> bytes:
    with io.BytesIO() as file:
        image.save(file, kind, **options)
        return file.getvalue()


def mutated_images(rng: Generator, content: bytes) -> Iterator[bytes]:
    """Yield mutations of an image file."""
    while True:
        kind = rng.integers(3)
        if kind == 0:
            yield _flipped(rng, content)
        elif kind == 1:
            yield _with_a_number(rng, content)
        elif content.startswith(b"\x89PNG"):
            yield _png(rng, content)
        elif content[:1] == b"P":
            yield _netpbm(rng, content)
        elif content[:2] in (b"II", b"MM"):
            yield _tiff(rng, content)
        else:
            yield _with_a_number(rng, content[: 64 + rng.integers(0, len(content))])


def _with_a_number(rng: Generator, content: bytes) -> bytes:
    """Return a file with a number of two or four bytes, often in its head, in place of what was there."""
    end = max(1, (len(content) if rng.random() < 0.3 else min(len(content), 100)) - 4)
    number = int(_choice(rng, (0, 1, 2, 255, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)))
    form = _choice(rng, ("<I", ">I", "<H", ">H"))
    packed = struct.pack(form, number & (0xFFFFFFFF if form[1] == "I" else 0xFFFF))
    k = int(rng.integers(end))
    return content[:k] + packed + content[k + len(packed) :]


def _png(rng: Generator, content: bytes) -> bytes:
    """Return a PNG file with a changed chunk whose checksum fits."""
    chunks, k = [], 8
    while k + 12 <= len(content):
        (length,) = struct.unpack(">I", content[k : k + 4])
        chunks.append((content[k + 4 : k + 8], content[k + 8 : k + 8 + length]))
        k += 12 + length
    which = int(rng.integers(len(chunks)))
    kind, data = chunks[which]
    change = rng.integers(6)
    if change == 0:
        del chunks[which]
    elif change == 1:
        chunks.insert(int(rng.integers(len(chunks))), (kind, data))
    elif change == 2:
        names = (b"PLTE", b"tRNS", b"iCCP", b"pHYs", b"eXIf", b"zTXt", b"tEXt", b"acTL", b"fcTL", b"gAMA", b"IHDR")
        chunks.insert(int(rng.integers(len(chunks))), (_choice(rng, names), rng.bytes(int(rng.integers(0, 40)))))
    elif kind == b"IDAT" and change == 3:
        chunks[which] = kind, zlib.compress(b"\0" * int(_choice(rng, (0, 10, 1000, 10**6))))
    elif kind == b"IHDR":
        sizes = [int(_choice(rng, (1, 9, 12, 1000, 30000, 2**31 - 1))) for _ in range(2)]
        chunks[which] = kind, struct.pack(">II", *sizes) + (data[8:] if rng.random() < 0.5 else rng.bytes(5))
    elif data:
        chunks[which] = kind, _flipped(rng, data)
    parts = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return content[:8] + b"".join(parts)


def _netpbm(rng: Generator, content: bytes) -> bytes:
    """Return a file of the PBM family with another head."""
    words = content.split(maxsplit=4)
    k = int(rng.integers(0, min(4, len(words))))
    strange = (
        b"0",
        b"-1",
        b"1",
        b"99999",
        b"65536",
        b"4294967296",
        b"x",
        b"1e3",
        b"9" * 5000,
        b"\xb2",
        b"P6",
        b"P5",
        b"Pf",
    )
    head = [*words[:k], _choice(rng, strange), *words[k + 1 : 4]]
    comment = b"#" + b"c" * int(_choice(rng, (0, 10, 2000))) + b"\n" if rng.random() < 0.5 else b""
    return b"\n".join([head[0], comment + b" ".join(head[1:3]), *head[3:], *words[4:]])


def _tiff(rng: Generator, content: bytes) -> bytes:
    """Return a TIFF file with a changed entry in its first directory."""
    order = "<" if content[:2] == b"II" else ">"
    (start,) = struct.unpack(order + "I", content[4:8])
    (count,) = struct.unpack(order + "H", content[start : start + 2])
    at = start + 2 + 12 * int(rng.integers(count))
    tag, kind, number, value = struct.unpack(order + "HHII", content[at : at + 12])
    numbers = (0, 1, 2, 3, 4, 8, 9, 16, 32, 64, 12, 1000, 30000, 2**16, 2**24, 2**31, 2**32 - 1)
    change = rng.integers(4)
    if change == 0:
        tag = int(_choice(rng, (254, 256, 257, 258, 259, 262, 277, 278, 279, 284, 317, 320, 322, 323, 338, 339, 34665)))
    elif change == 1:
        kind = int(rng.integers(0, 20))
    elif change == 2:
        number = int(_choice(rng, numbers))
    else:
        value = int(_choice(rng, numbers))
    return content[:at] + struct.pack(order + "HHII", tag, kind, number, value) + content[at + 12 :]
