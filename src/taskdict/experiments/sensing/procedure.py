"""The runs of the experiment on compressed sensing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._common.normalise import unit_norm
from taskdict._learning.descent import DivergedError
from taskdict._learning.start import principal_directions
from taskdict.estimators import CompressedSensing
from taskdict.experiments.data.voc2006 import Crops, load_voc2006
from taskdict.experiments.frame import Measure, Task
from taskdict.experiments.parameter_search import ParameterSearch
from taskdict.experiments.record import Json
from taskdict.experiments.runner import Run
from taskdict.experiments.sensing import COLUMNS, PATCH_SIZE, SensingSettings
from taskdict.experiments.sensing.crop_patches import CropPatches
from taskdict.images.cosines import cosine_waves, lowest_products, unit_atoms

BATCH_SIZE = 200
TEST_SEED = 12_345  # of the patches that are tested
PATCHES_PER_SCORE = 50_000  # that are in memory at once
PROJECTION_PATCHES = 200_000  # that the errors of linear projections are measured with

Case = tuple[int, str]  # r, and the name of a column
Weights = tuple[float, float]  # λ1 and λ2/λ1


def load(settings: SensingSettings, data: str | None) -> Crops:
    """Load the crops of photographs."""
    return load_voc2006(data)


def find(settings: SensingSettings, crops: Crops, measure: Measure) -> Json:
    """Choose the weights of each case on the validation part, then test each with every seed."""
    cases = [(r, column) for r in settings.measurements for column in COLUMNS]

    def results(kind: str, pairs: list[tuple[Case, Weights]], part: Json) -> list[Json]:
        """Return the results of runs of cases with weights."""
        runs = []
        for (r, column), (lambda1, ratio) in pairs:
            point = {"r": r, "column": column, "lambda1": lambda1, "ratio": ratio}
            name = f"{kind}-r{r}-{slug(column)}-{lambda1:g}-{ratio:g}"
            runs.append(Run(name, {"size": settings.size, **part, **point}))
        return measure(runs)

    held_out = {"part": "validation", "patches": settings.select, "tested": settings.validation, "seed": 0}
    search = ParameterSearch(cases, lambda pairs: results("select", pairs, held_out), lambda run: float(run["error"]))
    choose(search, settings)
    tested = []
    for seed in settings.seeds:
        part = {"part": "test", "patches": settings.train, "tested": settings.test, "seed": seed}
        tested += results(f"test-seed{seed}", list(search.chosen().items()), part)
    return {"linear": linear_errors(crops, settings), "selection": search.tried, "results": tested}


def choose(search: ParameterSearch[Case], settings: SensingSettings) -> None:
    """Search for the λ1 and λ2/λ1 with the lowest validation error of each case.

    λ1 is lowered, with the largest ratio, as long as the error of a case falls; then the other ratios are tried at the
    best λ1. Small weights are slow, since their codes are not sparse.
    """
    first = max(settings.ratio)
    search.follow([(lambda1, first) for lambda1 in sorted(settings.lambda1, reverse=True)])
    others = [ratio for ratio in settings.ratio if ratio != first]
    search.measure([(case, (search.best(case)[0], ratio)) for case in search.cases for ratio in others])


def work(task: Task) -> Json:
    """Do one run: learn Z, D and W, and reconstruct other patches."""
    settings, crops = task.settings, task.data
    init, learn_transform, kind = COLUMNS[settings["column"]]
    p, patches = settings["size"], settings["patches"]
    batch = 2 * p if kind == "unsupervised" else BATCH_SIZE
    model = CompressedSensing(
        settings["r"],
        p,
        lambda1=settings["lambda1"],
        lambda2=settings["lambda1"] * settings["ratio"],
        transform_init=init,
        learn_transform=learn_transform,
        dictionary=cosines(p) if kind == "cosines" else kind,
        batch_size=batch,
        max_iter=math.ceil(patches / batch),
        checkpoint=str(task.checkpoint) if kind == "learned" else None,
        random_state=settings["seed"],
        n_threads=task.n_threads,
        callbacks=lambda progress: task.report(progress.n_iter, progress.max_iter),
    )
    try:
        model.fit(stream(crops.train, settings["seed"]))
    except DivergedError:
        return {"error": 100.0, "diverged": True}
    tested = stream(crops.validation if settings["part"] == "validation" else crops.test, TEST_SEED)
    return {"error": round(mean_error(model, tested, settings["tested"]), 3)}


def stream(crops: NDArray[np.uint8], seed: int) -> CropPatches:
    """Return random patches, centred and of norm one, without the constant ones."""
    return CropPatches(crops, PATCH_SIZE, random_state=seed, preprocess=contrasts)


def contrasts(patches: NDArray[Any]) -> NDArray[Any]:
    """Return patches centred and scaled to norm one, without the constant ones."""
    signals = unit_norm(patches)
    return signals[signals.any(axis=1)]


def mean_error(model: Any, patches: CropPatches, n: int) -> float:
    """Return the mean squared error of a model times 100."""
    total, seen = 0.0, 0
    while seen < n:
        X = patches.take(min(PATCHES_PER_SCORE, n - seen))
        total -= len(X) * model.score(X)
        seen += len(X)
    return 100 * total / seen


def linear_errors(crops: Crops, settings: SensingSettings) -> Json:
    """Return the errors of the best linear reconstruction from as many measurements, by principal components."""
    train = stream(crops.train, 0).take(PROJECTION_PATCHES)
    test = stream(crops.test, TEST_SEED).take(min(PROJECTION_PATCHES, settings.test))
    errors = {}
    for r in settings.measurements:
        directions = principal_directions(train, r)
        rest = test - test @ directions.T @ directions
        errors[str(r)] = round(100 * float(np.square(rest).sum(axis=1).mean()), 3)
    return errors


def cosines(p: int) -> NDArray[np.float32]:
    """Return the p lowest products of cosines; as many frequencies along each side as are needed for p products.

    All waves but the constant are centred before they are multiplied, so that all atoms but the constant are centred.
    """
    waves = cosine_waves(PATCH_SIZE, math.ceil(math.sqrt(p)))
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    return unit_atoms(lowest_products(waves, p))


def slug(column: str) -> str:
    """Return the name of a column as a part of file names."""
    return column.lower().replace(", ", "-")
