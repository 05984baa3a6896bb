"""Halftones of the early days of window systems, whose originals are lost."""

from __future__ import annotations

from taskdict.datasets.fetch import Folder
from taskdict.datasets.images import ImageSet, load_grey_images

HALFTONE_DIGESTS = {  # of images with one bit per pixel
    "xphoon_moon": "85a0ee1d3ee64140",
    "x11_escherknot": "bbedebf8a1d09ae4",
    "x11_woman": "5eaad634af7c2a8d",
}


def load_halftones(data: Folder = None) -> ImageSet:
    """Return three halftones, black (0) and white (255).

    Parameters
    ----------
    data : path or None, default=None
        A folder that contains ``halftones/xphoon_moon.png`` and so on. None searches the folder that ``TASKDICT_DATA``
        names.

    Returns
    -------
    ImageSet

    Raises
    ------
    DataError
        If the data are not found, or the content of a file is wrong.
    """
    return load_grey_images("halftones", HALFTONE_DIGESTS, (), data, download=False)
