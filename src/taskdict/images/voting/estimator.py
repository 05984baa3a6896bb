"""Classification of large images by the votes of their patches, as an estimator (paper, Section 5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from taskdict._common.exclusive import exclusive
from taskdict._common.pixels import with_channels
from taskdict._common.validation import check_count, is_fitted, unlabelled
from taskdict._files import storage
from taskdict._files.persistent import PersistentEstimator, parameters_from_file, parameters_to_file
from taskdict._files.registry import register
from taskdict.estimators.task_driven import TaskDrivenClassifier
from taskdict.estimators.task_driven.labels import one_label_each
from taskdict.images.patches import average_over_pixels
from taskdict.images.voting.learned import LearnedVoting
from taskdict.images.voting.settings import VotingSettings
from taskdict.streams.patches import LabelledPatches


@register
class PatchVotingClassifier(ClassifierMixin, PersistentEstimator):
    """Classification of large images: patches are classified, and an image gets the label that most of them vote for.

    The training patches are drawn evenly: as many from each class, and as many from each image of a class. None is
    stored.

    Parameters
    ----------
    classifier : TaskDrivenClassifier, classifier of scikit-learn, or None, default=None
        The classifier of patches, which is cloned. None is a :class:`taskdict.TaskDrivenClassifier` with default
        parameters. Another classifier, such as a pipeline, gets all patches at once.
    patch_size : int, default=12
        Height and width of a patch.
    normalise : bool, default=True
        Whether patches are centred and scaled to norm one, so that brightness and contrast do not matter. With False
        they are as in the image, with values from 0 to 1.
    n_patches : int, default=200_000
        Number of training patches of each class.
    stride : int, default=4
        Pixels between neighbouring patches that vote.
    random_state : int, RandomState or None, default=None
        Seed of the choice and of the order of patches.

    Attributes
    ----------
    classifier_ : classifier
        The fitted classifier of patches.
    classes_ : array of shape (n_classes,)
        Labels.
    channels_ : int
        Channels of the images.
    normalised_ : bool
        Whether the training patches were normalised.

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> rng = np.random.default_rng(0)
    >>> down = [np.tile(rng.random((40, 1)), (1, 50)) for _ in range(3)]  # horizontal lines
    >>> across = [np.tile(rng.random((1, 50)), (40, 1)) for _ in range(3)]  # vertical lines
    >>> learner = td.TaskDrivenClassifier(20, decision="bilinear", max_iter=100, random_state=0)
    >>> voter = td.PatchVotingClassifier(learner, patch_size=6, n_patches=1000, random_state=0)
    >>> voter.fit([*down[:2], *across[:2]], ["lines", "lines", "columns", "columns"]).predict([down[2], across[2]])
    array(['lines', 'columns'], dtype='<U7')
    """

    _learned: LearnedVoting

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
        """Learn from labelled images.

        Parameters
        ----------
        images : sequence of arrays of shape (height, width) or (height, width, channels)
            Images with the same number of channels, of any sizes that are not smaller than a patch; uint8, uint16,
            bool, or floats from 0 to 1.
        labels : array of shape (n_images,)
            Labels of the images.

        Returns
        -------
        self : PatchVotingClassifier
        """
        settings = VotingSettings.parse(self.get_params(deep=False))
        checked_images = check_image_list(images)
        patches = LabelledPatches(
            checked_images,
            _check_labels(labels, len(checked_images)),
            settings.patch_size,
            n_patches=settings.n_patches,
            normalise=settings.normalise,
            random_state=self.random_state,
        )
        model = TaskDrivenClassifier() if self.classifier is None else clone(self.classifier)
        if isinstance(model, TaskDrivenClassifier):
            try:
                model.fit(patches)
            finally:  # an interrupted training leaves the model that was learned so far
                if is_fitted(model):
                    self._learned = LearnedVoting(model, patches.n_channels, settings.normalise)
        else:
            model.fit(*patches.take_pairs(patches.n_signals))
            self._learned = LearnedVoting(model, patches.n_channels, settings.normalise)
        return self

    @property
    def classifier_(self) -> Any:
        """The fitted classifier of patches."""
        return self._fitted().classifier

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels."""
        return self._fitted().classes

    @property
    def channels_(self) -> int:
        """Channels of the images."""
        return self._fitted().n_channels

    @property
    def normalised_(self) -> bool:
        """Whether the training patches were normalised."""
        return self._fitted().normalised

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model."""
        return "_learned" in vars(self)

    def _fitted(self) -> LearnedVoting:
        check_is_fitted(self)
        return self._learned

    def _stride(self, patch_size: int) -> int:
        """Return the parameter `stride`, which may have changed since `fit`, at most the size of a patch."""
        return min(check_count("stride", self.stride), patch_size)

    def votes(self, images: Sequence[Any]) -> NDArray[np.float64]:
        """Return the share of the patches of each image that vote for each class.

        Parameters
        ----------
        images : sequence of arrays of shape (height, width) or (height, width, channels)
            Images.

        Returns
        -------
        array of shape (n_images, n_classes)
        """
        learned = self._fitted()
        stride = self._stride(learned.patch_size)
        votes = [learned.vote(image, stride).classes.ravel() for image in check_image_list(images)]
        return np.array([np.bincount(each, minlength=len(learned.classes)) / len(each) for each in votes])

    def predict(self, images: Sequence[Any]) -> NDArray[Any]:
        """Return the label that most patches of each image vote for.

        Parameters
        ----------
        images : sequence of arrays of shape (height, width) or (height, width, channels)
            Images.

        Returns
        -------
        array of shape (n_images,)
        """
        labels: NDArray[Any] = self.classes_[self.votes(images).argmax(axis=1)]
        return labels

    def vote_map(self, image: Any) -> NDArray[np.float32]:
        """Return the distribution of the votes over an image.

        Parameters
        ----------
        image : array of shape (height, width) or (height, width, channels)
            An image.

        Returns
        -------
        array of shape (height, width, n_classes)
            The share of the patches over each pixel that vote for each class.
        """
        learned = self._fitted()
        (pixels,) = check_image_list([image])
        votes = learned.vote(pixels, self._stride(learned.patch_size))
        indicators = np.eye(len(learned.classes), dtype=np.float32)[votes.classes]
        return average_over_pixels(indicators, votes.rows, votes.columns, learned.patch_size, pixels.shape[:2])

    def compare(self, image_a: Any, image_b: Any, label: Any) -> int:
        """Return which of two images more likely has a label: 0 for the first, 1 for the second.

        Parameters
        ----------
        image_a, image_b : array of shape (height, width) or (height, width, channels)
            Images.
        label : a label
            One of `classes_`, such as "authentic".

        Returns
        -------
        int
        """
        classes = self._fitted().classes
        found = np.flatnonzero(classes == label)
        if len(found) != 1:
            raise ValueError(f"label must be one of {classes.tolist()}, got {label!r}.")
        first, second = self.votes([image_a, image_b])[:, found[0]]
        return int(second > first)

    def _summary(self) -> str:
        learned = self._fitted()
        size, n_classes = learned.patch_size, len(learned.classes)
        return f"{n_classes} classes, patches of {size} by {size} pixels, {learned.n_channels} channels"

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        learned = self._fitted()
        if not isinstance(learned.classifier, TaskDrivenClassifier):
            raise TypeError(
                f"only a model with a TaskDrivenClassifier can be saved, this one has a "
                f"{type(learned.classifier).__name__}."
            )
        arrays, document = learned.classifier._to_file()
        _, parameters = parameters_to_file(
            self,
            but=["classifier"],
            patch_size=learned.patch_size,
            normalise=learned.normalised,
            stride=self._stride(learned.patch_size),
        )
        return arrays, {"classifier": document, "parameters": parameters, "channels": learned.n_channels}

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        inner = TaskDrivenClassifier._from_file(arrays, document["classifier"])
        parameters, _ = parameters_from_file({}, document["parameters"])
        model = cls(clone(inner), **parameters)
        settings = VotingSettings.parse(model.get_params(deep=False))
        n_channels = check_count("channels", document["channels"])
        if inner.n_features_in_ != settings.patch_size**2 * n_channels:
            raise ValueError("the size of its patches does not fit its dictionary")
        model._learned = LearnedVoting(inner, n_channels, settings.normalise)
        return model

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: an image has two dimensions, or three."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def check_image_list(images: Any) -> list[NDArray[Any]]:
    """Return images as arrays of shape (height, width, channels)."""
    if isinstance(images, np.ndarray) and images.ndim == 2:
        raise ValueError("images must be a list of images, got one image: put it into a list.")
    try:
        listed = list(images)
    except TypeError:
        raise TypeError(f"images must be a list of images, got {type(images).__name__}.") from None
    if not listed:
        raise ValueError("images must have at least one image.")
    return [with_channels(image, f"images[{k}]") for k, image in enumerate(listed)]


def _check_labels(labels: Any, n_images: int) -> NDArray[Any]:
    """Return one label for each image, of at least two classes."""
    labels = one_label_each(labels, n_images, "images", "labels")
    if unlabelled(labels).any():
        raise ValueError("labels must not be -1, which stands for no label.")
    if len(np.unique(labels)) < 2:
        raise ValueError(f"labels must have at least two classes, got one class only: {labels[0]!r}.")
    checked_labels: NDArray[Any] = labels
    return checked_labels
