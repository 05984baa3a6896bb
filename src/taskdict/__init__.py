"""taskdict: sparse dictionaries tuned to a task."""

from importlib.metadata import version as _version

from taskdict import constraints, losses, streams
from taskdict.coding import Report, Status, sparse_encode
from taskdict.descent import DivergedError
from taskdict.estimators import DictionaryLearning, SparseCoder, TaskDrivenClassifier, TaskDrivenRegressor, load
from taskdict.progress import Progress, ProgressLine
from taskdict.storage import ModelFileError
from taskdict.streams import stream

__version__ = _version("taskdict")

__all__ = [
    "DictionaryLearning",
    "DivergedError",
    "ModelFileError",
    "Progress",
    "ProgressLine",
    "Report",
    "SparseCoder",
    "Status",
    "TaskDrivenClassifier",
    "TaskDrivenRegressor",
    "__version__",
    "constraints",
    "load",
    "losses",
    "sparse_encode",
    "stream",
    "streams",
]
