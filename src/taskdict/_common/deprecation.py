"""Parameters that have another name now. The earlier name works, with a warning, for two minor versions."""

from __future__ import annotations

from typing import Any

from taskdict._common.warn import warn

DEPRECATED = "deprecated"  # the default of a parameter under its earlier name


def renamed(estimator: Any, earlier: str, name: str, removed_in: str) -> Any:
    """Return the value of a parameter, which may have been given under its earlier name."""
    value = getattr(estimator, earlier)
    if isinstance(value, str) and value == DEPRECATED:
        return getattr(estimator, name)
    warn(
        f"the parameter {earlier} of {type(estimator).__name__} is now {name}; {earlier} will be removed in taskdict "
        f"{removed_in}.",
        FutureWarning,
    )
    return value
