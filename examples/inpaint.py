"""Fill in a picture of which 80 % of the pixels are missing, by a dictionary that is learned from its own patches.

    python examples/inpaint.py [inpainted.png] [size]

The photograph comes with scikit-image (pip install scikit-image pillow); `size` is the side of the part that is used,
in pixels. Prints the quality beside linear interpolation and biharmonic inpainting, and saves what was observed and all
that was made of it, side by side. The numbers below were chosen on another photograph, `skimage.data.astronaut`.
"""

import sys

import numpy as np
from PIL import Image
from scipy.interpolate import griddata
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr
from skimage.restoration import inpaint_biharmonic

import taskdict as td

SIDE, STEP, ATOMS = 12, 2, 64  # of a patch, and from one to the next, in pixels
LEARNING, ENCODING = 0.02, 0.005  # the weight of the ℓ1 norm: few atoms for a patch are learned from, more describe it

path = sys.argv[1] if len(sys.argv) > 1 else "inpainted.png"
size = int(sys.argv[2]) // STEP * STEP if len(sys.argv) > 2 else 512
image = data.camera()[:size, :size].astype(np.float32) / 255
observed = np.random.default_rng(0).random(image.shape) < 0.2


def interpolated() -> np.ndarray:
    """Return the picture after linear interpolation, and at its edges that of the nearest pixels."""
    points, places = np.argwhere(observed), tuple(np.indices(image.shape))
    linear, nearest = (griddata(points, image[observed], places, method) for method in ("linear", "nearest"))
    return np.where(np.isnan(linear), nearest, linear).astype(np.float32)


def patches_of(picture: np.ndarray) -> np.ndarray:
    """Return the patches of a picture, one per row."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (SIDE, SIDE))[::STEP, ::STEP]
    return windows.reshape(-1, SIDE * SIDE)


def picture_of(patches: np.ndarray) -> np.ndarray:
    """Return the picture whose pixels are the averages of those of overlapping patches."""
    total, count = np.zeros(image.shape), np.zeros(image.shape)
    starts = range(0, size - SIDE + 1, STEP)
    stacked = patches.reshape(len(starts), len(starts), SIDE, SIDE)
    span = STEP * len(starts)
    for row in range(SIDE):
        for column in range(SIDE):
            total[row : row + span : STEP, column : column + span : STEP] += stacked[:, :, row, column]
            count[row : row + span : STEP, column : column + span : STEP] += 1
    return total / count


linear = interpolated()
guess = patches_of(linear)
means = guess.mean(axis=1, keepdims=True)  # a better guess than the average of the few observed pixels
X = patches_of(np.where(observed, image, np.float32(np.nan))) - means

first = td.DictionaryLearning(ATOMS, lambda1=0.05, max_iter=100, random_state=0).fit(guess - means)
model = td.DictionaryLearning(
    dictionary_init=first.components_,
    lambda1=LEARNING,
    missing="ignore",
    max_iter=100,
    tol=0,
    random_state=0,
    verbose=1,
).fit(X)


def inpainted(dictionary: np.ndarray) -> np.ndarray:
    """Return the picture from the codes of the observed pixels."""
    codes = td.sparse_encode(X, dictionary, lambda1=ENCODING, missing="ignore")
    return picture_of(codes @ dictionary + means)


results = {
    "linear": linear,
    "biharmonic": inpaint_biharmonic(np.where(observed, image, 0), ~observed),
    "atoms of the interpolated picture": inpainted(first.components_),
    "atoms learned from observed pixels": inpainted(model.components_),
}
shown = [np.where(observed, image, 0)]
for name, result in results.items():
    kept = np.clip(np.where(observed, image, result), 0, 1)
    print(f"{name:34} {psnr(image, kept.astype(np.float32), data_range=1):.2f} dB")
    shown.append(kept)
Image.fromarray(np.uint8(np.round(255 * np.concatenate(shown, axis=1)))).save(path)
print(f"saved {path}")
