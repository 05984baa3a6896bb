"""Whole pictures: patches of them, what damages them, and their restoration."""

from taskdict.images import degrade
from taskdict.images.noise import denoise
from taskdict.images.restorer import ImageRestorer

__all__ = ["ImageRestorer", "degrade", "denoise"]
