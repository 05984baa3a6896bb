"""The trainer: one step of a training per batch, as a function of its state.

A training starts from the unsupervised dictionary and the convex problem in W (:mod:`taskdict._learning.start`). Then
each batch is one step of Algorithm 1 (:mod:`taskdict._learning.descent`) for each member of a committee. With several
values of μ the descent is run for each in turn, from where the one before ended: a *stage* of the schedule.

A :class:`Trainer` holds no state. ``step(state, batch)`` returns the next one, so an interrupted step changes nothing.
In a step the members move; a divergence is detected on the batch after; the tail of a stage is averaged; the weights
are compared on the validation part; and the next stage begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskdict._common.arrays import Floats
from taskdict._common.permutation import permuted
from taskdict._learning.committee import Committee, Member
from taskdict._learning.convex import fit_model
from taskdict._learning.descent import DIVERGENCE_FACTOR, descend
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.rate_search import search_rho
from taskdict._learning.rates import AdaptiveRate, DecayingRate, Rate
from taskdict._learning.schedule import Schedule
from taskdict._learning.state import Each, Outcome, State, Step
from taskdict.streams.pairs import Batch

SEARCH_STEPS = 100  # of each candidate for the learning rate, at most
COMPARED_SAMPLES = 5000  # on which weights are compared, at most
HELD_OUT_SAMPLES = 2000  # on which learning rates are compared, at most
RETRIES = 20  # times that a learning rate which was searched for is lowered when it diverges after all
LOWERED = 10**0.5  # the divisor
NO_RATE = "every learning rate diverges: check the scale of signals and targets."


@dataclass(frozen=True)
class _Moves:
    """One move of each member."""

    weights: Each
    values: tuple[float, ...]  # of the objectives before; NaN without samples
    rhos: tuple[float, ...]
    moments: Each | None
    failure: str = ""  # why there is none

    def exceed(self, limits: Sequence[float] | None) -> bool:
        """Return whether a value is above its limit."""
        return limits is not None and any(value > limit for value, limit in zip(self.values, limits, strict=True))


class Trainer:
    """Trains a committee.

    Parameters
    ----------
    committee : Committee
        The models, for μ = 0.
    schedule : Schedule
        How long, for which μ, with which learning rate.
    sample : Batch
        Signals with targets in memory, for the convex problem in W and the search for the learning rate.
    validation : Batch or None
        Samples that are not learned from. If there are some, the best weights on them are kept.
    batch_size : int
        Samples in a batch of the search.
    seed : int
        For the order of the samples in the search.
    """

    def __init__(
        self,
        committee: Committee,
        schedule: Schedule,
        sample: Batch,
        validation: Batch | None,
        batch_size: int,
        seed: int,
    ) -> None:
        self.committee = committee
        self.schedule = schedule
        self.sample = sample
        self.validation = validation
        self.batch_size = batch_size
        self.seed = seed

    def start(self, weights: Sequence[Weights]) -> State | None:
        """Fit each W on the dictionaries that are given, and choose the learning rates.

        Returns
        -------
        State or None
            None if every learning rate diverges.
        """
        _keep_memory()
        state = State(tuple(weights), (self.schedule.rho or 0.0,) * len(self.committee))
        begun = self._begin_stage(state, refit=True)
        if begun is None or self.validation is None:
            return begun
        return replace(begun, best=begun.weights, best_value=self._validation_loss(begun.weights))

    def resume(self, state: State) -> State | None:
        """Return the state to continue from; a learning rate of another kind than before takes effect here.

        Returns
        -------
        State or None
            None if every learning rate diverges.
        """
        schedule, count = self.schedule, len(self.committee)
        if schedule.rho is not None:
            return replace(state, rhos=(schedule.rho,) * count, moments=None)
        if schedule.adaptive and state.moments is None:
            return replace(state, rhos=(schedule.pace,) * count)
        unknown = state.moments is not None or not all(state.rhos)
        if not schedule.adaptive and unknown and not self.is_done(state):
            rhos = self._search_all(state, schedule.stage(state.t), refit=False)
            return None if rhos is None else replace(state, rhos=rhos, moments=None)
        return state

    def is_done(self, state: State) -> bool:
        """Return whether there is nothing left to do."""
        return state.stopped or state.t >= self.schedule.total

    def step(self, state: State, batch: Batch, position: Any = None) -> tuple[State, Step]:
        """Learn from one batch.

        Parameters
        ----------
        state : State
            Where the training is.
        batch : Batch
            Samples to learn from.
        position : object
            Where the source is after this batch.

        Returns
        -------
        state : State
            Where the training is after the batch. If the learning rate that was given diverges, it is the one of one
            batch before, since only the next batch shows where a step has led.
        step : Step
            The result of the batch.
        """
        earlier, stage = state, self.schedule.stage(state.t)
        if state.limits is None:
            state = replace(state, limits=self._divergence_limits(state, stage, batch))
        moves = self._move(state, stage, batch)
        if not moves.failure and state.before is not None and moves.exceed(state.limits):
            state, moves = self._step_back(state, stage, batch, moves)
        if moves.failure:
            return state.one_back(), Step(np.nan, None, Outcome.DIVERGED, moves.failure)
        before = state.weights
        state = replace(
            state, weights=moves.weights, rhos=moves.rhos, moments=moves.moments, t=state.t + 1, position=position
        )
        stage_ended = state.t % self.schedule.max_iter == 0
        state = self._average_tail(state, stage, stage_ended)
        if stage_ended and self.schedule.mus[stage] == 1:  # the task has not entered W so far
            state = self._refit(state, stage)
        state, check, skipped = self._validate(state, stage, stage_ended)
        if self.is_done(state):
            state = state.unguarded()
        else:
            if stage_ended or skipped:
                begun = self._begin_stage(state, refit=False)
                if begun is None:
                    return earlier, Step(np.nan, check, Outcome.DIVERGED, NO_RATE)
                state = begun
            state = replace(state, before=before)
        seen = [value for value in moves.values if not np.isnan(value)]
        if not seen:
            return state, Step(np.nan, check, Outcome.EMPTY)
        return state, Step(float(np.mean(seen)), check)

    # The parts of a step, in their order.

    def _divergence_limits(self, state: State, stage: int, batch: Batch) -> tuple[float, ...]:
        """Return the values on a batch above which members have diverged: far more than at the start or with W = 0."""

        def limit(k: int) -> float:
            member, weights = self._member(k, stage), state.weights[k]
            blind = replace(weights, W=0 * weights.W, b=0 * weights.b)
            values = [
                abs(member.objective.value(w, mine, self.committee.threads_each))
                for w in (weights, blind)
                for mine in (member.batch(batch), self._compared(member))
                if len(mine.X) > 0
            ]
            return DIVERGENCE_FACTOR * max(values) if values else np.inf

        return tuple(self.committee.for_each(limit))

    def _move(self, state: State, stage: int, batch: Batch) -> _Moves:
        """Take one step with each member."""
        each = self.committee.for_each(lambda k: self._move_member(k, state, stage, batch))
        failures = [move for move in each if isinstance(move, str)]
        if failures:
            return _Moves((), (), (), None, failures[0])
        weights, values, rhos, moments = zip(*each, strict=True)
        return _Moves(weights, values, rhos, None if any(each is None for each in moments) else moments)

    def _move_member(
        self, k: int, state: State, stage: int, batch: Batch
    ) -> tuple[Weights, float, float, Weights | None] | str:
        """Take one step with member k; return its weights, value, learning rate and moments, or why there is none."""
        schedule, member, weights, rho = self.schedule, self._member(k, stage), state.weights[k], state.rhos[k]
        moments = None if state.moments is None else state.moments[k]
        mine = member.batch(batch)
        if mine.is_empty:
            if schedule.adaptive and moments is None:
                moments = weights.squares().each(np.zeros_like)
            return weights, np.nan, rho, moments
        t = state.t - stage * schedule.max_iter + 1
        for _ in range(RETRIES):
            rate: Rate = DecayingRate(rho, schedule.t0 or schedule.max_iter / 10)
            if schedule.adaptive:
                rate = AdaptiveRate(rho, schedule.max_iter, schedule.t0)
            move = descend(member.objective, member.sets, weights, mine, rate, t, moments, self.committee.threads_each)
            if move.finite:
                return move.weights, move.value, rho, move.moments
            if schedule.rho is not None:
                return (
                    f"step {t} of size {rate.at(t):.2g} leads out of the finite numbers. Take a "
                    "smaller learning rate: most are between 0.1 and 10."
                )
            rho /= LOWERED
        return f"no step leads to finite numbers after {state.t} batches: check the signals and targets."

    def _step_back(self, state: State, stage: int, batch: Batch, moves: _Moves) -> tuple[State, _Moves]:
        """Go one batch back, and move from there with a lower learning rate unless it was given."""
        back = state.one_back()
        if self.schedule.rho is not None:
            failure = (
                f"after {state.t} batches the objective is {np.nanmax(moves.values):.1e}. Take a smaller learning "
                "rate: most are between 0.1 and 10."
            )
            return back, replace(moves, failure=failure)
        back = replace(back, rhos=tuple(rho / LOWERED for rho in back.rhos))
        return back, self._move(back, stage, batch)

    def _average_tail(self, state: State, stage: int, stage_ended: bool) -> State:
        """Average the weights over the tail of a stage (Polyak–Ruppert); at its end, keep the mean if it is better."""
        n_tail = self.schedule.tail(state.t)
        if not self.schedule.average or n_tail == 0:
            return replace(state, mean=None)
        mean = _running_mean(state.mean, state.weights, n_tail)
        if not stage_ended:
            return replace(state, mean=mean)
        better = self.committee.for_each(lambda k: self._better(k, stage, mean[k], state.weights[k]))
        return replace(state, weights=tuple(better), mean=None)

    def _refit(self, state: State, stage: int) -> State:
        """Fit W and b of each member on its dictionary as it is now."""

        def refit(k: int) -> Weights:
            member = self.committee.members[k]
            mine = member.batch(self.sample)
            fitted = fit_model(self._convex(k, stage), state.weights[k], mine, self.committee.threads_each)
            return member.sets.project(fitted)

        return replace(state, weights=tuple(self.committee.for_each(refit)))

    def _validate(self, state: State, stage: int, stage_ended: bool) -> tuple[State, float | None, bool]:
        """Check the weights on the validation part if it is time, and stop early where there is no gain.

        Returns
        -------
        state : State
        check : float or None
            The loss on the validation part.
        skipped : bool
            Whether the rest of a stage is skipped.
        """
        schedule = self.schedule
        due = stage_ended or (schedule.mus[stage] < 1 and state.t % schedule.check_every == 0)
        if self.validation is None or not due:
            return state, None, False
        check = self._validation_loss(state.weights)
        if check < state.best_value:
            state = replace(state, best=state.weights, best_value=check, stale=0)
        else:
            state = replace(state, stale=0 if stage_ended else state.stale + 1)
        if schedule.patience is None or state.stale < schedule.patience:
            return state, check, False
        if stage + 1 < len(schedule.mus):  # continue with the next μ at once
            return replace(state, t=(stage + 1) * schedule.max_iter, stale=0, mean=None), check, True
        return replace(state, stopped=True), check, False

    def _begin_stage(self, state: State, refit: bool) -> State | None:
        """Search for the learning rates where that is needed, and fit W in the first stage; None if none is found."""
        schedule = self.schedule
        stage, mus = schedule.stage(state.t), schedule.mus
        search = schedule.rho is None and (stage == 0 or (mus[stage - 1] == 1 and mus[stage] < 1))
        rhos: tuple[float, ...] | None = state.rhos
        if schedule.adaptive:
            rhos = (schedule.pace,) * len(state.rhos)
        elif search:
            rhos = self._search_all(state, stage, refit)
        if rhos is None:
            return None
        state = replace(state, rhos=rhos, moments=None)
        return self._refit(state, stage) if refit else state

    # The members of a stage, and their samples.

    def _member(self, k: int, stage: int) -> Member:
        return self.committee.members[k].at(self.schedule.mus[stage], self.schedule)

    def _convex(self, k: int, stage: int) -> Objective:
        """Return the objective that W minimises at fixed codes."""
        return (self._member(k, stage) if self.schedule.mus[stage] < 1 else self.committee.members[k]).objective

    def _compared(self, member: Member) -> Batch:
        """Return some of the sample as a member sees it."""
        mine = member.batch(self.sample)
        return mine.rows(np.arange(min(len(mine.X), COMPARED_SAMPLES)), mine.others[:COMPARED_SAMPLES])

    def _better(self, k: int, stage: int, first: Weights, second: Weights) -> Weights:
        """Return the weights of member k that have the lower objective on the sample."""
        member = self._member(k, stage)
        some = self._compared(member)
        values = [member.objective.value(w, some, self.committee.threads_each) for w in (first, second)]
        return first if values[0] <= values[1] else second

    def _validation_loss(self, weights: Sequence[Weights]) -> float:
        """Return the loss of the task on the validation part, averaged over the members."""
        assert self.validation is not None
        validation = replace(self.validation, unlabelled=None)

        def value(k: int) -> float:
            member = self.committee.members[k]
            mine = member.batch(validation)
            if len(mine.X) == 0:
                return 0.0
            plain = replace(member.objective, nu=0.0, nu2=0.0, task=1.0, reconstruction=0.0)
            return plain.value(weights[k], mine, self.committee.threads_each)

        return float(np.mean(self.committee.for_each(value)))

    # The search for the learning rates.

    def _search_all(self, state: State, stage: int, refit: bool) -> tuple[float, ...] | None:
        """Return the learning rate of each member, None if one has none."""
        rhos = self.committee.for_each(lambda k: self._search(k, state, stage, refit))
        found = tuple(rho for rho in rhos if rho is not None)
        return found if len(found) == len(rhos) else None

    def _search(self, k: int, state: State, stage: int, refit: bool) -> float | None:
        """Return the learning rate of member k: tried on one part of the sample, compared on the other."""
        member = self._member(k, stage)
        mine = member.batch(self.sample)
        order = permuted(np.arange(len(mine.X)), len(mine.X), [self.seed, k]) if len(mine.X) else np.arange(0)
        n_held = min(HELD_OUT_SAMPLES, len(order) // 4)
        held, kept = order[:n_held], order[n_held:]
        others = mine.others
        others_held = min(HELD_OUT_SAMPLES, len(others) // 4)
        training = mine.rows(kept, others[others_held:])
        if n_held == 0 or len(training.X) == 0:  # hardly any samples: compare on those that there are
            held = kept = order
            training = mine.rows(kept, others[others_held:])
        start = state.weights[k]
        if refit:
            start = fit_model(self._convex(k, stage), start, training, self.committee.threads_each)
        n_steps = min(SEARCH_STEPS, max(10, self.schedule.max_iter // 2))
        return search_rho(
            member.objective,
            member.sets,
            start,
            [self._search_batch(training, i, k) for i in range(n_steps)],
            mine.rows(held, others[:others_held]),
            self.committee.threads_each,
            self.committee.check_cancelled,
        )

    def _search_batch(self, sample: Batch, i: int, k: int) -> Batch:
        """Return the i-th of endless batches of random samples."""
        rng = np.random.default_rng([self.seed, k, i])
        size = min(self.batch_size, len(sample.X))
        rows = rng.choice(len(sample.X), size, replace=False)
        return sample.rows(rows, sample.others[rng.permutation(len(sample.others))[: self.batch_size]])


def _keep_memory() -> None:
    """Let the C library keep the memory that a step frees for the next one.

    glibc hands back free memory at the end of its heap beyond twice the largest block that was ever freed, and asking
    for it again costs a page fault per 4 kB, up to half the time of a step. A large block that is freed raises this
    bound; it is never written to, so it takes no memory.
    """
    np.empty(31 << 20, np.uint8)


def _running_mean(mean: Each | None, weights: Each, n: int) -> Each:
    """Return the mean of n weights, the last of which are given, from that of those before."""
    if mean is None or n == 1:
        return weights

    def moved(old: Floats, new: Floats) -> Floats:
        return np.asarray(old + (new - old) / old.dtype.type(n))

    return tuple(old.each(moved, new) for old, new in zip(mean, weights, strict=True))
