"""Compressed sensing with learned measurements: the estimator, its fitting, and the learned measurements."""

from taskdict.estimators.compressed_sensing.estimator import CompressedSensing

__all__ = ["CompressedSensing"]
