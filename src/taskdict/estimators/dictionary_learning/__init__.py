"""Unsupervised dictionary learning: `estimator` is the front, `fitting` is how it learns."""

from taskdict.estimators.dictionary_learning.estimator import DictionaryLearning

__all__ = ["DictionaryLearning"]
