"""``taskdict predict``."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from taskdict._common.atomic_files import check_output, replace_file
from taskdict._common.text import printable


def add_predict(commands: Any) -> None:
    """Add ``taskdict predict``."""
    predict = commands.add_parser(
        "predict",
        help="apply a saved model",
        description="Apply a model that its method save has written, and print one prediction per line. On a terminal, "
        "control characters in labels are shown as escapes; a pipe or a file gets the labels as they are.",
    )
    predict.add_argument(
        "model", type=Path, help="file of a TaskDrivenClassifier, TaskDrivenRegressor or ImageClassifier"
    )
    predict.add_argument("signals", type=Path, help=".npy file with one signal per row, or with images")
    predict.add_argument("--output", type=Path, help="write the predictions to this .npy file instead")
    predict.add_argument("--force", action="store_true", help="replace an existing file")
    predict.set_defaults(run=run_predict, interrupted="")


def run_predict(options: argparse.Namespace) -> None:
    """Run ``taskdict predict``."""
    import numpy as np

    import taskdict as td

    if options.output is not None:
        check_output(options.output, force=options.force, name="--output")
    model = td.load(options.model)
    if not hasattr(model, "predict"):
        raise TypeError(f"{str(options.model)!r} holds a {type(model).__name__}, which predicts nothing.")
    try:
        with options.signals.open("rb") as file:
            signals = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {str(options.signals)!r}.") from None
    except OSError:
        raise
    except Exception:  # NumPy's reader raises many types for damaged files
        signals = None
    if not isinstance(signals, np.ndarray):
        raise ValueError(f"{str(options.signals)!r} is not a .npy file of numbers.")
    predicted = model.predict(signals)
    if options.output is None:
        if predicted.dtype.kind in "UO" and sys.stdout.isatty():
            predicted = np.array([printable(label) for label in predicted], dtype=object)
        np.savetxt(sys.stdout, np.atleast_1d(predicted), fmt="%s")
        return
    with io.BytesIO() as file:
        np.save(file, predicted, allow_pickle=False)
        replace_file(options.output, file.getvalue)
    print(f"saved {printable(options.output)}: {len(predicted)} predictions")
