"""Classification of small pictures: normalised, moved and bent to learn from, seen from several places to predict."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._exclusive import exclusive
from taskdict._threads import one_blas_thread
from taskdict._validation import check_count, check_number, check_penalty, refuse_masked
from taskdict.estimators._parameters import read, written
from taskdict.estimators._versions import VersionedEstimator
from taskdict.estimators.task_driven import TaskDrivenClassifier
from taskdict.estimators.task_driven.labels import one_label_each
from taskdict.initialisation import principal_directions
from taskdict.streams import ImageStream
from taskdict.streams._images import (
    as_floats,
    as_signals,
    check_directions,
    check_images,
    check_reach,
    check_shifts,
    moved,
)

AT_ONCE = 4096  # pictures
SAMPLE = 20_000  # pictures that principal directions are found from, at most
LEARNED = ("classifier_", "shape_", "background_", "directions_")
DIRECTIONS = "directions"  # their name in files


class ImageClassifier(ClassifierMixin, VersionedEstimator):
    """Tell small pictures apart with a :class:`TaskDrivenClassifier` on their pixels.

    Pictures are centred and scaled to norm one, as the paper does with digits. The classifier learns from a stream of
    them that also has them moved and bent (:class:`taskdict.streams.ImageStream`), and a prediction can be the average
    over several places of a picture.

    Parameters
    ----------
    classifier : TaskDrivenClassifier or None, default=None
        What learns from the pixels; it is cloned. None is one with default parameters. Its `checkpoint` lets a
        training that was killed go on.
    shifts : {0, 4, 8} or list of (down, right), default=4
        Where pictures are also moved to for learning: nowhere, by one pixel in the four directions or in the eight, or
        by the pixels of a list.
    bend : float, default=0.0
        Size in pixels of a smooth random displacement of each picture that is learned from.
    pool : {0, 4, 8} or list of (down, right), default=0
        Where pictures are also moved to in predictions: scores are averaged over all places. Costs as much more.
    n_directions : int or None, default=None
        With a number r, a picture is represented by its products with the r principal directions of those learned
        from, moved ones too, instead of by its pixels. In a trial on MNIST, 200 directions
        were as good as 784 pixels, in two thirds of the time.
    random_state : int, RandomState or None, default=None
        Seed of the order of the pictures and of the displacements.

    Attributes
    ----------
    atoms_ : array of shape (n_atoms, height, width)
        The atoms as pictures.
    directions_ : array of shape (n_directions, height * width) or None
        The principal directions, orthonormal.
    classifier_ : TaskDrivenClassifier
        The one that has learned.
    classes_ : array of shape (n_classes,)
        Labels.
    shape_ : tuple of int
        Height and width of the pictures.
    background_ : float
        What comes in at the edge of a picture that is moved: the smallest value of those learned from.

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

    classifier_: TaskDrivenClassifier

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
        """Learn from pictures.

        Parameters
        ----------
        X : array of shape (n_images, height, width)
            Pictures; may be memory-mapped.
        y : array of shape (n_images,)
            Labels, −1 for none: with ``mu > 0`` in the classifier, half of each batch is then of unlabelled pictures.

        Returns
        -------
        self : ImageClassifier
        """
        self._check_parameters()
        images = check_images(X, "X")
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        y = one_label_each(y, len(images), "images")
        check_reach("pool", check_shifts(self.pool, "pool"), images.shape[1:])
        inner = TaskDrivenClassifier() if self.classifier is None else clone(self.classifier)
        if inner.warm_start and hasattr(self, "classifier_"):
            inner = self.classifier_.set_params(**inner.get_params(deep=False))
            directions = self.directions_  # the atoms are made of them
        else:
            directions = self._find_directions(images)
        stream = ImageStream(
            images, y, shifts=self.shifts, bend=self.bend, directions=directions, random_state=self.random_state
        )
        attributes = self.__dict__
        earlier = {name: attributes[name] for name in LEARNED if name in attributes}
        found = (inner, images.shape[1:], stream.background, stream.directions)
        attributes.update(zip(LEARNED, found, strict=True))  # callbacks may use the model while it learns
        try:
            inner.fit(stream)
        except BaseException:
            if "_training" not in vars(inner):  # nothing was learned; otherwise what was is kept
                for name in LEARNED:
                    del attributes[name]
                attributes.update(earlier)
            raise
        return self

    def _find_directions(self, images: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return the principal directions of some of the pictures in all their places, the same in every call."""
        if self.n_directions is None:
            return None
        r, n_pixels = check_count("n_directions", self.n_directions), images.shape[1] * images.shape[2]
        if r > n_pixels:
            raise ValueError(f"n_directions must be at most the number of pixels, {n_pixels}, got {r}.")
        places = check_shifts(self.shifts)
        check_reach("shifts", places, images.shape[1:])
        rows = np.unique(np.linspace(0, len(images) - 1, max(1, SAMPLE // len(places))).astype(np.intp))
        some, background = as_floats(images[rows]), float(images.min())
        signals = [as_signals(moved(some, np.tile(place, (len(some), 1)), background)) for place in places]
        with one_blas_thread():
            return principal_directions(np.concatenate(signals), r)

    def _check_parameters(self) -> None:
        if self.classifier is not None and not isinstance(self.classifier, TaskDrivenClassifier):
            raise TypeError(f"classifier must be a TaskDrivenClassifier or None, got {self.classifier!r}.")
        check_penalty("bend", self.bend)
        if self.n_directions is not None:
            check_count("n_directions", self.n_directions)
        for name in ("shifts", "pool"):
            check_shifts(getattr(self, name), name)

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels."""
        check_is_fitted(self)
        return self.classifier_.classes_

    @property
    def atoms_(self) -> NDArray[Any]:
        """The atoms as pictures."""
        check_is_fitted(self)
        atoms = self.classifier_.components_
        pixels: NDArray[Any] = atoms if self.directions_ is None else atoms @ self.directions_
        return pixels.reshape(-1, *self.shape_)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "classifier_")

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return how strongly each class is preferred, on average over the places of `pool`.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Pictures like those learned from.

        Returns
        -------
        array of shape (n_images, n_classes), or (n_images,) for two classes, then positive for the second
        """
        images = self._check_images(X)
        places = check_shifts(self.pool, "pool")
        parts = []
        for start in range(0, len(images), AT_ONCE):
            pictures = as_floats(images[start : start + AT_ONCE])
            total: Any = 0.0
            for place in places:
                offsets = np.tile(place, (len(pictures), 1))
                signals = as_signals(moved(pictures, offsets, self.background_), self.directions_)
                total = total + self.classifier_.decision_function(signals)
            parts.append(total / np.float32(len(places)))
        return np.concatenate(parts)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Pictures like those learned from.

        Returns
        -------
        array of shape (n_images,)
        """
        decision = self.decision_function(X)
        best = (decision > 0).astype(np.intp) if decision.ndim == 1 else decision.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def transform(self, X: Any) -> sp.csr_array:
        """Return the codes of pictures as they are, on the dictionaries of all classes.

        Parameters
        ----------
        X : array of shape (n_images, height, width) or (n_images, height * width)
            Pictures like those learned from.

        Returns
        -------
        scipy.sparse.csr_array of shape (n_images, all atoms)
        """
        images = self._check_images(X)
        starts = range(0, len(images), AT_ONCE)
        parts = [
            self.classifier_.transform(as_signals(images[start : start + AT_ONCE], self.directions_))
            for start in starts
        ]
        return sp.csr_array(sp.vstack(parts, format="csr"))

    def _check_images(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        refuse_masked("X", X)
        X = np.asanyarray(X)
        if X.ndim == 2 and X.shape[1] == self.shape_[0] * self.shape_[1]:
            X = X.reshape(-1, *self.shape_)
        images = check_images(X, "X")
        if images.shape[1:] != self.shape_:
            raise ValueError(f"X has pictures of shape {images.shape[1:]}, but the model learned from {self.shape_}.")
        return images

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, for :func:`taskdict.load`.

        Parameters
        ----------
        path : str or path
            Name of the file.
        """
        check_is_fitted(self)
        arrays, document = self.classifier_._to_file()
        self._check_parameters()
        mine = written(self, but=["classifier"])
        if self.directions_ is not None:
            arrays = {**arrays, DIRECTIONS: self.directions_}
        outer = {"parameters": mine, "shape": list(self.shape_), "background": self.background_}
        storage.write(path, type(self).__name__, arrays, {"classifier": document, **outer})

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Make the model that `save` has written; raises ValueError, TypeError or KeyError for anything else."""
        directions = arrays.get(DIRECTIONS)
        arrays = {name: array for name, array in arrays.items() if name != DIRECTIONS}
        inner = TaskDrivenClassifier._from_file(arrays, document["classifier"])
        model = read(cls, document["parameters"], clone(inner))
        height, width = (check_count("shape", side) for side in document["shape"])
        check_reach("pool", check_shifts(model.pool, "pool"), (height, width))
        model.directions_ = check_directions(directions, (height, width))
        if inner.n_features_in_ != (height * width if directions is None else len(directions)):
            raise ValueError("the shape of its pictures does not fit its dictionary")
        model.classifier_, model.shape_ = inner, (height, width)
        model.background_ = check_number("background", document["background"])
        if not np.isfinite(model.background_):
            raise ValueError("its background is not finite")
        return model

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that pictures have two dimensions each."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
