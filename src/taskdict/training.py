"""Training: from the first sample of signals to the learned parameters, one batch at a time.

A committee of models is trained side by side on the same batches: a single model for regression or a softmax, one per
class or per pair of classes otherwise. Each starts from the unsupervised dictionary and the convex problem in its W
(:mod:`taskdict.initialisation`), has a learning rate of its own, and then takes one step of Algorithm 1 per batch.
With several values of μ the descent is run for each in turn, from where the one before ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._permutation import permuted
from taskdict._threads import in_parallel
from taskdict.descent import (
    DIVERGED,
    AdaptiveRate,
    Batch,
    Descent,
    DivergedError,
    LearningRate,
    Objective,
    Parameters,
    Sets,
    search_rho,
)
from taskdict.initialisation import fit_model
from taskdict.schedule import Schedule

Floats = NDArray[Any]

SEARCH_STEPS = 100  # of each candidate for the learning rate, at most
COMPARED = 5000  # samples on which parameters are compared, at most
HELD_OUT = 2000  # samples on which they are compared, at most
RETRIES = 20  # times that a learning rate which was searched for is lowered when it diverges after all


@dataclass(frozen=True)
class Member:
    """One model of the committee: what it minimises, over which sets, and what it makes of the targets.

    `select` maps the targets of a batch to the rows that the model learns from, None for all, and their targets.
    """

    objective: Objective
    sets: Sets
    select: Callable[[Any], tuple[NDArray[np.intp] | None, Any]]

    def batch(self, batch: Batch) -> Batch:
        """Return what this model sees of a batch."""
        rows, y = self.select(batch.y)
        if rows is None:
            return replace(batch, y=y)
        weights = None if batch.weights is None else batch.weights[rows]
        return replace(batch, X=np.ascontiguousarray(batch.X[rows]), y=y, weights=weights)

    def at(self, mu: float, schedule: Schedule) -> Member:
        """Return this model with another μ.

        With μ = 1 only the dictionary is learned: W, which the task has no say in, stays as it is.
        """
        objective = replace(self.objective, task=1 - mu, reconstruction=mu * schedule.reconstruction)
        if schedule.relative_nu:
            objective = replace(objective, nu=(1 - mu) * objective.nu)
        if mu == 1:
            objective = replace(objective, nu=0.0, fit_intercept=False)
        return replace(self, objective=objective)


@dataclass(frozen=True)
class State:
    """Where training is; a step makes a new one, so that an interrupted step changes nothing."""

    parameters: tuple[Parameters, ...]  # of each model
    rhos: tuple[float, ...]  # of each model
    t: int = 0  # batches so far
    position: Any = None  # of the source of the batches after the last one
    sizes: tuple[Parameters, ...] | None = None  # mean squares of the gradients, if steps are adaptive
    before: tuple[Parameters, ...] | None = None  # one batch before, None after a step back and when training is done
    limits: tuple[float, ...] | None = None  # objectives above which a model has diverged, None before the first step
    mean: tuple[Parameters, ...] | None = None  # over the last tenth of the batches for this μ, while in it
    best: tuple[Parameters, ...] | None = None  # on the validation part
    best_value: float = np.inf
    stale: int = 0  # checks since then
    stopped: bool = False

    @property
    def chosen(self) -> tuple[Parameters, ...]:
        """The parameters to use."""
        return self.parameters if self.best is None else self.best

    def one_back(self) -> State:
        """Return the state with the parameters of one batch before, where they are known."""
        return replace(self, parameters=self.before or self.parameters, before=None, mean=None)

    def unguarded(self) -> State:
        """Return the state without what tells divergence, for other data than before."""
        return replace(self, before=None, limits=None)


@dataclass(frozen=True)
class Step:
    """What a batch showed: the objective before the step, averaged over the models, and a check if there was one."""

    objective: float
    validation: float | None = None


class Trainer:
    """Trains a committee; `state` is what it has learned, None before :meth:`start`.

    Parameters
    ----------
    members : sequence of Member
        The models, for μ = 0.
    schedule : Schedule
        How long, for which μ, with which learning rate.
    sample : Batch
        Signals with targets in memory, for the convex problem in W and the search for the learning rate.
    validation : Batch or None
        Samples that are not learned from. If there are some, the best parameters on them are kept.
    seed : int
        For the order of the samples in the search.
    n_threads : int
        Threads to use, for the models or within them.
    """

    def __init__(
        self,
        members: Sequence[Member],
        schedule: Schedule,
        sample: Batch,
        validation: Batch | None,
        batch_size: int,
        seed: int,
        n_threads: int,
    ) -> None:
        self.members = tuple(members)
        self.schedule = schedule
        self.sample = sample
        self.validation = validation
        self.batch_size = batch_size
        self.seed = seed
        self.n_threads = n_threads
        self.state: State | None = None
        self._cancelled = threading.Event()

    def start(self, parameters: Sequence[Parameters]) -> None:
        """Fit each W on the dictionaries that are given, and choose the learning rates."""
        _keep_memory()
        state = State(tuple(parameters), (self.schedule.rho or 0.0,) * len(self.members))
        self.state = self._begin_stage(state, refit=True)

    def resume(self, state: State) -> None:
        """Go on from a state; a learning rate of another kind than before takes effect from here on."""
        schedule = self.schedule
        if schedule.rho is not None:
            state = replace(state, rhos=(schedule.rho,) * len(self.members), sizes=None)
        elif schedule.adaptive and state.sizes is None:
            state = replace(state, rhos=(schedule.pace,) * len(self.members))
        elif not schedule.adaptive and state.sizes is not None:
            rhos = tuple(self._for_each(lambda k: self._search(k, state, schedule.stage(state.t), refit=False)))
            state = replace(state, rhos=rhos, sizes=None)
        self.state = state

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.state is not None and (self.state.t >= self.schedule.total or self.state.stopped)

    def step(self, batch: Batch, position: Any = None) -> Step:
        """Learn from one batch; either all of it counts or, if anything is raised, nothing.

        Raises
        ------
        DivergedError
            If the learning rate that was given is too large; the parameters are those of one batch before, since only
            the next batch shows where a step has led.
        """
        state, schedule = self._state, self.schedule
        stage = schedule.stage(state.t)
        if state.limits is None:
            limits = tuple(self._for_each(lambda k: self._limit_of(k, state, stage, batch)))
            state = replace(state, limits=limits)
        parameters, values, rhos, sizes = self._move(state, stage, batch)
        if state.before is not None and _exceed(values, state.limits):
            state = state.one_back()
            if schedule.rho is not None:
                self.state = state
                raise DivergedError(
                    f"after {state.t} batches the objective is {np.nanmax(values):.1e}. Take a smaller learning rate: "
                    "most are between 0.1 and 10."
                )
            state = replace(state, rhos=tuple(rho / 10**0.5 for rho in state.rhos))
            parameters, values, rhos, sizes = self._move(state, stage, batch)
        before = state.parameters
        t = state.t + 1
        mean = _mean(state.mean, parameters, schedule.tail(t)) if schedule.average and schedule.tail(t) > 0 else None
        kept = None if any(each is None for each in sizes) else sizes
        state = replace(state, parameters=parameters, rhos=rhos, sizes=kept, t=t, position=position, mean=mean)
        ended = t % schedule.max_iter == 0
        if ended and mean is not None:
            chosen = tuple(self._for_each(lambda k: self._better(k, stage, mean[k], parameters[k])))
            state = replace(state, parameters=chosen, mean=None)
        if ended and schedule.mus[stage] == 1:  # the task has had no say in W
            state = self._refit(state, stage)
        check = None
        if self.validation is not None and (ended or (schedule.mus[stage] < 1 and state.t % schedule.check_every == 0)):
            check = self._validate(state.parameters)
            better = check < state.best_value
            state = replace(
                state,
                best=state.parameters if better else state.best,
                best_value=check if better else state.best_value,
                stale=0 if better or ended else state.stale + 1,
            )
            stopped = schedule.patience is not None and state.stale >= schedule.patience
            if stopped and stage + 1 < len(schedule.mus):  # go on with the next μ at once
                state = replace(state, t=(stage + 1) * schedule.max_iter, stale=0, mean=None)
                ended = True
            elif stopped:
                state = replace(state, stopped=True)
        done = state.stopped or state.t >= schedule.total
        if ended and not done:
            state = self._begin_stage(state, refit=False)
        self.state = state.unguarded() if done else replace(state, before=before)  # from here on, the batch counts
        seen = [value for value in values if not np.isnan(value)]  # those of models that had samples
        return Step(float(np.mean(seen)) if seen else np.nan, check)

    @property
    def _state(self) -> State:
        if self.state is None:
            raise RuntimeError("start() comes first.")
        return self.state

    def _begin_stage(self, state: State, refit: bool) -> State:
        """Fit W if it is the first stage, and search for the learning rates where that is needed."""
        schedule = self.schedule
        stage = schedule.stage(state.t)
        mus = schedule.mus
        search = schedule.rho is None and (stage == 0 or (mus[stage - 1] == 1 and mus[stage] < 1))
        rhos = state.rhos
        if schedule.adaptive:
            rhos = (schedule.pace,) * len(rhos)
        elif search:
            rhos = tuple(self._for_each(lambda k: self._search(k, state, stage, refit)))
        state = replace(state, rhos=rhos, sizes=None)
        return self._refit(state, stage) if refit else state

    def _member(self, k: int, stage: int) -> Member:
        return self.members[k].at(self.schedule.mus[stage], self.schedule)

    def _convex(self, k: int, stage: int) -> Objective:
        """Return what W minimises at fixed codes."""
        return (self._member(k, stage) if self.schedule.mus[stage] < 1 else self.members[k]).objective

    def _some(self, member: Member) -> Batch:
        """Return some of the sample as a model sees it."""
        mine = member.batch(self.sample)
        others = mine.unlabelled if mine.unlabelled is not None else mine.X[:0]
        return _part(mine, np.arange(min(len(mine.X), COMPARED)), others[:COMPARED])

    def _better(self, k: int, stage: int, first: Parameters, second: Parameters) -> Parameters:
        """Return the parameters of model k that have the lower objective on the sample."""
        member = self._member(k, stage)
        some = self._some(member)
        values = [member.objective.evaluate(p, some, self._threads_each)[0] for p in (first, second)]
        return first if values[0] <= values[1] else second

    def _limit_of(self, k: int, state: State, stage: int, batch: Batch) -> float:
        """Return the value on a batch above which model k has diverged: far more than at the start or with W = 0."""
        member, parameters = self._member(k, stage), state.parameters[k]
        blind = replace(parameters, W=0 * parameters.W, b=0 * parameters.b)
        values = [
            abs(member.objective.evaluate(p, mine, self._threads_each)[0])
            for p in (parameters, blind)
            for mine in (member.batch(batch), self._some(member))
            if len(mine.X) > 0
        ]
        return DIVERGED * max(values) if values else np.inf

    def _move(self, state: State, stage: int, batch: Batch) -> tuple[tuple[Any, ...], ...]:
        """Take one step with each model; return what `_step_of` does, for all models."""
        try:
            return tuple(zip(*self._for_each(lambda k: self._step_of(k, state, stage, batch)), strict=True))
        except DivergedError:
            self.state = state.one_back()  # the parameters since may be bad already
            raise

    def _step_of(
        self, k: int, state: State, stage: int, batch: Batch
    ) -> tuple[Parameters, float, float, Parameters | None]:
        """Take one step with model k; return its parameters, the value before, the learning rate, and the sizes."""
        member, parameters, rho = self._member(k, stage), state.parameters[k], state.rhos[k]
        sizes = None if state.sizes is None else state.sizes[k]
        mine = member.batch(batch)
        if len(mine.X) == 0 and (mine.unlabelled is None or len(mine.unlabelled) == 0):
            nothing = parameters.squares().each(np.zeros_like) if self.schedule.adaptive and sizes is None else sizes
            return parameters, np.nan, rho, nothing
        for _ in range(RETRIES):
            rate: LearningRate | AdaptiveRate = LearningRate(rho, self.schedule.t0 or self.schedule.max_iter / 10)
            if self.schedule.adaptive:
                rate = AdaptiveRate(rho, self.schedule.max_iter, self.schedule.t0)
            descent = Descent(member.objective, member.sets, parameters, rate, self._threads_each, sizes)
            descent.t = state.t - stage * self.schedule.max_iter
            try:
                value = descent.step(mine)
            except DivergedError:
                if self.schedule.rho is not None:
                    raise
                rho /= 10**0.5
            else:
                return descent.parameters, value, rho, descent.sizes
        raise DivergedError(f"no step leads to finite numbers after {state.t} batches: check the signals and targets.")

    def _search(self, k: int, state: State, stage: int, refit: bool) -> float:
        """Return the learning rate of model k: tried on one part of the sample, compared on the other."""
        member = self._member(k, stage)
        mine = member.batch(self.sample)
        order = permuted(np.arange(len(mine.X)), len(mine.X), [self.seed, k]) if len(mine.X) else np.arange(0)
        n_held = min(HELD_OUT, len(order) // 4)
        held, kept = order[:n_held], order[n_held:]
        others = mine.unlabelled if mine.unlabelled is not None else mine.X[:0]
        others_held = min(HELD_OUT, len(others) // 4)
        training = _part(mine, kept, others[others_held:])
        if n_held == 0 or len(training.X) == 0:  # hardly any samples: compare on those that there are
            held = kept = order
            training = _part(mine, kept, others[others_held:])
        start = state.parameters[k]
        if refit:
            start = fit_model(self._convex(k, stage), start, training, self._threads_each)
        steps = min(SEARCH_STEPS, max(10, self.schedule.max_iter // 2))
        batches = [self._batch_of(training, i, k) for i in range(steps)]
        return search_rho(
            member.objective,
            member.sets,
            start,
            batches,
            _part(mine, held, others[:others_held]),
            self._threads_each,
            self._check_cancelled,
        )

    def _batch_of(self, sample: Batch, i: int, k: int) -> Batch:
        """Return the i-th of endless batches of random samples."""
        rng = np.random.default_rng([self.seed, k, i])
        size = min(self.batch_size, len(sample.X))
        rows = rng.choice(len(sample.X), size, replace=False)
        others = sample.unlabelled if sample.unlabelled is not None else sample.X[:0]
        return _part(sample, rows, others[rng.permutation(len(others))[: self.batch_size]])

    def _refit(self, state: State, stage: int) -> State:
        """Fit W and b of each model on its dictionary as it is now."""

        def refit(k: int) -> Parameters:
            member = self.members[k]
            mine = member.batch(self.sample)
            fitted = fit_model(self._convex(k, stage), state.parameters[k], mine, self._threads_each)
            return member.sets.project(fitted)

        return replace(state, parameters=tuple(self._for_each(refit)))

    def _validate(self, parameters: Sequence[Parameters]) -> float:
        """Return the loss of the task on the validation part, averaged over the models."""
        assert self.validation is not None
        validation = replace(self.validation, unlabelled=None)

        def value(k: int) -> float:
            member = self.members[k]
            mine = member.batch(validation)
            if len(mine.X) == 0:
                return 0.0
            plain = replace(member.objective, nu=0.0, nu2=0.0, task=1.0, reconstruction=0.0)
            return plain.evaluate(parameters[k], mine, self._threads_each)[0]

        return float(np.mean(self._for_each(value)))

    @property
    def _threads_each(self) -> int:
        return max(1, self.n_threads // len(self.members))

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise KeyboardInterrupt

    def _for_each(self, function: Callable[[int], Any]) -> list[Any]:
        """Return function(k) for each model k, in parallel."""
        self._cancelled.clear()
        try:
            return in_parallel(function, range(len(self.members)), self.n_threads)
        except BaseException:
            self._cancelled.set()
            raise


def _keep_memory() -> None:
    """Let the C library keep the memory that a step frees for the next one.

    glibc hands back what is free at the end of its heap beyond twice the largest block that was ever freed, and asking
    for it again costs a page fault per 4 kB, up to half the time of a step. A large block that is freed raises this
    bound; it is never written to, so it takes no memory.
    """
    np.empty(31 << 20, np.uint8)


def _exceed(values: Sequence[float], limits: Sequence[float] | None) -> bool:
    """Return whether a value is above its limit; one that is not a number, of a model without samples, is not."""
    return limits is not None and any(value > limit for value, limit in zip(values, limits, strict=True))


def _mean(mean: tuple[Parameters, ...] | None, parameters: tuple[Parameters, ...], n: int) -> tuple[Parameters, ...]:
    """Return the mean of n parameters, the last of which are given, from that of those before."""
    if mean is None or n == 1:
        return parameters

    def moved(old: Floats, new: Floats) -> Floats:
        return np.asarray(old + (new - old) / old.dtype.type(n))

    return tuple(old.each(moved, new) for old, new in zip(mean, parameters, strict=True))


def _part(batch: Batch, rows: NDArray[np.intp], unlabelled: Floats) -> Batch:
    """Return some of the samples of a batch, with these signals without targets."""
    return Batch(
        np.ascontiguousarray(batch.X[rows]),
        batch.y[rows],
        None if batch.weights is None else batch.weights[rows],
        np.ascontiguousarray(unlabelled) if len(unlabelled) else None,
    )
