"""Restoration of images with a nonlinear map from damaged to clean patches, learned from pairs of them.

`estimator` is the front for scikit-learn. `settings` has its parameters, `pairs` the pairs of damaged and clean images,
`patch_map` the map from patches to patches, `refinement` the second map of a residual refinement, `learned` a learned
restorer, and `learning` its training.
"""

from taskdict.images.restorer.estimator import ImageRestorer

__all__ = ["ImageRestorer"]
