"""Learn 100 atoms from the patches of a photograph, and save an image of them.

    python examples/learn_atoms.py [atoms.png]

Needs Pillow (pip install ".[images]"): the photograph comes with scikit-learn as a JPEG file.
"""

import sys

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import taskdict as td

SIDE = 12  # of a patch, in pixels


def patches_of(image: np.ndarray) -> np.ndarray:
    """Return the patches of a grey image, centred and of norm one, except those that are nearly flat."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE))[::2, ::2]
    patches = windows.reshape(-1, SIDE * SIDE) - windows.mean(axis=(2, 3)).reshape(-1, 1)
    norms = np.linalg.norm(patches, axis=1, keepdims=True)
    return (patches / norms)[norms[:, 0] > 0.05 * SIDE]


def mosaic_of(atoms: np.ndarray) -> Image.Image:
    """Return the atoms as grey squares, each stretched to full contrast, those with the most structure last."""
    squares = atoms.reshape(-1, SIDE, SIDE)
    roughness = np.abs(np.diff(squares, axis=1)).sum(axis=(1, 2)) + np.abs(np.diff(squares, axis=2)).sum(axis=(1, 2))
    side = int(np.ceil(np.sqrt(len(atoms))))
    canvas = np.ones((side * (SIDE + 2) + 2, side * (SIDE + 2) + 2))
    for position, square in enumerate(squares[np.argsort(roughness)]):
        row, column = (2 + (SIDE + 2) * at for at in divmod(position, side))
        canvas[row : row + SIDE, column : column + SIDE] = 0.5 + 0.5 * square / np.abs(square).max()
    mosaic = Image.fromarray(np.uint8(np.round(255 * canvas)))
    return mosaic.resize((4 * mosaic.width, 4 * mosaic.height), Image.Resampling.NEAREST)


image = load_sample_image("china.jpg").mean(axis=2) / 255
X = patches_of(image).astype(np.float32)
model = td.DictionaryLearning(100, lambda1=0.15, random_state=0, verbose=1).fit(X)
print(f"{len(X):,} patches, {model.transform(X).nnz / len(X):.1f} of 100 atoms each, objective {-model.score(X):.4f}")

name = sys.argv[1] if len(sys.argv) > 1 else "atoms.png"
mosaic_of(model.components_).save(name)
print(f"saved {name}")
