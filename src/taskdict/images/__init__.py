"""Whole images: degradation, restoration, denoising, classification, and compressed sensing."""

from taskdict.images import degrade
from taskdict.images.classifier import ImageClassifier
from taskdict.images.denoising import denoise
from taskdict.images.pretrained_models import pretrained
from taskdict.images.restorer import ImageRestorer
from taskdict.images.sensing import Measurements, reconstruct, sense
from taskdict.images.voting import PatchVotingClassifier

__all__ = [
    "ImageClassifier",
    "ImageRestorer",
    "Measurements",
    "PatchVotingClassifier",
    "degrade",
    "denoise",
    "pretrained",
    "reconstruct",
    "sense",
]
