"""Compressed sensing with learned measurements: `model` is how it is used, `estimator` how it learns."""

from taskdict.estimators.compressed_sensing.estimator import CompressedSensing

__all__ = ["CompressedSensing"]
