"""The end of a fit: what it has gained on held-out samples, beside the baselines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taskdict._common.arrays import Floats
from taskdict._common.progress import Reporter
from taskdict._common.warn import warn
from taskdict._learning.baseline import LinearBaseline
from taskdict._learning.comparison import (
    LINEAR,
    TASK_DRIVEN,
    UNSUPERVISED,
    BaselineWarning,
    Comparison,
    weighed,
)
from taskdict._learning.convex import Linear
from taskdict._learning.models import JointModel
from taskdict._learning.state import State
from taskdict._learning.training import Training
from taskdict._learning.training_run import TrainingRun
from taskdict.estimators.task_driven.beginning import may_be_linear
from taskdict.estimators.task_driven.learned import LearnedTask
from taskdict.estimators.task_driven.targets import ClassTargets

WORDS = {
    TASK_DRIVEN: "task-driven model",
    UNSUPERVISED: "codes of the unsupervised dictionary",
    LINEAR: "linear model on the signals",
}
ONE_SCALE = 10.0  # features whose sizes differ by a larger factor are not on one scale


def conclude(estimator: object, run: TrainingRun, reporter: Reporter) -> None:
    """Complete the comparison with the baselines, show it, and warn if one of them is better."""
    training, trainer = run.training, run.trainer
    if training.comparison is not None and not training.comparison.of_trial and trainer.validation is not None:
        reporter.say("comparing with the baselines")
        _validate(estimator, run)
    comparison = training.comparison
    if comparison is None or not comparison.is_complete:
        training.comparison = None
        return
    learned: LearnedTask = vars(estimator)["_learned"]
    score = "accuracy" if isinstance(learned.targets, ClassTargets) else "R²"
    reporter.conclude(_sentence(comparison, score))
    advice = _advice(comparison, training, score, _are_on_one_scale(run))
    if advice:
        warn(advice, BaselineWarning)


def _validate(estimator: object, run: TrainingRun) -> None:
    """Complete the comparison on the validation part; keep the linear model if its loss is lower, and its score not."""
    training, trainer = run.training, run.trainer
    held, comparison = trainer.validation, training.comparison
    assert held is not None
    assert comparison is not None
    learned: LearnedTask = vars(estimator)["_learned"]
    scores = trainer.committee.scores(training.state.chosen, held.X)
    found: list[tuple[float, LinearBaseline, Linear, Floats]] = []
    linear: Linear | None = None
    for baseline in LinearBaseline.candidates(learned.targets, trainer.committee, trainer.sample):
        linear = baseline.fit(trainer.sample, linear)
        linear_scores = baseline.scores(linear, held.X)
        loss = float(weighed(baseline.losses(held.y, linear_scores), held).mean())
        found.append((loss, baseline, linear, linear_scores))
    theirs, baseline, best, linear_scores = min(found, key=lambda each: each[0])
    training.comparison = comparison.with_errors(
        **{
            LINEAR: weighed(baseline.errors(held.y, linear_scores), held),
            TASK_DRIVEN: weighed(learned.targets.errors(held.y, scores), held),
        }
    )
    settings = learned.targets.settings
    if not settings.is_tried or not may_be_linear(settings, baseline):
        return
    ours = float(weighed(trainer.committee.losses(training.state.chosen, held), held).mean())
    if theirs < ours and training.comparison.scores[LINEAR] >= training.comparison.scores[TASK_DRIVEN]:
        _replace(estimator, training, baseline, best)


def _replace(estimator: object, training: Training, baseline: LinearBaseline, linear: Linear) -> None:
    """Let the linear model be the result, as a joint model on the last dictionary without weight on the codes."""
    state, learned = training.state, vars(estimator)["_learned"]
    weights = baseline.in_place_of(state.chosen[0], linear)
    training.state = State((weights,), state.rhos, t=state.t, position=state.position, stopped=True)
    training.scaling = replace(training.scaling, columns=baseline.columns)
    training.decision, training.best = "joint", LINEAR
    vars(estimator)["_learned"] = replace(learned, training=training, model=JointModel())


def _are_on_one_scale(run: TrainingRun) -> bool:
    """Return whether the features of the signals are of similar sizes."""
    spreads = run.trainer.sample.X.std(axis=0, dtype=np.float64)
    spreads = spreads[spreads > 0]
    return len(spreads) == 0 or float(spreads.max() / spreads.min()) < ONE_SCALE


def _sentence(comparison: Comparison, score: str) -> str:
    values = ", ".join(f"{words} {comparison.scores[name]:.3f}" for name, words in WORDS.items())
    return f"{score} on {comparison.n_samples} held-out samples: {values}"


def _advice(comparison: Comparison, training: Training, score: str, on_one_scale: bool) -> str:
    """Return what was found and what to try, nothing if no baseline is better."""
    found = _sentence(comparison, score)
    scale = "" if on_one_scale else ", bring the features to one scale (StandardScaler)"
    if training.best == LINEAR:
        return (
            f"{found}. The linear model has the lowest loss on them, so it is the result: the weights of the codes are "
            "zero. The task may be linear; scikit-learn's LogisticRegression or Ridge does the same. To learn more "
            f"from the dictionary, give more samples{scale}, or choose n_components and lambda1."
        )
    left_out = ""
    if training.best == UNSUPERVISED:
        left_out = (
            "Training the dictionary for the task did not help, so it was left out: the result is the model on the "
            "unsupervised codes."
        )
    better = LINEAR if left_out else comparison.best_baseline()
    if better == LINEAR and comparison.is_clearly_better(LINEAR, training.best):
        linear = (
            "The linear model is better by more than a standard error, so the task may be linear: scikit-learn's "
            f"LogisticRegression or Ridge may do. Otherwise give more samples{scale}, or set decision='joint', which "
            "contains the linear model."
        )
        return " ".join(filter(None, (f"{found}.", left_out, linear)))
    if not comparison.is_clearly_better(UNSUPERVISED, TASK_DRIVEN):
        return ""
    fewer = "try fewer atoms (n_components), a larger lambda1 or a larger nu"
    if left_out:
        return f"{found}. {left_out} To learn more from the task, give more samples{scale}, or {fewer}."
    return (
        f"{found}. Training the dictionary for the task did not help. Give more samples{scale}, or {fewer}, or "
        "early_stopping='auto' with max_iter=None, which leaves the training out where it does harm."
    )
