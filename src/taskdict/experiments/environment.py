"""The machine and the versions that a result was measured with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("taskdict", "numpy", "scipy", "scikit-learn")


def environment() -> dict[str, Any]:
    """Return the versions, the processor and the number of cores, which results may depend on beside the settings."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "machine": platform.machine(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
    }


def processor_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
