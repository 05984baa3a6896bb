"""Pictures of what was learned: mosaics of atoms, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict.experiments.runs import Json
from taskdict.images.files import Picture, write_picture

Pixels = NDArray[np.uint8]


def mosaic(atoms: NDArray[Any], shape: tuple[int, int], columns: int, zoom: int = 1) -> Pixels:
    """Return a picture of atoms in rows, grey where they are zero, with white lines between them."""
    height, width = shape
    rows = -(-len(atoms) // columns)
    picture = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1), 255, np.uint8)
    for k, atom in enumerate(atoms):
        top, left = (height + 1) * (k // columns) + 1, (width + 1) * (k % columns) + 1
        grey = 127.5 * (1 + atom / max(np.abs(atom).max(), 1e-12))
        picture[top : top + height, left : left + width] = np.round(grey).reshape(shape)
    return np.kron(picture, np.ones((zoom, zoom), np.uint8))


def beside(pictures: Sequence[Pixels], gap: int) -> Pixels:
    """Return pictures of the same height side by side."""
    parts = [part for picture in pictures for part in (np.full((len(picture), gap), 255, np.uint8), picture)]
    return np.concatenate(parts[1:], axis=1)


def save_picture(picture: Pixels, path: Path) -> None:
    """Write a picture as a .png file, also in place of an earlier one."""
    write_picture(path, Picture(picture), force=True)


def most_used(codes: Any, count: int) -> NDArray[np.intp]:
    """Return the atoms with the largest coefficients in sum, the largest first."""
    return np.argsort(-np.asarray(abs(codes).sum(axis=0)).ravel(), kind="stable")[:count]


def plot_semi_supervised(record: Json, paper: dict[int, float], path: Path) -> None:
    """Draw the error over μ for each number of labels, the mean and the range over the draws of labels."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('the figure needs matplotlib: pip install "taskdict[experiments]"') from None
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for colour, n in zip(("C3", "C0", "C2", "C1", "C4"), record["settings"]["labels"], strict=False):
        runs = [run["errors"] for run in record["results"] if run["settings"]["labels"] == n]
        mus = [float(mu) for mu in runs[0]]
        errors = np.array([[errors[mu]["test"] for mu in errors] for errors in runs])
        axes.plot(mus, errors.mean(axis=0), "o-", color=colour, markersize=4, label=f"n = {n:,}")
        axes.fill_between(mus, errors.min(axis=0), errors.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        if n in paper:
            axes.axhline(paper[n], color=colour, linestyle=":", linewidth=1)
    axes.set(xlabel="μ, the weight of reconstruction", ylabel="test error in percent", ylim=(0, None))
    axes.legend(title="labels; dotted: the paper's best", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5)
    figure.savefig(path, dpi=120)
    plt.close(figure)
