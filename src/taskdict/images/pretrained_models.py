"""Models that come with the package."""

from __future__ import annotations

from pathlib import Path

from taskdict._files.registry import load
from taskdict.images.restorer import ImageRestorer

FOLDER = Path(__file__).with_name("models")


def pretrained(kind: str = "floyd-steinberg") -> ImageRestorer:
    """Return a model that comes with the package.

    "floyd-steinberg" restores grey images from halftones by error diffusion. It was trained on the 24 images of Kodak
    by ``taskdict reproduce halftoning --recipe ours``. It has a thousand atoms and a residual refinement (2.4 MB).

    Parameters
    ----------
    kind : str, default="floyd-steinberg"
        The degradation that the model undoes.

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
    known = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
    if kind not in known:
        raise ValueError(f"kind must be one of {known}, got {kind!r}.")
    model = load(FOLDER / f"{kind}.safetensors")
    assert isinstance(model, ImageRestorer)
    return model
