"""Class codings: how classes become targets of binary models, and how scores become decisions and probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._learning.committee import Select
from taskdict.losses import NAMED, CodeLoss, LogisticLoss, Loss, SoftmaxLoss, SquaredLoss, is_log_likelihood


class ClassCoding(ABC):
    """How classes become the targets of one or more models; classes are numbered from 0."""

    n_outputs = 1  # of each model

    def __init__(self, n_classes: int, loss: Loss | CodeLoss) -> None:
        self.n_classes = n_classes
        self.loss = loss

    @property
    @abstractmethod
    def selects(self) -> list[Select]:
        """For each model, a function of class numbers that returns its rows (None is all) and their targets."""

    @abstractmethod
    def decision(self, scores: Floats) -> Floats:
        """Return one number per class, or one for two classes, from scores of shape (n_samples, all outputs)."""

    def predict(self, scores: Floats) -> NDArray[np.intp]:
        """Return the number of the class of each sample."""
        decision = self.decision(scores)
        return (decision > 0).astype(np.intp) if decision.ndim == 1 else decision.argmax(axis=1)

    def probabilities(self, scores: Floats) -> Floats:
        """Return probabilities of the classes, of shape (n_samples, n_classes)."""
        return _normalised(_sigmoid(self.decision(scores)))

    def log_probabilities(self, scores: Floats) -> Floats:
        """Return the logarithms of the probabilities, −∞ for those that are zero."""
        return _logarithms(self.probabilities(scores), np.full((len(scores), self.n_classes), -np.inf, scores.dtype))

    @property
    def has_probabilities(self) -> bool:
        """Whether scores give probabilities of the classes."""
        return is_log_likelihood(self.loss)

    @property
    def batch_factor(self) -> float:
        """How many samples a batch needs for each that a model sees."""
        return 1.0


class Binary(ClassCoding):
    """One model: the second class against the first."""

    @property
    def selects(self) -> list[Select]:
        """The second class is +1."""
        return [lambda y: (None, _signs(y == 1))]

    def decision(self, scores: Floats) -> Floats:
        """Return the scores."""
        return scores[:, 0]

    def probabilities(self, scores: Floats) -> Floats:
        """Return the logistic function of the scores."""
        return np.stack([_sigmoid(-scores[:, 0]), _sigmoid(scores[:, 0])], axis=1)

    def log_probabilities(self, scores: Floats) -> Floats:
        """Return −log(1 + exp(±s)), which is finite for all scores."""
        exact = -np.stack([np.logaddexp(0, scores[:, 0]), np.logaddexp(0, -scores[:, 0])], axis=1)
        return _logarithms(self.probabilities(scores), exact)


class OneVsRest(ClassCoding):
    """A model per class."""

    @property
    def selects(self) -> list[Select]:
        """The class of the model is +1."""

        def select(k: int) -> Select:
            return lambda y: (None, _signs(y == k))

        return [select(k) for k in range(self.n_classes)]

    def decision(self, scores: Floats) -> Floats:
        """Return the scores."""
        return scores


class OneVsOne(ClassCoding):
    """A model per pair of classes, which learns from these two only."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs (first, second), first < second."""
        return list(combinations(range(self.n_classes), 2))

    @property
    def selects(self) -> list[Select]:
        """The first class of a pair is +1."""

        def select(first: int, second: int) -> Select:
            def rows_of(y: Any) -> tuple[NDArray[np.intp], Any]:
                rows = np.flatnonzero((y == first) | (y == second))
                return rows, _signs(y[rows] == first)

            return rows_of

        return [select(*pair) for pair in self.pairs]

    def decision(self, scores: Floats) -> Floats:
        """Return the votes for each class, plus something below one half for the sum of the scores, to break ties."""
        votes = np.zeros((len(scores), self.n_classes))
        sums = np.zeros_like(votes)
        for score, (first, second) in zip(scores.T, self.pairs, strict=True):
            votes[:, first] += score > 0
            votes[:, second] += score <= 0
            sums[:, first] += score
            sums[:, second] -= score
        decision: Floats = votes + sums / (3 * (np.abs(sums) + 1))
        return decision

    def probabilities(self, scores: Floats) -> Floats:
        """Return the average over the pairs with a class of its probability there, normalised."""
        shares = np.zeros((len(scores), self.n_classes))
        for share, (first, second) in zip(_sigmoid(scores).T, self.pairs, strict=True):
            shares[:, first] += share
            shares[:, second] += 1 - share
        return _normalised(shares)

    @property
    def batch_factor(self) -> float:
        """Two of all classes are of use to a model."""
        return self.n_classes / 2


class Softmax(ClassCoding):
    """One model with a score per class; the loss is that of multinomial logistic regression."""

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes, SoftmaxLoss())
        self.n_outputs = n_classes

    @property
    def selects(self) -> list[Select]:
        """The number of the class is the target."""
        return [lambda y: (None, y)]

    def decision(self, scores: Floats) -> Floats:
        """Return the scores; for two classes, the difference."""
        return scores[:, 1] - scores[:, 0] if self.n_classes == 2 else scores

    def probabilities(self, scores: Floats) -> Floats:
        """Return the softmax."""
        return _normalised(np.exp(scores - scores.max(axis=1, keepdims=True)))

    def log_probabilities(self, scores: Floats) -> Floats:
        """Return the logarithm of the softmax, which is finite for all scores."""
        shifted = scores - scores.max(axis=1, keepdims=True)
        exact = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return _logarithms(self.probabilities(scores), exact)


class OneHot(ClassCoding):
    """One model: regression on the indicator vectors of the classes."""

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes, SquaredLoss())
        self.n_outputs = n_classes

    @property
    def selects(self) -> list[Select]:
        """The indicator vector is the target."""
        return [lambda y: (None, (y[:, None] == np.arange(self.n_classes)).astype(np.float32))]

    def decision(self, scores: Floats) -> Floats:
        """Return the scores; for two classes, the difference."""
        return scores[:, 1] - scores[:, 0] if self.n_classes == 2 else scores


def class_coding(multi_class: str, loss: str | Loss | CodeLoss, n_classes: int) -> ClassCoding:
    """Return the coding that the parameters of a classifier name."""
    if multi_class == "softmax":
        return Softmax(n_classes)
    if multi_class == "onehot":
        return OneHot(n_classes)
    function = NAMED[loss] if isinstance(loss, str) else loss
    if n_classes == 2:
        return Binary(2, function)
    if multi_class == "auto" and isinstance(function, LogisticLoss):
        return Softmax(n_classes)  # whose loss is the same for two classes
    return (OneVsOne if multi_class == "ovo" else OneVsRest)(n_classes, function)


def _signs(positive: Any) -> Floats:
    return np.where(positive, np.float32(1), np.float32(-1))[:, None]


def _sigmoid(scores: Floats) -> Floats:
    small = np.exp(-np.abs(scores))
    probabilities: Floats = np.where(scores > 0, 1, small) / (1 + small)
    return probabilities


def _logarithms(probabilities: Floats, exact: Floats) -> Floats:
    """Return the logarithms of probabilities, or exact values where probabilities underflow."""
    tiny = np.finfo(probabilities.dtype).tiny
    logarithms: Floats = np.where(probabilities < tiny, exact, np.log(np.maximum(probabilities, tiny)))
    return logarithms


def _normalised(shares: Floats) -> Floats:
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0, shares / np.where(total > 0, total, 1), 1 / shares.shape[1])
