"""Telling a hand from another (paper, Section 5.5), on a substitute for the paper's pictures, which are not public.

Pairs of one picture of each of two groups are left out, one pair after the other; a classifier of patches learns from
the other pictures, and the patches of the pair vote. The λ1 for two groups is chosen on pairs of the other two groups,
so that no picture that is tested has a say in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from taskdict import datasets
from taskdict.estimators import DictionaryLearning, TaskDrivenClassifier
from taskdict.experiments.pictures import save_picture
from taskdict.experiments.runs import Json, Report, Run, Runner, keep_record
from taskdict.experiments.search import Search
from taskdict.images import PatchVotingClassifier

PAPER = {"unsupervised": (51.94, 1.92), "supervised": (54.04, 2.26)}  # percent of the patches, and deviation
GROUPS = ("ab", "cd")  # the own hand against another: drawings and engravings, etchings and etchings
KINDS = ("unsupervised", "supervised")
BATCH = 200
UNSUPERVISED_BATCH = 512
LAMBDA1 = (1e-1, 1e-2, 1e-3, 1e-4)  # the paper's grid, but for 1, which leaves no code of patches of norm one
SHOWN = {"ab": ("a_pen_035_gula", "b_engraved_021_gula")}  # whose votes are shown
OWN, OTHER = "own hand", "other hand"

Case = tuple[str, str]  # two groups, and a kind


@dataclass(frozen=True)
class Settings:
    """What the experiment is."""

    patch_size: int = 12
    size: int = 100
    patches: int = 200_000  # of each class
    select: int = 20_000  # of each class while λ1 is chosen
    lambda1: tuple[float, ...] = LAMBDA1
    pairs: int | None = None  # of each two groups, None for all
    stride: int = 4  # pixels between patches that vote
    colour: bool = False  # whether patches are in colour and as they are, or grey and contrast-normalised
    seed: int = 0

    def quick(self) -> Settings:
        """Return a small version of the same experiment."""
        return replace(self, size=min(self.size, 50), patches=10_000, select=2_000, lambda1=(0.1,), pairs=4)


def reproduce(
    settings: Settings,
    folder: Path,
    *,
    data: str | None = None,
    n_threads: int | None = None,
    file: TextIO | None = None,
) -> Json:
    """Do the experiment, or what is left of it, and return its record; arguments as in :func:`digits.reproduce`."""
    art = datasets.load_art(data)
    runner, inputs = Runner(folder, work, n_threads, file), {"data": data}
    common = {
        "patch_size": settings.patch_size,
        "size": settings.size,
        "colour": settings.colour,
        "stride": settings.stride,
        "seed": settings.seed,
        "sha256": art.sha256,
    }
    cases = [(groups, kind) for groups in GROUPS for kind in KINDS]

    def select(points: list[tuple[Case, float]]) -> list[Json]:
        """Return results of the first pairs of two groups, each picture in one at most."""
        runs = []
        for (groups, kind), lambda1 in points:
            pairs = [(k, k) for k in range(min(map(len, split(art, groups))))]
            part = {"groups": groups, "kind": kind, "lambda1": lambda1, "patches": settings.select, "pairs": pairs}
            runs.append(Run(f"select-{groups}-{kind}-{lambda1:g}", _listed({**common, **part}), inputs))
        return runner.results(runs)

    search = Search(cases, select, lambda run: -float(np.mean([pair["accuracy"] for pair in run["found"]])))
    choose(search, settings)
    best = search.chosen()
    runs = []
    for groups, kind in cases:
        lambda1 = best["cd" if groups == "ab" else "ab", kind]
        first, second = split(art, groups)
        pairs = [(i, j) for i in range(len(first)) for j in range(len(second))]
        if settings.pairs is not None:
            n = min(settings.pairs, len(pairs))
            pairs = [pairs[k * len(pairs) // n] for k in range(n)]
        for i, j in pairs:
            part = {"groups": groups, "kind": kind, "lambda1": lambda1, "patches": settings.patches, "pairs": [(i, j)]}
            runs.append(Run(f"test-{groups}-{kind}-{i}-{j}", _listed({**common, **part}), inputs))
    results = runner.results(runs)
    return keep_record(
        folder, "art", settings, {"name": "art", "sha256": art.sha256}, selection=search.tried, results=results
    )


def choose(search: Search[Case], settings: Settings) -> None:
    """Look for the λ1 with the highest accuracy of each case.

    From large to small as long as the accuracy rises; then up and down from the best by factors of two as long as it
    rises, but to less than one if patches are of norm one, which have no codes there.
    """
    search.follow(sorted(settings.lambda1, reverse=True))
    most = np.inf if settings.colour else 1.0
    for factor in (2.0, 0.5):
        rising = list(search.cases)
        while rising:
            before = search.chosen()
            new = {case: factor * before[case] for case in rising}
            rising = [case for case in rising if new[case] < most and new[case] not in search.errors[case]]
            search.look([(case, new[case]) for case in rising])
            rising = [case for case in rising if search.best(case) == new[case]]


def work(run: Run, checkpoint: Path, n_threads: int, report: Report) -> Json:
    """Do one run: leave pair after pair out, learn from the other pictures, and let the pair vote."""
    settings = run.settings
    art = datasets.load_art(run.inputs["data"])
    if art.sha256 != settings["sha256"]:
        raise datasets.DataError("the data have changed since the experiment began.")
    first, second = split(art, settings["groups"])
    found = []
    for k, (i, j) in enumerate(settings["pairs"]):
        images = [art.images[name] for name in first + second]
        if not settings["colour"]:
            images = [grey(image) for image in images]
        kept = [n for n in range(len(images)) if n not in (i, len(first) + j)]
        labels = [OWN if n < len(first) else OTHER for n in kept]
        voter = PatchVotingClassifier(
            classifier(settings, n_threads),
            patch_size=settings["patch_size"],
            normalise=not settings["colour"],
            n_patches=settings["patches"],
            stride=settings["stride"],
            random_state=settings["seed"],
        ).fit([images[n] for n in kept], labels)
        pair = images[i], images[len(first) + j]
        own = voter.votes(pair)[:, voter.classes_.tolist().index(OWN)]
        found.append(
            {
                "pictures": [first[i], second[j]],
                "votes": [round(float(share), 4) for share in own],  # for the own hand
                "accuracy": round(50 * float(own[0] + 1 - own[1]), 3),
                "right": bool(own[0] > own[1]),
            }
        )
        if SHOWN.get(settings["groups"]) == (first[i], second[j]) and run.name.startswith("test"):
            show(voter, pair, checkpoint.parent.parent / f"votes-{settings['kind']}.png")
        report(k + 1, len(settings["pairs"]))
    return {"found": found}


def classifier(settings: Json, n_threads: int) -> Any:
    """Return what learns from patches: a task-driven dictionary, or one without a task and a model on its codes."""
    n = 2 * settings["patches"]
    if settings["kind"] == "supervised":
        return TaskDrivenClassifier(
            settings["size"],
            lambda1=settings["lambda1"],
            nu=0.0,
            batch_size=BATCH,
            max_iter=math.ceil(n / BATCH),
            learning_rate="adaptive",
            random_state=settings["seed"],
            n_threads=n_threads,
        )
    dictionary = DictionaryLearning(
        settings["size"],
        lambda1=settings["lambda1"],
        batch_size=UNSUPERVISED_BATCH,
        max_iter=math.ceil(n / UNSUPERVISED_BATCH),
        random_state=settings["seed"],
        n_threads=n_threads,
    )
    return make_pipeline(dictionary, LogisticRegression(C=1e4, max_iter=500))


def split(art: datasets.Pictures, groups: str) -> tuple[list[str], list[str]]:
    """Return the names of the pictures of two groups."""
    first, second = ([name for name in art.images if name.startswith(f"{group}_")] for group in groups)
    return first, second


def grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the luma of a picture."""
    luma: NDArray[np.uint8] = np.rint(image @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)
    return luma


def show(voter: PatchVotingClassifier, pair: tuple[NDArray[Any], ...], path: Path) -> None:
    """Write two pictures, half as large, tinted by the votes over them: orange for the own hand, blue for the other."""
    place = voter.classes_.tolist().index(OWN)
    tinted = []
    for image in pair:
        share = voter.vote_map(image)[:, :, place, None]
        tint = share * np.array([1.0, 0.6, 0.1]) + (1 - share) * np.array([0.2, 0.5, 1.0])
        light = (image if image.ndim == 2 else grey(image))[:, :, None] / 255
        tinted.append((255 * (0.3 + 0.7 * light) * tint)[::2, ::2])
    save_picture(np.rint(np.concatenate(tinted, axis=1)).astype(np.uint8), path)


def _listed(settings: Json) -> Json:
    """Return settings as JSON has them: pairs are lists."""
    return {**settings, "pairs": [list(pair) for pair in settings["pairs"]]}
