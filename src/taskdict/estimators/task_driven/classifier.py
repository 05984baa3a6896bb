"""Classification through sparse codes, as an estimator."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._exclusive import exclusive
from taskdict.constraints import ConstraintSet
from taskdict.estimators.task_driven.files import Training
from taskdict.estimators.task_driven.labels import (
    class_numbers,
    class_weigher,
    different_labels,
    find_classes,
    one_label_each,
)
from taskdict.estimators.task_driven.learning import TaskLearner
from taskdict.estimators.task_driven.sources import ArraySource, StreamSource, check_weights, warn_unlabelled
from taskdict.estimators.task_driven.targets import ClassCoding, class_coding
from taskdict.losses import CodeLoss, Loss
from taskdict.streams import Stream

LABELS = 2**24  # characters of the labels in a file, if all were as long as the longest: so NumPy stores them


def _has_probabilities(model: Any) -> bool:
    if model.multi_class == "softmax" or (model.loss == "logistic" and model.multi_class in ("ovr", "ovo")):
        return True
    raise AttributeError(
        f"predict_proba needs the logistic loss or multi_class='softmax', got loss={model.loss!r} and "
        f"multi_class={model.multi_class!r}: sklearn.calibration.CalibratedClassifierCV adds it to any classifier."
    )


class TaskDrivenClassifier(ClassifierMixin, TaskLearner):
    """Classification on sparse codes of the signals, with the dictionary tuned to it.

    A signal x has the code α, the minimiser of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖²; its score is Wα + b.
    The dictionary D, with atoms of norm at most one, the parameters W and b, and the optional transform Z of the
    signals are learned together: they minimise (1 − μ) times the average loss, plus the penalties, by projected
    stochastic gradient through the exact codes (Algorithm 1 of the paper).

    Signals of label −1 are unlabelled, unless the labels are −1 and 1. With `mu` above 0 the dictionary learns from
    them too.

    Parameters
    ----------
    n_components : int or sequence of int, default=100
        Number of atoms. A sequence makes several dictionaries: each encodes the signal by itself, and the model sees
        their codes side by side.
    lambda1 : float or None, default=None
        Weight of the ℓ1 norm of the codes. It goes with the size of the signals; for signals of norm one, 0.05 to 0.25
        is usual. None is 0.15 times the root mean square norm of the signals.
    lambda2 : float, default=0.0
        Weight of the squared ℓ2 norm of the codes.
    nu : float or None, default=None
        Weight of the squared norm of W. None is 0.1 (1 − μ)/n_samples for signals of norm one; for others it goes with
        the scores, so that the scale of the signals does not matter.
    loss : {"logistic", "squared"} or a loss, default="logistic"
        Of models that tell two classes (y = ±1) apart: log(1 + exp(−y s)) or ½(y − s)² of the score s, or an object as
        in :mod:`taskdict.losses`.
    multi_class : {"ovr", "ovo", "softmax", "onehot"}, default="ovr"
        With more than two classes: a model, with a dictionary of its own, for each class against the rest ("ovr"), or
        for each pair of classes ("ovo"); or one model with a score per class, by multinomial logistic regression
        ("softmax") or least-squares regression on the indicator vectors ("onehot"); these two have losses of their own.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" makes them inversely proportional to how frequent they are.
    decision : {"linear", "bilinear"}, default="linear"
        How scores come from a code α of a signal x: Wα + b, or xᵀWα + b, which has as many parameters as x and α have
        pairs of entries, and gives x and −x the same score unless `positive_code`.
    mu : float or sequence of float, default=0.0
        Weight μ of the unsupervised objective; the loss of the task has the weight 1 − μ. A sequence such as
        ``(1.0, 0.9, 0.8)`` is followed: `max_iter` batches for each, from where the one before ended; the parameters
        that do best on a validation part are kept.
    n_measurements : int or None, default=None
        With a number r, signals are first mapped to r measurements Zx, and Z is learned too.
    transform_init : {"pca", "random"} or array of shape (n_measurements, n_features), default="pca"
        Where Z starts: the first principal directions, Gaussian numbers, or as given.
    nu2 : float, default=0.0
        Weight of the squared norm of Z.
    views : sequence of slices or of lists of features, or None, default=None
        Groups of features, each with a dictionary of its own.
    positive_code : bool, default=False
        Whether to require non-negative codes.
    positive_dictionary : bool, default=False
        Whether to require non-negative atoms. With both, and signals that are not negative, this is a supervised
        sparse non-negative matrix factorisation.
    coef_set : object with a method ``project`` or None, default=None
        A convex set that W is kept in, see :mod:`taskdict.constraints`; W has a row per output (and an entry per pair
        of atom and feature if the decision is bilinear).
    transform_set : object with a method ``project`` or None, default=None
        A convex set that Z is kept in.
    fit_intercept : bool, default=True
        Whether to learn an intercept b, which is not penalised.
    batch_size : int, default=200
        Samples per batch.
    max_iter : int, default=1000
        Number T of batches.
    learning_rate : "auto", float, "adaptive" or ("adaptive", float), default="auto"
        The ρ in the step ρ min(1, T/(10 t)) at time t, for signals and targets brought to size one. "auto" tries
        several on a sample and takes the one that ends with the lowest objective on held-out samples, as the paper
        does. "adaptive" needs no search: every atom moves at a pace of its own, its gradient divided by the usual size
        of it, and slower and slower towards the end; a number with it is how far an atom moves in the first batches.
    average : bool, default=True
        Whether the result is the average of the parameters over the last tenth of the batches where that has a lower
        objective, on a sample, than the last ones; False gives the last ones, Algorithm 1 to the letter.
    dictionary_init : "classes", array of shape (n_components, n_features) or None, default=None
        Atoms to start from. None learns them first, without labels, for all models together. "classes" learns them for
        each model by itself: as many atoms from each of the classes that it tells apart, which for "ovr" is half of
        them from the class and half from the rest.
    early_stopping : bool, default=False
        Whether to keep a validation part, look at its loss 50 times, keep the best parameters, and stop when there is
        no gain for `n_iter_no_change` looks.
    validation_fraction : float, default=0.1
        Size of the validation part, if there is one. With several values of `mu`, 0 keeps none: the model is then that
        of the last value instead of the best.
    n_iter_no_change : int, default=10
        See `early_stopping`.
    checkpoint : path or None, default=None
        A file that the state of the training is written to every 20 seconds. If the training is stopped, even
        killed, the same call resumes it and ends with the same bits. When it is complete, the same call returns at
        once with a warning. The file is tied to the data by a digest of all of them; of an iterator, only the first
        signals are known. If it cannot be written, a warning says so, the training continues, and the next try is 20
        seconds later; a folder in which no file can be written is an error before any work is done.
    random_state : int, RandomState or None, default=None
        Seed of all random choices.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use. It does not change the result.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`.
    callbacks : callable, list of callables or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, which ends if one returns True.
    warm_start : bool, default=False
        With True, `fit` resumes where the last `fit` or `partial_fit` ended or was interrupted, until there have been
        `max_iter` batches in all. Files do not hold this parameter: set it after :func:`taskdict.load`.

    Attributes
    ----------
    components_ : array of shape (n_atoms, n_features)
        The atoms; n_features is n_measurements if Z is learned. Those of several dictionaries or models follow each
        other, as their codes do in `transform`. Atoms of a view are zero on other features.
    coef_ : array of shape (n_outputs, n_components), or (n_outputs, n_components, n_features) if bilinear
        W; with one model per class or per pair, a row for each, which meets the codes on its own dictionary.
    intercept_ : array of shape (n_outputs,)
        b.
    transform_ : array of shape (n_measurements, n_features) or None
        Z; with several models, one for each.
    lambda1_, nu_ : float
        The penalties that were used.
    learning_rate_ : float or array
        The ρ that was used.
    n_iter_ : int
        Number of batches.
    history_ : dict of lists
        For each batch, the "objective" before it; for each look at the validation part, its "validation" loss and
        "validation_iter", the number of batches before it.
    classes_ : array
        The labels.
    n_features_in_ : int
        Number of features per signal.
    feature_names_in_ : array of str
        Names of the features, if X in `fit` had names.

    Examples
    --------
    >>> import taskdict as td
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = td.TaskDrivenClassifier(30, multi_class="softmax", max_iter=300, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.95
    True
    """

    _LOSSES = ("logistic", "squared")

    def __init__(
        self,
        n_components: Any = 100,
        *,
        lambda1: float | None = None,
        lambda2: float = 0.0,
        nu: float | None = None,
        loss: Any = "logistic",
        multi_class: str = "ovr",
        class_weight: Any = None,
        decision: str = "linear",
        mu: Any = 0.0,
        n_measurements: int | None = None,
        transform_init: Any = "pca",
        nu2: float = 0.0,
        views: Any = None,
        positive_code: bool = False,
        positive_dictionary: bool = False,
        coef_set: ConstraintSet | None = None,
        transform_set: ConstraintSet | None = None,
        fit_intercept: bool = True,
        batch_size: int = 200,
        max_iter: int = 1000,
        learning_rate: Any = "auto",
        average: bool = True,
        dictionary_init: ArrayLike | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.n_components = n_components
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.nu = nu
        self.loss = loss
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.decision = decision
        self.mu = mu
        self.n_measurements = n_measurements
        self.transform_init = transform_init
        self.nu2 = nu2
        self.views = views
        self.positive_code = positive_code
        self.positive_dictionary = positive_dictionary
        self.coef_set = coef_set
        self.transform_set = transform_set
        self.fit_intercept = fit_intercept
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.average = average
        self.dictionary_init = dictionary_init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks
        self.warm_start = warm_start

    @exclusive
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: ArrayLike | None = None) -> Self:
        """Learn dictionaries and models.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features), or Stream
            Signals, or a stream of them with their labels, ``taskdict.stream(source, y)``.
        y : array of shape (n_samples,)
            Labels, −1 for none; None if X is a stream.
        sample_weight : array of shape (n_samples,) or None, default=None
            Weights of the losses; only their ratios matter.
        classes : array or None, default=None
            All labels; needed for a stream of an iterator, whose labels are not known before.

        Returns
        -------
        self : TaskDrivenClassifier

        Raises
        ------
        taskdict.DivergedError
            If the learning rate that was given is too large; the model before that is kept.
        """
        self._given_classes = classes
        try:
            with self._keeps_in_step():
                self._fit(X, y, sample_weight)
        finally:
            del self._given_classes
        return self

    @exclusive
    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: Any = None) -> Self:
        """Take one step on the samples that are given; the first call finds where to start from them.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.
        y : array of shape (n_samples,)
            Labels, −1 for none.
        classes : array or None, default=None
            All labels; needed in the first call.
        sample_weight : array of shape (n_samples,) or None, default=None
            Weights of the losses; only their ratios within this call matter.

        Returns
        -------
        self : TaskDrivenClassifier
        """
        first = "_training" not in vars(self)
        if first and classes is None:
            raise ValueError("classes must be passed in the first call of partial_fit: all labels that there will be.")
        again = None if first or classes is None else different_labels(classes, "classes")
        if again is not None and not np.array_equal(again, self.classes_):
            raise ValueError(
                f"classes={np.asarray(classes).tolist()} is not the same as in the first call: "
                f"{self.classes_.tolist()}."
            )
        self._given_classes = classes if first else self.classes_
        try:
            with self._keeps_in_step():
                self._partial_fit(X, y, sample_weight)
        finally:
            del self._given_classes
        return self

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return how strongly each class is preferred.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes, then positive for the second
            Scores; for "ovo" the number of pairs that a class wins, and something below one half for by how much.
        """
        return self._class_coding().decision(self._scores(X))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return probabilities of the classes.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Of the logistic model; for "ovr" and "ovo" normalised to sum to one.
        """
        return self._class_coding().probabilities(self._scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return labels.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        array of shape (n_samples,)
        """
        decision = self.decision_function(X)
        best = (decision > 0).astype(np.intp) if decision.ndim == 1 else decision.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _class_coding(self) -> ClassCoding:
        check_is_fitted(self, "classes_")
        return class_coding(self.multi_class, self.loss, len(self.classes_))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.loss, str) and self.multi_class in ("softmax", "onehot"):
            raise ValueError(
                f"multi_class={self.multi_class!r} has a loss of its own: a loss object is for 'ovr' and 'ovo'."
            )
        weight = self.class_weight
        if not (weight is None or isinstance(weight, dict) or (isinstance(weight, str) and weight == "balanced")):
            raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {weight!r}.")
        choices = ("ovr", "ovo", "softmax", "onehot")
        if self.multi_class not in choices:
            raise ValueError(f"multi_class must be one of {', '.join(map(repr, choices))}, got {self.multi_class!r}.")

    def _check_dictionary_init(self) -> None:
        if isinstance(self.dictionary_init, str):
            if self.dictionary_init != "classes":
                raise ValueError(f"dictionary_init must be 'classes', an array or None, got {self.dictionary_init!r}.")
            if self.views is not None or len(self._sizes()) > 1:
                raise ValueError("dictionary_init='classes' is for one dictionary per model, not for several or views.")

    def _loss(self) -> Loss | CodeLoss:
        return self._class_coding().loss

    def _selects(self) -> list[Any]:
        return self._class_coding().selects

    def _n_outputs(self) -> int:
        return self._class_coding().n_outputs

    def _batch_factor(self) -> float:
        return self._class_coding().batch_factor

    def _open_pairs(
        self, X: Any, y: Any, sample_weight: Any, validation: float, seed: int, previous: Training | None
    ) -> Any:
        reset = previous is None
        unlabelled = max(self._mus()) > 0
        if isinstance(X, Stream):
            if y is not None or sample_weight is not None:
                raise TypeError(
                    "y and sample_weight must be None for a stream: taskdict.stream(source, y) has the labels."
                )
            if not X.has_targets:
                raise TypeError(
                    "X is a stream of signals only: taskdict.stream(source, y) makes one with labels; y is 'pairs' for "
                    "an iterator that gives pairs (signals, labels)."
                )
            if reset:
                self.classes_ = find_classes(X.targets, self._given_classes)
            source = StreamSource(
                X,
                lambda labels: class_numbers(labels, self.classes_),
                labels=True,
                validation=validation,
                use_unlabelled=unlabelled,
                weigh=class_weigher(self.class_weight, self.classes_),
                position=None if previous is None else previous.state.position,
            )
            if source.n_unlabelled > 0 and not unlabelled:
                warn_unlabelled(source.n_unlabelled)
            return source
        X = self._check_signals(X, reset)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        y = one_label_each(y, X.shape[0], "signals")
        weights = check_weights(sample_weight, X.shape[0])
        if reset:
            self.classes_ = find_classes(y if weights is None else y[weights > 0], self._given_classes)
        numbers = class_numbers(y, self.classes_, weights)
        counted = np.ones(len(y), bool) if weights is None else weights > 0
        count = int(((numbers < 0) & counted).sum())
        if not (numbers[counted] >= 0).any():
            raise ValueError("y must have labels, but all are -1 (unlabelled).")
        if count > 0 and not unlabelled:
            warn_unlabelled(count)
        weigh = class_weigher(self.class_weight, self.classes_)
        if weigh is not None:
            weights = np.where(numbers >= 0, weigh(numbers), 1) * (1 if weights is None else weights)
        return ArraySource(
            X, numbers, weights, labels=True, validation=validation, use_unlabelled=unlabelled, seed=seed
        )

    def _take_targets_of(self, other: Any) -> None:
        self.classes_ = other.classes_

    def _learned(self) -> tuple[storage.Arrays, dict[str, Any]]:
        arrays, document = super()._learned()
        classes = self.classes_
        if classes.dtype.kind not in "iufb":
            if not all(isinstance(label, str) for label in classes):
                raise ValueError("a file can hold labels that are numbers or strings only.")
            return arrays, {**document, "classes": [str(label) for label in classes], "object": classes.dtype == object}
        arrays["classes"] = classes
        return arrays, {**document, "classes": None}

    def _set_learned(self, arrays: storage.Arrays, learned: dict[str, Any]) -> None:
        if learned["classes"] is None:
            self.classes_ = arrays["classes"]
        else:
            labels = [str(label) for label in learned["classes"]]
            if len(labels) * max(map(len, labels), default=0) > LABELS:
                raise ValueError(f"its labels need more than {LABELS} characters in an array, where all are as long")
            self.classes_ = np.array(labels, dtype=object if learned["object"] else None)
        if self.classes_.ndim != 1 or not np.array_equal(np.unique(self.classes_), self.classes_):
            raise ValueError("its classes make no sense")
        n = len(self.classes_)
        n_scores = n * (n - 1) // 2 if self.multi_class == "ovo" else n  # or one, for two classes
        if n_scores > max(2, len(arrays["rhos"]), arrays["b"].shape[1]):  # before anything is made for each of them
            raise ValueError("its arrays do not fit its classes")
        super()._set_learned(arrays, learned)
        if len(arrays["rhos"]) != len(self._selects()) or arrays["b"].shape[1] != self._n_outputs():
            raise ValueError("its arrays do not fit its classes")
