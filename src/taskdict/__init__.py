"""taskdict: sparse dictionaries tuned to a task."""

from importlib.metadata import version as _version

from taskdict import constraints, datasets, images, losses, streams
from taskdict._coding.encode import Report, Status, sparse_encode
from taskdict._common.progress import Progress, ProgressLine
from taskdict._files.persistent import VersionWarning
from taskdict._files.registry import load
from taskdict._files.storage import ModelFileError
from taskdict._learning.comparison import BaselineWarning
from taskdict._learning.descent import DivergedError
from taskdict.estimators import (
    CompressedSensing,
    DictionaryLearning,
    SparseCoder,
    TaskDrivenClassifier,
    TaskDrivenRegressor,
    UnitNorm,
)
from taskdict.estimators.suggestions import suggest_parameters
from taskdict.images import ImageClassifier, ImageRestorer, PatchVotingClassifier
from taskdict.streams import stream

__version__ = _version("taskdict")

__all__ = [
    "BaselineWarning",
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
