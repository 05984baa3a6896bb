"""The runs of the experiment on works of art."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from taskdict.datasets import ImageSet
from taskdict.estimators import DictionaryLearning, TaskDrivenClassifier
from taskdict.experiments.art import GROUPS, KINDS, ArtSettings
from taskdict.experiments.data.art import load_art
from taskdict.experiments.figures import save_image
from taskdict.experiments.frame import Measure, Task
from taskdict.experiments.parameter_search import ParameterSearch
from taskdict.experiments.record import Json
from taskdict.experiments.runner import Run
from taskdict.images import PatchVotingClassifier

BATCH_SIZE = 200
UNSUPERVISED_BATCH_SIZE = 512
SHOWN_PAIRS = {"ab": ("a_pen_035_gula", "b_engraved_021_gula")}  # whose votes are shown as maps
OWN, OTHER = "own hand", "other hand"
LUMA = np.array([0.299, 0.587, 0.114])  # weights of red, green and blue
ORANGE, BLUE = np.array([1.0, 0.6, 0.1]), np.array([0.2, 0.5, 1.0])

Case = tuple[str, str]  # two groups, and a kind


def load(settings: ArtSettings, data: str | None) -> ImageSet:
    """Load the images."""
    return load_art(data)


def find(settings: ArtSettings, art: ImageSet, measure: Measure) -> Json:
    """Choose λ1 for both groups, then leave out every pair in turn."""
    cases = [(groups, kind) for groups in GROUPS for kind in KINDS]
    common = {
        "patch_size": settings.patch_size,
        "size": settings.size,
        "colour": settings.colour,
        "stride": settings.stride,
        "seed": settings.seed,
    }

    def run(name: str, case: Case, lambda1: float, patches: int, pairs: list[tuple[int, int]]) -> Run:
        groups, kind = case
        part = {"groups": groups, "kind": kind, "lambda1": lambda1, "patches": patches}
        return Run(name, {**common, **part, "pairs": [list(pair) for pair in pairs]})  # as JSON has them

    def select(points: list[tuple[Case, float]]) -> list[Json]:
        """Return results of the first pairs of two groups, each image in one pair at most."""
        runs = []
        for (groups, kind), lambda1 in points:
            pairs = [(k, k) for k in range(min(map(len, split(art, groups))))]
            name = f"select-{groups}-{kind}-{lambda1:g}"
            runs.append(run(name, (groups, kind), lambda1, settings.select, pairs))
        return measure(runs)

    search = ParameterSearch(cases, select, lambda run: -float(np.mean([pair["accuracy"] for pair in run["found"]])))
    choose(search, settings)
    best = search.chosen()
    runs = []
    for groups, kind in cases:
        lambda1 = best["cd" if groups == "ab" else "ab", kind]
        for i, j in pairs_to_test(art, groups, settings.pairs):
            name = f"test-{groups}-{kind}-{i}-{j}"
            runs.append(run(name, (groups, kind), lambda1, settings.patches, [(i, j)]))
    return {"selection": search.tried, "results": measure(runs)}


def pairs_to_test(art: ImageSet, groups: str, n_pairs: int | None) -> list[tuple[int, int]]:
    """Return all pairs of an image of each group, or `n_pairs` of them that are spread evenly."""
    first, second = split(art, groups)
    pairs = [(i, j) for i in range(len(first)) for j in range(len(second))]
    n = len(pairs) if n_pairs is None else min(n_pairs, len(pairs))
    return [pairs[k * len(pairs) // n] for k in range(n)]


def choose(search: ParameterSearch[Case], settings: ArtSettings) -> None:
    """Search for the λ1 with the highest accuracy of each case.

    λ1 is lowered as long as the accuracy rises. Then it is raised and lowered from the best by factors of two as long
    as the accuracy rises. If patches are of norm one, λ1 stays below one, where their codes vanish.
    """
    search.follow(sorted(settings.lambda1, reverse=True))
    limit = np.inf if settings.colour else 1.0
    for factor in (2.0, 0.5):
        rising = list(search.cases)
        while rising:
            before = search.chosen()
            new = {case: factor * before[case] for case in rising}
            rising = [case for case in rising if new[case] < limit and new[case] not in search.errors[case]]
            search.measure([(case, new[case]) for case in rising])
            rising = [case for case in rising if search.best(case) == new[case]]


def work(task: Task) -> Json:
    """Do one run: leave out one pair after the other, learn from the other images, and count the votes of the pair."""
    settings, art = task.settings, task.data
    first, second = split(art, settings["groups"])
    found = []
    for k, (i, j) in enumerate(settings["pairs"]):
        images = [art.images[name] for name in first + second]
        if not settings["colour"]:
            images = [grey(image) for image in images]
        kept = [n for n in range(len(images)) if n not in (i, len(first) + j)]
        labels = [OWN if n < len(first) else OTHER for n in kept]
        voter = PatchVotingClassifier(
            classifier(settings, task.n_threads),
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
                "votes": [round(float(share), 4) for share in own],  # for the artist
                "accuracy": round(50 * float(own[0] + 1 - own[1]), 3),
                "right": bool(own[0] > own[1]),
            }
        )
        if SHOWN_PAIRS.get(settings["groups"]) == (first[i], second[j]) and task.name.startswith("test"):
            save_vote_maps(voter, pair, task.folder / f"votes-{settings['kind']}.png")
        task.report(k + 1, len(settings["pairs"]))
    return {"found": found}


def classifier(settings: Json, n_threads: int) -> Any:
    """Return a classifier of patches: task-driven, or a linear model of the codes of an unsupervised dictionary."""
    n = 2 * settings["patches"]
    if settings["kind"] == "supervised":
        return TaskDrivenClassifier(
            settings["size"],
            lambda1=settings["lambda1"],
            lambda2=0.0,
            nu=0.0,
            decision="linear",
            early_stopping=False,
            batch_size=BATCH_SIZE,
            max_iter=math.ceil(n / BATCH_SIZE),
            learning_rate="adaptive",
            random_state=settings["seed"],
            n_threads=n_threads,
        )
    dictionary = DictionaryLearning(
        settings["size"],
        lambda1=settings["lambda1"],
        batch_size=UNSUPERVISED_BATCH_SIZE,
        max_iter=math.ceil(n / UNSUPERVISED_BATCH_SIZE),
        random_state=settings["seed"],
        n_threads=n_threads,
    )
    return make_pipeline(dictionary, LogisticRegression(C=1e4, max_iter=500))


def split(art: ImageSet, groups: str) -> tuple[list[str], list[str]]:
    """Return the names of the images of two groups."""
    first, second = ([name for name in art.images if name.startswith(f"{group}_")] for group in groups)
    return first, second


def grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the luma of an image in colour."""
    luma: NDArray[np.uint8] = np.rint(image @ LUMA).astype(np.uint8)
    return luma


def save_vote_maps(voter: PatchVotingClassifier, pair: tuple[NDArray[Any], ...], path: Path) -> None:
    """Write two images at half size, tinted by the votes of their patches: orange for the artist, blue for others."""
    own = voter.classes_.tolist().index(OWN)
    tinted = []
    for image in pair:
        share = voter.vote_map(image)[:, :, own, None]
        tint = share * ORANGE + (1 - share) * BLUE
        light = (image if image.ndim == 2 else grey(image))[:, :, None] / 255
        tinted.append((255 * (0.3 + 0.7 * light) * tint)[::2, ::2])
    save_image(np.rint(np.concatenate(tinted, axis=1)).astype(np.uint8), path)
