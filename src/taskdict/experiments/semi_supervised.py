"""Digits with few labels (paper, Section 5.2, second experiment): errors for a falling weight μ of reconstruction.

Some digits have labels, as many of each class; of the others only the pictures are used. From μ = 1, where the
dictionary only reconstructs, μ falls to 0, where it only classifies; the descent goes on from one value to the next.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from taskdict import datasets
from taskdict.estimators import ImageClassifier, TaskDrivenClassifier
from taskdict.experiments.digits import n_directions, parts, percent_wrong
from taskdict.experiments.runs import Json, Report, Run, Runner, keep_record, write_json
from taskdict.progress import Progress

RECIPES: dict[str, Json] = {
    "paper": {"bend": 0.0, "learning_rate": "auto"},
    "ours": {"bend": 0.8, "learning_rate": "adaptive"},
}
MUS = tuple(round(1 - 0.1 * k, 1) for k in range(11))
PAPER = {300: 5.81, 1000: 3.55, 5000: 1.81}  # lowest test error over μ in percent, by number of labels


@dataclass(frozen=True)
class Settings:
    """What the experiment is; the defaults are the paper's, except for the moved digits, of which it does not speak.

    Digits are moved in all eight directions. `recipe` is "paper", or "ours": digits also bent, represented by their
    principal directions, and adaptive steps.
    `draws` are seeds of the random choice of labels: those of the paper are not public.
    """

    data_set: str = "mnist"
    labels: tuple[int, ...] = (300, 1000, 5000)
    draws: tuple[int, ...] = (0, 1, 2)
    size: int = 300
    lambda1: float = 0.075
    nu: float = 1e-5
    iterations: int = 10_000  # for each μ
    batch_size: int = 200  # with labels, and as many without
    recipe: str = "paper"
    limit: int | None = None  # digits without labels, None for all

    def quick(self) -> Settings:
        """Return a small version of the same experiment."""
        most = 300 if self.data_set != "bundled" else 100
        return replace(self, labels=(most,), draws=(0,), size=50, iterations=20, limit=5_000)


def reproduce(
    settings: Settings,
    folder: Path,
    *,
    data: str | None = None,
    n_threads: int | None = None,
    file: TextIO | None = None,
) -> Json:
    """Do the experiment, or what is left of it, and return its record; arguments as in :func:`digits.reproduce`."""
    digits = datasets.LOADERS[settings.data_set](data)
    common = {key: value for key, value in asdict(settings).items() if key not in ("labels", "draws", "recipe")}
    common |= RECIPES[settings.recipe] | {"n_directions": n_directions(settings.recipe, digits)}
    runs = [
        Run(f"labels{n}-draw{draw}", {**common, "sha256": digits.sha256, "labels": n, "draw": draw}, {"data": data})
        for draw in settings.draws
        for n in settings.labels
    ]
    results = Runner(folder, work, n_threads, file).results(runs)
    data_set = {"name": digits.name, "sha256": digits.sha256}
    return keep_record(folder, "digits, semi-supervised", settings, data_set, results=results)


def work(run: Run, checkpoint: Path, n_threads: int, report: Report) -> Json:
    """Do one run: return the errors for each μ, on the test set and on the last digits of the training set.

    The labels of the latter have no part in the training.
    """
    settings = run.settings
    digits = datasets.LOADERS[settings["data_set"]](run.inputs["data"])
    if digits.sha256 != settings["sha256"]:
        raise datasets.DataError("the data have changed since the experiment began.")
    _, labels, validation, y_validation = parts(digits, "validation", None)
    known = balanced(labels, settings["labels"], settings["draw"])
    y = np.full(len(digits.labels), -1)
    y[known] = labels[known]
    kept = np.flatnonzero(y >= 0)
    others = np.flatnonzero(y < 0)[: settings["limit"]]
    rows = np.sort(np.concatenate([kept, others]))
    stored = checkpoint.with_name(f"{checkpoint.name}.errors")  # for the values of μ that are done
    errors: Json = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}

    def look(progress: Progress) -> None:
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
        report(progress.n_iter, progress.max_iter or 0)

    classifier = TaskDrivenClassifier(
        settings["size"],
        lambda1=settings["lambda1"],
        nu=settings["nu"],
        mu=list(MUS),
        learning_rate=settings["learning_rate"],
        batch_size=2 * settings["batch_size"],  # every second is without a label
        max_iter=settings["iterations"],
        validation_fraction=0.0,
        checkpoint=str(checkpoint),
        random_state=settings["draw"],
        n_threads=n_threads,
        callbacks=look,
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
    """Return n rows, as many of each class."""
    rng = np.random.default_rng(seed)
    classes = np.unique(labels)
    if n % len(classes) != 0:
        raise ValueError(f"--labels must be multiples of {len(classes)}, got {n}.")
    each = [rng.permutation(np.flatnonzero(labels == k))[: n // len(classes)] for k in classes]
    if any(len(rows) < n // len(classes) for rows in each):
        raise ValueError(f"--labels {n} is more than the data set has of each class.")
    return np.concatenate(each)
