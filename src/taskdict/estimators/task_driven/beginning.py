"""The beginning of a training: units, what was left open, where it starts, and a trial; or where it is resumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskdict._coding.coded_batch import Coding
from taskdict._common.arrays import Floats
from taskdict._common.progress import Reporter
from taskdict._common.warn import warn
from taskdict._learning.baseline import LinearBaseline
from taskdict._learning.committee import Committee, Member
from taskdict._learning.comparison import LINEAR, TASK_DRIVEN, UNSUPERVISED, Comparison
from taskdict._learning.descent import DivergedError
from taskdict._learning.models import Columns, model_named
from taskdict._learning.objective import Objective, Weights
from taskdict._learning.scaling import Scaling, check_sizes, size_of
from taskdict._learning.selection import LAMBDA1S, Choice, choose
from taskdict._learning.sets import Sets
from taskdict._learning.start import Start
from taskdict._learning.state import State
from taskdict._learning.task_settings import AUTO, DEFAULT_LAMBDA1, TaskSettings
from taskdict._learning.trainer import NO_RATE, Trainer
from taskdict._learning.training import Training
from taskdict._learning.training_run import TrainingRun, raise_bad_signal
from taskdict._learning.trial import Trial, hold_trial
from taskdict.constraints import UnitBall
from taskdict.estimators.features import Features
from taskdict.estimators.task_driven.condition import Condition
from taskdict.estimators.task_driven.learned import LearnedTask
from taskdict.estimators.task_driven.targets import Targets
from taskdict.losses import is_quadratic, sees_codes
from taskdict.streams.pairs import Batch, Source

NU = 0.1  # divided by the number of samples
UNKNOWN_SAMPLES = 100_000  # that a stream of unknown length is taken to have
CHECKED_CODES = 1000  # signals that are encoded to see whether lambda1 leaves any code


@dataclass(frozen=True)
class Opened:
    """The source of a fit, with the targets and features that it has shown."""

    source: Source
    targets: Targets
    features: Features
    seed: int
    n_signals: int  # of an array


@dataclass(frozen=True)
class _Plan:
    """A training in which nothing is left open; penalties are in the units of the user."""

    settings: TaskSettings
    scaling: Scaling
    lambda1: float
    nu: float

    @property
    def n_batches(self) -> int:
        """The number of batches for each μ."""
        assert self.settings.max_iter is not None
        return self.settings.max_iter

    def without_training(self) -> _Plan:
        """Return the plan without any batches."""
        return replace(self, settings=replace(self.settings, max_iter=0))

    def of_linear(self, baseline: LinearBaseline) -> _Plan:
        """Return the plan of a joint model that is a linear one, without any batches."""
        return replace(
            self,
            settings=replace(self.settings, max_iter=0, decision="joint"),
            scaling=replace(self.scaling, columns=baseline.columns),
            nu=self.scaling.nu_outside(baseline.nu),
        )

    def trainer(
        self, targets: Targets, sample: Batch, validation: Batch | None, n_features: int, seed: int, n_threads: int
    ) -> Trainer:
        """Return a trainer; sample and validation part are in the units of the training."""
        committee = Committee(self._members(targets, n_features), n_threads)
        schedule = self.settings.schedule(self.scaling)
        return Trainer(committee, schedule, sample, validation, self.settings.batch_size, seed)

    def _members(self, targets: Targets, n_features: int) -> list[Member]:
        settings, scaling = self.settings, self.scaling
        assert settings.n_components is not None
        objective = Objective(
            model_named(settings.decision, scaling.columns),
            targets.loss,
            Coding(scaling.lambda1(self.lambda1), settings.lambda2, settings.positive_code),
            settings.parts(settings.n_components, n_features),
            nu=scaling.nu(self.nu),
            nu2=scaling.nu2(settings.nu2),
            fit_intercept=settings.fit_intercept,
        )
        ball = UnitBall(settings.positive_dictionary)
        sets = Sets(ball, scaling.coef_set(settings.coef_set), settings.transform_set)
        return [Member(objective, sets, select) for select in targets.selects]


def begin(
    estimator: Any,
    settings: TaskSettings,
    opened: Opened,
    previous: Training | None,
    earlier: LearnedTask | None,
    fingerprint: str,
    n_threads: int,
    reporter: Reporter | None,
) -> TrainingRun:
    """Return a run that is ready to step, and publish its record in the estimator.

    Parameters
    ----------
    estimator : estimator
        Whose fit it is.
    settings : TaskSettings
        Its parameters.
    opened : Opened
        The source of batches.
    previous, earlier : Training and LearnedTask, or None
        The training to resume, and the learned task that it belongs to.
    fingerprint : str
        Of the data.
    n_threads : int
        Threads to use.
    reporter : Reporter or None
        Shows what is going on; None for `partial_fit`.
    """
    source, targets, seed = opened.source, opened.targets, opened.seed
    sample = source.sample()
    if not all(np.isfinite(X).all() for X in (sample.X, sample.others)):
        raise_bad_signal(sample, source, 0 if previous is None else previous.state.t)
    if previous is None:
        begun = _begin_anew(settings, opened, sample, n_threads, reporter)
    else:
        assert earlier is not None
        begun = _resume(settings, opened, sample, n_threads, previous, earlier)
    plan, state, trainer = begun.plan, begun.state, begun.trainer
    if state is None:
        raise DivergedError(f"learning_rate={estimator.learning_rate!r} found none: {NO_RATE}")
    found: dict[str, Any] = {
        "scaling": plan.scaling,
        "lambda1": plan.lambda1,
        "nu": plan.nu,
        "fingerprint": fingerprint,
        "decision": plan.settings.decision,
        "max_iter": begun.max_iter,
        "comparison": begun.comparison,
        "best": begun.best,
    }
    if previous is None:
        training = Training(seed=seed, state=replace(state, position=source.state()), steps=[], **found)
    else:
        if source.reads_like(state.position):
            source.restore(state.position)
        training = replace(previous, state=state, **found)
    estimator._learned = LearnedTask.of(plan.settings, targets, training)
    opened.features.publish(estimator)
    return TrainingRun(trainer, source, training, estimator.learning_rate)


@dataclass(frozen=True)
class _Begun:
    """A training that can be continued.

    `max_iter` is the number of batches that was found, 0 if none was asked for; `best` says which model is learned.
    """

    plan: _Plan
    state: State | None  # None if there is no learning rate
    trainer: Trainer
    max_iter: int
    comparison: Comparison | None = None
    best: str = TASK_DRIVEN


def _begin_anew(
    settings: TaskSettings, opened: Opened, sample: Batch, n_threads: int, reporter: Reporter | None
) -> _Begun:
    """Choose what was left open, find where the training starts, and try whether it is worth while."""
    source, targets, seed = opened.source, opened.targets, opened.seed
    say = _silent if reporter is None else reporter.say
    if reporter is not None and settings.lambda1 is None:
        for found in Condition.of(sample.X).warnings:
            warn(found, UserWarning)
    say("learning a dictionary without targets, and choosing what is left open")
    plan, start, dictionary = _plan(settings, targets, sample, source, seed, n_threads, one_batch=reporter is None)
    inside, validation = _inside(plan.scaling, sample, source)

    def trainer_of(plan: _Plan) -> Trainer:
        return plan.trainer(targets, inside, validation, source.n_features, seed, n_threads)

    trainer = trainer_of(plan)
    members = trainer.committee.members

    def begin_on(kept: Batch) -> list[Weights]:
        return start.weights(members, targets.n_outputs, kept, dictionary)

    weights = begin_on(inside)
    if not isinstance(settings.dictionary_init, str):
        dictionary = weights[0].D  # the same for all parts of a trial
    _warn_of_empty_codes(plan, members[0], weights[0], inside, n_threads)
    max_iter = 0 if reporter is None else plan.n_batches
    if validation is None and settings.is_tried and reporter is not None and not source.has_versions:
        say("trying it on a part of the samples")
        baselines = LinearBaseline.candidates(targets, trainer.committee, inside)
        classes = inside.y if inside.y.dtype.kind == "i" else None
        size = settings.samples_of_batch(targets.batch_factor)
        may_be = may_be_linear(settings, baselines[0])
        trial = hold_trial(trainer, begin_on, baselines, classes, size, may_be, say)
        if trial is not None:
            say("fitting the first model")
            if not isinstance(settings.dictionary_init, str):
                weights = list(trial.start)  # a model that is near to that of all samples, on the same dictionary
            return _after_trial(trial, plan, trainer_of, weights, max_iter)
    say("fitting the first model")
    state = trainer.start(weights)
    comparison = None
    if validation is not None and state is not None:
        scores = trainer.committee.scores(state.weights, validation.X)
        comparison = Comparison({UNSUPERVISED: targets.errors(validation.y, scores, validation.weights)})
    return _Begun(plan, state, trainer, max_iter, comparison)


def _after_trial(
    trial: Trial, plan: _Plan, trainer_of: Callable[[_Plan], Trainer], weights: list[Weights], max_iter: int
) -> _Begun:
    """Return the beginning of a training, or its end where a baseline was best."""
    if trial.best == LINEAR:
        plan = plan.of_linear(trial.baseline)
        trainer = trainer_of(plan)
        linear = trial.baseline.in_place_of(weights[0], trial.baseline.fit(trainer.sample))
        schedule = trainer.schedule
        rho = schedule.pace if schedule.adaptive else schedule.rho or 0.0  # 0 is to be found
        return _Begun(plan, State((linear,), (rho,)), trainer, max_iter, trial.comparison, LINEAR)
    if trial.best == UNSUPERVISED:
        plan = plan.without_training()
    trainer = trainer_of(plan)
    return _Begun(plan, trainer.start(weights), trainer, max_iter, trial.comparison, trial.best)


def _warn_of_empty_codes(plan: _Plan, member: Member, weights: Weights, inside: Batch, n_threads: int) -> None:
    """Warn if the codes of some signals are all zero."""
    coded = member.objective.encode(weights, inside.X[:CHECKED_CODES], n_threads)
    if len(coded.encoded.indices) == 0:
        cause = f"lambda1={plan.lambda1:.3g} is too large for them" if inside.X.any() else "all entries of X are zero"
        warn(f"the codes of all signals are zero: {cause}.", UserWarning)


def may_be_linear(settings: TaskSettings, baseline: LinearBaseline) -> bool:
    """Return whether a linear model on the signals may be the result: a joint model without weight on the codes.

    Not with a given ν, since the linear model has another one.
    """
    free = settings.decision in (AUTO, "joint") and settings.nu is None
    return free and settings.n_measurements is None and settings.coef_set is None and baseline.is_of_the_task


def _silent(text: str) -> None:
    pass


def _inside(scaling: Scaling, sample: Batch, source: Source) -> tuple[Batch, Batch | None]:
    """Return the sample and the validation part in the units of the training."""
    return scaling.inside(sample), None if source.validation is None else scaling.inside(source.validation)


def _plan(
    settings: TaskSettings,
    targets: Targets,
    sample: Batch,
    source: Source,
    seed: int,
    n_threads: int,
    one_batch: bool,
) -> tuple[_Plan, Start, Floats | None]:
    """Find what was left open; return a dictionary to start from too, if one was learned for that."""
    X = sample.X if sample.unlabelled is None else np.concatenate([sample.X, sample.unlabelled])
    quick = settings.max_iter is None
    n_labelled, n_signals = (None, None) if one_batch else (len(sample.X), len(X))
    sizes = settings.candidate_sizes(source.n_features, n_labelled, n_signals)
    settings = replace(
        settings,
        n_components=sizes[0],
        max_iter=settings.n_batches(source.n_labelled, targets.batch_factor),
        early_stopping=settings.stops_early(source.validation is not None),
    )
    sees = sees_codes(targets.loss)
    is_chosen = settings.is_open and not sees and settings.mu != (1.0,)
    if settings.decision == AUTO and not is_chosen:
        settings = replace(settings, decision="linear")
    size = size_of(X) or 1.0
    c = 1.0 if sees else size
    s, offset = targets.scaling(sample.y, settings.fit_intercept)
    check_sizes(X.dtype, size, s)
    scaling = Scaling(c, s, offset, model_named(settings.decisions[0]).degree)
    inside = scaling.inside(sample)
    n_samples = max(1, source.n_labelled or UNKNOWN_SAMPLES)
    of_nu = c ** (2 * scaling.degree) / n_samples  # the unit of ν
    starts = [Start(settings, inside, sum(each), seed, n_threads, quick=quick) for each in sizes]
    columns = Columns.of(starts[0].signals, center=settings.fit_intercept)
    if not is_chosen:
        lambda1 = DEFAULT_LAMBDA1 * size if settings.lambda1 is None else settings.lambda1
        nu = NU * of_nu if settings.nu is None else settings.nu
        scaling = _with_columns(scaling, settings.decision, columns)
        return _Plan(settings, scaling, lambda1, nu), starts[0], None
    choices = [
        _choose(replace(settings, n_components=each), start, inside, targets, scaling, columns, n_threads)
        for each, start in zip(sizes, starts, strict=True)
    ]
    k = min(range(len(choices)), key=lambda k: choices[k].error)
    choice = choices[k]
    settings = replace(settings, n_components=sizes[k], decision=choice.decision)
    plan = _Plan(
        settings,
        _with_columns(scaling, choice.decision, columns),
        choice.lambda1 * c if settings.lambda1 is None else settings.lambda1,
        choice.nu * of_nu if settings.nu is None else settings.nu,
    )
    return plan, starts[k], choice.dictionary


def _choose(
    settings: TaskSettings,
    start: Start,
    inside: Batch,
    targets: Targets,
    scaling: Scaling,
    columns: Columns,
    n_threads: int,
) -> Choice:
    """Choose λ1, the model and ν for dictionaries of some size."""
    assert settings.n_components is not None
    signals = start.signals
    parts = settings.parts(settings.n_components, inside.X.shape[1])
    spread = size_of(signals - signals.mean(axis=0, dtype=np.float64).astype(signals.dtype)) or size_of(inside.X) or 1.0
    given = None if settings.lambda1 is None else scaling.lambda1(settings.lambda1)
    return choose(
        start.measured(inside.X),
        targets.numbers(inside.y),
        inside.weights,
        lambda coding, first: start.dictionary(coding, parts, first),
        Coding(0.0, settings.lambda2, settings.positive_code),
        parts,
        lambda1s=[share * spread for share in LAMBDA1S] if given is None else [given],
        decisions=settings.decisions,
        columns=columns,
        quadratic=is_quadratic(targets.loss),
        fit_intercept=settings.fit_intercept,
        n_threads=n_threads,
    )


def _with_columns(scaling: Scaling, decision: str, columns: Columns) -> Scaling:
    return replace(scaling, columns=columns) if decision == "joint" else scaling


def _resume(
    settings: TaskSettings, opened: Opened, sample: Batch, n_threads: int, previous: Training, earlier: LearnedTask
) -> _Begun:
    """Return a training that is resumed; parameters that were given anew take effect."""
    source, targets = opened.source, opened.targets
    n_batches = previous.max_iter or settings.n_batches(source.n_labelled, targets.batch_factor)
    if settings.max_iter is not None:
        n_batches = settings.max_iter
    settings = replace(
        settings,
        n_components=settings.n_components or earlier.sizes,
        decision=previous.decision,
        max_iter=0 if previous.is_left_out(settings.max_iter) else n_batches,
        early_stopping=settings.stops_early(source.validation is not None),
    )
    lambda1 = previous.lambda1 if settings.lambda1 is None else settings.lambda1
    nu = previous.nu if settings.nu is None else settings.nu
    plan = _Plan(settings, previous.scaling, lambda1, nu)
    inside, validation = _inside(plan.scaling, sample, source)
    trainer = plan.trainer(targets, inside, validation, source.n_features, opened.seed, n_threads)
    state = previous.state
    if validation is None and state.best is not None:  # continue from the weights in use
        state = replace(state, weights=state.best, best=None, best_value=np.inf, stale=0)
    best = previous.best if trainer.is_done(state) else TASK_DRIVEN
    return _Begun(plan, trainer.resume(state), trainer, n_batches, previous.comparison, best)
