"""Handwritten digits: MNIST, USPS, and those that come with scikit-learn."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict.datasets.fetch import DataError, Folder, find_file

MNIST_ADDRESSES = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
MNIST_FILES = {  # sha256 of the content, not of the compressed file
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
USPS_ADDRESSES = ("https://hastie.su.domains/ElemStatLearn/datasets/",)
USPS_FILES = {  # sha256 of the sorted rows of label and pixels: the order differs between sources
    "train": "f4063c29b32b01b2ab9769e4a33f4352c210f98a2cedb50f646d858eb9079bba",
    "test": "d952caf396c03bfe84aaf50516902ada1fbe2ecd007304c112b5757cd35ff54e",
}


@dataclass(frozen=True)
class Digits:
    """Images of digits with their labels: a training set and a test set.

    Attributes
    ----------
    name : str
        Name of the data set.
    images, test_images : array of shape (n_images, height, width)
        Grey values, larger where there is ink.
    labels, test_labels : array of shape (n_images,)
        The digits 0 to 9.
    """

    name: str
    images: NDArray[Any]
    labels: NDArray[np.int64]
    test_images: NDArray[Any]
    test_labels: NDArray[np.int64]

    @property
    def sha256(self) -> str:
        """Digest of the numbers and their order."""
        digest = hashlib.sha256()
        for array in (self.images, self.labels, self.test_images, self.test_labels):
            digest.update(f"{array.dtype.str} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def load_mnist(data: Folder = None, *, download: bool = True) -> Digits:
    """Return MNIST: 60,000 digits of 28 × 28 pixels for training, and 10,000 for testing.

    Parameters
    ----------
    data : path or None, default=None
        A folder that contains ``mnist/`` with the four files ``train-images-idx3-ubyte`` and so on, compressed (.gz)
        or not. None searches the folder that ``TASKDICT_DATA`` names, then the cache.
    download : bool, default=True
        Whether to download missing files to the cache, if no folder is passed. This needs pooch:
        ``pip install "taskdict[experiments]"``.

    Returns
    -------
    Digits
        uint8, 0 is the background.

    Raises
    ------
    DataError
        If the data are not found and cannot be downloaded, or the content of a file is wrong.
    """
    parts: list[Any] = []
    for name, expected in MNIST_FILES.items():
        path = find_file("mnist", (f"{name}.gz", name), MNIST_ADDRESSES, data, download)
        content = _content(path)
        if hashlib.sha256(content).hexdigest() != expected:
            raise DataError(
                f"{str(path)!r} is not MNIST's {name}: its checksum is wrong. Remove it, or fetch it again."
            )
        images = "images" in name
        pixels = np.frombuffer(content, np.uint8, offset=16 if images else 8)
        parts.append(pixels.reshape(-1, 28, 28) if images else pixels.astype(np.int64))
    return Digits("mnist", *parts)


def load_usps(data: Folder = None, *, download: bool = True) -> Digits:
    """Return USPS: 7,291 digits of 16 × 16 pixels for training, and 2,007 for testing.

    Parameters
    ----------
    data : path or None, default=None
        A folder that contains ``usps/`` with ``usps.npz`` (x_train, y_train, x_test, y_test), or with the text files
        ``zip.train`` and ``zip.test``, compressed (.gz) or not. None searches the folder that ``TASKDICT_DATA`` names,
        then the cache.
    download : bool, default=True
        Whether to download missing files to the cache, if no folder is passed. This needs pooch:
        ``pip install "taskdict[experiments]"``.

    Returns
    -------
    Digits
        Thousandths as int16, from −1000, the background, to 1000.

    Raises
    ------
    DataError
        If the data are not found and cannot be downloaded, or the content of a file is wrong.
    """
    parts: list[Any] = []
    for part, expected in USPS_FILES.items():
        names = ("usps.npz", f"zip.{part}.gz", f"zip.{part}")
        path = find_file("usps", names, USPS_ADDRESSES, data, download, wanted=names[1])
        try:
            if path.suffix == ".npz":
                with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                    labels, pixels = arrays[f"y_{part}"], arrays[f"x_{part}"].reshape(-1, 256)
            else:
                table = np.array([line.split() for line in _content(path).decode().splitlines() if line.strip()], float)
                labels, pixels = table[:, 0], np.rint(1000 * table[:, 1:])
            rows = np.column_stack([labels, pixels]).astype("<i2")
        except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
            raise DataError(f"{str(path)!r} cannot be read as USPS: {error}") from None
        if hashlib.sha256(rows[np.lexsort(rows.T[::-1])].tobytes()).hexdigest() != expected:
            raise DataError(f"{str(path)!r} is not USPS: its checksum is wrong. Remove it, or fetch it again.")
        parts += [rows[:, 1:].astype(np.int16).reshape(-1, 16, 16), rows[:, 0].astype(np.int64)]
    return Digits("usps", *parts)


def load_bundled(data: Folder = None, *, download: bool = False) -> Digits:
    """Return scikit-learn's 1,797 digits of 8 × 8 pixels, of which the last 597 are for testing.

    Parameters
    ----------
    data, download : ignored
        Present so that all data sets are loaded in the same way.

    Returns
    -------
    Digits
        uint8, from 0, the background, to 16.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.int64)
    return Digits("bundled", images[:1200], labels[:1200], images[1200:], labels[1200:])


LOADERS: dict[str, Callable[..., Digits]] = {"mnist": load_mnist, "usps": load_usps, "bundled": load_bundled}


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from None
