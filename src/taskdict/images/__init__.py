"""Whole pictures: patches of them, what damages them, their restoration, and their classification by votes."""

from taskdict.images import degrade
from taskdict.images.noise import denoise
from taskdict.images.restorer import ImageRestorer
from taskdict.images.shipped import pretrained
from taskdict.images.voting import PatchVotingClassifier

__all__ = ["ImageRestorer", "PatchVotingClassifier", "degrade", "denoise", "pretrained"]
