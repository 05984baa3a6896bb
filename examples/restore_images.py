"""Learn to restore images after blur, noise or downsampling, and compare with classical methods.

    python examples/restore_images.py [deblur|denoise|upscale] [restored.png]

Trains on four photographs and restores a fifth. Needs scikit-image, for the photographs and the classical methods, and
Pillow. The classical methods know the degradation; taskdict has only seen examples. The free number of each method,
and λ1 and `refine` of taskdict, are the best of several for this very image.
"""

import sys

import numpy as np
from PIL import Image
from skimage import color, data, restoration
from skimage.metrics import peak_signal_noise_ratio

import taskdict as td
from taskdict.images import degrade

BLUR, NOISE = 1.5, 25 / 255  # standard deviations
VIEW = np.s_[90:250, 160:320]  # the part that is saved


def deblur() -> tuple:
    """Blur and a little noise, against Wiener and Richardson-Lucy."""
    point = np.zeros((13, 13))
    point[6, 6] = 1
    kernel, margin = degrade.blur(point, BLUR), 12

    def both(image, rng):
        return degrade.gaussian_noise(degrade.blur(image, BLUR), 0.01, rng)

    def classical(image):
        framed = np.pad(image, margin, mode="symmetric")  # without it, both have ripples from the edges
        for balance in (0.003, 0.01, 0.03, 0.1):
            yield "Wiener", restoration.wiener(framed, kernel, balance)[margin:-margin, margin:-margin]
        for n in (10, 20, 30, 40, 60):
            found = restoration.richardson_lucy(framed, kernel, num_iter=n)
            yield "Richardson-Lucy", found[margin:-margin, margin:-margin]

    return both, classical, {"lambda1": 0.02, "refine": 0.01}


def denoise() -> tuple:
    """Noise, against non-local means; and a dictionary of the noisy image itself."""

    def noisy(image, rng):
        return degrade.gaussian_noise(image, NOISE, rng)

    def classical(image):
        for h in (0.4, 0.6, 0.8):
            yield (
                "non-local means",
                restoration.denoise_nl_means(
                    image, patch_size=5, patch_distance=6, h=h * NOISE, sigma=NOISE, fast_mode=True
                ),
            )
        yield "td.images.denoise", td.images.denoise(image, NOISE)

    return noisy, classical, {"lambda1": 0.2, "refine": 0.04}


def upscale() -> tuple:
    """Half as many pixels along each side, against bicubic interpolation."""

    def classical(image):
        height, width = image.shape
        yield "bicubic", degrade.resize(image, 2 * height, 2 * width)

    return lambda image, rng: degrade.downsample(image), classical, {"lambda1": 0.02, "refine": 0.005, "upscale": 2}


def main(kind: str = "denoise", path: str = "") -> None:
    """Train, restore, print the PSNR of each method, and save an image of them if a path is given."""
    degradation, classical, parameters = {"deblur": deblur, "denoise": denoise, "upscale": upscale}[kind]()
    photographs = [color.rgb2gray(image) for image in (data.astronaut(), data.coffee(), data.chelsea(), data.rocket())]
    clean = data.camera() / 255
    rng = np.random.RandomState(0)  # every image has its own noise
    degraded = degradation(clean, rng)

    restorer = td.ImageRestorer(8, 200, max_iter=3000, random_state=0, **parameters)
    restorer.fit(photographs, degrade=lambda image: degradation(image, rng))

    factor = len(clean) // len(degraded)
    enlarged = np.kron(degraded, np.ones((factor, factor)))
    found = [("degraded", enlarged), *classical(degraded), ("taskdict", restorer.restore(degraded))]
    best: dict[str, tuple[float, np.ndarray]] = {}
    for name, image in found:
        value = peak_signal_noise_ratio(clean, np.clip(image, 0, 1), data_range=1)
        if name not in best or value > best[name][0]:
            best[name] = value, image
    for name, (value, _) in best.items():
        print(f"{name:18} {value:.2f} dB")
    if path:
        shown = [np.clip(image[VIEW], 0, 1) for image in [*(image for _, image in best.values()), clean]]
        row = np.concatenate([np.pad(image, 3, constant_values=1) for image in shown], axis=1)
        Image.fromarray(np.rint(255 * np.kron(row, np.ones((2, 2)))).astype(np.uint8)).save(path)
        print(f"from left to right: {', '.join([*best, 'the original'])}\nsaved {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
