"""``taskdict demo``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_demo(commands: Any) -> None:
    """Add ``taskdict demo``."""
    demo = commands.add_parser(
        "demo",
        help="classify handwritten digits, and see how a task-driven dictionary helps",
        description="Classify scikit-learn's handwritten digits in three ways, and save an image of the atoms.",
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of all random choices (default: 0)")
    demo.add_argument("--output", type=Path, default=Path("taskdict-demo.png"), help="the image to save, a .png file")
    demo.set_defaults(run=run_demo, interrupted="")


def run_demo(options: argparse.Namespace) -> None:
    """Run ``taskdict demo``."""
    from taskdict.experiments import demo

    demo.run(options.seed, options.output)
