"""Images as values from 0 to 1."""

import numpy as np
import pytest

from taskdict._common import pixels
from taskdict._common.pixels import check_image, from_unit, grey_dtype, to_unit, with_channels


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_integers_come_back(dtype):
    image = np.arange(np.iinfo(dtype).max + 1).astype(dtype).reshape(-1, 16)
    values = to_unit(image)
    assert values.dtype == np.float32
    assert (values.min(), values.max()) == (0, 1)
    np.testing.assert_array_equal(from_unit(values, image.dtype), image)


def test_integers_are_rounded_and_clipped():
    values = np.array([[-0.2, 0.0021, 0.5, 1.7]], np.float32)
    np.testing.assert_array_equal(from_unit(values, np.dtype(np.uint8)), [[0, 1, 128, 255]])
    np.testing.assert_array_equal(from_unit(values, np.dtype(bool)), [[False, False, True, True]])


def test_large_images_are_converted_in_chunks(monkeypatch):
    values = np.random.default_rng(0).random((9, 7, 3))
    expected = from_unit(values, np.dtype(np.uint8))
    monkeypatch.setattr(pixels, "_NUMBERS_PER_CHUNK", 50)
    np.testing.assert_array_equal(from_unit(values, np.dtype(np.uint8)), expected)


def test_dtypes():
    assert to_unit(np.zeros((2, 2))).dtype == np.float64
    assert to_unit(np.zeros((2, 2), np.float16)).dtype == np.float32
    np.testing.assert_array_equal(to_unit(np.array([[False, True]])), [[0, 1]])
    assert [grey_dtype(np.dtype(kind)) for kind in ("?", "u1", "f4")] == [np.uint8, np.uint8, np.float32]
    swapped = np.array([[1, 256]], ">u2")
    np.testing.assert_array_equal(check_image(swapped), swapped)
    assert check_image(swapped).dtype.isnative


def test_channels():
    grey, colour = np.zeros((3, 4)), np.zeros((3, 4, 2))
    assert with_channels(grey).shape == (3, 4, 1)
    assert with_channels(colour) is colour


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros((3, 3), np.int64), TypeError, "photo must be uint8, uint16, bool or floating-point, got dtype int64"),
        (np.ma.zeros((3, 3)), TypeError, "photo must not be a masked array"),
        (np.zeros(3), ValueError, r"photo must have shape \(height, width\) or"),
        (np.zeros((0, 3)), ValueError, "photo must have at least one pixel"),
        (np.full((3, 3), np.nan), ValueError, "photo must be finite"),
        (np.full((3, 3), 255.0), ValueError, "photo must have values from 0 to 1 if they are floats, got 255 to 255"),
    ],
)
def test_bad_images(image, error, message):
    with pytest.raises(error, match=message):
        check_image(image, "photo")
