"""Crops of photographs: two of each of the 5,304 images of Pascal VOC 2006, grey and at half size."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskdict.datasets.fetch import DataError, Folder, find_file

FILE = "voc2006_gray_half_2crops64.npz"
PIXELS_DIGEST = "b2f9ea1c217bd054b217b46819204ffb367ef619bac0d3f2169fb3f20ccea751"


@dataclass(frozen=True)
class Crops:
    """Grey crops of photographs, in the three parts of the paper: photographs 1 to 3000, to 4000, and to 5304.

    Attributes
    ----------
    train, validation, test : arrays of shape (n_crops, 64, 64), uint8
        The parts; no photograph is in two of them.
    """

    name: ClassVar[str] = "voc2006"
    train: NDArray[np.uint8]
    validation: NDArray[np.uint8]
    test: NDArray[np.uint8]

    @property
    def sha256(self) -> str:
        """Digest of all pixels."""
        whole = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            whole.update(f"{part.shape} ".encode() + np.ascontiguousarray(part).tobytes())
        return whole.hexdigest()


def load_voc2006(data: Folder = None) -> Crops:
    """Return crops of the photographs of Pascal VOC 2006.

    They cannot be downloaded: they were cut from the photographs, see the README of the data.

    Parameters
    ----------
    data : path or None, default=None
        A folder that contains ``voc2006/voc2006_gray_half_2crops64.npz``. None searches the folder that
        ``TASKDICT_DATA`` names.

    Returns
    -------
    Crops

    Raises
    ------
    DataError
        If the data are not found, or the content of the file is wrong.
    """
    path = find_file("voc2006", (FILE,), (), data, download=False)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            parts = [arrays[name].reshape(-1, *arrays[name].shape[-2:]) for name in ("train", "val", "test")]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from None
    crops = Crops(*parts)
    if crops.sha256 != PIXELS_DIGEST:
        raise DataError(f"{str(path)!r} is not the file of the crops: its checksum is wrong. Fetch it again.")
    return crops
