"""Types of numbers on the command line, for :meth:`argparse.ArgumentParser.add_argument`."""

from __future__ import annotations

import argparse
import math


def penalty(text: str) -> float:
    """Return a finite number, at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0 on, got {text!r}")
    return number


def several_atoms(text: str) -> int:
    """Return a whole number, at least 2: a class and the other classes have an atom each."""
    return at_least(2, text)


def positive(text: str) -> int:
    """Return a whole number, at least 1."""
    return at_least(1, text)


def natural(text: str) -> int:
    """Return a whole number, at least 0."""
    return at_least(0, text)


def at_least(least: int, text: str) -> int:
    """Return a whole number, at least `least`."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least} on, got {text!r}")
    return number
