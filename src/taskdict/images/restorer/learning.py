"""The training of a restorer: a dictionary of clean patches, the first map, and the map of a residual refinement."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from taskdict._coding.coded_batch import Coding
from taskdict._common.arrays import Floats
from taskdict._common.pixels import with_channels
from taskdict._common.validation import is_fitted
from taskdict._files.checkpoint import FinishedTrainingWarning, check_checkpoint, peek
from taskdict._learning.start import learn_dictionary
from taskdict.constraints import UnitBall
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.images.progress import shown_restorations, silent
from taskdict.images.restorer.learned import LearnedRestorer
from taskdict.images.restorer.pairs import Images
from taskdict.images.restorer.patch_map import PatchMap
from taskdict.images.restorer.refinement import Refinement, refinement_checkpoint, remove_artefacts
from taskdict.images.restorer.settings import RestorerSettings
from taskdict.streams.patches import PatchPairs, RefinementPairs

PATCHES_TO_START = 20_000  # clean patches that the first dictionary is learned from
PATCHES_TO_WEIGH = 20_000  # patches that the errors of the positions of a patch are estimated from
STARTING_PENALTY = 0.005  # λ1 of the first dictionary, times the side of a patch
REFINEMENT_PENALTY = 0.15  # λ1 of a refinement, times the side of a patch

Publish = Callable[[LearnedRestorer], None]


def learn_restorer(settings: RestorerSettings, damaged: Images, clean: Images, publish: Publish) -> None:
    """Learn from damaged and clean images of the same sizes.

    Parameters
    ----------
    settings : RestorerSettings
        Parameters.
    damaged, clean : list of arrays
        Images.
    publish : callable
        Called with the restorer after each stage of the training, and with the one learned so far when the training of
        a map is interrupted.
    """
    pairs = PatchPairs(damaged, clean, settings.patch_size, random_state=settings.random_state)
    n_batches = settings.n_batches(pairs.n_signals)
    learned = _learn_map(settings, pairs, clean, n_batches, publish)
    if settings.refine is not None and learned.n_iter == n_batches:  # not ended by a callback
        _learn_refinement(settings, settings.refine, learned, damaged, clean, n_batches, pairs.seed, publish)


def check_checkpoints(settings: RestorerSettings) -> None:
    """Raise if a checkpoint is not a file, or if that of the refinement belongs to another training."""
    check_checkpoint(settings.checkpoint)
    if settings.checkpoint is None or settings.refine is None:
        return
    second = refinement_checkpoint(settings.checkpoint)
    check_checkpoint(second)
    if os.path.exists(second) and not os.path.exists(settings.checkpoint):
        raise ValueError(
            f"checkpoint {os.fspath(settings.checkpoint)!r} does not exist, but {second!r} does, of another training: "
            "remove it, or give another path."
        )


def _learn_map(
    settings: RestorerSettings, pairs: PatchPairs, clean: Images, n_batches: int, publish: Publish
) -> LearnedRestorer:
    """Learn the first map and its weights."""

    def learned(regressor: TaskDrivenRegressor) -> LearnedRestorer:
        patch_map = PatchMap.from_regressor(regressor, settings.patch_size)
        return LearnedRestorer(patch_map, settings.upscale, pairs.n_channels, regressor.n_iter_, regressor.history_)

    regressor = _regressor(
        settings,
        lambda1=settings.lambda1,
        lambda2=settings.lambda2,
        max_iter=n_batches,
        dictionary_init=_first_dictionary(settings, clean),
        checkpoint=settings.checkpoint,
    )
    with _finished_first_training(settings):
        _fit(regressor, pairs, lambda: publish(learned(regressor)))
    first = learned(regressor)
    first = replace(first, patch_map=_weighted(first.patch_map, pairs, settings))
    publish(first)
    return first


def _learn_refinement(
    settings: RestorerSettings,
    sigma: float,
    first: LearnedRestorer,
    damaged: Images,
    clean: Images,
    n_batches: int,
    seed: int,
    publish: Publish,
) -> None:
    """Learn a map from the restored patches, in the random order of a seed, to the errors that are left."""
    useful = [k for k, image in enumerate(damaged) if min(image.shape[:2]) >= settings.patch_size]
    damaged, clean = [with_channels(damaged[k]) for k in useful], [clean[k] for k in useful]
    restored, denoised = _restore_examples(settings, sigma, first, damaged)
    pairs = RefinementPairs(damaged, clean, restored, denoised, settings.patch_size, random_state=seed)

    def learned(regressor: TaskDrivenRegressor) -> LearnedRestorer:
        patch_map = PatchMap.from_regressor(regressor, settings.patch_size)
        return replace(
            first,
            n_iter=first.n_iter + regressor.n_iter_,
            history={
                **first.history,
                "objective": [*first.history["objective"], *regressor.history_["objective"]],
            },
            refinement=Refinement(sigma, pairs.scales, patch_map),
        )

    regressor = _regressor(
        settings,
        lambda1=REFINEMENT_PENALTY * settings.patch_size,
        lambda2=0.0,
        max_iter=n_batches,
        checkpoint=None if settings.checkpoint is None else refinement_checkpoint(settings.checkpoint),
    )
    _fit(regressor, pairs, lambda: publish(learned(regressor)))
    both = learned(regressor)
    assert both.refinement is not None
    patch_map = _weighted(both.refinement.patch_map, pairs, settings)
    publish(replace(both, refinement=replace(both.refinement, patch_map=patch_map)))


def _restore_examples(
    settings: RestorerSettings, sigma: float, first: LearnedRestorer, damaged: Images
) -> tuple[list[Floats], list[Floats]]:
    """Return the damaged images after the first map, and those after their artefacts are removed."""
    restored: list[Floats] = []
    denoised: list[Floats] = []
    report = shown_restorations() if settings.verbose else silent
    for k, image in enumerate(damaged):
        restored.append(
            first.map_once(
                image,
                lambda1=None,
                stride=1,
                weighted=settings.weighted,
                n_threads=settings.n_threads,
                report=silent,
                dtype=np.float32,
            )
        )
        denoised.append(remove_artefacts(restored[-1], sigma, 1, settings.n_threads))
        report(k + 1, len(damaged))
    return restored, denoised


def _regressor(settings: RestorerSettings, **parameters: Any) -> TaskDrivenRegressor:
    """Return a regressor of patches: Wα, learned as in the paper."""
    return TaskDrivenRegressor(
        settings.n_components,
        nu=settings.nu,
        decision="linear",
        early_stopping=False,
        fit_intercept=False,  # a patch without contrast keeps its value
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        random_state=settings.random_state,
        n_threads=settings.n_threads,
        verbose=settings.verbose,
        callbacks=settings.callbacks,
        **parameters,
    )


def _fit(regressor: TaskDrivenRegressor, pairs: PatchPairs, publish: Callable[[], None]) -> None:
    """Fit a regressor, and publish it, also if its training is interrupted."""
    try:
        regressor.fit(pairs)
    finally:
        if is_fitted(regressor):
            publish()


def _finished_first_training(settings: RestorerSettings) -> AbstractContextManager[Any]:
    """Return a context without the warning of a finished first training, which is usual if a refinement follows."""
    if settings.refine is None:
        return nullcontext()
    return warnings.catch_warnings(action="ignore", category=FinishedTrainingWarning)


def _weighted(patch_map: PatchMap, pairs: PatchPairs, settings: RestorerSettings) -> PatchMap:
    """Return a map with the weights that its errors on the next patches give."""
    X, y = pairs.take_pairs(min(PATCHES_TO_WEIGH, pairs.n_signals))
    return patch_map.weighted_by_errors(X, y, settings.n_threads)


def _first_dictionary(settings: RestorerSettings, clean: Images) -> Floats | None:
    """Return atoms learned from clean patches, which do not contain the pattern of the damage.

    Codes of damaged patches on them predict the clean patches better than codes on atoms of damaged patches. A training
    that is resumed has its own first dictionary in the checkpoint.
    """
    if settings.checkpoint is not None and os.path.exists(settings.checkpoint):
        resumed = peek(settings.checkpoint)
        return None if resumed is None else resumed.parameters.get("dictionary_init")
    seed = int(settings.random_state) if isinstance(settings.random_state, numbers.Integral) else 0
    patches = PatchPairs(clean, clean, settings.patch_size, random_state=seed)
    signals = patches.take(min(PATCHES_TO_START, patches.n_signals))
    coding = Coding(STARTING_PENALTY * settings.patch_size)
    no_atoms = np.zeros((settings.n_components, signals.shape[1]), np.float32)
    return learn_dictionary(signals, no_atoms, coding, UnitBall(), (), seed, settings.n_threads)
