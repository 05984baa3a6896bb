"""Classification of large images by the votes of their patches.

`estimator` is the front for scikit-learn, `settings` has its parameters, and `learned` a learned classifier of patches.
"""

from taskdict.images.voting.estimator import PatchVotingClassifier

__all__ = ["PatchVotingClassifier"]
