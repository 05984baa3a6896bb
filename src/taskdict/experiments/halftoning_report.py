"""What ``taskdict reproduce halftoning`` makes of its options, and what it shows in the end."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskdict import datasets
from taskdict._pillow import pillow
from taskdict.experiments import halftoning
from taskdict.experiments.pictures import beside, save_picture
from taskdict.experiments.runs import Json, open_folder, write_text
from taskdict.experiments.tables import row

SHOWN = ("lena", "barbara", "boat")  # side by side
DETAILS = {"lena": (200, 200), "barbara": (290, 290), "flintstones": (100, 150), "boat": (0, 0)}  # corners
DETAIL = 200  # pixels


def settings_from(options: argparse.Namespace) -> halftoning.Settings:
    """Return the settings of the experiment."""
    settings = halftoning.RECIPES[options.recipe or "paper"]
    if options.quick:
        settings = settings.quick()
    given: dict[str, Any] = {
        "patch_size": options.patch_size,
        "size": options.atoms,
        "lambda1": options.lambda1,
        "passes": options.passes,
        "restoration": options.restoration and tuple(dict.fromkeys(options.restoration)),
        "denoise": None if options.denoise is None else tuple(dict.fromkeys(v for v in options.denoise if v > 0)),
        "seed": options.seed,
        "stride": options.stride,
    }
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


def report(settings: halftoning.Settings, folder: Path, *, data: str | None, n_threads: int | None) -> None:
    """Do the experiment; print its table, and write it and the pictures beside the record."""
    open_folder(folder, "halftoning")
    record = halftoning.reproduce(settings, folder, data=data, n_threads=n_threads)
    text = f"{words(record)}\n\n{table(record)}\n"
    write_text(folder / "table.md", text)
    show(folder, data, "denoised" if "denoise" in record["chosen"] else "restored")
    print(f"\n{text}\nall runs together took {record['seconds'] / 60:.1f} minutes")
    names = ("record.json", "table.md", "side-by-side.png", "details.png", "pictures")
    print(f"saved {', '.join(str(folder / name) for name in names)}")


def words(record: Json) -> str:
    """Say what was done, and what was chosen."""
    settings = record["settings"]
    side = settings["patch_size"]
    denoise = record["chosen"].get("denoise")
    again = "" if settings["refine"] is None else f" Refined, with artefacts of {settings['refine']:g} removed between."
    last = "" if denoise is None else f", and {denoise:g} for the deviation of artefacts that are removed"
    return (
        f"Patches of {side} × {side}, p = {settings['size']}, λ1 = {settings['lambda1']:g} to learn with, "
        f"{settings['passes']:g} passes over all pairs; λ1 = {record['chosen']['restoration']:g} to restore with"
        f"{last}, chosen on the first four pictures.{again}"
    )


def table(record: Json) -> str:
    """Return the PSNR of each picture, beside those of the paper; choices were made on the first four."""
    measured = {"measured" if k == 0 else "measured, denoised": run["psnr"] for k, run in enumerate(record["results"])}
    names = list(measured["measured"])
    means = ("mean", "mean of the last eight")
    lines = [row(["PSNR in dB", *names, *means]), row(["---", *("---:" for _ in [*names, *means])])]
    found = {method: tuple(psnr.values()) for method, psnr in measured.items()}
    for method, values in {**halftoning.PAPER, **found}.items():
        digits = 2 if method in measured else 1
        tested = values[len(halftoning.VALIDATION) :]
        cells = [*(f"{value:.{digits}f}" for value in values), f"{np.mean(values):.2f}", f"{np.mean(tested):.2f}"]
        lines.append(row([method, *cells]))
    return "\n".join(lines)


def show(folder: Path, data: str | None, kind_of_last: str) -> None:
    """Write originals, halftones and restored pictures side by side; and details of halftones and restored ones."""
    originals = datasets.load_classical(data).images

    def read(name: str, kind: str) -> Any:
        with pillow().open(folder / "pictures" / f"{name}-{kind}.png") as picture:
            return np.asarray(picture)

    kinds = ("halftone", kind_of_last)
    rows = [beside([originals[name], *(read(name, kind) for kind in kinds)], 8) for name in SHOWN]
    width = min(each.shape[1] for each in rows)
    save_picture(np.concatenate([each[:, :width] for each in rows]), folder / "side-by-side.png")
    pairs = [np.concatenate([_detail(read(name, kind), *corner) for kind in kinds]) for name, corner in DETAILS.items()]
    save_picture(beside(pairs, 8), folder / "details.png")


def _detail(picture: Any, top: int, left: int) -> Any:
    """Return a part of a picture, with its corner there or as near as it can be."""
    top, left = (min(place, max(0, side - DETAIL)) for place, side in zip((top, left), picture.shape, strict=True))
    return picture[top : top + DETAIL, left : left + DETAIL]
