"""The command line: ``taskdict demo``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 5  # pixels on the screen per pixel of an atom


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="taskdict", description="Sparse dictionaries tuned to a task.")
    parser.add_argument("--version", action="version", version=f"taskdict {version('taskdict')}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="learn to tell handwritten digits apart, and see how tuning the dictionary helps",
        description="Learn to tell scikit-learn's handwritten digits apart in three ways, and save a picture.",
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of all random choices (default: 0)")
    demo.add_argument("--output", type=Path, default=Path("taskdict-demo.png"), help="the picture to save, a .png file")
    options = parser.parse_args(arguments)
    try:
        return run_demo(options.seed, options.output)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (OSError, ImportError, ValueError) as error:
        print(f"taskdict: {error}", file=sys.stderr)
        return 1


def run_demo(seed: int, output: Path) -> int:
    """Compare pixels, unsupervised codes and task-driven codes on the digits."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError('the picture needs Pillow: pip install "taskdict[images]"') from None
    if output.suffix.lower() != ".png":
        raise ValueError(f"--output must be the name of a .png file, got {str(output)!r}.")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(f"--output must be in a folder that exists, but there is no {str(output.parent)!r}.")
    if seed < 0:
        raise ValueError(f"--seed must be at least 0, got {seed}.")
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    import taskdict as td

    begin = time.monotonic()
    X, y = load_digits(return_X_y=True)
    X = td.UnitNorm().fit_transform(X)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    print(f"Handwritten digits, 8 × 8 pixels: {len(train)} to learn from, {len(test)} to be told apart.")

    def show(text: str, predicted: NDArray[Any]) -> None:
        wrong = int((predicted != y_test).sum())
        print(f"  {text:<58} {100 * wrong / len(y_test):5.1f} %  ({wrong} wrong)", flush=True)

    pixels = LogisticRegression(C=100.0, max_iter=1000).fit(train, y_train)
    show("(a) a linear model on the pixels", pixels.predict(test))

    settings: dict[str, Any] = {"n_components": 30, "lambda1": 0.15, "random_state": seed}
    unsupervised = td.DictionaryLearning(**settings).fit(train)
    codes = LogisticRegression(C=100.0, max_iter=1000).fit(unsupervised.transform(train), y_train)
    show("(b) the same on sparse codes, unsupervised dictionary", codes.predict(unsupervised.transform(test)))

    model = td.TaskDrivenClassifier(
        **settings, multi_class="softmax", dictionary_init=unsupervised.components_, verbose=1
    )
    model.fit(train, y_train)
    show("(c) dictionary and model tuned to the task together", model.predict(test))

    shown = [_tiles(atoms) for atoms in (unsupervised.components_, model.components_)]
    gap = np.full((shown[0].shape[0], 6 * TILE), 255, np.uint8)
    Image.fromarray(np.concatenate([shown[0], gap, shown[1]], axis=1)).save(output)
    print(f"saved {output}: the {len(model.components_)} atoms before (left) and after")
    print(f"took {time.monotonic() - begin:.0f} seconds")
    return 0


def _tiles(atoms: NDArray[Any], columns: int = 10) -> NDArray[np.uint8]:
    """Return a picture of 8 × 8 atoms, grey where they are zero."""
    rows = -(-len(atoms) // columns)
    picture = np.full((rows * 9 + 1, columns * 9 + 1), 255, np.uint8)
    for k, atom in enumerate(atoms):
        top, left = 9 * (k // columns) + 1, 9 * (k % columns) + 1
        grey = 127.5 * (1 + atom / max(np.abs(atom).max(), 1e-12))
        picture[top : top + 8, left : left + 8] = np.round(grey).reshape(8, 8)
    return np.kron(picture, np.ones((TILE, TILE), np.uint8))


if __name__ == "__main__":
    sys.exit(main())
