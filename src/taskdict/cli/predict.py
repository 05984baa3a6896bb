"""``taskdict predict``."""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path
from typing import Any


def add_predict(commands: Any) -> None:
    """Add ``taskdict predict``."""
    predict = commands.add_parser(
        "predict",
        help="apply a saved model",
        description="Apply a model that its method save has written, and print one prediction per line.",
    )
    predict.add_argument(
        "model", type=Path, help="file of a TaskDrivenClassifier, TaskDrivenRegressor or ImageClassifier"
    )
    predict.add_argument("signals", type=Path, help=".npy file with one signal per row, or with pictures")
    predict.add_argument("--output", type=Path, help="write the predictions to this .npy file instead")
    predict.set_defaults(run=run_predict, interrupted="")


def run_predict(options: argparse.Namespace) -> None:
    """Run ``taskdict predict``."""
    import numpy as np

    import taskdict as td

    model = td.load(options.model)
    if not hasattr(model, "predict"):
        raise TypeError(f"{str(options.model)!r} holds a {type(model).__name__}, which predicts nothing.")
    try:
        with options.signals.open("rb") as file:
            signals = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile):
        signals = None
    if not isinstance(signals, np.ndarray):
        raise ValueError(f"{str(options.signals)!r} is not a .npy file of numbers.")
    if options.output is not None and (options.output.is_dir() or not options.output.absolute().parent.is_dir()):
        raise ValueError(f"--output must be the name of a file in a folder that exists, got {str(options.output)!r}.")
    predicted = model.predict(signals)
    if options.output is None:
        np.savetxt(sys.stdout, np.atleast_1d(predicted), fmt="%s")
        return
    temporary = options.output.with_name(f".{options.output.name}.part")
    with temporary.open("wb") as file:
        np.save(file, predicted)
    temporary.replace(options.output)
    print(f"saved {options.output}: {len(predicted)} predictions")
