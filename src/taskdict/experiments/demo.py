"""The demonstration of ``taskdict demo``: the effect of a task-driven dictionary, on scikit-learn's digits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from taskdict._common.atomic_files import check_output
from taskdict._common.pillow import pillow
from taskdict._common.text import printable
from taskdict.experiments.figures import mosaic, save_image, side_by_side


def run(seed: int, output: Path) -> None:
    """Compare pixels, unsupervised codes and task-driven codes on the digits."""
    pillow()
    if output.suffix.lower() != ".png":
        raise ValueError(f"--output must be the name of a .png file, got {str(output)!r}.")
    check_output(output, force=True)  # a demo may be run again
    if seed < 0:
        raise ValueError(f"--seed must be at least 0, got {seed}.")
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.svm import SVC

    import taskdict as td

    begin = time.monotonic()
    X, y = load_digits(return_X_y=True)
    X = td.UnitNorm().fit_transform(X)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    print(f"Handwritten digits, 8 × 8 pixels: {len(train)} to learn from, {len(test)} to classify.")

    def show(text: str, predicted: NDArray[Any]) -> None:
        wrong = int((predicted != y_test).sum())
        print(f"  {text:<58} {100 * wrong / len(y_test):5.1f} %  ({wrong} wrong)", flush=True)

    pixels = LogisticRegression(C=100.0, max_iter=1000).fit(train, y_train)
    show("(a) a linear model on the pixels", pixels.predict(test))

    settings: dict[str, Any] = {"n_components": 30, "lambda1": 0.15, "random_state": seed}
    unsupervised = td.DictionaryLearning(**settings).fit(train)
    codes = LogisticRegression(C=100.0, max_iter=1000).fit(unsupervised.transform(train), y_train)
    show("(b) the same on codes, 30 atoms learned without labels", codes.predict(unsupervised.transform(test)))

    model = td.TaskDrivenClassifier(**settings, decision="linear", dictionary_init=unsupervised.components_)
    model.fit(train, y_train)
    show("(c) 30 atoms and model tuned to the task together", model.predict(test))

    default = td.TaskDrivenClassifier(random_state=seed).fit(train, y_train)
    show(f"(d) TaskDrivenClassifier() by default: {len(default.components_)} atoms", default.predict(test))
    show("(e) for comparison, scikit-learn's SVC() on the pixels", SVC().fit(train, y_train).predict(test))

    shown = [mosaic(atoms, (8, 8), columns=10, zoom=5) for atoms in (unsupervised.components_, model.components_)]
    save_image(side_by_side(shown, gap=30), output)
    print(f"saved {printable(output)}: the {len(model.components_)} atoms before (left) and after")
    print(f"took {time.monotonic() - begin:.0f} seconds")
