"""Classification of small images, as an estimator."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from taskdict._common.arrays import Floats
from taskdict._common.exclusive import exclusive
from taskdict._common.validation import check_count, check_number, refuse_masked
from taskdict._files import storage
from taskdict._files.persistent import PersistentEstimator, parameters_from_file, parameters_to_file
from taskdict._files.registry import register
from taskdict.estimators.task_driven import TaskDrivenClassifier
from taskdict.estimators.task_driven.labels import one_label_each
from taskdict.images.classifier.learned import LearnedImageClassifier, find_directions
from taskdict.images.classifier.settings import ImageClassifierSettings
from taskdict.streams import ImageStream
from taskdict.streams.images import check_directions, check_images, check_reach, check_shifts

DIRECTIONS = "directions"  # their name in files


def _has_probabilities(model: Any) -> bool:
    """Return whether the classifier of pixels has probabilities; raise as it does if not."""
    inner = model._learned.classifier if "_learned" in vars(model) else model.classifier
    getattr(TaskDrivenClassifier() if inner is None else inner, "predict_proba")  # noqa: B009 (for its error)
    return True


@register
class ImageClassifier(ClassifierMixin, PersistentEstimator):
    """Classification of small images with a :class:`TaskDrivenClassifier` on their pixels.

    Images are centred and scaled to norm one, as digits are in the paper. The classifier is trained with data
    augmentation, on a stream of shifted and distorted images (:class:`taskdict.streams.ImageStream`). A prediction can
    be the average over several shifts of an image (test-time augmentation).

    Parameters
    ----------
    classifier : TaskDrivenClassifier or None, default=None
        The classifier of pixels, which is cloned. None is one with default parameters. With its `checkpoint`, a
        training that was killed can be resumed.
    shifts : {0, 4, 8} or list of (down, right), default=4
        Shifts of the training images: none, by one pixel in the four directions or in the eight, or by the pixels of a
        list.
    bend : float, default=0.0
        Size in pixels of a random elastic distortion of each training image.
    pool : {0, 4, 8} or list of (down, right), default=0
        Shifts of test-time augmentation: scores are averaged over the image and its shifts. The time of a prediction
        grows with their number.
    n_directions : int or None, default=None
        If given, an image is represented by its products with so many principal directions of the shifted training
        images, instead of by its pixels. In a trial on MNIST, 200 directions were as good as 784 pixels, in two thirds
        of the time.
    random_state : int, RandomState or None, default=None
        Seed of the order of the images and of the distortions.

    Attributes
    ----------
    atoms_ : array of shape (n_atoms, height, width)
        The atoms as images.
    directions_ : array of shape (n_directions, height * width) or None
        The principal directions, orthonormal.
    classifier_ : TaskDrivenClassifier
        The fitted classifier of pixels.
    classes_ : array of shape (n_classes,)
        Labels.
    shape_ : tuple of int
        Height and width of the images.
    background_ : float
        The value that comes in at the edges of a shifted image: the smallest value of the training images.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import taskdict as td
    >>> digits = load_digits()
    >>> train, test = slice(0, 1200), slice(1200, None)
    >>> inner = td.TaskDrivenClassifier(30, max_iter=300, dictionary_init="classes", random_state=0)
    >>> model = td.ImageClassifier(inner, shifts=0, pool=0, random_state=0)
    >>> _ = model.fit(digits.images[train], digits.target[train])
    >>> bool(model.score(digits.images[test], digits.target[test]) > 0.93)
    True
    """

    _learned: LearnedImageClassifier

    def __init__(
        self,
        classifier: TaskDrivenClassifier | None = None,
        *,
        shifts: Any = 4,
        bend: float = 0.0,
        pool: Any = 0,
        n_directions: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.classifier = classifier
        self.shifts = shifts
        self.bend = bend
        self.pool = pool
        self.n_directions = n_directions
        self.random_state = random_state

    @exclusive
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labelled images.

        Parameters
        ----------
        X : array of shape (n_images, height, width)
            Images; may be memory-mapped.
        y : array of shape (n_images,)
            Labels, −1 for none: with ``mu > 0`` in the classifier, half of each batch is then of unlabelled images.

        Returns
        -------
        self : ImageClassifier
        """
        settings = ImageClassifierSettings.parse(self.get_params(deep=False))
        images = check_images(X, "X")
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        y = one_label_each(y, len(images), "images")
        check_reach("pool", settings.pool, images.shape[1:])
        inner = TaskDrivenClassifier() if settings.classifier is None else clone(settings.classifier)
        before = vars(self).get("_learned")
        if inner.warm_start and before is not None:
            _check_shape(images, before.shape)
            inner = copy.copy(before.classifier).set_params(**inner.get_params(deep=False))
            directions = before.directions  # the atoms are made of them
        else:
            directions = find_directions(images, settings)
        stream = ImageStream(
            images,
            y,
            shifts=settings.shifts,
            bend=settings.bend,
            directions=directions,
            random_state=self.random_state,
        )
        learned_before = vars(inner).get("_learned")
        # Callbacks may use the model during the training.
        self._learned = LearnedImageClassifier(inner, images.shape[1:], stream.background, stream.directions)
        try:
            inner.fit(stream)
        except BaseException:
            if vars(inner).get("_learned") is learned_before:  # else there is what was learned so far
                self._forget(before)
            raise
        return self

    def _forget(self, before: LearnedImageClassifier | None) -> None:
        """Go back to an earlier model, or to none."""
        if before is None:
            del self._learned
        else:
            self._learned = before

    @property
    def classifier_(self) -> TaskDrivenClassifier:
        """The fitted classifier of pixels."""
        return self._fitted().classifier

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels."""
        return self._fitted().classifier.classes_

    @property
    def shape_(self) -> tuple[int, int]:
        """Height and width of the images."""
        return self._fitted().shape

    @property
    def background_(self) -> float:
        """The value that comes in at the edges of a shifted image."""
        return self._fitted().background

    @property
    def directions_(self) -> Floats | None:
        """The principal directions."""
        return self._fitted().directions

    @property
    def atoms_(self) -> NDArray[Any]:
        """The atoms as images."""
        learned = self._fitted()
        atoms = learned.classifier.components_
        pixels: NDArray[Any] = atoms if learned.directions is None else atoms @ learned.directions
        return pixels.reshape(-1, *learned.shape)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model."""
        return "_learned" in vars(self)

    def _fitted(self) -> LearnedImageClassifier:
        check_is_fitted(self)
        return self._learned

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the scores of the classes, averaged over the shifts of `pool`.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Images of the shape in `fit`.

        Returns
        -------
        array of shape (n_images, n_classes), or (n_images,) for two classes, then positive for the second
        """
        learned = self._fitted()
        return learned.scores(_check_like(X, learned.shape), check_shifts("pool", self.pool))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Images of the shape in `fit`.

        Returns
        -------
        array of shape (n_images,)
        """
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return probabilities of the classes, averaged over the shifts of `pool`.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Images of the shape in `fit`.

        Returns
        -------
        array of shape (n_images, n_classes)
        """
        learned = self._fitted()
        return learned.probabilities(_check_like(X, learned.shape), check_shifts("pool", self.pool))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Images of the shape in `fit`.

        Returns
        -------
        array of shape (n_images, n_classes)
        """
        with np.errstate(divide="ignore"):
            logarithms: NDArray[Any] = np.log(self.predict_proba(X))
        return logarithms

    def transform(self, X: Any) -> sp.csr_array | NDArray[Any]:
        """Return the codes of images, without shifts, on the dictionaries of all classes.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Images of the shape in `fit`.

        Returns
        -------
        scipy.sparse.csr_array of shape (n_images, all atoms)
            An array if the classifier has ``sparse_output=False``.
        """
        learned = self._fitted()
        return learned.codes(_check_like(X, learned.shape))

    def _summary(self) -> str:
        (height, width), inner = self.shape_, self.classifier_
        return (
            f"{len(self.classes_)} classes, images of {height} by {width} pixels, {len(inner.components_)} atoms, "
            f"{inner.n_iter_} batches"
        )

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        learned = self._fitted()
        arrays, document = learned.classifier._to_file()
        ImageClassifierSettings.parse(self.get_params(deep=False))
        _, parameters = parameters_to_file(
            self, but=["classifier"], shifts=_as_list(self.shifts), pool=_as_list(self.pool)
        )
        if learned.directions is not None:
            arrays = {**arrays, DIRECTIONS: learned.directions}
        return arrays, {
            "classifier": document,
            "parameters": parameters,
            "shape": list(learned.shape),
            "background": learned.background,
        }

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        directions = arrays.get(DIRECTIONS)
        arrays = {name: array for name, array in arrays.items() if name != DIRECTIONS}
        inner = TaskDrivenClassifier._from_file(arrays, document["classifier"])
        parameters, _ = parameters_from_file({}, document["parameters"])
        model = cls(clone(inner), **parameters)
        settings = ImageClassifierSettings.parse(model.get_params(deep=False))
        height, width = (check_count("shape", side) for side in document["shape"])
        check_reach("pool", settings.pool, (height, width))
        directions = check_directions(directions, (height, width))
        if inner.n_features_in_ != (height * width if directions is None else len(directions)):
            raise ValueError("the shape of its images does not fit its dictionary")
        background = check_number("background", document["background"])
        if not np.isfinite(background):
            raise ValueError("its background is not finite")
        model._learned = LearnedImageClassifier(inner, (height, width), background, directions)
        return model

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: an image has two dimensions."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def _as_list(shifts: Any) -> Any:
    """Return shifts as a document can hold them."""
    return shifts.tolist() if isinstance(shifts, np.ndarray) else shifts


def _check_like(X: Any, shape: tuple[int, int]) -> NDArray[Any]:
    """Return images of a shape; each may be flat."""
    refuse_masked("X", X)
    X = np.asanyarray(X)
    if X.ndim == 2 and X.shape[1] == shape[0] * shape[1]:
        X = X.reshape(-1, *shape)
    images = check_images(X, "X")
    _check_shape(images, shape)
    return images


def _check_shape(images: NDArray[Any], shape: tuple[int, int]) -> None:
    if images.shape[1:] != shape:
        raise ValueError(f"X has images of shape {images.shape[1:]}, but the model learned from {shape}.")
