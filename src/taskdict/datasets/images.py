"""Grey images: the 24 of the Kodak PhotoCD, and 12 classical test images."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.pillow import pillow
from taskdict.datasets.fetch import DataError, Folder, find_file

KODAK_ADDRESSES = ("http://r0k.us/graphics/kodak/kodak/",)
KODAK_DIGESTS = {  # of the grey values, see image_digest
    "kodim01": "c58e8ff3279c511a",
    "kodim02": "57d77869e2d35510",
    "kodim03": "57348a1fb827df1a",
    "kodim04": "d1aa921292633a90",
    "kodim05": "706284b3d47a1c3d",
    "kodim06": "513051b23f6239c5",
    "kodim07": "cf5230bf63cf4a1e",
    "kodim08": "fc9604c82ee677de",
    "kodim09": "59a18b589944aac3",
    "kodim10": "d59e281bbdc104bb",
    "kodim11": "d832ac8b3fd01f4d",
    "kodim12": "2a0c855242b6bffe",
    "kodim13": "3b33920b25fe3adf",
    "kodim14": "b226c2848dac2c84",
    "kodim15": "da1a22d539e6d93f",
    "kodim16": "9387ffa0fbc1af35",
    "kodim17": "995f1d5ef5f8294b",
    "kodim18": "76943518997ea9cb",
    "kodim19": "67a0ac58beac611d",
    "kodim20": "77930fcdc49d5b97",
    "kodim21": "51118fcc3c2f8712",
    "kodim22": "e4b60aadf7467469",
    "kodim23": "33f02378b48132ae",
    "kodim24": "5c5e7fffd3278fb8",
}
CLASSICAL_DIGESTS = {  # in the order of the paper's Table 2
    "house": "37d4dc20ce07a526",
    "peppers": "34c2a1ae641399e9",
    "cameraman": "2ec0ec9dc880edcd",
    "lena": "aa3d096df2de5df8",
    "barbara": "40183f2d11b9d73c",
    "boat": "914410bc78f68825",
    "hill": "c99b036ffa7e16b0",
    "couple": "3cc38f6249eaf672",
    "man": "19c26a91e2fe25d3",
    "fingerprint": "97b917482a0cee7d",
    "bridge": "51e4ac9810adf3c6",
    "flintstones": "7520ccad974eccf0",
}


@dataclass(frozen=True)
class ImageSet:
    """Images by name.

    Attributes
    ----------
    name : str
        Name of the data set.
    images : dict of arrays of shape (height, width), or (height, width, 3) if in colour, uint8
        The images.
    """

    name: str
    images: dict[str, NDArray[np.uint8]]

    @property
    def sha256(self) -> str:
        """Digest of all images and their names."""
        whole = hashlib.sha256()
        for name, image in self.images.items():
            whole.update(f"{name} {image.shape} ".encode() + np.ascontiguousarray(image).tobytes())
        return whole.hexdigest()


def load_kodak(data: Folder = None, *, download: bool = True) -> ImageSet:
    """Return the 24 images of the Kodak PhotoCD in grey, 768 × 512 pixels or upright.

    Parameters
    ----------
    data : path or None, default=None
        A folder that contains ``kodak/kodim01.png`` to ``kodim24.png``, in colour or grey. None searches the folder
        that ``TASKDICT_DATA`` names, then the cache.
    download : bool, default=True
        Whether to download missing files to the cache, if no folder is passed. This needs pooch:
        ``pip install "taskdict[experiments]"``.

    Returns
    -------
    ImageSet

    Raises
    ------
    DataError
        If the data are not found and cannot be downloaded, or the content of a file is wrong.
    """
    return load_grey_images("kodak", KODAK_DIGESTS, KODAK_ADDRESSES, data, download)


def load_classical(data: Folder = None) -> ImageSet:
    """Return twelve classical grey test images, those of the paper's Table 2 in its order.

    They cannot be downloaded: no source with known terms of use is known.

    Parameters
    ----------
    data : path or None, default=None
        A folder that contains ``classic12/house.png`` and so on. None searches the folder that ``TASKDICT_DATA``
        names.

    Returns
    -------
    ImageSet

    Raises
    ------
    DataError
        If the data are not found, or the content of a file is wrong.
    """
    return load_grey_images("classic12", CLASSICAL_DIGESTS, (), data, download=False)


def image_digest(image: NDArray[Any]) -> str:
    """Return a digest of the size and the grey values of an image."""
    return hashlib.sha256(f"{image.shape} ".encode() + np.ascontiguousarray(image).tobytes()).hexdigest()[:16]


def load_grey_images(
    folder: str, expected: dict[str, str], addresses: tuple[str, ...], data: Folder, download: bool
) -> ImageSet:
    """Return the .png images of a data set, converted to grey.

    Parameters
    ----------
    folder : str
        Name of the data set and of its folder.
    expected : dict
        The digest of each image (:func:`image_digest`), by name.
    addresses : tuple of str
        Where the files can be downloaded.
    data, download
        As for :func:`load_kodak`.
    """
    Image = pillow()
    images = {}
    for name, known in expected.items():
        path = find_file(folder, (f"{name}.png",), addresses, data, download)
        try:
            with Image.open(path) as image:
                images[name] = np.asarray(image.convert("L"))
        except (OSError, SyntaxError) as error:
            raise DataError(f"{str(path)!r} cannot be read: {error}") from None
        if image_digest(images[name]) != known:
            raise DataError(f"{str(path)!r} is not {name}: its checksum is wrong. Fetch it again.")
    return ImageSet(folder, images)
