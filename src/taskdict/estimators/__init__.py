"""scikit-learn estimators on top of the core."""

from taskdict.estimators.compressed_sensing import CompressedSensing
from taskdict.estimators.dictionary_learning import DictionaryLearning
from taskdict.estimators.sparse_coder import SparseCoder
from taskdict.estimators.task_driven import TaskDrivenClassifier, TaskDrivenRegressor
from taskdict.estimators.unit_norm import UnitNorm

__all__ = [
    "CompressedSensing",
    "DictionaryLearning",
    "SparseCoder",
    "TaskDrivenClassifier",
    "TaskDrivenRegressor",
    "UnitNorm",
]
