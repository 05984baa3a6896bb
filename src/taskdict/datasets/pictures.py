"""Grey pictures: the 24 of Kodak, 12 classical ones, and old halftones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._pillow import pillow
from taskdict.datasets.places import DataError, Folder, find

KODAK_ADDRESSES = ("http://r0k.us/graphics/kodak/kodak/",)
KODAK = {  # digests of the grey values, see Pictures.digest
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
CLASSICAL = {  # in the order of the paper's Table 2
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
HALFTONES = {  # one bit per pixel
    "xphoon_moon": "85a0ee1d3ee64140",
    "x11_escherknot": "bbedebf8a1d09ae4",
    "x11_woman": "5eaad634af7c2a8d",
}


@dataclass(frozen=True)
class Pictures:
    """Pictures by name.

    Attributes
    ----------
    name : str
        Of the data set.
    images : dict of arrays of shape (height, width), or (height, width, 3) if in colour, uint8
        The pictures.
    """

    name: str
    images: dict[str, NDArray[np.uint8]]

    @property
    def sha256(self) -> str:
        """Identifies all pictures and their names."""
        whole = hashlib.sha256()
        for name, image in self.images.items():
            whole.update(f"{name} {image.shape} ".encode() + np.ascontiguousarray(image).tobytes())
        return whole.hexdigest()


def load_kodak(data: Folder = None, *, download: bool = True) -> Pictures:
    """Return the 24 pictures of the Kodak PhotoCD in grey, 768 × 512 pixels or upright.

    Parameters
    ----------
    data : path or None, default=None
        A folder with ``kodak/kodim01.png`` to ``kodim24.png`` in it, in colour or grey. None looks where
        ``TASKDICT_DATA`` says, then in the cache.
    download : bool, default=True
        Whether to download what is not there to the cache, if no folder is passed. This needs pooch:
        ``pip install "taskdict[experiments]"``.

    Returns
    -------
    Pictures

    Raises
    ------
    DataError
        If the data are not found and cannot be downloaded, or a file is not what it should be.
    """
    return _load("kodak", KODAK, KODAK_ADDRESSES, data, download)


def load_classical(data: Folder = None) -> Pictures:
    """Return twelve classical grey pictures, those of the paper's Table 2 in its order.

    There is no place to download them from whose terms are known.

    Parameters
    ----------
    data : path or None, default=None
        A folder with ``classic12/house.png`` and so on in it. None looks where ``TASKDICT_DATA`` says.

    Returns
    -------
    Pictures

    Raises
    ------
    DataError
        If the data are not found, or a file is not what it should be.
    """
    return _load("classic12", CLASSICAL, (), data, download=False)


def load_halftones(data: Folder = None) -> Pictures:
    """Return three pictures of one bit per pixel, black (0) and white (255), whose originals are lost.

    Parameters
    ----------
    data : path or None, default=None
        A folder with ``halftones/xphoon_moon.png`` and so on in it. None looks where ``TASKDICT_DATA`` says.

    Returns
    -------
    Pictures

    Raises
    ------
    DataError
        If the data are not found, or a file is not what it should be.
    """
    return _load("halftones", HALFTONES, (), data, download=False)


def digest(image: NDArray[Any]) -> str:
    """Identify the size and the grey values of a picture."""
    return hashlib.sha256(f"{image.shape} ".encode() + np.ascontiguousarray(image).tobytes()).hexdigest()[:16]


def _load(folder: str, expected: dict[str, str], addresses: tuple[str, ...], data: Folder, download: bool) -> Pictures:
    Image = pillow()
    images = {}
    for name, known in expected.items():
        path = find(folder, (f"{name}.png",), addresses, data, download)
        try:
            with Image.open(path) as image:
                images[name] = np.asarray(image.convert("L"))
        except (OSError, SyntaxError) as error:
            raise DataError(f"{str(path)!r} cannot be read: {error}") from None
        if digest(images[name]) != known:
            raise DataError(f"{str(path)!r} is not the {name} it should be: its checksum is wrong. Fetch it again.")
    return Pictures(folder, images)
