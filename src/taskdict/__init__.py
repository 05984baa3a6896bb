"""taskdict: sparse dictionaries tuned to a task."""

from importlib.metadata import version as _version

from taskdict import streams
from taskdict.coding import Report, Status, sparse_encode
from taskdict.estimators import DictionaryLearning, SparseCoder, load
from taskdict.progress import Progress, ProgressLine
from taskdict.storage import ModelFileError
from taskdict.streams import stream

__version__ = _version("taskdict")

__all__ = [
    "DictionaryLearning",
    "ModelFileError",
    "Progress",
    "ProgressLine",
    "Report",
    "SparseCoder",
    "Status",
    "__version__",
    "load",
    "sparse_encode",
    "stream",
    "streams",
]
