"""Unsupervised dictionary learning, as an estimator."""

from __future__ import annotations

import contextlib
import numbers
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._exclusive import exclusive
from taskdict._native import BadSignalError
from taskdict._threads import resolve_threads
from taskdict._validation import check_count, check_dictionary, check_flag, check_penalty
from taskdict.coding import mean_objective
from taskdict.constraints import UnitBall
from taskdict.estimators._base import DictionaryTransformer
from taskdict.estimators._learner import LearnerMixin, warn_finished
from taskdict.estimators._signals import validated
from taskdict.progress import Callback, Reporter
from taskdict.streams import Stream, StreamEndedError, dense_batch
from taskdict.unsupervised import OnlineLearner, Problem, State, Step, has_converged

CHECK_EVERY = 20  # batches between two looks at whether the objective still falls
AVERAGED = 20  # batches in the average that is shown


class DictionaryLearning(LearnerMixin, DictionaryTransformer):
    """Learn a dictionary on which signals have sparse codes, online.

    Minimises, over dictionaries whose atoms have norm at most one, the average over the signals x of

        min over α of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖²,

    by the online method of Mairal, Bach, Ponce and Sapiro (2010) with exact codes. Atoms start as signals. Those that
    are no longer used, and duplicates, are replaced by badly coded signals. The same seed gives the same dictionary,
    bit for bit, for any number of threads.

    Parameters
    ----------
    n_components : int
        Number of atoms.
    lambda1 : float
        Weight of the ℓ1 norm: larger means sparser codes. It goes with the size of the signals: scale them to norm one
        first, then 0.05 to 0.3 is usual.
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
        even with twice the error of the difference added. With 0 it goes on until `max_iter`.
    dictionary_init : array of shape (n_components, n_features) or None, default=None
        Atoms to start from; those of norm above one are shortened. None starts from signals.
    random_state : int, RandomState or None, default=None
        Seed of the order in which the signals of an array are read. A stream has its own.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`.
    callback : callable or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, for example to save its `model` now and
        then. `fit` ends if it returns True. What it raises ends `fit` too and leaves the model as it is.
    warm_start : bool, default=False
        With True, `fit` resumes where the last `fit` or `partial_fit` ended or was interrupted, until there have been
        `max_iter` batches in all. Signals of an array of as many rows, or of a stream with the same seed, are read on
        from the same place; any other stream is read from where it is. Files do not hold this parameter: set it after
        :func:`taskdict.load`.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The atoms, in the dtype of the first signals. An atom is zero as long as `partial_fit` has not seen enough
        different signals.
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
        n_components: int,
        *,
        lambda1: float,
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
        callback: Callback | None = None,
        warm_start: bool = False,
    ) -> None:
        self.n_components = n_components
        self.lambda1 = lambda1
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
        self.callback = callback
        self.warm_start = warm_start

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
            If a stream ends before `max_iter` batches; what was learned is kept.
        """
        with self._keeps_in_step():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        problem = self._problem()
        batch_size = check_count("batch_size", self.batch_size)
        max_iter = None if self.max_iter is None else check_count("max_iter", self.max_iter)
        tol = check_penalty("tol", self.tol)
        reporter = Reporter(self, max_iter, self.callback, self.verbose)
        learner = self._learner if check_flag("warm_start", self.warm_start) and hasattr(self, "_learner") else None
        stream = self._open(X, reset=learner is None)
        if stream.n_signals is not None:
            batch_size = min(batch_size, stream.n_signals)
        if learner is not None:
            self._take_up(learner, problem)
            unseeded = not isinstance(X, Stream) and not isinstance(self.random_state, numbers.Integral)
            if unseeded or stream.reads_like(learner.state.position):
                with contextlib.suppress(ValueError):  # of signals that were not read from an array of as many rows
                    stream.restore(learner.state.position)
            if self._is_done(max_iter, tol):
                warn_finished(self.n_iter_, self.max_iter, "raise max_iter or lower tol")

        seen = 0
        with reporter:
            while learner is None or not self._is_done(max_iter, tol):
                batch = self._next_batch(stream, batch_size, learner)
                if batch is None:
                    break
                if learner is None:
                    learner = self._start(problem, batch)
                self._learn(learner, batch, stream)
                seen += len(batch)
                if stream.n_signals is not None and seen >= stream.n_signals:
                    self._check_born(learner.state)
                stop = reporter.report(
                    n_iter=self.n_iter_,
                    n_signals=learner.state.n_signals,
                    batch=len(batch),
                    objective=self.objective_,
                    nonzeros=learner.steps[-1].nonzeros,
                    done=self._is_done(max_iter, tol),
                )
                if stop:
                    break
        self._check_born(self._learner.state)

    def _is_done(self, max_iter: int | None, tol: float) -> bool:
        if max_iter is not None and self.n_iter_ >= max_iter:
            return True
        return tol > 0 and self.n_iter_ % CHECK_EVERY == 0 and has_converged(self._objectives(), tol)

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
        with self._keeps_in_step():
            self._partial_fit(X)
        return self

    def _partial_fit(self, X: Any) -> None:
        problem = self._problem()
        first = not hasattr(self, "_learner")
        if isinstance(X, Stream):
            raise TypeError(
                "X must be an array, got a stream: partial_fit(stream.take(n)) learns from its next signals."
            )
        batch = dense_batch(self._check_signals(X, reset=first))
        if first:
            learner = self._start(problem, batch)
        else:
            learner = self._learner
            self._take_up(learner, problem)
        self._learn(learner, batch)

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
        codes = self.transform(X)
        X = validated(self, X, accept_sparse="csr", dtype="numeric", reset=False)
        return -mean_objective(X, self.components_, codes, lambda1=self.lambda1, lambda2=self.lambda2)

    def _coding(self) -> dict[str, Any]:
        return {
            "lambda1": self.lambda1,
            "lambda2": self.lambda2,
            "positive": self.positive_code,
            "n_threads": self.n_threads,
        }

    def _problem(self) -> Problem:
        """Check the parameters that every learning needs."""
        check_count("n_components", self.n_components)
        return Problem(
            check_penalty("lambda1", self.lambda1),
            check_penalty("lambda2", self.lambda2),
            check_flag("positive_code", self.positive_code),
            UnitBall(check_flag("positive_dictionary", self.positive_dictionary)),
        )

    def _next_batch(self, stream: Stream, size: int, learner: OnlineLearner | None) -> NDArray[Any] | None:
        """Return the next batch, None if the stream has ended and may end."""
        done = (learner.state.n_batches, learner.state.n_signals) if learner is not None else (0, 0)
        try:
            batch = stream.take(size)
        except StreamEndedError:
            if learner is None:
                raise StreamEndedError("the stream has no signals (left).") from None
            if self.max_iter is None:
                return None
            raise StreamEndedError(
                f"the stream ended after {done[0]} batches ({done[1]} signals), before max_iter={self.max_iter}. "
                "The model learned so far is kept and can be used. With max_iter=None, fit ends when a stream does; a "
                "function that returns an iterator makes a stream that does not end."
            ) from None
        if learner is not None and batch.shape[1] != learner.state.dictionary.shape[1]:
            raise ValueError(
                f"batch {done[0] + 1} of the stream has {batch.shape[1]} features per signal, but those before had "
                f"{learner.state.dictionary.shape[1]}. The model learned before it is kept."
            )
        return batch

    def _start(self, problem: Problem, batch: NDArray[Any]) -> OnlineLearner:
        """Begin learning signals like those in `batch`."""
        shape = (self.n_components, batch.shape[1])
        if self.dictionary_init is None:
            atoms = np.zeros(shape, batch.dtype)
        else:
            atoms = check_dictionary(self.dictionary_init, batch.dtype, name="dictionary_init")
            if atoms.shape != shape:
                raise ValueError(
                    f"dictionary_init must have shape (n_components, n_features) = {shape}, got {atoms.shape}."
                )
            atoms = problem.constraint.project(atoms)
        return OnlineLearner(problem, State.start(atoms), resolve_threads(self.n_threads))

    def _take_up(self, learner: OnlineLearner, problem: Problem) -> None:
        """Let the learner go on with the parameters as they are now."""
        if self.n_components != len(learner.state.dictionary):
            raise ValueError(
                f"n_components is {self.n_components}, but the model has {len(learner.state.dictionary)} atoms: "
                "the number cannot change while learning goes on."
            )
        learner.problem, learner.n_threads = problem, resolve_threads(self.n_threads)

    def _learn(self, learner: OnlineLearner, batch: NDArray[Any], stream: Stream | None = None) -> None:
        """Take one step; the attributes are those of the last whole step, whatever happens."""
        state = learner.state
        try:
            learner.step(
                batch.astype(state.dictionary.dtype, copy=False), state.position if stream is None else stream.state()
            )
        except BadSignalError as bad:
            which = f"row {bad.row}" if stream is None else stream.name(bad.row)
            kept = " What was learned from the batches before is kept." if state.n_batches > 0 else ""
            raise ValueError(
                f"X must be finite, but {which} contains NaN or infinity (batch {state.n_batches + 1}). Remove or "
                f"impute such values first.{kept}"
            ) from None
        finally:
            if learner.state.n_batches > 0:
                self._publish(learner)

    def _publish(self, learner: OnlineLearner) -> None:
        self._learner = learner
        self.components_ = learner.state.dictionary
        self.n_iter_ = learner.state.n_batches
        self.n_features_in_ = self.components_.shape[1]

    @property
    def history_(self) -> dict[str, list[float]]:
        """What each batch showed."""
        check_is_fitted(self)
        steps = self._learner.steps[: self._learner.state.n_batches]
        return {
            "objective": self._objectives(),
            "nonzeros": [step.nonzeros for step in steps],
            "replaced": [step.n_replaced for step in steps],
        }

    @property
    def stream_state_(self) -> dict[str, Any] | None:
        """Where `fit` was in its stream."""
        check_is_fitted(self)
        position: dict[str, Any] | None = self._learner.state.position
        return position

    def _objectives(self) -> list[float]:
        return [step.objective for step in self._learner.steps[: self._learner.state.n_batches]]

    @property
    def objective_(self) -> float:
        """Objective per signal, averaged over the last batches."""
        check_is_fitted(self)
        n_batches = self._learner.state.n_batches
        steps = self._learner.steps[max(0, n_batches - AVERAGED) : n_batches]
        return float(np.mean([step.objective for step in steps]))

    def _check_born(self, state: State) -> None:
        """Raise if some atoms still wait for a signal."""
        missing = int(state.unborn().sum())
        if missing > 0:
            found = self.n_components - missing
            raise ValueError(
                f"n_components={self.n_components} atoms need as many signals that are not zero, not multiples of each "
                f"other, and of norm above lambda1={self.lambda1} (else their code is zero), but of {state.n_signals} "
                f"signals (n_features={self.n_features_in_}) only {found} are: lower n_components or lambda1, or check "
                "the signals."
            )

    def _learned(self) -> tuple[storage.Arrays, dict[str, Any]]:
        arrays, numbers = self._learner.state.to_file()
        history = {f"history {name}": np.array(values, np.float64) for name, values in self.history_.items()}
        return {**arrays, **history}, numbers

    def _set_learned(self, arrays: storage.Arrays, learned: dict[str, Any]) -> None:
        state = State.from_file(arrays, learned)
        columns = [arrays[f"history {name}"] for name in ("objective", "nonzeros", "replaced")]
        if len(state.dictionary) != self.n_components or any(c.shape != (state.n_batches,) for c in columns):
            raise ValueError("its arrays do not fit each other")
        learner = OnlineLearner(self._problem(), state, resolve_threads(self.n_threads))
        learner.steps = [Step(float(o), float(k), int(r)) for o, k, r in zip(*columns, strict=True)]
        self._publish(learner)
