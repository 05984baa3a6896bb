"""A photograph by 8 measurements of every block of 10 × 10 pixels: learned ones, beside the best linear ones.

    python examples/sense_picture.py [picture.png]

Learns from four photographs that come with scikit-image (pip install scikit-image pillow), measures a fifth, and writes
a part of three pictures side by side: linear, learned, original.
"""

import sys

import numpy as np
from PIL import Image
from skimage import color, data
from skimage.metrics import peak_signal_noise_ratio as psnr

import taskdict as td
from taskdict.images.patches import PatchPairs

SIDE, MEASUREMENTS = 10, 8

train = [
    np.rint(255 * color.rgb2gray(picture())).astype(np.uint8)
    for picture in (data.astronaut, data.coffee, data.cat, data.rocket)
]
picture = data.camera()
path = sys.argv[1] if len(sys.argv) > 1 else "sensed.png"

patches = PatchPairs(train, train, SIDE, random_state=0).take(200_000)  # centred
signals = td.stream(td.UnitNorm().fit_transform(patches), random_state=0)
model = td.CompressedSensing(MEASUREMENTS, 200, lambda2=0.01, max_iter=2000, random_state=0).fit(signals)
learned = td.images.reconstruct(model, td.images.sense(model, picture))

# The linear counterpart: a dictionary of principal directions, one for each measurement, hardly any penalty.
sample = signals.take(50_000)
directions = np.linalg.svd(sample, full_matrices=False)[2][:MEASUREMENTS]
linear_model = td.CompressedSensing(
    MEASUREMENTS, MEASUREMENTS, lambda1=0.0, lambda2=1e-9, transform_init=directions, dictionary=directions
).fit(sample)
linear = td.images.reconstruct(linear_model, td.images.sense(linear_model, picture))

for name, found in (("linear", linear), ("learned", learned)):
    print(f"{name:8} {psnr(picture, found):.2f} dB")
Image.fromarray(np.concatenate([each[60:260, 150:390] for each in (linear, learned, picture)], axis=1)).save(path)
print(f"saved {path}")
