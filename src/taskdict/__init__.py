"""taskdict: sparse dictionaries tuned to a task."""

from importlib.metadata import version

from taskdict.coding import Report, Status, sparse_encode
from taskdict.estimators import SparseCoder

__version__ = version("taskdict")

__all__ = ["Report", "SparseCoder", "Status", "__version__", "sparse_encode"]
