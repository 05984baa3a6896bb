"""Picture files, read and written with Pillow: values, depth, colour and what else a file says of its picture stay."""

from __future__ import annotations

import re
import secrets
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._pillow import pillow

KEPT = ("icc_profile", "dpi")  # of what a file says beside its pixels, and its EXIF data
_DEPTHS = {"1": np.bool_, "L": np.uint8, "RGB": np.uint8, "I;16": np.uint16}
_HOLDS = {  # which pictures come back from a file as they were
    "BMP": ("1", "L", "RGB"),
    "GIF": ("L",),
    "JPEG": ("L", "RGB"),
    "PNG": ("1", "L", "LA", "RGB", "RGBA", "I;16"),
    "PPM": ("1", "L", "RGB", "I;16"),
    "TIFF": ("1", "L", "LA", "RGB", "RGBA", "I;16"),
    "WEBP": ("RGB", "RGBA"),
}
_BEST: dict[str, dict[str, Any]] = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}
# Tags of a TIFF file that speak of the picture, not of how it is stored: title, camera, orientation, program, date,
# author, copyright, and the folders of EXIF and GPS data.
_TOLD = (0x010E, 0x010F, 0x0110, 0x0112, 0x0131, 0x0132, 0x013B, 0x8298)
_FOLDERS = (0x8769, 0x8825)


class PictureError(ValueError):
    """Raised for a file that cannot be read or written as a picture."""


@dataclass(frozen=True)
class Picture:
    """A picture from a file.

    Attributes
    ----------
    pixels : array of shape (height, width) or (height, width, 3)
        bool for one bit per pixel, else uint8 or uint16.
    alpha : array of shape (height, width) or None
        How opaque each pixel is.
    info : dict
        Colour profile, EXIF data, resolution, if there are any.
    """

    pixels: NDArray[Any]
    alpha: NDArray[np.uint8] | None = None
    info: dict[str, Any] = field(default_factory=dict)


def read_picture(path: Path) -> Picture:
    """Read a picture.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    PictureError
        If it is not a picture, or of a kind that would lose something.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    if path.is_dir():
        raise PictureError(f"{str(path)!r} is a folder, not a picture.")
    with _opened(path) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise PictureError(f"{str(path)!r} has {image.n_frames} pictures in one file: save the one you want alone.")
        info = {name: image.info[name] for name in KEPT if image.info.get(name)}
        exif = _exif(image)
        if len(exif) > 0:
            info["exif"] = exif.tobytes()
        deep, alpha = _bits(path, image) > 8, None
        if deep and image.mode in ("I;16", "I;16B", "I") and "transparency" not in image.info:
            return Picture(np.asarray(image).astype(np.uint16), None, info)
        if deep:
            raise PictureError(
                f"{str(path)!r} has 16 bits per colour, of which only 8 would be left: split it into grey pictures of "
                "its channels, or convert it to 8 bits, first."
            )
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            image = image.convert("LA" if image.mode in ("LA", "1", "L") else "RGBA")
            alpha = np.asarray(image.getchannel("A"))
            image = image.convert("L" if image.mode == "LA" else "RGB")
        elif image.mode == "P":
            colours = np.array(image.getpalette("RGB"), np.uint8).reshape(-1, 3)
            image = image.convert("L" if (colours == colours[:, :1]).all() else "RGB")
        if image.mode not in _DEPTHS:
            raise PictureError(
                f"{str(path)!r} has pixels of the kind {image.mode}: convert it to grey or RGB, with 8 bits or grey "
                "with 16 bits, first."
            )
        return Picture(np.asarray(image, _DEPTHS[image.mode]), alpha, info)


def write_picture(path: Path, picture: Picture, *, force: bool = False) -> None:
    """Write a picture; the ending of the name says the format. An existing file is replaced only with `force`.

    Raises
    ------
    FileExistsError
        If there is such a file already.
    PictureError
        If the format is unknown, or cannot hold the picture.
    """
    Image = pillow()
    kind = check_output(path, picture, force=force)
    pixels = picture.pixels
    if picture.alpha is not None:
        pixels = np.dstack([pixels, picture.alpha])
    target = path.resolve()  # what a link leads to
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        Image.fromarray(pixels).save(temporary, kind, **_BEST.get(kind, {}), **picture.info)
        temporary.replace(target)
    except (OSError, ValueError) as error:
        raise PictureError(f"{str(path)!r} cannot hold this picture: {error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: Path, picture: Picture | None = None, *, force: bool) -> str:
    """Raise if a picture, such as this one, could not be written there, before any work is done; return the format."""
    Image = pillow()
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise PictureError(f"{str(path)!r} must be the name of a file in a folder that exists.")
    kind = str(Image.registered_extensions().get(path.suffix.lower()))
    if kind not in _HOLDS:
        raise PictureError(f"{str(path)!r} must end like a picture file, for example .png, .tif or .jpg.")
    if picture is not None and _mode(picture) not in _HOLDS[kind]:
        raise PictureError(
            f"{str(path)!r} cannot hold this picture ({_WORDS[_mode(picture)]}) without loss: .png can, and .tif."
        )
    if path.exists() and not force:
        raise FileExistsError(f"{str(path)!r} is there already: give another name, or --force to replace it.")
    return kind


_WORDS = {
    "1": "one bit per pixel",
    "L": "grey",
    "LA": "grey with transparency",
    "RGB": "colour",
    "RGBA": "colour with transparency",
    "I;16": "16 bits",
}


def _mode(picture: Picture) -> str:
    """Return what Pillow calls the pixels."""
    if picture.pixels.dtype == np.uint16:
        return "I;16"
    if picture.pixels.dtype == np.bool_:
        return "1"
    return ("L" if picture.pixels.ndim == 2 else "RGB") + ("" if picture.alpha is None else "A")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a picture; what goes wrong is told in one sentence."""
    Image = pillow()
    from PIL import UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                image.load()
                yield image
    except UnidentifiedImageError:
        raise PictureError(f"{str(path)!r} is not a picture of a known kind.") from None
    except Image.DecompressionBombError as error:
        raise PictureError(f"{str(path)!r} is too large to be read: {error}") from None
    except (OSError, SyntaxError, struct.error) as error:
        raise PictureError(f"{str(path)!r} cannot be read: {error}.") from None


def _bits(path: Path, image: Any) -> int:
    """Return the bits per channel that a file has, which Pillow may have cut."""
    with path.open("rb") as file:
        head = file.read(1024)
    if image.format == "PNG":
        return head[24]
    if image.format == "TIFF":
        return int(np.max(image.tag_v2.get(258, 1)))
    if image.format == "PPM":
        words = re.sub(rb"#[^\n]*", b" ", head).split()
        return int(words[3]).bit_length() if words[0] in (b"P2", b"P3", b"P5", b"P6") else 1
    return 8


def _exif(image: Any) -> Any:
    """Return the EXIF data; of a TIFF file, whose own tags are among them, what speaks of the picture."""
    exif = image.getexif()
    if image.format != "TIFF":
        return exif
    kept = pillow().Exif()
    for tag in _TOLD:
        if tag in exif:
            kept[tag] = exif[tag]
    for tag in _FOLDERS:
        folder = exif.get_ifd(tag)
        if folder:
            kept[tag] = dict(folder)
    return kept
