"""scikit-learn estimators on top of the core."""

from taskdict.estimators.sparse_coder import SparseCoder

__all__ = ["SparseCoder"]
