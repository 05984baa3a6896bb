import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from skimage import data

from taskdict.images import degrade

CAMERA = data.camera()[100:228, 150:310]
HALFTONES = [degrade.floyd_steinberg, degrade.jarvis, degrade.ordered_dither]
ALL = {
    "floyd_steinberg": degrade.floyd_steinberg,
    "jarvis": degrade.jarvis,
    "ordered_dither": degrade.ordered_dither,
    "gaussian_noise": lambda image: degrade.gaussian_noise(image, 0.05, random_state=0),
    "blur": lambda image: degrade.blur(image, 1.0),
    "downsample": degrade.downsample,
    "missing_pixels": lambda image: degrade.missing_pixels(image, 0.3, random_state=0),
    "jpeg": degrade.jpeg,
}


def by_hand(image, shares):
    """Error diffusion, pixel by pixel; `shares` are those of the rows from this one on, this pixel in the middle."""
    values = image.astype(np.float64)
    height, width = values.shape
    middle = len(shares[0]) // 2
    for i in range(height):
        for j in range(width):
            given = 1.0 if values[i, j] >= 0.5 else 0.0
            error, values[i, j] = values[i, j] - given, given
            for down, row in enumerate(shares):
                for k, share in enumerate(row):
                    at = i + down, j + k - middle
                    if share and at[0] < height and 0 <= at[1] < width:
                        values[at] += error * share
    return values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("function", "shares"),
    [
        (degrade.floyd_steinberg, np.array([[0, 0, 7], [3, 5, 1]]) / 16),
        (degrade.jarvis, np.array([[0, 0, 0, 7, 5], [3, 5, 7, 5, 3], [1, 3, 5, 3, 1]]) / 48),
    ],
)
def test_error_diffusion(function, shares, dtype):
    image = np.random.default_rng(0).random((17, 23)).astype(dtype)
    np.testing.assert_array_equal(function(image), by_hand(image, shares))


@pytest.mark.parametrize("function", HALFTONES)
def test_halftones(function):
    halftone = function(CAMERA)
    assert set(np.unique(halftone)) == {0, 255}
    smooth = [gaussian_filter(image.astype(float), 4) for image in (CAMERA, halftone)]
    assert np.abs(smooth[0] - smooth[1])[10:-10, 10:-10].mean() < 5  # looks the same from afar
    np.testing.assert_array_equal(function(CAMERA.T.copy().T), halftone)  # any memory layout
    colour = function(np.dstack([CAMERA, 255 - CAMERA]))
    np.testing.assert_array_equal(colour[:, :, 0], halftone)
    np.testing.assert_array_equal(colour[:, :, 1], function(255 - CAMERA))


def test_ordered_dithering_has_all_levels():
    for size in (1, 2, 4, 8):
        levels = [int(degrade.ordered_dither(np.full((size, size), v)).sum()) for v in np.linspace(0, 1, size**2 + 1)]
        assert levels == list(range(size**2 + 1))
    with pytest.raises(ValueError, match="size must be a power of two, got 6"):
        degrade.ordered_dither(CAMERA, 6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("colour", [False, True])
def test_shape_and_dtype_stay(name, dtype, colour):
    image = CAMERA if not colour else np.dstack([CAMERA, CAMERA[::-1], CAMERA[:, ::-1]])
    top = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    image = (image * (top / 255)).astype(dtype)
    before = image.copy()
    damaged = ALL[name](image)
    np.testing.assert_array_equal(image, before)
    assert damaged.dtype == dtype
    height, width = (64, 80) if name == "downsample" else (128, 160)
    assert damaged.shape == (height, width, *image.shape[2:])
    if name not in ("floyd_steinberg", "jarvis", "ordered_dither", "missing_pixels"):
        plain = image[::2, ::2] if name == "downsample" else image
        assert np.abs(damaged.astype(float) - plain.astype(float)).mean() < 0.08 * top


def test_noise():
    image = np.full((200, 200), 0.5)
    noisy = degrade.gaussian_noise(image, 0.1, random_state=0)
    assert (noisy - image).std() == pytest.approx(0.1, rel=0.02)
    np.testing.assert_array_equal(noisy, degrade.gaussian_noise(image, 0.1, random_state=0))
    assert (noisy != degrade.gaussian_noise(image, 0.1, random_state=1)).any()
    with pytest.raises(ValueError, match="sigma must be a positive number, got -1"):
        degrade.gaussian_noise(image, -1)


def test_missing_pixels():
    image = np.full((200, 200, 3), 200, np.uint8)
    damaged = degrade.missing_pixels(image, 0.3, random_state=0)
    lost = (damaged == 0).all(axis=2)
    assert lost.mean() == pytest.approx(0.3, abs=0.01)
    assert (damaged[~lost] == 200).all()
    with pytest.raises(ValueError, match="fraction must be from 0 to 1, got 2"):
        degrade.missing_pixels(image, 2)


def test_small_images():
    allowed = dict.fromkeys(("floyd_steinberg", "jarvis", "ordered_dither"), (0, 255))
    allowed |= {"missing_pixels": (0, 100), "blur": (100,), "jpeg": range(95, 106), "gaussian_noise": range(50, 151)}
    for shape in ((1, 1), (1, 7), (5, 1)):
        for name, values in allowed.items():
            damaged = ALL[name](np.full(shape, 100, np.uint8))
            assert damaged.shape == shape
            assert set(damaged.ravel()) <= set(values)
    with pytest.raises(ValueError, match="at least factor=2 pixels"):
        degrade.downsample(np.zeros((1, 7)))


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros((3, 3), np.int64), TypeError, "image must be uint8, uint16, bool or floating-point, got dtype int64"),
        (np.zeros(3), ValueError, "image must have shape"),
        (np.zeros((0, 3)), ValueError, "at least one pixel"),
        (np.full((3, 3), np.nan), ValueError, "image must be finite"),
    ],
)
def test_bad_images(image, error, message):
    with pytest.raises(error, match=message):
        degrade.floyd_steinberg(image)
