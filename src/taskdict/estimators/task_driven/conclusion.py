"""The end of a fit: what it has gained on held-out samples, beside the baselines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

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
    clearly_less,
    weighed,
)
from taskdict._learning.convex import Linear
from taskdict._learning.models import JointModel
from taskdict._learning.state import State
from taskdict._learning.training_run import TrainingRun
from taskdict._learning.trial import FEW
from taskdict.estimators.task_driven.beginning import may_be_linear
from taskdict.estimators.task_driven.condition import Condition
from taskdict.estimators.task_driven.learned import LearnedTask
from taskdict.estimators.task_driven.targets import ClassTargets

WORDS = {
    TASK_DRIVEN: "task-driven model",
    UNSUPERVISED: "codes of the unsupervised dictionary",
    LINEAR: "linear model on the signals",
}


def conclude(estimator: object, run: TrainingRun, reporter: Reporter) -> None:
    """Complete the comparison with the baselines, show it, and warn if one of them is better."""
    training, trainer = run.training, run.trainer
    if training.comparison is not None and not training.comparison.of_trial and trainer.validation is not None:
        reporter.say("comparing with the baselines")
        _validate(estimator, run)
    training = run.training
    comparison = training.comparison
    if comparison is None or not comparison.is_complete:
        training.comparison = None
        return
    targets = vars(estimator)["_learned"].targets
    score = "accuracy" if isinstance(targets, ClassTargets) else "R²"
    found = f"{score if trainer.sample.weights is None else f'weighted {score}'} on {_sentence(comparison)}"
    reporter.conclude(found)
    of_constant = targets.constant_score(trainer.sample.y, trainer.sample.weights)
    advice = _advice(comparison, training.best, of_constant, Condition.of(trainer.sample.X).remedy)
    if advice:
        warn(f"{found}. {advice}", BaselineWarning)


def _validate(estimator: object, run: TrainingRun) -> None:
    """Complete the comparison on the validation part; keep the linear model if its loss is lower, and its score not."""
    training, trainer = run.training, run.trainer
    held, comparison = trainer.validation, training.comparison
    assert held is not None
    assert comparison is not None
    learned: LearnedTask = vars(estimator)["_learned"]
    scores = trainer.committee.scores(training.state.chosen, held.X)
    found: list[tuple[NDArray[np.float64], LinearBaseline, Linear, Floats]] = []
    baselines = LinearBaseline.candidates(learned.targets, trainer.committee, trainer.sample)
    for baseline, linear in zip(baselines, LinearBaseline.fit_all(baselines, trainer.sample), strict=True):
        linear_scores = baseline.scores(linear, held.X)
        losses = weighed(baseline.losses(held.y, linear_scores), held.weights)
        found.append((losses, baseline, linear, linear_scores))
    theirs, baseline, best, linear_scores = min(found, key=lambda each: float(each[0].mean()))
    training.comparison = comparison = comparison.with_errors(
        **{
            LINEAR: baseline.errors(held.y, linear_scores, held.weights),
            TASK_DRIVEN: learned.targets.errors(held.y, scores, held.weights),
        }
    )
    settings = learned.targets.settings
    if not settings.is_tried or not may_be_linear(settings, baseline):
        return
    ours = weighed(trainer.committee.losses(training.state.chosen, held), held.weights)
    is_better = theirs.mean() < ours.mean() and comparison.scores[LINEAR] >= comparison.scores[TASK_DRIVEN]
    if is_better and (len(ours) >= FEW or clearly_less(theirs, ours)):
        _replace(estimator, run, baseline, best)


def _replace(estimator: object, run: TrainingRun, baseline: LinearBaseline, linear: Linear) -> None:
    """Let the linear model be the result, as a joint model on the last dictionary without weight on the codes."""
    training, learned = run.training, vars(estimator)["_learned"]
    state, scaling = training.state, replace(training.scaling, columns=baseline.columns)
    weights = baseline.in_place_of(state.chosen[0], linear)
    run.training = replace(
        training,
        state=State((weights,), state.rhos, t=state.t, position=state.position, stopped=True),
        scaling=scaling,
        nu=scaling.nu_outside(baseline.nu),
        decision="joint",
        best=LINEAR,
    )
    vars(estimator)["_learned"] = replace(learned, training=run.training, model=JointModel())


def _sentence(comparison: Comparison) -> str:
    values = ", ".join(f"{words} {comparison.scores[name]:.3f}" for name, words in WORDS.items())
    return f"{comparison.n_samples} held-out samples: {values}"


def _advice(comparison: Comparison, kept: str, of_constant: float, remedy: str) -> str:
    """Return what to try, nothing if no baseline is better.

    Parameters
    ----------
    comparison : Comparison
        All three models on held-out samples.
    kept : str
        Which of them is the result.
    of_constant : float
        The score of a model that is the same for all signals.
    remedy : str
        What to change in the signals, as a part of a sentence.
    """
    if max(comparison.scores.values()) < of_constant + 0.5 / comparison.n_samples:
        return (
            "None of them is better than one answer for all signals, the mean of the targets or the most frequent "
            "class. Check that the targets belong to the signals; for classes of very different sizes, try "
            f"class_weight='balanced'. Otherwise give more samples{remedy}."
        )
    if kept == LINEAR:
        few = comparison.of_trial and comparison.n_samples < FEW
        reason = "no other is clearly better on so few samples" if few else "it has the lowest loss on them"
        return (
            f"The linear model is the result, since {reason}: the weights of the codes are zero. The task may be "
            f"linear; then scikit-learn's LogisticRegression or Ridge may do. Otherwise give more samples{remedy}, or "
            "choose n_components and lambda1."
        )
    left_out = ""
    if kept == UNSUPERVISED:
        left_out = (
            "Training the dictionary for the task did not help, so it was left out: the result is the model on the "
            "unsupervised codes. "
        )
    better = LINEAR if left_out else comparison.best_baseline()
    if better == LINEAR and comparison.is_clearly_better(LINEAR, kept):
        return (
            f"{left_out}The linear model is better by more than a standard error, so the task may be linear: "
            f"scikit-learn's LogisticRegression or Ridge may do. Otherwise give more samples{remedy}, or set "
            "decision='joint', which contains the linear model."
        )
    fewer = "try fewer atoms (n_components), a larger lambda1 or a larger nu"
    if left_out:
        return f"{left_out}To learn more from the task, give more samples{remedy}, or {fewer}."
    if not comparison.is_clearly_better(UNSUPERVISED, TASK_DRIVEN):
        return ""
    return (
        f"Training the dictionary for the task did not help. Give more samples{remedy}, or {fewer}, or "
        "early_stopping='auto' with max_iter=None, which leaves the training out where it does harm."
    )
