"""The command line."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from taskdict._common.text import message
from taskdict.cli.demo import add_demo
from taskdict.cli.images import add_degrade, add_restore, add_train_restorer
from taskdict.cli.predict import add_predict
from taskdict.cli.reproduce import add_reproduce


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without λ must not end an experiment
    parser = argparse.ArgumentParser(prog="taskdict", description="Sparse dictionaries tuned to a task.")
    parser.add_argument("--version", action="version", version=f"taskdict {version('taskdict')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (add_demo, add_reproduce, add_predict, add_degrade, add_train_restorer, add_restore):
        add(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"\ninterrupted{options.interrupted}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has ended, as `head` may
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError as error:
        print(message(f"taskdict: there is not enough memory: {error}"), file=sys.stderr)
        return 1
    except (OSError, ImportError, ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        print(message(f"taskdict: {error}"), file=sys.stderr)
        return 1
    return 0
