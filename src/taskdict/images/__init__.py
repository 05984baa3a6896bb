"""Whole pictures: patches of them, what damages them, their restoration, classification by votes, and measurement."""

from taskdict.images import degrade
from taskdict.images.blocks import Measurements, reconstruct, sense
from taskdict.images.noise import denoise
from taskdict.images.restorer import ImageRestorer
from taskdict.images.shipped import pretrained
from taskdict.images.voting import PatchVotingClassifier

__all__ = [
    "ImageRestorer",
    "Measurements",
    "PatchVotingClassifier",
    "degrade",
    "denoise",
    "pretrained",
    "reconstruct",
    "sense",
]
