"""Compressed sensing (paper, Section 5.4): patches of photographs from few measurements, Table 3.

Eight ways to get the matrix Z that measures and the dictionary D of the measurements are compared; the W that
reconstructs is always learned. The weights (λ1, λ2) of each are chosen on the validation part, with fewer patches to
learn from and the first seed; then each learns again with every seed, and is tested once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from taskdict import datasets
from taskdict._normalise import unit_norm
from taskdict.descent import DivergedError
from taskdict.estimators import CompressedSensing
from taskdict.experiments.runs import Json, Report, Run, Runner, keep_record
from taskdict.experiments.search import Search
from taskdict.images.patches import CropPatches
from taskdict.initialisation import principal_directions

SIDE = 10  # of a patch
BATCH = 200
TEST_SEED = 12_345  # of the patches that are tested
AT_ONCE = 50_000  # patches
TO_PROJECT = 200_000  # patches that show what linear projections can do
COLUMNS = {  # by name: where Z comes from, whether it is learned, and where D comes from
    "RANDOM, DCT": ("random", False, "cosines"),
    "RANDOM, UL": ("random", False, "unsupervised"),
    "RANDOM, SL": ("random", False, "learned"),
    "SL1": ("random", True, "learned"),
    "PCA, DCT": ("pca", False, "cosines"),
    "PCA, UL": ("pca", False, "unsupervised"),
    "PCA, SL": ("pca", False, "learned"),
    "SL2": ("pca", True, "learned"),
}
PAPER = {  # mean squared error times 100 and its deviation, by r, in the order of the columns
    5: ((77.3, 4.0), (76.9, 4.0), (76.7, 4.0), (54.1, 1.3), (49.9, 0.0), (47.6, 0.0), (47.5, 0.1), (47.3, 0.3)),
    10: ((57.8, 1.5), (56.5, 1.5), (55.7, 1.4), (36.5, 0.7), (33.7, 0.0), (32.3, 0.0), (32.3, 0.1), (31.9, 0.2)),
    20: ((37.1, 1.2), (35.4, 1.0), (34.5, 0.9), (21.4, 0.1), (20.4, 0.0), (19.7, 0.0), (19.6, 0.1), (19.4, 0.2)),
    40: ((19.3, 0.8), (18.5, 0.7), (18.0, 0.6), (10.0, 0.3), (9.2, 0.0), (9.1, 0.0), (9.0, 0.0), (9.0, 0.0)),
}
LAMBDA1 = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # the paper's grid; its largest, 1, leaves no code of signals of norm one
RATIO = (0.01, 0.1, 1.0)  # of λ2 to λ1

Case = tuple[int, str]  # r, and the name of a column
Weights = tuple[float, float]  # λ1 and λ2/λ1


@dataclass(frozen=True)
class Settings:
    """What the experiment is."""

    measurements: tuple[int, ...] = (5, 10, 20, 40)
    size: int = 400
    train: int = 1_000_000  # patches to learn from
    select: int = 100_000  # patches to learn from while (λ1, λ2) are chosen
    validation: int = 50_000  # patches, here and below
    test: int = 500_000
    lambda1: tuple[float, ...] = LAMBDA1
    ratio: tuple[float, ...] = RATIO
    seeds: tuple[int, ...] = (0, 1, 2)

    def quick(self) -> Settings:
        """Return a small version of the same experiment."""
        return replace(
            self,
            measurements=(10,),
            size=min(self.size, 100),
            train=60_000,
            select=20_000,
            validation=5_000,
            test=20_000,
            lambda1=(1e-1, 1e-2),
            ratio=(0.1,),
            seeds=self.seeds[:2],
        )


def reproduce(
    settings: Settings,
    folder: Path,
    *,
    data: str | None = None,
    n_threads: int | None = None,
    file: TextIO | None = None,
) -> Json:
    """Do the experiment, or what is left of it, and return its record; arguments as in :func:`digits.reproduce`."""
    crops = datasets.load_voc2006(data)
    runner, inputs = Runner(folder, work, n_threads, file), {"data": data}
    common = {"size": settings.size, "sha256": crops.sha256}
    cases = [(r, column) for r in settings.measurements for column in COLUMNS]

    def measure(kind: str, pairs: list[tuple[Case, Weights]], part: Json) -> list[Json]:
        """Return the results of runs of cases with weights."""
        runs = []
        for (r, column), (lambda1, ratio) in pairs:
            point = {"r": r, "column": column, "lambda1": lambda1, "ratio": ratio}
            name = f"{kind}-r{r}-{slug(column)}-{lambda1:g}-{ratio:g}"
            runs.append(Run(name, {**common, **part, **point}, inputs))
        return runner.results(runs)

    held_out = {"part": "validation", "patches": settings.select, "tested": settings.validation, "seed": 0}
    search = Search(cases, lambda pairs: measure("select", pairs, held_out), lambda run: float(run["error"]))
    choose(search, settings)
    results = []
    for seed in settings.seeds:
        part = {"part": "test", "patches": settings.train, "tested": settings.test, "seed": seed}
        results += measure(f"test-seed{seed}", list(search.chosen().items()), part)
    return keep_record(
        folder,
        "sensing",
        settings,
        {"name": "voc2006", "sha256": crops.sha256},
        linear=linear_errors(crops, settings),
        selection=search.tried,
        results=results,
    )


def choose(search: Search[Case], settings: Settings) -> None:
    """Look for the λ1 and λ2/λ1 with the lowest validation error of each case.

    From large λ1 to small, as long as the error of a case falls, with the largest ratio; then the other ratios at the
    best λ1. Small weights are slow, since their codes are not sparse.
    """
    first = max(settings.ratio)
    search.follow([(lambda1, first) for lambda1 in sorted(settings.lambda1, reverse=True)])
    others = [ratio for ratio in settings.ratio if ratio != first]
    search.look([(case, (search.best(case)[0], ratio)) for case in search.cases for ratio in others])


def work(run: Run, checkpoint: Path, n_threads: int, report: Report) -> Json:
    """Do one run: learn Z, D and W, and reconstruct other patches."""
    settings = run.settings
    crops = datasets.load_voc2006(run.inputs["data"])
    if crops.sha256 != settings["sha256"]:
        raise datasets.DataError("the data have changed since the experiment began.")
    init, learn_transform, kind = COLUMNS[settings["column"]]
    p, patches = settings["size"], settings["patches"]
    batch = 2 * p if kind == "unsupervised" else BATCH
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
        checkpoint=str(checkpoint) if kind == "learned" else None,
        random_state=settings["seed"],
        n_threads=n_threads,
        callbacks=lambda progress: report(progress.n_iter, progress.max_iter),
    )
    try:
        model.fit(stream(crops.train, settings["seed"]))
    except DivergedError:
        return {"error": 100.0, "diverged": True}
    tested = stream(crops.validation if settings["part"] == "validation" else crops.test, TEST_SEED)
    return {"error": round(mean_error(model, tested, settings["tested"]), 3)}


def stream(crops: NDArray[np.uint8], seed: int) -> CropPatches:
    """Return random patches, centred and of norm one; those without contrast are left out."""
    return CropPatches(crops, SIDE, random_state=seed, preprocess=contrasts)


def contrasts(patches: NDArray[Any]) -> NDArray[Any]:
    """Return patches centred and scaled to norm one, without those that are flat."""
    signals = unit_norm(patches)
    return signals[signals.any(axis=1)]


def mean_error(model: Any, patches: CropPatches, n: int) -> float:
    """Return the mean squared error of a model times 100."""
    total, seen = 0.0, 0
    while seen < n:
        X = patches.take(min(AT_ONCE, n - seen))
        total -= len(X) * model.score(X)
        seen += len(X)
    return 100 * total / seen


def linear_errors(crops: datasets.Crops, settings: Settings) -> Json:
    """Return the errors of the best linear reconstruction from as many measurements, which needs no learning."""
    train = stream(crops.train, 0).take(TO_PROJECT)
    test = stream(crops.test, TEST_SEED).take(min(TO_PROJECT, settings.test))
    errors = {}
    for r in settings.measurements:
        directions = principal_directions(train, r)
        rest = test - test @ directions.T @ directions
        errors[str(r)] = round(100 * float(np.square(rest).sum(axis=1).mean()), 3)
    return errors


def cosines(p: int) -> NDArray[np.float32]:
    """Return the p lowest of an overcomplete set of cosines of patches, at least: as many frequencies along each side.

    Each is the product of a cosine along the rows and one along the columns, and all but the constant are centred.
    """
    n = math.ceil(math.sqrt(p))
    waves = np.cos(np.pi * np.outer(np.arange(SIDE) + 0.5, np.arange(n)) * min(1.0, SIDE / n) / SIDE)
    waves[:, 1:] -= waves[:, 1:].mean(axis=0)
    down, across = np.divmod(np.arange(n * n), n)
    lowest = np.argsort(down + across, kind="stable")[:p]
    atoms = (waves[:, None, down[lowest]] * waves[None, :, across[lowest]]).reshape(SIDE * SIDE, -1).T
    return np.ascontiguousarray(atoms / np.linalg.norm(atoms, axis=1, keepdims=True), np.float32)


def slug(column: str) -> str:
    """Return the name of a column for names of files."""
    return column.lower().replace(", ", "-")
