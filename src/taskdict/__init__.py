"""taskdict: sparse dictionaries tuned to a task."""

from importlib.metadata import version as _version

from taskdict import constraints, datasets, images, losses, streams
from taskdict.coding import Report, Status, sparse_encode
from taskdict.descent import DivergedError
from taskdict.estimators import (
    CompressedSensing,
    DictionaryLearning,
    ImageClassifier,
    SparseCoder,
    TaskDrivenClassifier,
    TaskDrivenRegressor,
    UnitNorm,
)
from taskdict.estimators._versions import VersionWarning
from taskdict.images import ImageRestorer, PatchVotingClassifier
from taskdict.loading import load
from taskdict.progress import Progress, ProgressLine
from taskdict.storage import ModelFileError
from taskdict.streams import stream
from taskdict.suggestions import suggest_parameters

__version__ = _version("taskdict")

__all__ = [
    "CompressedSensing",
    "DictionaryLearning",
    "DivergedError",
    "ImageClassifier",
    "ImageRestorer",
    "ModelFileError",
    "PatchVotingClassifier",
    "Progress",
    "ProgressLine",
    "Report",
    "SparseCoder",
    "Status",
    "TaskDrivenClassifier",
    "TaskDrivenRegressor",
    "UnitNorm",
    "VersionWarning",
    "__version__",
    "constraints",
    "datasets",
    "images",
    "load",
    "losses",
    "sparse_encode",
    "stream",
    "streams",
    "suggest_parameters",
]
