"""The one place that asks for Pillow."""

from __future__ import annotations

from typing import Any


def pillow() -> Any:
    """Return Pillow's module of images; say how to get it if it is not there."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError('images need Pillow: pip install "taskdict[images]"') from None
    return Image
