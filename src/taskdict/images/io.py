"""Image files, read and written with Pillow: values, depth, colour and metadata stay the same."""

from __future__ import annotations

import io
import mmap
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.atomic_files import check_output as check_free
from taskdict._common.atomic_files import replace_file
from taskdict._common.pillow import pillow
from taskdict._common.text import message

METADATA = ("icc_profile", "dpi")  # that is kept, beside EXIF data
_DEPTHS = {"1": np.bool_, "L": np.uint8, "RGB": np.uint8, "I;16": np.uint16}
_LOSSLESS_MODES = {  # modes of Pillow that a format stores without loss
    "BMP": ("1", "L", "RGB"),
    "GIF": ("L",),
    "JPEG": ("L", "RGB"),
    "PNG": ("1", "L", "LA", "RGB", "RGBA", "I;16"),
    "PPM": ("1", "L", "RGB", "I;16"),
    "TIFF": ("1", "L", "LA", "RGB", "RGBA", "I;16"),
    "WEBP": ("RGB", "RGBA"),
}
_SAVE_OPTIONS: dict[str, dict[str, Any]] = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}
# Tags of a TIFF file that describe the image, not how it is stored: title, camera, orientation, program, date, author,
# copyright, and the folders of EXIF and GPS data.
_DESCRIPTIVE_TAGS = (0x010E, 0x010F, 0x0110, 0x0112, 0x0131, 0x0132, 0x013B, 0x8298)
_TAG_FOLDERS = (0x8769, 0x8825)
_TILE_TAGS = (322, 323)  # width and length of a tile
_UNSIGNED, _UNDEFINED = 1, 4  # sample formats of a TIFF file
_SAMPLE_FORMATS = {2: "signed", 3: "floating-point", 5: "complex", 6: "complex"}
_MEMORY_PER_PIXEL = {"WEBP": 3}  # of the decoder, relative to that of other formats
_PIXELS_PER_CHUNK = 2**22


class ImageFileError(ValueError):
    """Raised for a file that cannot be read or written as an image."""


@dataclass(frozen=True)
class StoredImage:
    """An image with its metadata, as it is stored in a file.

    Attributes
    ----------
    pixels : array of shape (height, width) or (height, width, 3)
        bool for one bit per pixel, else uint8 or uint16.
    alpha : array of shape (height, width) or None
        Opacity of each pixel.
    info : dict
        Colour profile, EXIF data, resolution, if there are any.
    """

    pixels: NDArray[Any]
    alpha: NDArray[np.uint8] | None = None
    info: dict[str, Any] = field(default_factory=dict)


def read_image(path: Path) -> StoredImage:
    """Read an image.

    The values are read as they were written, or the file is refused: integers of 8 bits, grey ones of 16 bits, and one
    bit per pixel. Fewer than 8 bits, and PGM files with another largest value, are scaled to the full range. Signed
    numbers, 32 bits and floats have no known range, and are refused. An image may have as many pixels as
    ``PIL.Image.MAX_IMAGE_PIXELS``, and a third of them in a WebP file, which is checked before any are read.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ImageFileError
        If it is not an image, damaged, too large, or of a kind that would lose something.
    """
    Image = pillow()
    from PIL import UnidentifiedImageError

    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    if not path.is_file():
        raise ImageFileError(f"{str(path)!r} is a folder or a device, not an image.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about odd metadata and images that are refused below
            with Image.open(path, formats=list(_LOSSLESS_MODES)) as image:
                return _read(path, image)
    except (ImageFileError, KeyboardInterrupt):
        raise
    except UnidentifiedImageError:
        raise ImageFileError(
            f"{str(path)!r} is not an image of a known format, or has pixels of an unknown kind."
        ) from None
    except Image.DecompressionBombError as error:
        raise ImageFileError(f"{str(path)!r} is too large to be read: {error}") from None
    except Exception as error:  # decoders raise all kinds for damaged files
        raise ImageFileError(f"{str(path)!r} cannot be read: {message(error) or type(error).__name__}.") from None


def _read(path: Path, image: Any) -> StoredImage:
    """Return the image of an open file."""
    _check_size(path, image)
    if getattr(image, "n_frames", 1) > 1:
        raise ImageFileError(
            f"{str(path)!r} has {image.n_frames} images in one file: save the one you want in its own file."
        )
    deep = _bits(path, image) > 8
    image.load()
    info = {name: image.info[name] for name in METADATA if image.info.get(name)}
    exif = _exif(image)
    if len(exif) > 0:
        info["exif"] = exif.tobytes()
    see_through = "transparency" in image.info or image.mode in ("RGBA", "LA", "PA")
    if deep and image.mode in ("I;16", "I;16B", "I;16L", "I") and not see_through:
        return StoredImage(_pixels(image, image.mode, np.uint16), None, info)
    if deep:
        raise ImageFileError(
            f"{str(path)!r} has 16 bits per colour, of which only 8 would be left: split it into grey images of its "
            "channels, or convert it to 8 bits, first."
        )
    if see_through:
        grey = image.mode in ("LA", "1", "L")
        alpha = np.empty((image.height, image.width), np.uint8)
        return StoredImage(_pixels(image, "LA" if grey else "RGBA", np.uint8, alpha), alpha, info)
    mode = image.mode
    if mode == "P":
        colours = np.array(image.getpalette("RGB"), np.uint8).reshape(-1, 3)
        mode = "L" if (colours == colours[:, :1]).all() else "RGB"
    if mode not in _DEPTHS:
        raise ImageFileError(
            f"{str(path)!r} has pixels of the kind {mode}: convert it to grey or RGB, with 8 bits or grey with 16 "
            "bits, first."
        )
    return StoredImage(_pixels(image, mode, _DEPTHS[mode]), None, info)


def _check_size(path: Path, image: Any) -> None:
    """Raise for more pixels than Pillow would read without a warning, before any memory is taken."""
    most = pillow().MAX_IMAGE_PIXELS
    width, height = image.size
    sizes = [width * height]
    if image.format == "TIFF":  # tiles are decoded whole, even if little of them is visible
        sizes.append(int(np.prod([int(image.tag_v2.get(tag, 1)) for tag in _TILE_TAGS], dtype=object)))
    most = None if most is None else int(most / _MEMORY_PER_PIXEL.get(image.format, 1))
    if most is not None and max(sizes) > most:
        raise ImageFileError(
            f"{str(path)!r} is too large to be read: its header has {width} by {height} pixels, and at most "
            f"{most} are read. If you trust it, set PIL.Image.MAX_IMAGE_PIXELS."
        )


def _pixels(image: Any, mode: str, dtype: Any, alpha: NDArray[np.uint8] | None = None) -> NDArray[Any]:
    """Return the pixels, and write their opacity to `alpha`.

    Some rows are converted at a time: Pillow's own conversion to an array takes several times its memory.
    """
    width, height = image.size
    found: NDArray[Any] | None = None
    rows = max(1, _PIXELS_PER_CHUNK // width)
    for top in range(0, height, rows):
        part = image.crop((0, top, width, min(height, top + rows)))
        values = np.asarray(part if part.mode == mode else part.convert(mode))
        if dtype == np.uint16 and (values.min() < 0 or values.max() > np.iinfo(np.uint16).max):
            raise ValueError("it has values outside of 16 bits")
        if alpha is not None:
            alpha[top : top + rows] = values[:, :, -1]
            values = values[:, :, 0] if mode == "LA" else values[:, :, :3]
        if found is None:
            found = np.empty((height, *values.shape[1:]), dtype)
        found[top : top + rows] = values
    assert found is not None  # Pillow has no empty images
    return found


def write_image(path: Path, image: StoredImage, *, force: bool = False) -> None:
    """Write an image, in the format of the file's suffix. An existing file is replaced only with `force`.

    A file that is replaced keeps its permissions.

    Raises
    ------
    FileExistsError
        If there is such a file already.
    ImageFileError
        If the format is unknown, or cannot hold the image.
    """
    Image = pillow()
    kind = check_output(path, image, force=force)
    pixels = image.pixels
    if image.alpha is not None:
        pixels = np.dstack([pixels, image.alpha])
    with io.BytesIO() as file:
        try:
            Image.fromarray(pixels).save(file, kind, **_SAVE_OPTIONS.get(kind, {}), **image.info)
        except (OSError, ValueError) as error:
            raise ImageFileError(f"{str(path)!r} cannot hold this image: {error}.") from None
        replace_file(path, file.getvalue)


def check_output(path: Path, image: StoredImage | None = None, *, force: bool) -> str:
    """Return the format of an output file; raise if an image, such as this one, could not be written there."""
    Image = pillow()
    kind = str(Image.registered_extensions().get(path.suffix.lower()))
    if kind not in _LOSSLESS_MODES and not path.is_dir():
        raise ImageFileError(f"{str(path)!r} must end like an image file, for example .png, .tif or .jpg.")
    try:
        check_free(path, force=force)
    except ValueError as error:
        raise ImageFileError(str(error)) from None
    if image is not None and _mode(image) not in _LOSSLESS_MODES[kind]:
        raise ImageFileError(
            f"{str(path)!r} cannot hold this image ({_DESCRIPTIONS[_mode(image)]}) without loss: .png can, and .tif."
        )
    return kind


_DESCRIPTIONS = {
    "1": "one bit per pixel",
    "L": "grey",
    "LA": "grey with transparency",
    "RGB": "colour",
    "RGBA": "colour with transparency",
    "I;16": "16 bits",
}


def _mode(image: StoredImage) -> str:
    """Return Pillow's mode of the pixels."""
    if image.pixels.dtype == np.uint16:
        return "I;16"
    if image.pixels.dtype == np.bool_:
        return "1"
    return ("L" if image.pixels.ndim == 2 else "RGB") + ("" if image.alpha is None else "A")


def _bits(path: Path, image: Any) -> int:
    """Return the bits per channel of a file, which Pillow may reduce; raise for numbers that it would change."""
    if image.format == "PNG":
        with path.open("rb") as file:
            return file.read(25)[24]
    if image.format == "TIFF":
        bits = {int(b) for b in np.ravel(image.tag_v2.get(258, 1))}
        kinds = {int(kind) for kind in np.ravel(image.tag_v2.get(339, 1))} - {_UNSIGNED, _UNDEFINED}
        if kinds or not bits <= {1, 2, 4, 8, 16}:
            what = " and ".join(_SAMPLE_FORMATS.get(kind, "unknown") for kind in sorted(kinds)) or "unsigned"
            raise ImageFileError(
                f"{str(path)!r} has {what} numbers of {max(bits)} bits, whose range is not known: scale them to "
                "unsigned numbers of 8 or 16 bits first."
            )
        if bits == {16} and image.tag_v2.get(262) == 0:
            raise ImageFileError(f"{str(path)!r} has 16 bits with white as zero: convert it to black as zero first.")
        return max(bits)
    if image.format == "PPM":
        return _largest(path).bit_length()
    return 8


def _largest(path: Path) -> int:
    """Return the largest value in the header of a file of the PBM family, which may have comments of any length."""
    words: list[bytes] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for match in re.finditer(rb"#[^\r\n]*|[^\s#]+", content):
            if not match[0].startswith(b"#"):
                words.append(match[0])
            if words and words[0] not in (b"P2", b"P3", b"P5", b"P6"):
                return 1
            if len(words) == 4:
                return int(words[3])
    return 1


def _exif(image: Any) -> Any:
    """Return the EXIF data; of a TIFF file, whose own tags are among them, those that describe the image."""
    exif = image.getexif()
    if image.format != "TIFF":
        return exif
    kept = pillow().Exif()
    for tag in _DESCRIPTIVE_TAGS:
        if tag in exif:
            kept[tag] = exif[tag]
    for tag in _TAG_FOLDERS:
        folder = exif.get_ifd(tag)
        if folder:
            kept[tag] = dict(folder)
    return kept
