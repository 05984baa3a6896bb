"""``taskdict degrade``, ``taskdict train-restorer`` and ``taskdict restore``: whole pictures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from taskdict._outputs import check_output as check_file
from taskdict._text import printable
from taskdict.cli.numbers import natural, penalty, positive

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
AMOUNTS = {  # what --amount is of a degradation
    "ordered": ("size", int),
    "noise": ("sigma", float),
    "blur": ("sigma", float),
    "downsample": ("factor", int),
    "missing": ("fraction", float),
    "jpeg": ("quality", int),
}
KINDS = ("floyd-steinberg", "jarvis", *AMOUNTS)
ROWS = 256  # that are looked at together
GREY = 0.1  # from black or white; and the share of such pixels that a halftone may have


def add_degrade(commands: Any) -> None:
    """Add ``taskdict degrade``."""
    command = commands.add_parser(
        "degrade",
        help="damage a picture: halftone, noise, blur and more",
        description="Damage a picture, to learn from or to try a restoration on. Depth, colour and metadata stay.",
    )
    command.add_argument("picture", type=Path, help="a picture file")
    command.add_argument("output", type=Path, help="the picture to write")
    add_kind(command, required=True)
    command.add_argument("--seed", type=natural, default=0, help="seed of noise and of missing pixels (default: 0)")
    command.add_argument("--force", action="store_true", help="replace an existing file")
    command.set_defaults(run=run_degrade, interrupted="")


def add_kind(command: Any, required: bool) -> None:
    """Add the options for what damages a picture."""
    command.add_argument("--kind", choices=KINDS, required=required, help="what damages pictures")
    command.add_argument(
        "--amount",
        metavar="X",
        help="how much: deviation of noise (0.1) or blur (1.5 pixels), factor (2), fraction of missing pixels (0.5), "
        "quality of a JPEG (10), size of the matrix of ordered dithering (8)",
    )


def run_degrade(options: argparse.Namespace) -> None:
    """Run ``taskdict degrade``."""
    from dataclasses import replace

    from taskdict.images.files import check_output, read_picture, write_picture

    damage = degradation(options)
    picture = read_picture(options.picture)
    check_output(options.output, picture, force=options.force)
    damaged = damage(picture.pixels)
    if options.kind == "downsample" and picture.alpha is not None:
        picture = replace(picture, alpha=damage(picture.alpha))
    write_picture(options.output, replace(picture, pixels=damaged), force=options.force)
    print(f"saved {printable(options.output)}")


def degradation(options: argparse.Namespace) -> Callable[[Any], Any]:
    """Return what damages a picture, as the options say."""
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
    if options.kind in ("noise", "missing"):
        named["random_state"] = np.random.RandomState(options.seed)  # each picture has noise of its own
    return partial(degrade.DEGRADATIONS[options.kind], **named)


def add_train_restorer(commands: Any) -> None:
    """Add ``taskdict train-restorer``."""
    command = commands.add_parser(
        "train-restorer",
        help="learn to restore pictures from examples",
        description="Learn to restore pictures from clean ones and a kind of damage, or from clean and damaged ones. "
        "The training is kept beside the model until it is complete: after a break, the same command goes on.",
    )
    command.add_argument("model", type=Path, help="the model to write, for taskdict restore")
    command.add_argument("clean", type=Path, nargs="+", help="clean pictures, or folders of them")
    add_kind(command, required=False)
    command.add_argument("--damaged", type=Path, metavar="FOLDER", help="damaged pictures with the names of the clean")
    command.add_argument("--patch-size", type=positive, default=10, metavar="N", help="side of a patch (default: 10)")
    command.add_argument("--atoms", type=positive, default=500, metavar="N", help="number of atoms (default: 500)")
    command.add_argument(
        "--lambda1", type=penalty, default=0.6, metavar="X", help="weight of the ℓ1 norm (default: 0.6, for halftones)"
    )
    command.add_argument(
        "--refine",
        type=penalty,
        metavar="X",
        help="take a second look, after artefacts of this deviation, such as 0.02, are removed: slower and better",
    )
    command.add_argument("--passes", type=penalty, default=2.0, metavar="X", help="over all patches (default: 2)")
    command.add_argument(
        "--iterations", type=positive, metavar="N", help="batches of 200 patches, in place of --passes"
    )
    command.add_argument(
        "--upscale", type=positive, default=1, metavar="N", help="how much larger restored pictures are"
    )
    command.add_argument("--seed", type=natural, default=0, help="seed of all random choices (default: 0)")
    command.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    command.add_argument("--force", action="store_true", help="replace an existing model")
    command.set_defaults(run=run_train_restorer, interrupted=": the same command goes on from here")


def run_train_restorer(options: argparse.Namespace) -> None:
    """Run ``taskdict train-restorer``."""
    from taskdict.images import ImageRestorer
    from taskdict.images.files import read_picture
    from taskdict.images.refinement import refinement_checkpoint

    checkpoint = options.model.with_name(f"{options.model.name}.training")
    check_file(options.model, force=options.force, name="model")
    for path in (checkpoint, Path(refinement_checkpoint(checkpoint))):
        check_file(path, force=True, name="the training beside the model")
    if (options.kind is None) == (options.damaged is None):
        raise ValueError("give either --kind, for what damages pictures, or --damaged, a folder with damaged ones.")
    paths = [path for given in options.clean for path in pictures_in(given)]
    clean = [read_picture(path).pixels for path in paths]
    images: list[Any] = clean
    if options.damaged is not None:
        images = [
            (read_picture(options.damaged / path.name).pixels, pixels)
            for path, pixels in zip(paths, clean, strict=True)
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
    print(f"learning from {len(paths)} pictures; after a break, the same command goes on", flush=True)
    restorer.fit(images, degrade=None if options.kind is None else degradation(options))
    restorer.set_params(checkpoint=None).save(options.model)
    for path in (checkpoint, refinement_checkpoint(checkpoint)):
        Path(path).unlink(missing_ok=True)
    name = printable(options.model)
    print(f"saved {name}: taskdict restore PICTURE OUTPUT --model {name}")


def pictures_in(path: Path) -> list[Path]:
    """Return the picture itself, or those in a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith("."))
    if not found:
        raise ValueError(f"{str(path)!r} has no pictures.")
    return found


def add_restore(commands: Any) -> None:
    """Add ``taskdict restore``."""
    command = commands.add_parser(
        "restore",
        help="restore a picture",
        description="Restore a picture: a halftone, with the model that comes with taskdict, or after other damage, "
        "with a model of taskdict train-restorer. Depth, colour and metadata stay; a picture of one bit per pixel "
        "becomes grey.",
    )
    command.add_argument("picture", type=Path, help="a damaged picture")
    command.add_argument("output", type=Path, help="the picture to write")
    command.add_argument(
        "--model", type=Path, help="what taskdict train-restorer has written (default: a model for halftones)"
    )
    command.add_argument(
        "--lambda1", type=penalty, metavar="X", help="weight of the ℓ1 norm (default: that of the training)"
    )
    command.add_argument(
        "--stride", type=positive, default=1, metavar="N", help="pixels between patches: 2 takes a quarter of them"
    )
    command.add_argument(
        "--denoise", type=penalty, metavar="X", help="remove what is left as noise of this deviation, such as 0.02"
    )
    command.add_argument("--threads", type=positive, metavar="N", help="cores to use (default: all)")
    command.add_argument("--force", action="store_true", help="replace an existing file")
    command.set_defaults(run=run_restore, interrupted=": nothing was written")


def run_restore(options: argparse.Namespace) -> None:
    """Run ``taskdict restore``."""
    from dataclasses import replace

    from taskdict.images import ImageRestorer, pretrained
    from taskdict.images.degrade import resize
    from taskdict.images.files import check_output, read_picture, write_picture
    from taskdict.loading import load

    picture = read_picture(options.picture)
    if picture.pixels.dtype == bool:
        picture = replace(picture, pixels=255 * picture.pixels.astype(np.uint8))
    check_output(options.output, picture, force=options.force)
    model = pretrained() if options.model is None else load(options.model)
    if not isinstance(model, ImageRestorer):
        raise TypeError(f"{str(options.model)!r} holds a {type(model).__name__}, which restores no pictures.")
    if options.model is None and not is_halftone(picture.pixels):
        print(
            f"taskdict: {str(options.picture)!r} is not black and white, but the model that comes with taskdict is for "
            "halftones: --model names another",
            file=sys.stderr,
        )
    model.set_params(n_threads=options.threads)
    with Percent(f"restoring {printable(options.picture.name)}") as percent:
        restored = model.restore(
            picture.pixels,
            lambda1=options.lambda1,
            stride=options.stride,
            denoise=options.denoise,
            report=percent.show,
        )
    alpha = picture.alpha
    if alpha is not None and alpha.shape != restored.shape[:2]:
        alpha = resize(alpha, *restored.shape[:2])
    write_picture(options.output, replace(picture, pixels=restored, alpha=alpha), force=options.force)
    print(f"saved {printable(options.output)}")


def is_halftone(pixels: Any) -> bool:
    """Return whether nearly all pixels are nearly black or white."""
    from taskdict.images.pixels import to_unit

    found = 0
    for k in range(0, len(pixels), ROWS):  # a large picture needs no second one in memory
        values = to_unit(pixels[k : k + ROWS])
        found += int(((values > GREY) & (values < 1 - GREY)).sum())
    return bool(found < GREY * pixels.size)


class Percent:
    """Shows how much is done, in a line on standard error that is rewritten; nothing if that is not a terminal."""

    def __init__(self, what: str) -> None:
        self._what, self._file = what, sys.stderr

    def __enter__(self) -> Percent:
        return self

    def show(self, done: int, total: int) -> None:
        """Show it."""
        if self._file.isatty():
            print(f"\r{self._what}: {100 * done // total} %", end="", file=self._file, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._file.isatty():
            print(file=self._file)


PICTURE_COMMANDS = (add_degrade, add_train_restorer, add_restore)
