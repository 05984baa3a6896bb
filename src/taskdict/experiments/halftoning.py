"""Inverse halftoning (paper, Section 5.3): grey pictures from black and white ones, Table 2.

A restorer learns from the halftones of the 24 pictures of Kodak. The λ1 of the restoration, and the size of artefacts
that are removed from its result as noise, are chosen on the first four of twelve classical pictures; the other eight
are for the last figures only. Beside them, halftones of the early days of window systems are restored, whose originals
are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from taskdict import datasets
from taskdict.experiments.runs import Json, Report, Run, Runner, keep_record
from taskdict.images import ImageRestorer, degrade
from taskdict.images.files import Picture, write_picture
from taskdict.loading import load
from taskdict.progress import Progress

VALIDATION = ("house", "peppers", "cameraman", "lena")
PAPER = {  # PSNR in dB, by picture
    "FIHT2": (30.8, 25.3, 25.8, 31.4, 24.5, 28.6, 29.5, 28.2, 29.3, 26.0, 25.2, 24.7),
    "WInHD": (31.2, 26.9, 26.8, 31.9, 25.7, 29.2, 29.4, 28.7, 29.4, 28.1, 25.6, 26.4),
    "LPA-ICI": (31.4, 27.7, 26.5, 32.5, 25.6, 29.7, 30.0, 29.2, 30.1, 28.3, 26.0, 27.2),
    "SA-DCT": (32.4, 28.6, 27.8, 33.0, 27.0, 30.1, 30.2, 29.8, 30.3, 28.5, 26.2, 27.6),
    "the paper": (33.0, 29.6, 28.1, 33.0, 26.6, 30.2, 30.5, 29.9, 30.4, 29.0, 26.2, 28.0),
}
DENOISE = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03)  # deviations of the artefacts to choose from
RESTORATION = tuple(round(0.4 + 0.05 * k, 2) for k in range(9))  # λ1 to choose from, the paper's

LOADERS = {
    "kodak": datasets.load_kodak,
    "classical": datasets.load_classical,
    "halftones": datasets.load_halftones,
}


@dataclass(frozen=True)
class Settings:
    """What the experiment is; the defaults are what the paper has chosen.

    `recipe` is "paper": patches are averaged; or "ours": the places of a patch have weights, and what is restored is
    refined (`RECIPES`).
    """

    recipe: str = "paper"
    patch_size: int = 10
    size: int = 500
    lambda1: float = 0.6
    passes: float = 2.0
    refine: float | None = None  # deviation of the artefacts that are removed between the two mappings
    restoration: tuple[float, ...] = RESTORATION
    denoise: tuple[float, ...] = DENOISE
    seed: int = 0
    stride: int = 1  # of the restoration

    def quick(self) -> Settings:
        """Return a small version of the same experiment."""
        return replace(
            self, size=min(self.size, 100), passes=0.03, restoration=(0.5, 0.55, 0.6), denoise=(0.01,), stride=3
        )


RECIPES = {
    "paper": Settings(),
    "ours": Settings(recipe="ours", size=1000, refine=0.02, restoration=(0.55, 0.6, 0.65)),
}


def reproduce(
    settings: Settings,
    folder: Path,
    *,
    data: str | None = None,
    n_threads: int | None = None,
    file: TextIO | None = None,
) -> Json:
    """Do the experiment, or what is left of it, and return its record; arguments as in :func:`digits.reproduce`."""
    sets = {name: load_pictures(data) for name, load_pictures in LOADERS.items()}
    common = {
        "patch_size": settings.patch_size,
        "size": settings.size,
        "lambda1": settings.lambda1,
        "passes": settings.passes,
        "seed": settings.seed,
        "sha256": {name: pictures.sha256 for name, pictures in sets.items()},
        **({} if settings.refine is None else {"refine": settings.refine}),
    }
    runner, inputs = Runner(folder, work, n_threads, file), {"data": data}
    (training,) = runner.results([Run("train", {**common, "kind": "train"}, inputs)])
    overlap = "plain" if settings.recipe == "paper" else "weighted"
    restore = {**common, "kind": "restore", "overlap": overlap, "stride": settings.stride, "denoise": None}
    tried: list[Json] = []

    def best(name: str, values: Sequence[float], chosen: Json) -> float:
        """Return the value with the highest PSNR on the validation pictures."""
        found = runner.results(
            [
                Run(
                    f"validation-{name}-{value:g}", {**restore, **chosen, "pictures": "validation", name: value}, inputs
                )
                for value in values
            ]
        )
        tried.extend(found)
        return values[int(np.argmax([np.mean(list(run["psnr"].values())) for run in found]))]

    chosen: Json = {"restoration": best("restoration", settings.restoration, {})}
    runs = [Run("all", {**restore, **chosen, "pictures": "all"}, inputs)]
    if settings.denoise:
        chosen["denoise"] = best("denoise", settings.denoise, chosen)
        runs.append(Run("all-denoised", {**restore, **chosen, "pictures": "all"}, inputs))
    results = runner.results(runs)
    digests = {name: pictures.sha256 for name, pictures in sets.items()}
    return keep_record(
        folder,
        "halftoning",
        settings,
        {"name": "kodak, classic12, halftones", "sha256": digests},
        chosen=chosen,
        training=[training],
        selection=tried,
        results=results,
    )


def work(run: Run, checkpoint: Path, n_threads: int, report: Report) -> Json:
    """Do one run: learn the restorer, or restore pictures with it."""
    settings, folder = run.settings, checkpoint.parent.parent
    model_path = folder / "models" / "restorer.safetensors"
    if settings["kind"] == "train":
        pictures = datasets.load_kodak(run.inputs["data"])
        if pictures.sha256 != settings["sha256"]["kodak"]:
            raise datasets.DataError("the data have changed since the experiment began.")
        model = train(settings, list(pictures.images.values()), checkpoint, n_threads, report)
        model_path.parent.mkdir(exist_ok=True)
        model.save(model_path)
        objective = model.history_["objective"]
        return {"batches": len(objective), "objective": float(np.mean(objective[-len(objective) // 20 :]))}
    model = load(model_path).set_params(n_threads=n_threads, overlap=settings["overlap"])
    images = datasets.load_classical(run.inputs["data"]).images
    if settings["pictures"] == "validation":
        images = {name: images[name] for name in VALIDATION}
    found: dict[str, float] = {}
    named = {"lambda1": settings["restoration"], "stride": settings["stride"], "denoise": settings["denoise"]}
    shown, suffix = folder / "pictures", "restored" if settings["denoise"] is None else "denoised"
    for k, (name, image) in enumerate(images.items()):
        halftone = degrade.floyd_steinberg(image)
        restored = model.restore(halftone, **named)
        found[name] = round(psnr(image, restored), 3)
        report(k + 1, len(images))
        if settings["pictures"] == "all":
            shown.mkdir(exist_ok=True)
            for kind, picture in (("halftone", halftone), (suffix, restored)):
                write_picture(shown / f"{name}-{kind}.png", Picture(picture), force=True)
    if settings["pictures"] == "all":
        model.set_params(lambda1=settings["restoration"]).save(model_path)  # as it is to be used
        for name, halftone in datasets.load_halftones(run.inputs["data"]).images.items():
            write_picture(shown / f"{name}-{suffix}.png", Picture(model.restore(halftone, **named)), force=True)
    return {"psnr": found}


def train(settings: Json, clean: list[NDArray[Any]], checkpoint: Path, n_threads: int, report: Report) -> ImageRestorer:
    """Learn from the halftones of pictures."""
    n_parts, width = 1 if settings.get("refine") is None else 2, settings["patch_size"] ** 2

    def tell(progress: Progress) -> None:
        before = 0 if progress.model.n_features_in_ == width else progress.max_iter or 0
        report(before + progress.n_iter, n_parts * (progress.max_iter or 0))

    model = ImageRestorer(
        settings["patch_size"],
        settings["size"],
        lambda1=settings["lambda1"],
        refine=settings.get("refine"),
        n_passes=settings["passes"],
        checkpoint=str(checkpoint),
        random_state=settings["seed"],
        n_threads=n_threads,
        callbacks=tell,
    )
    model.fit(clean, degrade=degrade.floyd_steinberg)
    return model


def psnr(clean: NDArray[np.uint8], restored: NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of pictures from 0 to 255 in dB."""
    error = np.square(clean.astype(np.float64) - restored).mean()
    return float(10 * np.log10(255**2 / error))
