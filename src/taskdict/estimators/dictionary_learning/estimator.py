"""Unsupervised dictionary learning, as an estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict._coding.encode import PreparedDictionary, mean_objective
from taskdict._coding.rules import RULES
from taskdict._coding.variation import Variation
from taskdict._common.deprecation import DEPRECATED
from taskdict._common.exclusive import exclusive
from taskdict._common.progress import Callback
from taskdict._common.threads import resolve_threads
from taskdict._common.validation import check_flag, check_penalty
from taskdict._files import storage
from taskdict._files.persistent import PersistentEstimator, parameters_from_file
from taskdict._files.registry import register
from taskdict._learning.online import OnlineLearner, OnlineState, OnlineStep
from taskdict._learning.statistics import WindowStatistics
from taskdict.estimators.codes import CodesMixin, check_used, decoded, model_file
from taskdict.estimators.dictionary_learning.fitting import (
    AVERAGED_BATCHES,
    DictionarySettings,
    fit_dictionary,
    partial_fit_dictionary,
    refuse_sparse_nan,
)
from taskdict.estimators.features import Features


@register
class DictionaryLearning(CodesMixin, PersistentEstimator):
    """Learn a dictionary on which signals have sparse codes, online.

    Minimises, over dictionaries whose atoms have norm at most one, the average over the signals x of

        min over α of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖²,

    by the online method of Mairal, Bach, Ponce and Sapiro (2010) with exact codes. Atoms start as signals. Those that
    are no longer used, and duplicates, are replaced by badly coded signals. The same seed gives the same dictionary,
    bit for bit, for any number of threads.

    One of the rules `n_nonzero`, `max_error` and `max_l1` may choose the weight of the ℓ1 norm of each signal instead
    of `lambda1`, in `fit` and in `transform`. What is lowered, shown as the objective, compared with `tol` and returned
    by `score` (with the opposite sign) is then the average of ½‖x − Dα‖² + lambda2/2 ‖α‖² for `n_nonzero` and `max_l1`,
    and of ‖α‖₁ for `max_error`, where the error is given.

    With ``missing="ignore"`` values may be missing. The error is then ½‖o ∘ (x − Dα)‖², with o = 1 for what was
    observed and 0 elsewhere: codes and atoms follow from the observed values only, and Dα fills in the others.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of atoms. None is as many as features, at most 256 and at most as many as signals.
    lambda1 : float or None, default=None
        Weight of the ℓ1 norm: larger means sparser codes. It goes with the size of the signals; for signals of norm
        one, 0.05 to 0.3 is usual. None is 0.15 times the root mean square norm of the first batch. Not used if one of
        the next three is given.
    n_nonzero : int or None, default=None
        Largest number of nonzeros of a code, see :func:`taskdict.sparse_encode`. A rule other than None replaces
        `lambda1`, whatever that is; two at once are an error. Set it to None again to return to `lambda1`.
    max_error : float or None, default=None
        Largest squared error ‖x − Dα‖² of a code, a rule as well. Where it cannot be met, the code is that
        without an ℓ1 penalty.
    max_l1 : float or None, default=None
        Largest ℓ1 norm ‖α‖₁ of a code, a rule as well.
    lambda2 : float, default=0.0
        Weight of the squared ℓ2 norm.
    positive_code : bool, default=False
        Whether to require non-negative codes.
    positive_dictionary : bool, default=False
        Whether to require non-negative atoms.
    batch_size : int, default=1024
        Signals per batch.
    max_iter : int or None, default=1000
        Largest number of batches (not of passes over the signals). None is no limit: `fit` ends by `tol`, or when a
        stream ends, which is an error otherwise.
    tol : float, default=1e-3
        `fit` ends when the last doubling of the number of batches has surely lowered the objective by less than this
        fraction: when the average over the last half of the batches is below that over the quarter before by less,
        even with twice the error of the difference added. With 0 it continues until `max_iter`.
    dictionary_init : array of shape (n_components, n_features) or None, default=None
        Atoms to start from; those of norm above one are shortened. None starts from signals.
    random_state : int, RandomState or None, default=None
        Seed of the order in which the signals of an array are read. A stream has its own.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`.
    callbacks : callable, list of callables or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, for example to save its `model` now and
        then. `fit` ends if one returns True. An exception in one ends `fit` too and leaves the model as it is.
    warm_start : bool, default=False
        With True, `fit` resumes where the last `fit` or `partial_fit` ended or was interrupted, until there have been
        `max_iter` batches in all. Signals of an array of as many rows, or of a stream with the same seed, are read on
        from the same place; any other stream is read from where it is. Files do not hold this parameter: set it after
        :func:`taskdict.load`.
    sparse_output : bool, default=True
        Whether `transform` returns sparse codes; dense ones are needed for ``set_output(transform="pandas")``.
    missing : {"error", "ignore"}, default="error"
        With "ignore", NaN in dense signals, of arrays and streams, stands for a value that was not observed. What fills
        it in is ``inverse_transform(transform(X))``. A signal of which nothing was observed has the code zero.
    callback : callable
        The earlier name of `callbacks`, until taskdict 0.4.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The atoms, in the dtype of the first signals. An atom is zero as long as `partial_fit` has not seen enough
        different signals.
    lambda1_ : float or None
        The weight of the ℓ1 norm that was used, None with another rule.
    objective_ : float
        Objective per signal, averaged over the last 20 batches, each on the dictionary that was learned before it.
    n_iter_ : int
        Number of batches.
    stream_state_ : dict or None
        Where `fit` was in its stream of signals after the last batch; what `restore` of such a stream takes.
    history_ : dict of lists
        For each batch: the "objective" per signal and the "nonzeros" per signal, on the dictionary before the batch,
        and how many atoms were "replaced".
    n_features_in_ : int
        Number of features per signal.
    feature_names_in_ : array of str
        Names of the features, if X in `fit` had names.

    Examples
    --------
    >>> import taskdict as td
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> X = X / (X**2).sum(axis=1, keepdims=True) ** 0.5
    >>> model = td.DictionaryLearning(50, lambda1=0.1, random_state=0).fit(X)
    >>> model.components_.shape
    (50, 64)
    >>> codes = model.transform(X)
    >>> codes.shape, round(codes.nnz / len(X))
    ((1797, 50), 6)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        lambda1: float | None = None,
        n_nonzero: int | None = None,
        max_error: float | None = None,
        max_l1: float | None = None,
        lambda2: float = 0.0,
        positive_code: bool = False,
        positive_dictionary: bool = False,
        batch_size: int = 1024,
        max_iter: int | None = 1000,
        tol: float = 1e-3,
        dictionary_init: ArrayLike | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Callback | list[Callback] | None = None,
        warm_start: bool = False,
        sparse_output: bool = True,
        missing: str = "error",
        callback: Callback | list[Callback] | str | None = DEPRECATED,
    ) -> None:
        self.n_components = n_components
        self.lambda1 = lambda1
        self.n_nonzero = n_nonzero
        self.max_error = max_error
        self.max_l1 = max_l1
        self.lambda2 = lambda2
        self.positive_code = positive_code
        self.positive_dictionary = positive_dictionary
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.dictionary_init = dictionary_init
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.sparse_output = sparse_output
        self.missing = missing
        self.callback = callback

    @exclusive
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the dictionary.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features), or Stream
            Signals, or where they come from, see :func:`taskdict.stream`. A stream is read from where it is.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : DictionaryLearning

        Raises
        ------
        taskdict.streams.StreamEndedError
            If a stream ends before `max_iter` batches; the dictionary learned so far is kept.
        """
        fit_dictionary(self, DictionarySettings.parse(self.get_params(deep=False)), X)
        return self

    @exclusive
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one batch of signals.

        Signals weigh the same whatever the sizes of the batches.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals; all of them are one batch.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : DictionaryLearning
        """
        partial_fit_dictionary(self, DictionarySettings.parse(self.get_params(deep=False)), X)
        return self

    def inverse_transform(self, codes: Any) -> NDArray[Any]:
        """Return the signals Dα of codes.

        Parameters
        ----------
        codes : array or sparse array of shape (n_samples, n_components)
            Codes, as `transform` returns them.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        return decoded(codes, self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the objective per signal, so that greater is better.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.
        y : ignored
            Present for pipelines.

        Returns
        -------
        float
        """
        X, problem = check_used(self, X), self._online().problem
        codes, rule = self._codes(X), problem.coding_rule
        variation = Variation.parse(X, None, "ignore" if problem.missing else "error", None)
        observed = None if variation is None else variation.observed
        if rule.name == "max_error":
            return -float(np.abs(codes.data).sum(dtype=np.float64)) / float(X.shape[0])
        lambda1 = rule.amount if rule.name == "lambda1" else 0.0
        return -mean_objective(X, self.components_, codes, lambda1=lambda1, lambda2=problem.lambda2, observed=observed)

    def _codes(self, X: Any) -> sp.csr_array:
        problem = self._online().problem
        coding: dict[str, Any] = {"lambda2": problem.lambda2, "positive": problem.positive_code}
        prepared = PreparedDictionary(self.components_, rule=problem.coding_rule, **coding)
        if not problem.missing:
            return prepared.codes(X, self.n_threads)
        refuse_sparse_nan(X, "ignore")
        variation = Variation.parse(X, None, "ignore", None)
        if variation is not None and variation.observed is not None and variation.observed.all():
            variation = None
        return prepared.codes(X, self.n_threads, variation)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: NaN is welcome if it stands for missing values."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "ignore"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a dictionary, also after a training that was interrupted."""
        return "_learner" in vars(self)

    def _online(self) -> OnlineLearner:
        check_is_fitted(self)
        learner: OnlineLearner = self._learner
        return learner

    @property
    def components_(self) -> NDArray[Any]:
        """The atoms."""
        return self._online().state.dictionary

    @property
    def lambda1_(self) -> float | None:
        """The weight of the ℓ1 norm that was used, None with another rule."""
        problem = self._online().problem
        return problem.lambda1 if problem.rule is None else None

    @property
    def n_iter_(self) -> int:
        """Number of batches."""
        return self._online().state.n_batches

    @property
    def objective_(self) -> float:
        """Objective per signal, averaged over the last batches."""
        return float(np.mean([step.objective for step in self._online().counted[-AVERAGED_BATCHES:]]))

    @property
    def history_(self) -> dict[str, list[float]]:
        """Averages over the signals of each batch."""
        steps = self._online().counted
        return {
            "objective": [step.objective for step in steps],
            "nonzeros": [step.nonzeros for step in steps],
            "replaced": [step.n_replaced for step in steps],
        }

    @property
    def stream_state_(self) -> dict[str, Any] | None:
        """Where `fit` was in its stream."""
        position: dict[str, Any] | None = self._online().state.position
        return position

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> str:
        n_atoms, width = self.components_.shape
        rule = self._online().problem.coding_rule
        return (
            f"{n_atoms} atoms of {width} features, {rule.name} {rule.amount:.3g}, {self.n_iter_} batches, objective "
            f"{self.objective_:.4g}"
        )

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        arrays, numbers = self._online().state.to_file()
        history = {f"history {name}": np.array(values, np.float64) for name, values in self.history_.items()}
        problem = self._online().problem
        as_fitted: dict[str, Any] = {
            "lambda2": problem.lambda2,
            "positive_code": problem.positive_code,
            "positive_dictionary": problem.constraint.positive,
            "missing": "ignore" if problem.missing else "error",
        }
        if self.n_components is not None:
            as_fitted["n_components"] = len(self.components_)
        as_fitted |= {name: problem.coding_rule.parameter(name) for name in RULES[1:]}
        if self.lambda1 is not None:
            as_fitted["lambda1"] = problem.lambda1
        return model_file(self, {**arrays, **history}, {**numbers, "lambda1": problem.lambda1}, as_fitted)

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        parameters, arrays = parameters_from_file(arrays, document["parameters"])
        model, learned = cls(**parameters), document["learned"]
        settings = DictionarySettings.parse(model.get_params(deep=False))
        check_flag("sparse_output", model.sparse_output)
        state = OnlineState.from_file(arrays, learned)
        columns = [arrays[f"history {name}"] for name in ("objective", "nonzeros", "replaced")]
        n_atoms = len(state.dictionary) if settings.n_components is None else settings.n_components
        if len(state.dictionary) != n_atoms or any(column.shape != (state.n_batches,) for column in columns):
            raise ValueError("its arrays do not fit each other")
        lambda1 = check_penalty("lambda1", learned["lambda1"]) if settings.lambda1 is None else settings.lambda1
        masked = isinstance(state.statistics, WindowStatistics) and state.statistics.observed is not None
        if masked != (settings.missing == "ignore"):
            raise ValueError("its statistics do not fit the parameter missing")
        learner = OnlineLearner(settings.problem(lambda1), state, resolve_threads(model.n_threads))
        learner.steps = [OnlineStep(float(o), float(k), int(r)) for o, k, r in zip(*columns, strict=True)]
        model._learner = learner
        Features.from_document(document, state.dictionary.shape[1]).publish(model)
        return model
