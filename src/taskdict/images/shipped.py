"""Models that come with the package."""

from __future__ import annotations

from pathlib import Path

from taskdict.images.restorer import ImageRestorer

FOLDER = Path(__file__).with_name("models")


def pretrained(kind: str = "floyd-steinberg") -> ImageRestorer:
    """Return a model that comes with the package.

    "floyd-steinberg" restores grey pictures from halftones of error diffusion: what ``taskdict reproduce halftoning
    --recipe ours`` has learned from the 24 pictures of Kodak: a thousand atoms, and a second look (2.4 MB).

    Parameters
    ----------
    kind : str, default="floyd-steinberg"
        What the model undoes.

    Returns
    -------
    ImageRestorer

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> clean = np.add.outer(np.sin(np.arange(80) / 9), np.cos(np.arange(90) / 7)) / 4 + 0.5
    >>> halftone = td.images.degrade.floyd_steinberg(clean)
    >>> restored = td.images.pretrained().restore(halftone)
    >>> bool(np.abs(restored - clean).max() < 0.1)
    True
    """
    from taskdict.loading import load  # which knows of all models

    known = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
    if kind not in known:
        raise ValueError(f"kind must be one of {known}, got {kind!r}.")
    model = load(FOLDER / f"{kind}.safetensors")
    assert isinstance(model, ImageRestorer)
    return model
