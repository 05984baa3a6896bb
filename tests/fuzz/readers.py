"""Coverage-guided fuzzing of the file readers with atheris (`pip install atheris`); see CONTRIBUTING.md.

    python tests/fuzz/readers.py models build/fuzz-models tests/fuzz/corpus/models -max_total_time=600
    python tests/fuzz/readers.py images build/fuzz-images tests/fuzz/corpus/images -max_total_time=600

The first folder takes what is found. Options are those of libFuzzer. Every other mutation is one of tests/mutations.py,
which keeps digests and checksums right. A promise that is broken raises, and the input is written to a file.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
with atheris.instrument_imports(include=["taskdict", "safetensors", "PIL", "json"]):
    from campaign_kinds import images, models
    from mutations import mutated_images, mutated_models

KINDS = {"models": models, "images": images}


class PromiseBroken(Exception):  # noqa: N818
    """Raised for an input that a reader does not treat as promised."""


class Harness:
    """One reader; inputs are written to a file, since it reads files."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.path = kind, folder / "file"
        self.reader = KINDS[kind].read

    def read(self, data: bytes) -> None:
        """Read an input."""
        self.path.write_bytes(data)
        _, wrong = self.reader(self.path)
        if wrong:
            raise PromiseBroken(wrong)

    def mutate(self, data: bytes, most: int, seed: int) -> Any:
        """Return an input like this one."""
        rng = np.random.default_rng(seed)
        if rng.random() < 0.5:
            return atheris.Mutate(data, most)
        try:
            if self.kind == "images":
                mutated = next(mutated_images(rng, data))
            else:
                self.path.write_bytes(data)
                mutated = next(mutated_models(rng, self.path))
        except Exception:  # the mutators take sound files; this one is not
            return atheris.Mutate(data, most)
        return mutated if len(mutated) <= most else atheris.Mutate(data, most)


def main() -> None:
    """Fuzz."""
    kind = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if kind not in KINDS:
        sys.exit(f"The first argument must be one of {', '.join(KINDS)}, got {kind!r}.")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        harness = Harness(kind, Path(folder))
        atheris.Setup(sys.argv, harness.read, custom_mutator=harness.mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
