"""Picture files, read and written with Pillow: values, depth, colour and what else a file says of its picture stay."""

from __future__ import annotations

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

KEPT = ("icc_profile", "exif", "dpi")  # of what a file says beside its pixels
_DEPTHS = {"1": np.bool_, "L": np.uint8, "RGB": np.uint8, "I;16": np.uint16}


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
    _refuse_deep_colour(path)
    with _opened(path) as image:
        info = {name: image.info[name] for name in KEPT if image.info.get(name)}
        alpha = None
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            image = image.convert("LA" if image.mode in ("LA", "1", "L") else "RGBA")
            alpha = np.asarray(image.getchannel("A"))
            image = image.convert("L" if image.mode == "LA" else "RGB")
        elif image.mode == "P":
            colours = np.array(image.getpalette("RGB"), np.uint8).reshape(-1, 3)
            image = image.convert("L" if (colours == colours[:, :1]).all() else "RGB")
        elif image.mode == "I" and image.format == "PNG":  # how some versions of Pillow open 16 bits
            image = image.convert("I;16")
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
    check_output(path, force=force)
    pixels = picture.pixels
    if picture.alpha is not None:
        pixels = np.dstack([pixels, picture.alpha])
    image = Image.fromarray(pixels)
    temporary = path.with_name(f".{secrets.token_hex(8)}{path.suffix}")
    try:
        image.save(temporary, Image.registered_extensions()[path.suffix.lower()], **picture.info)
        temporary.replace(path)
    except (OSError, ValueError) as error:
        raise PictureError(f"{str(path)!r} cannot hold this picture: {error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: Path, *, force: bool) -> None:
    """Raise if a picture could not be written there, before any work is done."""
    Image = pillow()
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise PictureError(f"{str(path)!r} must be the name of a file in a folder that exists.")
    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind is None or kind not in Image.SAVE:
        raise PictureError(f"{str(path)!r} must end like a picture file, for example .png, .tif or .jpg.")
    if path.exists() and not force:
        raise FileExistsError(f"{str(path)!r} is there already: give another name, or --force to replace it.")


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


def _refuse_deep_colour(path: Path) -> None:
    """Raise for a PNG in colour with 16 bits, of which Pillow would keep 8."""
    with path.open("rb") as file:
        head = file.read(26)
    if head[:8] == b"\x89PNG\r\n\x1a\n" and len(head) == 26 and head[24] == 16 and head[25] in (2, 4, 6):
        raise PictureError(
            f"{str(path)!r} has 16 bits per colour, of which only 8 would be left: split it into grey pictures of its "
            "channels, or convert it to 8 bits, first."
        )
