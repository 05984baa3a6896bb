"""Classification of small images, trained with shifts and elastic distortions, with test-time augmentation.

`estimator` is the front for scikit-learn, `settings` has its parameters, and `learned` a learned classifier.
"""

from taskdict.images.classifier.estimator import ImageClassifier

__all__ = ["ImageClassifier"]
