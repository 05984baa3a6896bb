"""Data to learn from, from a folder of yours or downloaded once, and always checked.

A data set is looked for in the folder that is passed and nowhere else. If none is passed, it is looked for in the one
that ``TASKDICT_DATA`` names, then in a cache of the user (``TASKDICT_CACHE``, by default ``~/.cache/taskdict``), and
else downloaded to the cache. The content is compared with known checksums: a wrong or damaged file is noticed.
"""

from taskdict.datasets.art import load_art
from taskdict.datasets.crops import Crops, load_voc2006
from taskdict.datasets.digits import LOADERS, Digits, load_bundled, load_mnist, load_usps
from taskdict.datasets.pictures import Pictures, load_classical, load_halftones, load_kodak
from taskdict.datasets.places import DataError

__all__ = [
    "LOADERS",
    "Crops",
    "DataError",
    "Digits",
    "Pictures",
    "load_art",
    "load_bundled",
    "load_classical",
    "load_halftones",
    "load_kodak",
    "load_mnist",
    "load_usps",
    "load_voc2006",
]
