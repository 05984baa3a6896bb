"""Handwritten digits (paper, Section 5.2): errors of unsupervised and of task-driven dictionaries, Table 1.

One dictionary and one binary classifier per class. λ1 and ν are chosen on digits that are kept from the training set;
then the models are learned again on all of it. The labels of the test set are used for the last figures only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from taskdict import datasets
from taskdict._normalise import unit_norm
from taskdict.coding import sparse_encode
from taskdict.descent import DivergedError
from taskdict.estimators import DictionaryLearning, ImageClassifier, TaskDrivenClassifier
from taskdict.experiments.runs import Json, Report, Run, Runner, keep_record
from taskdict.streams import ImageStream

LAMBDA1 = tuple(round(0.15 + 0.025 * k, 3) for k in range(-3, 4))  # the paper's
NU = tuple(10.0**-k for k in range(1, 7))  # the paper's
RHO = (0.5, 1.0, 2.0, 5.0, 10.0)
FIRST = {"lambda1": 0.1, "nu": 1e-5}  # until they are chosen
BENDS = (0.0, 0.5, 0.8, 1.1)  # of which our recipe takes the best
STARTS = ("halves", "mixed", "class")  # where the atoms of an unsupervised dictionary come from
LARGEST_LOSS = 1e9  # of a learning rate that diverges
BATCHES = 200  # that an unsupervised dictionary learns from
DIRECTIONS = 200  # of our recipe, at most
PAPER = {  # test errors in percent: by data set, unsupervised and supervised, for each size
    "mnist": {
        "unsupervised": {50: 5.27, 100: 3.92, 200: 2.95, 300: 2.36},
        "supervised": {50: 0.96, 100: 0.73, 200: 0.57, 300: 0.54},
    },
    "usps": {
        "unsupervised": {50: 8.02, 100: 6.03, 200: 5.13, 300: 4.58},
        "supervised": {50: 3.64, 100: 3.09, 200: 2.88, 300: 2.84},
    },
}


@dataclass(frozen=True)
class Settings:
    """What the experiment is; the defaults are the paper's.

    Digits are moved by one pixel in all eight directions. `recipe` is "paper": one learning rate for all parameters,
    the last iterate, one look at a test digit; or "ours": digits bent and represented by their principal directions,
    adaptive steps, the average of the last iterates where that is better, and nine looks.
    """

    data_set: str = "mnist"
    recipe: str = "paper"
    sizes: tuple[int, ...] = (50, 100, 200, 300)
    iterations: int = 40_000
    batch_size: int = 200
    seeds: tuple[int, ...] = (0,)
    multi_class: str = "ovr"  # one dictionary per class; "softmax" shares one
    lambda2: float = 0.0
    lambda1: tuple[float, ...] = LAMBDA1  # to choose from
    nu: tuple[float, ...] = NU
    rho: tuple[float, ...] = RHO  # learning rates of the paper's recipe
    bends: tuple[float, ...] = BENDS  # of ours
    starts: tuple[str, ...] = STARTS  # of unsupervised dictionaries
    selection_size: int = 100  # atoms of the models that λ1, ν and the bend are chosen with
    selection_iterations: int = 1_000
    limit: int | None = None  # digits to learn from, None for all

    def quick(self) -> Settings:
        """Return a small version of the same experiment."""
        few = min(s for s in (*self.sizes, 50))
        return replace(
            self,
            sizes=(few,),
            iterations=1_000,
            lambda1=self.lambda1[:: max(1, len(self.lambda1) // 2)][:3],
            nu=tuple(n for n in self.nu if n in (1e-3, 1e-5)) or self.nu[:1],
            rho=(5.0,),
            bends=self.bends[1:2],
            starts=self.starts[:1],
            selection_size=few,
            selection_iterations=200,
            limit=10_000,
        )


def reproduce(
    settings: Settings,
    folder: Path,
    *,
    data: str | None = None,
    n_threads: int | None = None,
    file: TextIO | None = None,
) -> Json:
    """Do the experiment, or what is left of it, and return its record, which is also written to ``record.json``.

    Parameters
    ----------
    settings : Settings
        What to do.
    folder : Path
        Where the record, the results of all runs, the models and the checkpoints go.
    data : str or None
        Folder with the data sets, see :mod:`taskdict.datasets`.
    n_threads : int or None
        Cores to use.
    file : file or None
        Where to show progress.
    """
    digits = datasets.LOADERS[settings.data_set](data)
    runner = Runner(folder, work, n_threads, file)
    inputs = {"data": data}
    common = {
        "data_set": settings.data_set,
        "sha256": digits.sha256,
        "batch_size": settings.batch_size,
        "multi_class": settings.multi_class,
        "lambda2": settings.lambda2,
        "limit": settings.limit,
    }
    learning = {
        "average": settings.recipe == "ours",
        "n_directions": n_directions(settings.recipe, digits),
        "iterations": settings.iterations,
    }
    chosen, start, selection = select(settings, common, learning, inputs, runner)
    runs = []
    for kind, more in (("supervised", learning), ("unsupervised", {"start": start})):  # those that take long come first
        for p in sorted(settings.sizes, reverse=True):
            for seed in settings.seeds:
                mine = {**common, **chosen, "part": "test", "p": p, "seed": seed, "kind": kind, **more}
                runs.append(Run(f"{kind}-p{p}-seed{seed}", mine, inputs))
    results = runner.results(runs)
    data_set = {"name": digits.name, "sha256": digits.sha256}
    return keep_record(
        folder, "digits", settings, data_set, chosen={**chosen, "start": start}, selection=selection, results=results
    )


def select(
    settings: Settings, common: Json, learning: Json, inputs: Json, runner: Runner
) -> tuple[Json, str, list[Json]]:
    """Return ρ, λ1, ν and the bend with the lowest error on the validation part, one chosen after the other.

    Of equal errors, the lower loss counts. The paper's recipe has no bend, ours no ρ. Then the start of the
    unsupervised dictionaries, which do not learn from the task. All that was tried comes last.
    """
    ours = settings.recipe == "ours"
    measure = "pooled_error" if ours else "error"
    choices: dict[str, tuple[float, ...]] = {"lambda1": settings.lambda1, "nu": settings.nu}
    choices = {**choices, "bend": settings.bends} if ours else {"learning_rate": settings.rho, **choices}
    chosen: Json = {"learning_rate": "adaptive", "bend": 0.0}
    for name, values in choices.items():
        first = FIRST.get(name, values[len(values) // 2])
        chosen[name] = min(values, key=lambda value: abs(value - first))
    common = {**common, "part": "validation", "p": settings.selection_size, "seed": settings.seeds[0]}
    tried: list[Json] = []

    def best(name: str, values: Sequence[Any], fixed: Json, measure: str) -> Any:
        runs = []
        for value in values:
            candidate = {**chosen, name: value}
            label = "-".join(f"{key}{v}" if isinstance(v, str) else f"{key}{v:g}" for key, v in candidate.items())
            runs.append(Run(f"select-{label}", {**common, **fixed, **candidate}, inputs))
        results = runner.results(runs)
        tried.extend(result for result in results if result not in tried)
        return values[min(range(len(values)), key=lambda k: (results[k][measure], results[k]["loss"]))]

    supervised = {"kind": "supervised", **learning, "iterations": settings.selection_iterations}
    for name, values in choices.items():
        if len(values) > 1:
            chosen[name] = best(name, values, supervised, measure)
    start = settings.starts[0]
    if len(settings.starts) > 1 and settings.multi_class == "ovr":
        start = best("start", settings.starts, {"kind": "unsupervised"}, "error")
    return chosen, start, tried


def work(run: Run, checkpoint: Path, n_threads: int, report: Report) -> Json:
    """Do one run; the model of a supervised one that is tested goes to ``models/``."""
    settings = run.settings
    digits = datasets.LOADERS[settings["data_set"]](run.inputs["data"])
    if digits.sha256 != settings["sha256"]:
        raise datasets.DataError("the data have changed since the experiment began.")
    X, y, X_test, y_test = parts(digits, settings["part"], settings["limit"])
    if settings["kind"] == "unsupervised":
        return unsupervised(settings, X, y, X_test, y_test, n_threads, report)
    try:
        model, result = supervised(settings, X, y, X_test, y_test, checkpoint, n_threads, report)
    except DivergedError:
        if settings["part"] == "test":
            raise
        return {"error": 100.0, "pooled_error": 100.0, "loss": LARGEST_LOSS, "diverged": True}
    if settings["part"] == "test":
        models = checkpoint.parent.parent / "models"
        models.mkdir(exist_ok=True)
        model.classifier_.set_params(n_threads=None, checkpoint=None)  # of this machine and this run
        model.save(models / f"{run.name}.safetensors")
    return result


def n_directions(recipe: str, digits: datasets.Digits) -> int | None:
    """Return how many principal directions stand for a digit, None for its pixels."""
    n_pixels = digits.images.shape[1] * digits.images.shape[2]
    return min(DIRECTIONS, n_pixels // 2) if recipe == "ours" else None


def parts(digits: datasets.Digits, part: str, limit: int | None) -> tuple[NDArray[Any], ...]:
    """Return what to learn from and what to test on: the test set, or the last digits of the training set."""
    X, y, X_test, y_test = digits.images, digits.labels, digits.test_images, digits.test_labels
    if part == "validation":
        kept = 10_000 if digits.name == "mnist" else len(X) // 10
        X, y, X_test, y_test = X[:-kept], y[:-kept], X[-kept:], y[-kept:]
    return X[:limit], y[:limit], X_test, y_test


def supervised(
    settings: Json,
    X: NDArray[Any],
    y: NDArray[Any],
    X_test: NDArray[Any],
    y_test: NDArray[Any],
    checkpoint: Path,
    n_threads: int,
    report: Report,
) -> tuple[ImageClassifier, Json]:
    """Learn task-driven models; return them and their errors, with one look at each digit and with nine."""
    classifier = TaskDrivenClassifier(
        settings["p"],
        lambda1=settings["lambda1"],
        lambda2=settings["lambda2"],
        multi_class=settings["multi_class"],
        nu=settings["nu"],
        batch_size=settings["batch_size"],
        max_iter=settings["iterations"],
        learning_rate=settings["learning_rate"],
        average=settings["average"],
        dictionary_init="classes",
        checkpoint=str(checkpoint),
        random_state=settings["seed"],
        n_threads=n_threads,
        callbacks=lambda progress: report(progress.n_iter, progress.max_iter),
    )
    model = ImageClassifier(
        classifier,
        shifts=8,
        bend=settings["bend"],
        n_directions=settings["n_directions"],
        random_state=settings["seed"],
    )
    model.fit(X, y)
    scores = model.decision_function(X_test)
    model.set_params(pool=8)
    result = {
        "error": percent_wrong(scores, y_test),
        "pooled_error": percent_wrong(model.decision_function(X_test), y_test),
        "loss": loss(scores, y_test),
        "nonzeros": nonzeros(model, X_test[:1000], settings["p"]),
        "learning_rates": [float(rho) for rho in np.atleast_1d(model.classifier_.learning_rate_)],
    }
    return model.set_params(pool=8 if settings["average"] else 0), result


def unsupervised(
    settings: Json,
    X: NDArray[Any],
    y: NDArray[Any],
    X_test: NDArray[Any],
    y_test: NDArray[Any],
    n_threads: int,
    report: Report,
) -> Json:
    """Learn dictionaries without a task; then the models on their codes.

    The start "halves" has half of the atoms from the class and half from the other classes, "class" has all from the
    class, and "mixed" from a mix of as many digits of the class as of others. One dictionary for all classes has as
    many atoms from each.
    """
    stream = ImageStream(X, y, shifts=8, bend=settings["bend"], random_state=settings["seed"])
    signals, labels = stream.take_pairs(min(60_000, stream.n_signals))
    tested = unit_norm(X_test.reshape(len(X_test), -1).astype(np.float32))
    penalties = {"lambda1": settings["lambda1"], "lambda2": settings["lambda2"]}
    C = 1 / max(settings["nu"] * len(signals), 1e-9)
    tasks = [labels == k for k in range(10)] if settings["multi_class"] == "ovr" else [labels]
    scores = []
    for k, task in enumerate(tasks):
        groups = [np.flatnonzero(task == kind) for kind in np.unique(task)]
        if settings["start"] == "class":
            groups = groups[-1:]
        elif settings["start"] == "mixed":
            few = min(len(group) for group in groups)
            groups = [np.concatenate([group[:few] for group in groups])]
        atoms = []
        for rows, share in zip(groups, np.array_split(np.arange(settings["p"]), len(groups)), strict=True):
            learner = DictionaryLearning(
                len(share), **penalties, max_iter=BATCHES, tol=0, random_state=settings["seed"], n_threads=n_threads
            )
            atoms.append(learner.fit(signals[rows]).components_)
        D = np.concatenate(atoms)
        codes, tested_codes = (sparse_encode(S, D, **penalties, n_threads=n_threads) for S in (signals, tested))
        logistic = LogisticRegression(C=C, max_iter=500).fit(codes, task)
        scores.append(logistic.decision_function(tested_codes))
        report(k + 1, len(tasks))
    outputs = np.column_stack(scores)
    return {"error": percent_wrong(outputs, y_test), "loss": loss(outputs, y_test)}


def percent_wrong(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the error of scores of the digits 0 to 9."""
    return round(100 * float((scores.argmax(axis=1) != labels).mean()), 4)


def loss(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the logistic loss of the ten binary models, on average."""
    signs = np.where(labels[:, None] == np.arange(10), 1.0, -1.0)
    return float(np.logaddexp(0, -signs * scores).mean())


def nonzeros(model: ImageClassifier, images: NDArray[Any], p: int) -> float:
    """Return how many coefficients of a code are not zero, on average over digits and dictionaries."""
    codes = model.transform(images)
    return round(float(codes.nnz / len(images) / (codes.shape[1] // p)), 2)
