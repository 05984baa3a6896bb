"""The runs of the experiment with few labels."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict import datasets
from taskdict._common.progress import Progress
from taskdict.estimators import TaskDrivenClassifier
from taskdict.experiments.digits.procedure import n_directions, percent_wrong, training_and_test
from taskdict.experiments.frame import Measure, Task
from taskdict.experiments.record import Json, write_json
from taskdict.experiments.runner import Run
from taskdict.experiments.semi_supervised import MUS, SemiSupervisedSettings
from taskdict.images import ImageClassifier

RECIPES: dict[str, Json] = {
    "paper": {"bend": 0.0, "learning_rate": "auto"},
    "ours": {"bend": 0.8, "learning_rate": "adaptive"},
}


NOT_OF_A_RUN = ("labels", "draws", "recipe", "is_small")


def load(settings: SemiSupervisedSettings, data: str | None) -> datasets.Digits:
    """Load the digits."""
    return datasets.LOADERS[settings.data_set](data)


def find(settings: SemiSupervisedSettings, digits: datasets.Digits, measure: Measure) -> Json:
    """Learn from each number of labels with each draw of them."""
    common = {key: value for key, value in asdict(settings).items() if key not in NOT_OF_A_RUN}
    common |= RECIPES[settings.recipe] | {"n_directions": n_directions(settings.recipe, digits)}
    runs = [
        Run(f"labels{n}-draw{draw}", {**common, "labels": n, "draw": draw})
        for draw in settings.draws
        for n in settings.labels
    ]
    return {"results": measure(runs)}


def work(task: Task) -> Json:
    """Do one run: return the errors for each μ, on the test set and on the last digits of the training set.

    The labels of the latter are not used in the training.
    """
    settings, digits = task.settings, task.data
    _, labels, validation, y_validation = training_and_test(digits, "validation", None)
    known = balanced(labels, settings["labels"], settings["draw"])
    y = np.full(len(digits.labels), -1)
    y[known] = labels[known]
    labelled = np.flatnonzero(y >= 0)
    others = np.flatnonzero(y < 0)[: settings["limit"]]
    rows = np.sort(np.concatenate([labelled, others]))
    stored = task.checkpoint.with_name(f"{task.checkpoint.name}.errors")  # of the values of μ that are done
    errors: Json = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}

    def evaluate(progress: Progress) -> None:
        done, rest = divmod(progress.n_iter, settings["iterations"])
        if rest == 0 and f"{MUS[done - 1]:g}" not in errors:
            errors[f"{MUS[done - 1]:g}"] = {
                "validation": percent_wrong(model.decision_function(validation), y_validation),
                "test": percent_wrong(model.decision_function(digits.test_images), digits.test_labels),
                "pooled_test": percent_wrong(
                    model.set_params(pool=8).decision_function(digits.test_images), digits.test_labels
                ),
            }
            model.set_params(pool=0)
            write_json(stored, errors)
        task.report(progress.n_iter, progress.max_iter or 0)

    classifier = TaskDrivenClassifier(
        settings["size"],
        lambda1=settings["lambda1"],
        lambda2=0.0,
        nu=settings["nu"],
        multi_class="ovr",
        decision="linear",
        mu=list(MUS),
        learning_rate=settings["learning_rate"],
        batch_size=2 * settings["batch_size"],  # every second is without a label
        max_iter=settings["iterations"],
        validation_fraction=0.0,
        checkpoint=str(task.checkpoint),
        random_state=settings["draw"],
        n_threads=task.n_threads,
        callbacks=evaluate,
    )
    model = ImageClassifier(
        classifier,
        shifts=8,
        bend=settings["bend"],
        n_directions=settings["n_directions"],
        random_state=settings["draw"],
    )
    model.fit(digits.images[rows], y[rows])
    best = min(MUS, key=lambda mu: errors[f"{mu:g}"]["validation"])
    return {"errors": errors, "chosen_mu": best, "labelled": sorted(int(row) for row in known)}


def balanced(labels: NDArray[Any], n: int, seed: int) -> NDArray[np.intp]:
    """Return n rows, the same number of each class."""
    rng = np.random.default_rng(seed)
    classes = np.unique(labels)
    if n % len(classes) != 0:
        raise ValueError(f"--labels must be multiples of {len(classes)}, got {n}.")
    each = [rng.permutation(np.flatnonzero(labels == k))[: n // len(classes)] for k in classes]
    if any(len(rows) < n // len(classes) for rows in each):
        raise ValueError(f"--labels {n} is more than the data set has of each class.")
    return np.concatenate(each)
