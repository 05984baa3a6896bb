"""Classification of large pictures by the votes of their patches (paper, Section 5.5)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._exclusive import exclusive
from taskdict._validation import check_count, check_flag, unlabelled
from taskdict.estimators._parameters import read, written
from taskdict.estimators._versions import VersionedEstimator
from taskdict.estimators.task_driven import TaskDrivenClassifier
from taskdict.estimators.task_driven.labels import one_label_each
from taskdict.images.labelled_patches import LabelledPatches, as_signals
from taskdict.images.patches import check_channels, patches_at, positions, spread_over

AT_ONCE = 16_384  # patches


class PatchVotingClassifier(ClassifierMixin, VersionedEstimator):
    """Tell large pictures apart: a classifier of small patches learns, and a picture is what most of its patches are.

    Patches are drawn evenly: as many from each class, and as many from each picture of a class. None is stored.

    Parameters
    ----------
    classifier : TaskDrivenClassifier, classifier of scikit-learn, or None, default=None
        What learns from the patches; it is cloned. None is a :class:`taskdict.TaskDrivenClassifier` with default
        parameters. Another classifier, such as a pipeline, gets all patches at once.
    patch_size : int, default=12
        Height and width of a patch.
    normalise : bool, default=True
        Whether patches are centred and scaled to norm one, so that neither light nor contrast has a say. With False
        they are as in the picture, with values from 0 to 1.
    n_patches : int, default=200_000
        Patches of each class to learn from.
    stride : int, default=4
        Pixels between neighbouring patches that vote.
    random_state : int, RandomState or None, default=None
        Seed of the choice and of the order of patches.

    Attributes
    ----------
    classifier_ : classifier
        The one that has learned.
    classes_ : array of shape (n_classes,)
        Labels.
    channels_ : int
        Channels of the pictures.
    normalised_ : bool
        Whether the patches learned from were normalised.

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> rng = np.random.default_rng(0)
    >>> down = [np.tile(rng.random((40, 1)), (1, 50)) for _ in range(3)]  # lines across
    >>> across = [np.tile(rng.random((1, 50)), (40, 1)) for _ in range(3)]  # and upright
    >>> learner = td.TaskDrivenClassifier(20, decision="bilinear", max_iter=100, random_state=0)
    >>> voter = td.PatchVotingClassifier(learner, patch_size=6, n_patches=1000, random_state=0)
    >>> voter.fit([*down[:2], *across[:2]], ["lines", "lines", "columns", "columns"]).predict([down[2], across[2]])
    array(['lines', 'columns'], dtype='<U7')
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        patch_size: int = 12,
        normalise: bool = True,
        n_patches: int = 200_000,
        stride: int = 4,
        random_state: Any = None,
    ) -> None:
        self.classifier = classifier
        self.patch_size = patch_size
        self.normalise = normalise
        self.n_patches = n_patches
        self.stride = stride
        self.random_state = random_state

    @exclusive
    def fit(self, images: Sequence[Any], labels: Any) -> Self:
        """Learn from pictures.

        Parameters
        ----------
        images : sequence of arrays of shape (height, width) or (height, width, channels)
            Pictures, all grey or all with as many channels, of any sizes from a patch on; uint8, uint16, bool, or
            floats from 0 to 1.
        labels : array of shape (n_images,)
            What they are.

        Returns
        -------
        self : PatchVotingClassifier
        """
        self._check_parameters()
        pictures = as_pictures(images)
        labels = one_label_each(labels, len(pictures), "images", "labels")
        if unlabelled(labels).any():
            raise ValueError("labels must not be -1, which stands for no label.")
        if len(np.unique(labels)) < 2:
            raise ValueError(f"labels must have at least two classes, got one class only: {labels[0]!r}.")
        patches = LabelledPatches(
            pictures,
            labels,
            self.patch_size,
            n_patches=self.n_patches,
            normalise=self.normalise,
            random_state=self.random_state,
        )
        model = TaskDrivenClassifier() if self.classifier is None else clone(self.classifier)
        if isinstance(model, TaskDrivenClassifier):
            try:
                model.fit(patches)
            finally:  # an interrupted training leaves what it has learned
                if "_training" in vars(model):
                    self._publish(model, patches)
        else:
            model.fit(*patches.take_pairs(patches.n_signals))
            self._publish(model, patches)
        return self

    def _publish(self, model: Any, patches: LabelledPatches) -> None:
        self.classifier_, self.channels_, self.normalised_ = model, patches.channels, patches.normalise

    def _check_parameters(self) -> None:
        for name in ("patch_size", "n_patches", "stride"):
            check_count(name, getattr(self, name))
        check_flag("normalise", self.normalise)
        if self.stride > self.patch_size:
            raise ValueError(
                f"stride must be at most the patch size, {self.patch_size}: no pixel may be left out, "
                f"got {self.stride}."
            )

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels."""
        check_is_fitted(self)
        classes: NDArray[Any] = self.classifier_.classes_
        return classes

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "classifier_")

    def votes(self, images: Sequence[Any]) -> NDArray[np.float64]:
        """Return which share of the patches of each picture votes for each class.

        Parameters
        ----------
        images : sequence of arrays of shape (height, width) or (height, width, channels)
            Pictures.

        Returns
        -------
        array of shape (n_images, n_classes)
        """
        check_is_fitted(self)
        votes = [self._vote(picture)[0].ravel() for picture in as_pictures(images)]
        return np.array([np.bincount(each, minlength=len(self.classes_)) / len(each) for each in votes])

    def predict(self, images: Sequence[Any]) -> NDArray[Any]:
        """Return what most patches of each picture vote for.

        Parameters
        ----------
        images : sequence of arrays of shape (height, width) or (height, width, channels)
            Pictures.

        Returns
        -------
        array of shape (n_images,)
        """
        labels: NDArray[Any] = self.classes_[self.votes(images).argmax(axis=1)]
        return labels

    def vote_map(self, image: Any) -> NDArray[np.float32]:
        """Return where in a picture the votes fall.

        Parameters
        ----------
        image : array of shape (height, width) or (height, width, channels)
            A picture.

        Returns
        -------
        array of shape (height, width, n_classes)
            The share of the patches over each pixel that vote for each class.
        """
        check_is_fitted(self)
        (picture,) = as_pictures([image])
        votes, rows, columns = self._vote(picture)
        each = np.eye(len(self.classes_), dtype=np.float32)[votes]
        return spread_over(each, rows, columns, self._side(), picture.shape[:2])

    def compare(self, image_a: Any, image_b: Any, label: Any) -> int:
        """Return which of two pictures is the one with a label, if one of them is: 0 for the first, 1 for the second.

        Parameters
        ----------
        image_a, image_b : array of shape (height, width) or (height, width, channels)
            Pictures.
        label : a label
            One of `classes_`, such as "authentic".

        Returns
        -------
        int
        """
        check_is_fitted(self)
        found = np.flatnonzero(self.classes_ == label)
        if len(found) != 1:
            raise ValueError(f"label must be one of {self.classes_.tolist()}, got {label!r}.")
        first, second = self.votes([image_a, image_b])[:, found[0]]
        return int(second > first)

    def _side(self) -> int:
        """Return the patch size of what was learned, whatever the parameter is now."""
        return math.isqrt(int(self.classifier_.n_features_in_) // self.channels_)

    def _vote(self, picture: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
        """Return the class that each patch votes for, and the rows and columns that patches begin at."""
        size, stride = self._side(), min(check_count("stride", self.stride), self._side())
        if picture.shape[2] != self.channels_:
            raise ValueError(
                f"a picture has {picture.shape[2]} channels, but the model has learned from pictures with "
                f"{self.channels_}."
            )
        if min(picture.shape[:2]) < size:
            raise ValueError(f"a picture of shape {picture.shape[:2]} is smaller than a patch of {size} by {size}.")
        rows, columns = (positions(side, size, stride) for side in picture.shape[:2])
        at_once = max(1, AT_ONCE // len(columns))
        parts = []
        for k in range(0, len(rows), at_once):
            signals = as_signals(patches_at(picture, size, rows[k : k + at_once], columns), self.normalised_)
            best = np.searchsorted(self.classes_, self.classifier_.predict(signals))
            parts.append(best.reshape(-1, len(columns)))
        return np.concatenate(parts), rows, columns

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, for :func:`taskdict.load`; its classifier must be a TaskDrivenClassifier.

        Parameters
        ----------
        path : str or path
            Name of the file.
        """
        check_is_fitted(self)
        if not isinstance(self.classifier_, TaskDrivenClassifier):
            raise TypeError(
                f"only a model with a TaskDrivenClassifier can be saved, this one has a "
                f"{type(self.classifier_).__name__}."
            )
        arrays, document = self.classifier_._to_file()
        stride = min(check_count("stride", self.stride), self._side())
        own = written(self, but=["classifier"], patch_size=self._side(), normalise=self.normalised_, stride=stride)
        outer = {"classifier": document, "parameters": own, "channels": self.channels_}
        storage.write(path, type(self).__name__, arrays, outer)

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Make the model that `save` has written; raises ValueError, TypeError or KeyError for anything else."""
        inner = TaskDrivenClassifier._from_file(arrays, document["classifier"])
        model = read(cls, document["parameters"], clone(inner))
        channels = check_count("channels", document["channels"])
        if inner.n_features_in_ != model.patch_size**2 * channels:
            raise ValueError("the size of its patches does not fit its dictionary")
        model.classifier_, model.channels_, model.normalised_ = inner, channels, bool(model.normalise)
        return model

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that pictures have two dimensions each, or three."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def as_pictures(images: Any) -> list[NDArray[Any]]:
    """Return pictures with an axis for their channels."""
    if isinstance(images, np.ndarray) and images.ndim == 2:
        raise ValueError("images must be a list of pictures, got one picture: put it into a list.")
    try:
        pictures = list(images)
    except TypeError:
        raise TypeError(f"images must be a list of pictures, got {type(images).__name__}.") from None
    if not pictures:
        raise ValueError("images must have at least one picture.")
    return [check_channels(picture, f"images[{k}]") for k, picture in enumerate(pictures)]
