"""The table of the experiment on inverse halftoning, and images side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from taskdict import datasets
from taskdict._common.pillow import pillow
from taskdict.experiments.figures import save_image, side_by_side
from taskdict.experiments.halftoning import PAPER_PSNR, VALIDATION_IMAGES
from taskdict.experiments.markdown import row, rule
from taskdict.experiments.record import Json, is_small

SIDE_BY_SIDE = ("lena", "barbara", "boat")
DETAIL_CORNERS = {"lena": (200, 200), "barbara": (290, 290), "flintstones": (100, 150), "boat": (0, 0)}
DETAIL_SIZE = 200  # pixels
GAP = 8  # pixels between images


def describe(record: Json) -> str:
    """Return the settings, and the parameters that were chosen."""
    settings = record["settings"]
    side = settings["patch_size"]
    denoise = record["chosen"].get("denoise")
    refined = (
        "" if settings["refine"] is None else f" Refined, with artefacts of {settings['refine']:g} removed between."
    )
    last = "" if denoise is None else f", and {denoise:g} for the standard deviation of artefacts that are removed"
    return (
        f"Patches of {side} × {side}, p = {settings['size']}, λ1 = {settings['lambda1']:g} in the training, "
        f"{settings['passes']:g} passes over all pairs; λ1 = {record['chosen']['restoration']:g} in the restoration"
        f"{last}, chosen on the first four images.{refined}"
    )


def table(record: Json) -> str:
    """Return the PSNR of each image, beside those of the paper; parameters were chosen on the first four."""
    measured = {"measured" if k == 0 else "measured, denoised": run["psnr"] for k, run in enumerate(record["results"])}
    names = list(measured["measured"])
    means = ("mean", "mean of the last eight")
    lines = [row(["PSNR in dB", *names, *means]), rule(1 + len(names) + len(means))]
    found = {method: tuple(psnr.values()) for method, psnr in measured.items()}
    for method, values in (found if is_small(record) else {**PAPER_PSNR, **found}).items():
        digits = 2 if method in measured else 1
        tested = values[len(VALIDATION_IMAGES) :]
        cells = [*(f"{value:.{digits}f}" for value in values), f"{np.mean(values):.2f}", f"{np.mean(tested):.2f}"]
        lines.append(row([method, *cells]))
    return "\n".join(lines)


def figures(record: Json, folder: Path, data: str | None) -> list[Path]:
    """Write originals, halftones and restored images side by side, and details of halftones and restored images."""
    originals = datasets.load_classical(data).images
    kinds = ("halftone", "denoised" if "denoise" in record["chosen"] else "restored")

    def read(name: str, kind: str) -> Any:
        with pillow().open(folder / "pictures" / f"{name}-{kind}.png") as image:
            return np.asarray(image)

    rows = [side_by_side([originals[name], *(read(name, kind) for kind in kinds)], GAP) for name in SIDE_BY_SIDE]
    width = min(each.shape[1] for each in rows)
    save_image(np.concatenate([each[:, :width] for each in rows]), folder / "side-by-side.png")
    pairs = [
        np.concatenate([detail(read(name, kind), *corner) for kind in kinds]) for name, corner in DETAIL_CORNERS.items()
    ]
    save_image(side_by_side(pairs, GAP), folder / "details.png")
    return [folder / name for name in ("side-by-side.png", "details.png", "pictures")]


def detail(image: Any, top: int, left: int) -> Any:
    """Return a part of an image, with its corner at a pixel or as near to it as possible."""
    top, left = (min(at, max(0, side - DETAIL_SIZE)) for at, side in zip((top, left), image.shape, strict=True))
    return image[top : top + DETAIL_SIZE, left : left + DETAIL_SIZE]
