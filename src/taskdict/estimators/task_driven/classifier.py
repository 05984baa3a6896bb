"""Classification through sparse codes, as an estimator."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from taskdict._common.exclusive import exclusive
from taskdict._files.persistent import PersistentEstimator
from taskdict._files.registry import register
from taskdict.constraints import ConstraintSet
from taskdict.estimators.task_driven.attributes import TaskAttributesMixin
from taskdict.estimators.task_driven.class_coding import class_coding
from taskdict.estimators.task_driven.fitting import Data, fit_task, partial_fit_task
from taskdict.estimators.task_driven.labels import different_labels
from taskdict.estimators.task_driven.targets import ClassTargets
from taskdict.losses import NAMED


def _has_probabilities(model: Any) -> bool:
    """Return whether the parameters of a classifier give probabilities, whatever the classes will be."""
    loss = NAMED.get(model.loss) if isinstance(model.loss, str) else model.loss
    if loss is not None and class_coding(model.multi_class, loss, 3).has_probabilities:
        return True
    raise AttributeError(
        f"predict_proba needs the logistic loss or multi_class='softmax', got loss={model.loss!r} and "
        f"multi_class={model.multi_class!r}: sklearn.calibration.CalibratedClassifierCV adds it to any classifier."
    )


@register
class TaskDrivenClassifier(ClassifierMixin, TaskAttributesMixin, PersistentEstimator):
    """Classification on sparse codes of the signals, with the dictionary tuned to it.

    A signal x has the code α, the minimiser of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖²; its score is Wα + b.
    The dictionary D, with atoms of norm at most one, the weights W and b, and the optional transform Z of the
    signals are learned together: they minimise (1 − μ) times the average loss, plus the penalties, by projected
    stochastic gradient through the exact codes (Algorithm 1 of the paper).

    With the defaults, penalties, model and length of the training are chosen by the data, and `held_out_scores_` says
    what the training has gained.

    With `mu` above 0, signals of label −1 are unlabelled, and the dictionary learns from them too.

    Parameters
    ----------
    n_components : int, sequence of int, or None, default=None
        Number of atoms. A sequence makes several dictionaries: each encodes the signal by itself, and the model gets
        their codes side by side. None is one for 15 signals, at least 100 and at most 256, but not more than half as
        many as signals, nor four times as many as features; where some signals have no label, it is that number or the
        one for the labelled signals.
    lambda1 : float or None, default=None
        Weight of the ℓ1 norm of the codes. It goes with the size of the signals; for signals of norm one, 0.05 to 0.25
        is usual. None chooses 0.1 or 0.05 times the root mean square distance of the signals from their mean.
    lambda2 : float, default=0.05
        Weight of the squared ℓ2 norm of the codes. It makes them smoother functions of the signal.
    nu : float or None, default=None
        Weight of the squared norm of W. If None, it is chosen where `lambda1` or `decision` is, and is otherwise
        0.1 (1 − μ)/n_samples for signals of norm one; for others it goes with the scores, so that the scale of the
        signals does not matter.
    loss : {"logistic", "squared"} or a loss, default="logistic"
        Loss of a binary model with targets y = ±1 and scores s: log(1 + exp(−y s)), ½(y − s)², or an object as in
        :mod:`taskdict.losses`.
    multi_class : {"auto", "ovr", "ovo", "softmax", "onehot"}, default="auto"
        With more than two classes: "ovr" learns a model with its own dictionary for each class against the rest, "ovo"
        one for each pair of classes. "softmax" learns one model by multinomial logistic regression, "onehot" one by
        least squares on the indicator vectors; these two have their own loss. "auto" is "softmax" for the logistic
        loss, else "ovr".
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" makes them inversely proportional to how frequent they are.
    decision : {"auto", "linear", "split", "joint", "bilinear"}, default="auto"
        The scores of a signal x with code α. "linear" is Wα + b. The code of −x is −α, so such a model cannot say that
        x and −x are alike; for signals of either sign, "split" is W(α⁺, α⁻) + b on the positive and negative parts of
        the codes, at about the same cost. "joint" is W(α⁺, α⁻, x) + b, which contains the linear model on the signals.
        "bilinear" is xᵀWα + b, where W has an entry for each pair of atom and feature; it gives x and −x the same
        score unless `positive_code`. "auto" chooses "split" or "joint".
    mu : float or sequence of float, default=0.0
        Weight μ of the unsupervised objective; the loss of the task has the weight 1 − μ. A sequence such as
        ``(1.0, 0.9, 0.8)`` is a continuation: `max_iter` batches for each value, from the result of the one before. The
        weights with the lowest loss on a validation part are kept.
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
        A convex set that W is projected on, see :mod:`taskdict.constraints`.
    transform_set : object with a method ``project`` or None, default=None
        A convex set that Z is projected on.
    fit_intercept : bool, default=True
        Whether to learn an intercept b, which is not penalised.
    batch_size : int, default=200
        Samples per batch.
    max_iter : int or None, default=None
        Number T of batches. None is twelve passes over the samples, at least 60 batches and at most 1000.
    learning_rate : "auto", float, "adaptive" or ("adaptive", float), default="adaptive"
        The ρ in the step ρ min(1, T/(10 t)) at time t, for signals and targets of size one. "auto" is the paper's
        search: it tries several on a sample and compares them on held-out samples. "adaptive" needs no search: it is
        RMSprop with one second moment per atom, clipped and decayed like a cosine. A number with it is its first pace.
    average : bool, default=True
        Whether the result is the Polyak–Ruppert average of the weights over the last tenth of the batches, if it has a
        lower objective on a sample than the last weights. False always gives the last ones.
    dictionary_init : "classes", array of shape (n_components, n_features) or None, default=None
        Atoms to start from. None learns them without labels, once for all models. "classes" learns them for each model,
        as many from the signals of each of its targets; for "ovr" half of them from the class and half from the rest.
    early_stopping : bool or "auto", default="auto"
        Whether to check the loss on a validation part 50 times, keep the best weights, and stop when there is no gain
        for `n_iter_no_change` checks. "auto" does so from 5,000 samples on, if `max_iter` is None. With fewer samples
        it makes a trial first: the same training on four fifths of the samples, compared with two baselines on the
        others. (Below 500 samples each fifth is held out in turn; below 10 there is no trial.) What was best is then
        learned from all samples, see `kept_`.
    validation_fraction : float, default=0.1
        Size of the validation part, if there is one; with "auto" it has at most 2,000 samples, and 0 leaves out the
        trial too. With several values of `mu`, 0 gives the model of the last value.
    n_iter_no_change : int, default=10
        See `early_stopping`.
    checkpoint : path or None, default=None
        A file that the training is written to every 20 seconds. After a stop, even by SIGKILL, the same call resumes it
        and ends with the same bits; when the training is complete, it returns at once with a warning. The file is tied
        to the data by a digest; of an iterator, only the first signals are known. If the file cannot be written, a
        warning is given and the training continues.
    random_state : int, RandomState or None, default=None
        Seed of all random choices.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use. It does not change the result.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`, and one at its end `held_out_scores_`.
    callbacks : callable, list of callables or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, which ends if one returns True.
    warm_start : bool, default=False
        With True, `fit` resumes where the last `fit` or `partial_fit` ended or was interrupted, until there have been
        `max_iter` batches in all. Files do not hold this parameter: set it after :func:`taskdict.load`.
    sparse_output : bool, default=True
        Whether `transform` returns sparse codes; dense ones are needed for ``set_output(transform="pandas")``.

    Attributes
    ----------
    components_ : array of shape (n_atoms, n_features)
        The atoms; n_features is n_measurements if Z is learned. Those of several dictionaries or models follow each
        other, as their codes do in `transform`. Atoms of a view are zero on other features.
    coef_ : array of shape (n_outputs, n_components), or a larger one
        W; with one model per class or per pair, a row for each, which meets the codes on its own dictionary.
        If split, there are 2 * n_components columns: those of α⁺, then those of α⁻. If joint, those of the features
        follow. If bilinear, the shape is (n_outputs, n_components, n_features).
    intercept_ : array of shape (n_outputs,)
        b.
    transform_ : array of shape (n_measurements, n_features) or None
        Z; with several models, one for each.
    lambda1_, nu_ : float
        The penalties that were used.
    decision_ : str
        The model that was used.
    held_out_scores_ : dict or None
        Accuracy on held-out samples, after a fit that had some: "task_driven" is the model that is learned for the
        task, "linear" a linear model on the signals, "unsupervised" the model on the codes of the dictionary that was
        learned without targets, where the training starts. The samples are those of the validation part, or of the
        trial (see `early_stopping`), in which each model learned from four fifths of the samples.
    kept_ : {"task_driven", "linear", "unsupervised"}
        Which of the three is the result. A baseline is kept where its held-out loss is lower and its score no lower; of
        few samples, the linear model unless another is clearly better. As "linear", the model is a joint one with
        weights of zero on the codes; it is not kept if `nu` is given. There is a :class:`taskdict.BaselineWarning` if a
        baseline was kept, or is better by more than a standard error.
    learning_rate_ : float or array
        The ρ that was used.
    n_iter_ : int
        Number of batches.
    history_ : dict of lists
        For each batch, the "objective" before it; for each check, the "validation" loss and its "validation_iter".
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
    _TARGETS = ClassTargets

    def __init__(
        self,
        n_components: Any = None,
        *,
        lambda1: float | None = None,
        lambda2: float = 0.05,
        nu: float | None = None,
        loss: Any = "logistic",
        multi_class: str = "auto",
        class_weight: Any = None,
        decision: str = "auto",
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
        max_iter: int | None = None,
        learning_rate: Any = "adaptive",
        average: bool = True,
        dictionary_init: ArrayLike | str | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        warm_start: bool = False,
        sparse_output: bool = True,
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
        self.sparse_output = sparse_output

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
        settings = self._settings()
        fit_task(self, settings, ClassTargets(settings), Data(X, y, sample_weight, classes))
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
        known = vars(self).get("_learned")
        if known is None and classes is None:
            raise ValueError("classes must be passed in the first call of partial_fit: all labels that there will be.")
        again = None if known is None or classes is None else different_labels(classes, "classes")
        if again is not None and not np.array_equal(again, self.classes_):
            raise ValueError(
                f"classes={np.asarray(classes).tolist()} is not the same as in the first call: "
                f"{self.classes_.tolist()}."
            )
        settings = self._settings()
        partial_fit_task(self, settings, ClassTargets(settings), Data(X, y, sample_weight, classes))
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        classes = self._targets().classes
        assert classes is not None
        return classes

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,) for two classes, then positive for the second
            Scores; for "ovo" the number of pairs that a class wins, plus a fraction below one half for the margins.
        """
        return self._targets().coding.decision(self._scores(X))

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
        return self._targets().coding.probabilities(self._scores(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return self._targets().coding.log_probabilities(self._scores(X))

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

    def _targets(self) -> ClassTargets:
        targets = self._task().targets
        assert isinstance(targets, ClassTargets)
        return targets

    def _summary(self) -> str:
        return f"{len(self.classes_)} classes, {super()._summary()}"
