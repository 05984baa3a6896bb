"""Data sets, from a folder or downloaded once, and always checked; and signals that are made.

A data set is searched in the folder that is passed, and nowhere else. If none is passed, it is searched in the folder
that the variable ``TASKDICT_DATA`` names, then in a cache (``TASKDICT_CACHE``, by default ``~/.cache/taskdict``). If it
is not found there, it is downloaded to the cache. The content is compared with known checksums, so that a wrong or
damaged file raises an error.
"""

from taskdict.datasets.digits import LOADERS, Digits, load_bundled, load_mnist, load_usps
from taskdict.datasets.fetch import DataError
from taskdict.datasets.images import ImageSet, load_classical, load_kodak
from taskdict.datasets.signals import make_waveforms

__all__ = [
    "LOADERS",
    "DataError",
    "Digits",
    "ImageSet",
    "load_bundled",
    "load_classical",
    "load_kodak",
    "load_mnist",
    "load_usps",
    "make_waveforms",
]
