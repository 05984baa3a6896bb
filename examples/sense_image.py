"""Measure a photograph by 8 numbers per block of 10 × 10 pixels: learned and linear measurements compared.

    python examples/sense_image.py [sensed.png]

Trains on four photographs that come with scikit-image (pip install scikit-image pillow), measures a fifth, and saves a
part of three images side by side: linear, learned, original.
"""

import sys

import numpy as np
from PIL import Image
from skimage import color, data
from skimage.metrics import peak_signal_noise_ratio as psnr

import taskdict as td
from taskdict.streams.patches import PatchPairs

SIDE, MEASUREMENTS = 10, 8

train = [
    np.rint(255 * color.rgb2gray(photograph())).astype(np.uint8)
    for photograph in (data.astronaut, data.coffee, data.cat, data.rocket)
]
image = data.camera()
path = sys.argv[1] if len(sys.argv) > 1 else "sensed.png"

patches = PatchPairs(train, train, SIDE, random_state=0).take(200_000)  # centred
signals = td.stream(td.UnitNorm().fit_transform(patches), random_state=0)
model = td.CompressedSensing(MEASUREMENTS, 200, lambda2=0.01, max_iter=2000, random_state=0).fit(signals)
learned = td.images.reconstruct(model, td.images.sense(model, image))

# The linear counterpart: one principal component per measurement as Z and D, and almost no penalty.
sample = signals.take(50_000)
directions = np.linalg.svd(sample, full_matrices=False)[2][:MEASUREMENTS]
linear_model = td.CompressedSensing(
    MEASUREMENTS, MEASUREMENTS, lambda1=0.0, lambda2=1e-9, transform_init=directions, dictionary=directions
).fit(sample)
linear = td.images.reconstruct(linear_model, td.images.sense(linear_model, image))

for name, found in (("linear", linear), ("learned", learned)):
    print(f"{name:8} {psnr(image, found):.2f} dB")
Image.fromarray(np.concatenate([each[60:260, 150:390] for each in (linear, learned, image)], axis=1)).save(path)
print(f"saved {path}")
