"""The runs of the experiment on handwritten digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from taskdict import datasets
from taskdict._coding.encode import sparse_encode
from taskdict._common.normalise import unit_norm
from taskdict._learning.descent import DivergedError
from taskdict.estimators import DictionaryLearning, TaskDrivenClassifier
from taskdict.experiments.digits import DigitsSettings
from taskdict.experiments.frame import Measure, Task
from taskdict.experiments.record import Json
from taskdict.experiments.runner import ReportSteps, Run
from taskdict.images import ImageClassifier
from taskdict.streams import ImageStream

INITIAL = {"lambda1": 0.1, "nu": 1e-5}  # values until better ones are chosen
DIVERGED_LOSS = 1e9  # of a learning rate that diverges
UNSUPERVISED_BATCHES = 200
UNSUPERVISED_DIGITS = 60_000  # at most, with their shifts and distortions
MAX_DIRECTIONS = 200  # principal components of our recipe
N_CLASSES = 10
DIGITS_TO_COUNT = 1_000  # whose nonzero coefficients are counted


def load(settings: DigitsSettings, data: str | None) -> datasets.Digits:
    """Load the digits."""
    return datasets.LOADERS[settings.data_set](data)


def find(settings: DigitsSettings, digits: datasets.Digits, measure: Measure) -> Json:
    """Choose the parameters on the validation part, then test models of all sizes."""
    common = {
        "data_set": settings.data_set,
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
    chosen, start, selection = select(settings, common, learning, measure)
    runs = []
    for kind, more in (("supervised", learning), ("unsupervised", {"start": start})):  # the longest runs come first
        for p in sorted(settings.sizes, reverse=True):
            for seed in settings.seeds:
                own = {**common, **chosen, "part": "test", "p": p, "seed": seed, "kind": kind, **more}
                runs.append(Run(f"{kind}-p{p}-seed{seed}", own))
    return {"chosen": {**chosen, "start": start}, "selection": selection, "results": measure(runs)}


def select(settings: DigitsSettings, common: Json, learning: Json, measure: Measure) -> tuple[Json, str, list[Json]]:
    """Choose ρ, λ1, ν and the bend with the lowest error on the validation part, one after the other.

    Between equal errors, the lower loss decides. The paper's recipe has no bend, and ours no ρ. The start of the
    unsupervised dictionaries, which do not learn from the task, is chosen last.

    Returns
    -------
    chosen : dict
        The chosen parameters.
    start : str
        The chosen start.
    tried : list of dict
        The results of all runs.
    """
    ours = settings.recipe == "ours"
    criterion = "pooled_error" if ours else "error"
    choices: dict[str, tuple[float, ...]] = {"lambda1": settings.lambda1, "nu": settings.nu}
    choices = {**choices, "bend": settings.bends} if ours else {"learning_rate": settings.rho, **choices}
    chosen: Json = {"learning_rate": "adaptive", "bend": 0.0}
    for name, values in choices.items():
        initial = INITIAL.get(name, values[len(values) // 2])
        chosen[name] = min(values, key=lambda value: abs(value - initial))
    common = {**common, "part": "validation", "p": settings.selection_size, "seed": settings.seeds[0]}
    tried: list[Json] = []

    def best(name: str, values: Sequence[Any], fixed: Json, criterion: str) -> Any:
        runs = []
        for value in values:
            candidate = {**chosen, name: value}
            label = "-".join(f"{key}{v}" if isinstance(v, str) else f"{key}{v:g}" for key, v in candidate.items())
            runs.append(Run(f"select-{label}", {**common, **fixed, **candidate}))
        results = measure(runs)
        tried.extend(result for result in results if result not in tried)
        return values[min(range(len(values)), key=lambda k: (results[k][criterion], results[k]["loss"]))]

    supervised = {"kind": "supervised", **learning, "iterations": settings.selection_iterations}
    for name, values in choices.items():
        if len(values) > 1:
            chosen[name] = best(name, values, supervised, criterion)
    start = settings.starts[0]
    if len(settings.starts) > 1 and settings.multi_class == "ovr":
        start = best("start", settings.starts, {"kind": "unsupervised"}, "error")
    return chosen, start, tried


def work(task: Task) -> Json:
    """Do one run; the model of a supervised one that is tested goes to ``models/``."""
    settings = task.settings
    X, y, X_test, y_test = training_and_test(task.data, settings["part"], settings["limit"])
    if settings["kind"] == "unsupervised":
        return unsupervised(settings, X, y, X_test, y_test, task.n_threads, task.report)
    try:
        model, result = supervised(task, X, y, X_test, y_test)
    except DivergedError:
        if settings["part"] == "test":
            raise
        return {"error": 100.0, "pooled_error": 100.0, "loss": DIVERGED_LOSS, "diverged": True}
    if settings["part"] == "test":
        models = task.folder / "models"
        models.mkdir(exist_ok=True)
        model.classifier_.set_params(n_threads=None, checkpoint=None)  # which belong to this machine and this run
        model.save(models / f"{task.name}.safetensors")
    return result


def n_directions(recipe: str, digits: datasets.Digits) -> int | None:
    """Return how many principal components represent a digit, None for its pixels."""
    n_pixels = digits.images.shape[1] * digits.images.shape[2]
    return min(MAX_DIRECTIONS, n_pixels // 2) if recipe == "ours" else None


def training_and_test(digits: datasets.Digits, part: str, limit: int | None) -> tuple[NDArray[Any], ...]:
    """Return digits and labels for training and for testing.

    The part "test" is tested on the test set, "validation" on the last digits of the training set.
    """
    X, y, X_test, y_test = digits.images, digits.labels, digits.test_images, digits.test_labels
    if part == "validation":
        kept = 10_000 if digits.name == "mnist" else len(X) // 10
        X, y, X_test, y_test = X[:-kept], y[:-kept], X[-kept:], y[-kept:]
    return X[:limit], y[:limit], X_test, y_test


def supervised(
    task: Task, X: NDArray[Any], y: NDArray[Any], X_test: NDArray[Any], y_test: NDArray[Any]
) -> tuple[ImageClassifier, Json]:
    """Learn task-driven models; return them and their errors, without and with test-time augmentation by shifts."""
    settings = task.settings
    classifier = TaskDrivenClassifier(
        settings["p"],
        lambda1=settings["lambda1"],
        lambda2=settings["lambda2"],
        multi_class=settings["multi_class"],
        decision="linear",
        nu=settings["nu"],
        batch_size=settings["batch_size"],
        max_iter=settings["iterations"],
        learning_rate=settings["learning_rate"],
        average=settings["average"],
        dictionary_init="classes",
        early_stopping=False,
        checkpoint=str(task.checkpoint),
        random_state=settings["seed"],
        n_threads=task.n_threads,
        callbacks=lambda progress: task.report(progress.n_iter, progress.max_iter),
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
        "nonzeros": nonzeros(model, X_test[:DIGITS_TO_COUNT], settings["p"]),
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
    report: ReportSteps,
) -> Json:
    """Learn dictionaries without a task, then linear models of their codes; return the errors.

    With the start "halves" half of the atoms are learned from the class and half from the other classes, with "class"
    all from the class, and with "mixed" from as many digits of the class as of the others. One dictionary for all
    classes has as many atoms from each.
    """
    stream = ImageStream(X, y, shifts=8, bend=settings["bend"], random_state=settings["seed"])
    signals, labels = stream.take_pairs(min(UNSUPERVISED_DIGITS, stream.n_signals))
    tested = unit_norm(X_test.reshape(len(X_test), -1).astype(np.float32))
    penalties = {"lambda1": settings["lambda1"], "lambda2": settings["lambda2"]}
    C = 1 / max(settings["nu"] * len(signals), 1e-9)
    targets = [labels == k for k in range(N_CLASSES)] if settings["multi_class"] == "ovr" else [labels]
    scores = []
    for k, target in enumerate(targets):
        groups = [np.flatnonzero(target == kind) for kind in np.unique(target)]
        if settings["start"] == "class":
            groups = groups[-1:]
        elif settings["start"] == "mixed":
            few = min(len(group) for group in groups)
            groups = [np.concatenate([group[:few] for group in groups])]
        atoms = []
        for rows, share in zip(groups, np.array_split(np.arange(settings["p"]), len(groups)), strict=True):
            learner = DictionaryLearning(
                len(share),
                **penalties,
                max_iter=UNSUPERVISED_BATCHES,
                tol=0,
                random_state=settings["seed"],
                n_threads=n_threads,
            )
            atoms.append(learner.fit(signals[rows]).components_)
        D = np.concatenate(atoms)
        codes, tested_codes = (sparse_encode(S, D, **penalties, n_threads=n_threads) for S in (signals, tested))
        logistic = LogisticRegression(C=C, max_iter=500).fit(codes, target)
        scores.append(logistic.decision_function(tested_codes))
        report(k + 1, len(targets))
    outputs = np.column_stack(scores)
    return {"error": percent_wrong(outputs, y_test), "loss": loss(outputs, y_test)}


def percent_wrong(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the percentage of digits whose highest score is that of another class."""
    return round(100 * float((scores.argmax(axis=1) != labels).mean()), 4)


def loss(scores: NDArray[Any], labels: NDArray[Any]) -> float:
    """Return the logistic loss of the ten binary models, on average."""
    signs = np.where(labels[:, None] == np.arange(N_CLASSES), 1.0, -1.0)
    return float(np.logaddexp(0, -signs * scores).mean())


def nonzeros(model: ImageClassifier, images: NDArray[Any], p: int) -> float:
    """Return the number of nonzero coefficients of a code, on average over digits and dictionaries."""
    codes = sp.csr_array(model.transform(images))
    return round(float(codes.nnz / len(images) / (codes.shape[1] // p)), 2)
