"""The runs of the experiment on inverse halftoning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskdict import datasets
from taskdict._common.progress import Progress
from taskdict._files.registry import load as load_model
from taskdict.experiments.data.halftones import load_halftones
from taskdict.experiments.figures import save_image
from taskdict.experiments.frame import Measure, Task
from taskdict.experiments.halftoning import VALIDATION_IMAGES, HalftoningSettings
from taskdict.experiments.record import Json
from taskdict.experiments.runner import Run
from taskdict.images import ImageRestorer, degrade

LAST_SHARE = 20  # the objective is averaged over the last of so many parts of the training


@dataclass(frozen=True)
class HalftoningData:
    """The three data sets: to learn from, to test on, and halftones without originals."""

    name: ClassVar[str] = "kodak, classic12, halftones"
    kodak: datasets.ImageSet
    classical: datasets.ImageSet
    halftones: datasets.ImageSet

    @property
    def sha256(self) -> dict[str, str]:
        """Digests of the data sets."""
        return {
            "kodak": self.kodak.sha256,
            "classical": self.classical.sha256,
            "halftones": self.halftones.sha256,
        }


def load(settings: HalftoningSettings, data: str | None) -> HalftoningData:
    """Load the images."""
    return HalftoningData(datasets.load_kodak(data), datasets.load_classical(data), load_halftones(data))


def find(settings: HalftoningSettings, data: HalftoningData, measure: Measure) -> Json:
    """Train the restorer, choose the parameters of the restoration, and restore all images."""
    common = {
        "patch_size": settings.patch_size,
        "size": settings.size,
        "lambda1": settings.lambda1,
        "passes": settings.passes,
        "seed": settings.seed,
        **({} if settings.refine is None else {"refine": settings.refine}),
    }
    training = measure([Run("train", {**common, "kind": "train"})])
    overlap = "plain" if settings.recipe == "paper" else "weighted"
    restore = {**common, "kind": "restore", "overlap": overlap, "stride": settings.stride, "denoise": None}
    tried: list[Json] = []

    def best(name: str, values: Sequence[float], chosen: Json) -> float:
        """Return the value with the highest PSNR on the validation images."""
        validate = {**restore, **chosen, "pictures": "validation"}
        found = measure([Run(f"validation-{name}-{value:g}", {**validate, name: value}) for value in values])
        tried.extend(found)
        return values[int(np.argmax([np.mean(list(run["psnr"].values())) for run in found]))]

    chosen: Json = {"restoration": best("restoration", settings.restoration, {})}
    runs = [Run("all", {**restore, **chosen, "pictures": "all"})]
    if settings.denoise:
        chosen["denoise"] = best("denoise", settings.denoise, chosen)
        runs.append(Run("all-denoised", {**restore, **chosen, "pictures": "all"}))
    return {"chosen": chosen, "training": training, "selection": tried, "results": measure(runs)}


def work(task: Task) -> Json:
    """Do one run: train the restorer, or restore images with it."""
    model_path = task.folder / "models" / "restorer.safetensors"
    if task.settings["kind"] == "restore":
        return restore_images(task, model_path)
    model = train(task)
    model_path.parent.mkdir(exist_ok=True)
    model.save(model_path)
    objective = model.history_["objective"]
    return {"batches": len(objective), "objective": float(np.mean(objective[-len(objective) // LAST_SHARE :]))}


def restore_images(task: Task, model_path: Path) -> Json:
    """Restore images, and return their PSNR; if these are all images, they are written to ``pictures/``."""
    settings, is_last = task.settings, task.settings["pictures"] == "all"
    model = load_model(model_path).set_params(n_threads=task.n_threads, overlap=settings["overlap"])
    images = task.data.classical.images
    names = images if is_last else VALIDATION_IMAGES
    named = {"lambda1": settings["restoration"], "stride": settings["stride"], "denoise": settings["denoise"]}
    suffix = "restored" if settings["denoise"] is None else "denoised"
    folder = task.folder / "pictures"
    found: dict[str, float] = {}
    for k, name in enumerate(names):
        halftone = degrade.floyd_steinberg(images[name])
        restored = model.restore(halftone, **named)
        found[name] = round(psnr(images[name], restored), 3)
        task.report(k + 1, len(names))
        if is_last:
            folder.mkdir(exist_ok=True)
            save_image(halftone, folder / f"{name}-halftone.png")
            save_image(restored, folder / f"{name}-{suffix}.png")
    if is_last:
        model.set_params(lambda1=settings["restoration"]).save(model_path)  # with its default for later use
        for name, halftone in task.data.halftones.images.items():
            save_image(model.restore(halftone, **named), folder / f"{name}-{suffix}.png")
    return {"psnr": found}


def train(task: Task) -> ImageRestorer:
    """Learn from the halftones of images."""
    settings = task.settings
    n_stages, n_pixels = 1 if settings.get("refine") is None else 2, settings["patch_size"] ** 2

    def report(progress: Progress) -> None:
        before = 0 if progress.model.n_features_in_ == n_pixels else progress.max_iter or 0
        task.report(before + progress.n_iter, n_stages * (progress.max_iter or 0))

    model = ImageRestorer(
        settings["patch_size"],
        settings["size"],
        lambda1=settings["lambda1"],
        refine=settings.get("refine"),
        n_passes=settings["passes"],
        checkpoint=str(task.checkpoint),
        random_state=settings["seed"],
        n_threads=task.n_threads,
        callbacks=report,
    )
    model.fit(list(task.data.kodak.images.values()), degrade=degrade.floyd_steinberg)
    return model


def psnr(clean: NDArray[np.uint8], restored: NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of images with values from 0 to 255, in dB."""
    error = np.square(clean.astype(np.float64) - restored).mean()
    return float(10 * np.log10(255**2 / error))
