"""Task-driven estimators: a dictionary, a model on its codes, and an optional transform, learned together."""

from taskdict.estimators.task_driven.classifier import TaskDrivenClassifier
from taskdict.estimators.task_driven.regressor import TaskDrivenRegressor

__all__ = ["TaskDrivenClassifier", "TaskDrivenRegressor"]
