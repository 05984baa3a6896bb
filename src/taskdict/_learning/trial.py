"""A trial before a training: the same training on a part of the samples, compared with the baselines on the rest.

It shows what the training gains, where all samples are wanted for the training itself. With few samples every one of
them is held out in turn, in five parts. What is best by the loss of the task is then learned from all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.arrays import Floats
from taskdict._common.permutation import permuted
from taskdict._learning.baseline import LinearBaseline
from taskdict._learning.comparison import LINEAR, TASK_DRIVEN, UNSUPERVISED, Comparison, clearly_less, weighed
from taskdict._learning.objective import Weights
from taskdict._learning.schedule import Schedule
from taskdict._learning.state import Each, Outcome
from taskdict._learning.trainer import Trainer
from taskdict.streams.pairs import Batch

PARTS = 5  # of the samples
ENOUGH = 100  # samples in a part, to hold out one part only
FEW = 250  # held-out samples, of which a small difference says little
LEAST_SAMPLES = 10  # that a trial is worth while with


@dataclass(frozen=True)
class Trial:
    """The outcome of a trial.

    Attributes
    ----------
    comparison : Comparison
        The errors on all samples that were held out.
    start : sequence of Weights
        Where the last part of the trial started, with a model that is fitted to four fifths of the samples.
    best : str
        The name of the model that is best on the held-out samples.
    baseline : LinearBaseline
        The best of the linear models.
    """

    comparison: Comparison
    start: Sequence[Weights]
    best: str
    baseline: LinearBaseline


def hold_trial(
    trainer: Trainer,
    begin: Callable[[Batch], Sequence[Weights]],
    baselines: Sequence[LinearBaseline],
    classes: Any,
    batch_size: int,
    may_be_linear: bool,
    say: Callable[[str], None],
) -> Trial | None:
    """Train on a part of the sample and compare on the rest.

    Parameters
    ----------
    trainer : Trainer
        Of the training to come.
    begin : callable
        Returns where each member starts, for a sample.
    baselines : sequence of LinearBaseline
        Linear models on the signals, of which the best on the held-out samples counts.
    classes : array or None
        Numbers of classes that should be in all parts, None if targets are no classes.
    batch_size : int
        Samples of a batch of the training.
    may_be_linear : bool
        Whether the linear model may be the best.
    say : callable
        Shows what is done.

    Returns
    -------
    Trial or None
        None if there are too few samples, or if the learning rate diverges.
    """
    sample, committee = trainer.sample, trainer.committee
    n = len(sample.X)
    if n < LEAST_SAMPLES:
        return None
    part_of = _parts(n, classes, trainer.seed)
    found = {name: _Scored() for name in (UNSUPERVISED, TASK_DRIVEN)}
    linear = [_Scored() for _ in baselines]
    parts = []
    start: Each = ()
    n_parts = 1 if n >= ENOUGH * PARTS else PARTS
    for k in range(n_parts):
        which = f", {k + 1} of {n_parts}" if n_parts > 1 else ""
        kept, held = (sample.rows(np.flatnonzero(chosen), sample.others) for chosen in (part_of != k, part_of == k))
        schedule = _of_as_many_passes(trainer.schedule, n, len(kept.X), batch_size)
        trained = _train(Trainer(committee, schedule, kept, None, batch_size, trainer.seed), begin(kept), say, which)
        if trained is None:
            return None
        start, end = trained
        for each, fitted, scored in zip(baselines, LinearBaseline.fit_all(baselines, kept), linear, strict=True):
            scores = each.scores(fitted, held.X)
            scored.add(scores, each.losses(held.y, scores))
        for name, weights in ((UNSUPERVISED, start), (TASK_DRIVEN, end)):
            found[name].add(committee.scores(weights, held.X), committee.losses(weights, held))
        parts.append(held)
    held = Batch(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        None if sample.weights is None else np.concatenate([part.weights for part in parts]),
    )
    losses = {name: weighed(scored.losses, held.weights) for name, scored in found.items()}
    judge = baselines[0].judge
    errors = {name: judge.errors(held.y, scored.scores, held.weights) for name, scored in found.items()}
    of_linear = [weighed(scored.losses, held.weights) for scored in linear]
    lowest = min(range(len(linear)), key=lambda k: float(of_linear[k].mean()))
    baseline = baselines[lowest]
    errors[LINEAR] = baseline.errors(held.y, linear[lowest].scores, held.weights)
    if may_be_linear:
        losses[LINEAR] = of_linear[lowest]
    return Trial(Comparison(errors, of_trial=True), start, _best(losses, errors), baseline)


class _Scored:
    """The scores and losses of a model on all samples that were held out so far."""

    def __init__(self) -> None:
        self._scores: list[Floats] = []
        self._losses: list[NDArray[np.float64]] = []

    def add(self, scores: Floats, losses: NDArray[np.float64]) -> None:
        self._scores.append(scores)
        self._losses.append(losses)

    @property
    def scores(self) -> Floats:
        return np.concatenate(self._scores)

    @property
    def losses(self) -> NDArray[np.float64]:
        return np.concatenate(self._losses)


def _best(losses: dict[str, NDArray[np.float64]], errors: dict[str, NDArray[np.float64]]) -> str:
    """Return the best model: a baseline only if its loss is lower and its score is at least as high.

    Of few samples, the linear model wins unless the other one is clearly better.
    """

    def is_better(first: str, second: str) -> bool:
        return bool(losses[first].mean() < losses[second].mean() and errors[first].mean() <= errors[second].mean())

    best = UNSUPERVISED if is_better(UNSUPERVISED, TASK_DRIVEN) else TASK_DRIVEN
    if LINEAR not in losses:
        return best
    if len(losses[best]) < FEW:
        clearly = any(clearly_less(measure[best], measure[LINEAR]) for measure in (losses, errors))
        return best if clearly else LINEAR
    return LINEAR if is_better(LINEAR, best) else best


def _train(
    trainer: Trainer, weights: Sequence[Weights], say: Callable[[str], None], which: str
) -> tuple[Each, Each] | None:
    """Return the weights at the start and at the end of a training, None if it diverges."""
    state = trainer.start(weights)
    if state is None:
        return None
    start = state.weights
    for t in range(trainer.schedule.total):
        if trainer.is_done(state):
            break
        say(f"trying it on a part of the samples{which}: batch {t + 1}/{trainer.schedule.total}")
        state, step = trainer.step(state, _batch(trainer.sample, t, trainer.batch_size, trainer.seed))
        if step.outcome is Outcome.DIVERGED:
            return None
    return start, state.chosen


def _of_as_many_passes(schedule: Schedule, n: int, n_kept: int, batch_size: int) -> Schedule:
    """Return the schedule that passes over a part of n samples as often as the given one over all."""
    fewer = (n_kept / min(batch_size, n_kept)) / (n / min(batch_size, n))
    return replace(schedule, max_iter=max(1, round(schedule.max_iter * fewer)))


def _parts(n: int, classes: Any, seed: int) -> NDArray[np.intp]:
    """Return the part of each sample; samples of a class are spread over all parts."""
    order = permuted(np.arange(n), n, [seed])
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    part_of = np.empty(n, np.intp)
    part_of[order] = np.arange(n) % PARTS
    return part_of


def _batch(sample: Batch, t: int, size: int, seed: int) -> Batch:
    """Return the t-th of endless batches, each sample once per pass."""

    def rows(n: int) -> NDArray[np.intp]:
        places = np.arange(t * min(size, n), (t + 1) * min(size, n))
        passes = places // max(1, n)
        return np.concatenate(
            [permuted(places[passes == k] % n, n, [seed, int(k)]) for k in np.unique(passes)] or [places]
        )

    return sample.rows(rows(len(sample.X)), sample.others[rows(len(sample.others))])
