"""``taskdict degrade``, ``taskdict train-restorer`` and ``taskdict restore``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from taskdict._common.argument_types import natural, penalty, positive
from taskdict._common.atomic_files import check_output as check_file
from taskdict._common.progress import StatusLine
from taskdict._common.text import printable
from taskdict._common.validation import check_deviation

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
AMOUNTS = {  # the parameter that --amount sets, and its type
    "ordered": ("size", int),
    "noise": ("sigma", float),
    "blur": ("sigma", float),
    "downsample": ("factor", int),
    "missing": ("fraction", float),
    "jpeg": ("quality", int),
}
KINDS = ("floyd-steinberg", "jarvis", *AMOUNTS)
ROWS_AT_ONCE = 256  # that are converted together
GREY_DISTANCE = 0.1  # from black and white, from which on a pixel is grey
MAX_GREY_SHARE = 0.1  # of the pixels of a halftone


def add_degrade(commands: Any) -> None:
    """Add ``taskdict degrade``."""
    command = commands.add_parser(
        "degrade",
        help="degrade an image: halftone, noise, blur and more",
        description="Degrade an image, to learn from or to try a restoration on. Depth, colour and metadata are kept.",
    )
    command.add_argument("image", type=Path, help="an image file")
    command.add_argument("output", type=Path, help="the image to write")
    add_kind(command, required=True)
    command.add_argument("--seed", type=natural, default=0, help="seed of noise and of missing pixels (default: 0)")
    command.add_argument("--force", action="store_true", help="replace an existing file")
    command.set_defaults(run=run_degrade, interrupted="")


def add_kind(command: Any, required: bool) -> None:
    """Add the options of a degradation."""
    command.add_argument("--kind", choices=KINDS, required=required, help="kind of degradation")
    command.add_argument(
        "--amount",
        metavar="X",
        help="how much: standard deviation of noise (0.1) or blur (1.5 pixels), factor (2), fraction of missing pixels "
        "(0.5), quality of a JPEG (10), size of the matrix of ordered dithering (8)",
    )


def run_degrade(options: argparse.Namespace) -> None:
    """Run ``taskdict degrade``."""
    from dataclasses import replace

    from taskdict.images.io import check_output, read_image, write_image

    degrade = degradation(options)
    image = read_image(options.image)
    check_output(options.output, image, force=options.force)
    degraded = degrade(image.pixels)
    if options.kind == "downsample" and image.alpha is not None:
        image = replace(image, alpha=degrade(image.alpha))
    write_image(options.output, replace(image, pixels=degraded), force=options.force)
    print(f"saved {printable(options.output)}")


def degradation(options: argparse.Namespace) -> Callable[[Any], Any]:
    """Return the function that degrades an image as the options say."""
    from taskdict.images import degrade

    named: dict[str, Any] = {}
    if options.amount is not None:
        if options.kind not in AMOUNTS:
            raise ValueError(f"--amount is not for --kind {options.kind}.")
        name, kind = AMOUNTS[options.kind]
        try:
            named[name] = kind(options.amount)
        except ValueError:
            number = "whole number" if kind is int else "number"
            raise ValueError(
                f"--amount must be a {number} for --kind {options.kind}, got {options.amount!r}."
            ) from None
        if options.kind == "noise":
            check_deviation("--amount", named[name])
    if options.kind in ("noise", "missing"):
        named["random_state"] = np.random.RandomState(options.seed)  # each image has noise of its own
    return partial(degrade.DEGRADATIONS[options.kind], **named)


def add_train_restorer(commands: Any) -> None:
    """Add ``taskdict train-restorer``."""
    command = commands.add_parser(
        "train-restorer",
        help="learn to restore images from examples",
        description="Learn to restore images from clean ones and a kind of degradation, or from clean and degraded "
        "ones. The training is kept beside the model until it is complete: after a break, the same command resumes.",
    )
    command.add_argument("model", type=Path, help="the model to write, for taskdict restore")
    command.add_argument("clean", type=Path, nargs="+", help="clean images, or folders of them")
    add_kind(command, required=False)
    command.add_argument(
        "--damaged", type=Path, metavar="FOLDER", help="degraded images with the names of the clean ones"
    )
    command.add_argument("--patch-size", type=positive, default=10, metavar="N", help="side of a patch (default: 10)")
    command.add_argument("--atoms", type=positive, default=500, metavar="N", help="number of atoms (default: 500)")
    command.add_argument(
        "--lambda1", type=penalty, default=0.6, metavar="X", help="weight of the ℓ1 norm (default: 0.6, for halftones)"
    )
    command.add_argument(
        "--refine",
        type=penalty,
        metavar="X",
        help="refine the result with a second model, after artefacts of this standard deviation, such as 0.02, are "
        "removed: slower and better",
    )
    command.add_argument(
        "--passes", type=penalty, default=2.0, metavar="X", help="passes over all patches (default: 2)"
    )
    command.add_argument(
        "--iterations", type=positive, metavar="N", help="batches of 200 patches, in place of --passes"
    )
    command.add_argument(
        "--upscale", type=positive, default=1, metavar="N", help="by how much restored images are larger (default: 1)"
    )
    command.add_argument("--seed", type=natural, default=0, help="seed of all random choices (default: 0)")
    command.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    command.add_argument("--force", action="store_true", help="replace an existing model")
    command.set_defaults(run=run_train_restorer, interrupted=": the same command resumes from here")


def run_train_restorer(options: argparse.Namespace) -> None:
    """Run ``taskdict train-restorer``."""
    from taskdict.images import ImageRestorer
    from taskdict.images.io import read_image
    from taskdict.images.restorer.refinement import refinement_checkpoint

    checkpoint = options.model.with_name(f"{options.model.name}.training")
    check_file(options.model, force=options.force, name="model")
    for path in (checkpoint, Path(refinement_checkpoint(checkpoint))):
        check_file(path, force=True, name="the training beside the model")
    if (options.kind is None) == (options.damaged is None):
        raise ValueError("give either --kind, a kind of degradation, or --damaged, a folder with degraded images.")
    paths = [path for given in options.clean for path in image_files(given)]
    clean = [read_image(path).pixels for path in paths]
    images: list[Any] = clean
    if options.damaged is not None:
        images = [
            (read_image(options.damaged / path.name).pixels, pixels) for path, pixels in zip(paths, clean, strict=True)
        ]
    restorer = ImageRestorer(
        options.patch_size,
        options.atoms,
        lambda1=options.lambda1,
        refine=options.refine or None,
        upscale=options.upscale,
        n_passes=options.passes,
        max_iter=options.iterations,
        learning_rate="adaptive",
        checkpoint=str(checkpoint),
        random_state=options.seed,
        n_threads=options.threads,
        verbose=1,
    )
    print(f"learning from {len(paths)} images; after a break, the same command resumes", flush=True)
    restorer.fit(images, degrade=None if options.kind is None else degradation(options))
    restorer.set_params(checkpoint=None).save(options.model)
    for path in (checkpoint, refinement_checkpoint(checkpoint)):
        Path(path).unlink(missing_ok=True)
    name = printable(options.model)
    print(f"saved {name}: taskdict restore IMAGE OUTPUT --model {name}")


def image_files(path: Path) -> list[Path]:
    """Return the path of an image itself, or the images in a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith("."))
    if not found:
        raise ValueError(f"{str(path)!r} has no images.")
    return found


def add_restore(commands: Any) -> None:
    """Add ``taskdict restore``."""
    command = commands.add_parser(
        "restore",
        help="restore an image",
        description="Restore an image: a halftone, with the model that comes with taskdict, or one with another "
        "degradation, with a model of taskdict train-restorer. Depth, colour and metadata are kept; an image of one "
        "bit per pixel becomes grey.",
    )
    command.add_argument("image", type=Path, help="a degraded image")
    command.add_argument("output", type=Path, help="the image to write")
    command.add_argument(
        "--model", type=Path, help="a model that taskdict train-restorer has written (default: a model for halftones)"
    )
    command.add_argument(
        "--lambda1", type=penalty, metavar="X", help="weight of the ℓ1 norm (default: that of the training)"
    )
    command.add_argument(
        "--stride", type=positive, default=1, metavar="N", help="pixels between patches: 2 takes a quarter of them"
    )
    command.add_argument(
        "--denoise",
        type=penalty,
        metavar="X",
        help="remove remaining artefacts as noise of this standard deviation, such as 0.02",
    )
    command.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    command.add_argument("--force", action="store_true", help="replace an existing file")
    command.set_defaults(run=run_restore, interrupted=": nothing was written")


def run_restore(options: argparse.Namespace) -> None:
    """Run ``taskdict restore``."""
    from dataclasses import replace

    from taskdict._files.registry import load
    from taskdict.images import ImageRestorer, pretrained
    from taskdict.images.degrade import resize
    from taskdict.images.io import check_output, read_image, write_image

    image = read_image(options.image)
    if image.pixels.dtype == bool:
        image = replace(image, pixels=255 * image.pixels.astype(np.uint8))
    check_output(options.output, image, force=options.force)
    model = pretrained() if options.model is None else load(options.model)
    if not isinstance(model, ImageRestorer):
        raise TypeError(f"{str(options.model)!r} holds a {type(model).__name__}, which restores no images.")
    if options.model is None and not is_halftone(image.pixels):
        print(
            f"taskdict: {str(options.image)!r} is not black and white, but the model that comes with taskdict is for "
            "halftones: --model names another",
            file=sys.stderr,
        )
    model.set_params(n_threads=options.threads)
    name = printable(options.image.name)
    line = StatusLine(seconds=None)  # of the percentage, on a terminal only
    try:
        restored = model.restore(
            image.pixels,
            lambda1=options.lambda1,
            stride=options.stride,
            denoise=options.denoise,
            report=lambda done, total: line.show(f"restoring {name}: {100 * done // total} %"),
        )
    finally:
        line.close()
    alpha = image.alpha
    if alpha is not None and alpha.shape != restored.shape[:2]:
        alpha = resize(alpha, *restored.shape[:2])
    write_image(options.output, replace(image, pixels=restored, alpha=alpha), force=options.force)
    print(f"saved {printable(options.output)}")


def is_halftone(pixels: Any) -> bool:
    """Return whether nearly all pixels are nearly black or white."""
    from taskdict._common.pixels import to_unit

    n_grey = 0
    for k in range(0, len(pixels), ROWS_AT_ONCE):  # a converted copy of a large image takes much memory
        values = to_unit(pixels[k : k + ROWS_AT_ONCE])
        n_grey += int(((values > GREY_DISTANCE) & (values < 1 - GREY_DISTANCE)).sum())
    return bool(n_grey < MAX_GREY_SHARE * pixels.size)
