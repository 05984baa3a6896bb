"""Compressed sensing of whole images."""

import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr
from sklearn.exceptions import NotFittedError

import taskdict as td


@pytest.fixture(scope="module")
def model():
    windows = np.lib.stride_tricks.sliding_window_view(data.camera(), (8, 8))[::3, ::3].reshape(-1, 64)
    return td.CompressedSensing(12, 60, lambda2=0.01, max_iter=200, random_state=0).fit(
        td.UnitNorm().fit_transform(windows / 255.0)
    )


@pytest.mark.parametrize("shape", [(64, 64), (61, 75), (5, 9)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_shape_and_dtype_stay(model, shape, dtype):
    image = data.camera()[200 : 200 + shape[0], 200 : 200 + shape[1]]
    image = (
        (image / 255).astype(dtype)
        if np.dtype(dtype).kind == "f"
        else image.astype(dtype) * (np.iinfo(dtype).max // 255)
    )
    measured = td.images.sense(model, image)
    assert measured.values.shape == (-(-shape[0] // 8) * -(-shape[1] // 8), 12)
    found = td.images.reconstruct(model, measured)
    assert found.shape == image.shape
    assert found.dtype == dtype
    top = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    assert psnr(image / top, found / top, data_range=1) > 25


def test_a_constant_image_comes_back(model):
    image = np.full((20, 30), 77, np.uint8)
    np.testing.assert_array_equal(td.images.reconstruct(model, td.images.sense(model, image)), image)


def test_channels_are_those_of_grey_images(model):
    image = data.astronaut()[:50, :60]
    found = td.images.reconstruct(model, td.images.sense(model, image))
    for k in range(3):
        alone = td.images.reconstruct(model, td.images.sense(model, image[:, :, k]))
        np.testing.assert_allclose(found[:, :, k].astype(int), alone.astype(int), atol=1)  # of a half that BLAS rounds


def test_better_than_the_linear_projection(model):
    from taskdict._learning.start import principal_directions

    image = data.camera()
    windows = np.lib.stride_tricks.sliding_window_view(image, (8, 8))[::3, ::3].reshape(-1, 64)
    Z = principal_directions(td.UnitNorm().fit_transform(windows / 255.0), 12)
    blocks = image.reshape(64, 8, 64, 8).transpose(0, 2, 1, 3).reshape(-1, 64) / 255
    means = blocks.mean(axis=1, keepdims=True)
    linear = ((blocks - means) @ Z.T @ Z + means).reshape(64, 64, 8, 8).transpose(0, 2, 1, 3).reshape(512, 512)
    found = td.images.reconstruct(model, td.images.sense(model, image))
    assert psnr(image, found) > psnr(image / 255, linear, data_range=1)


def test_wrong_models(model):
    measured = td.images.sense(model, data.camera()[:32, :32])
    odd = td.CompressedSensing(3, 10, max_iter=5).fit(np.random.default_rng(0).standard_normal((100, 10)))
    with pytest.raises(ValueError, match="model must be for square blocks that it reconstructs"):
        td.images.sense(odd, data.camera())
    small = td.CompressedSensing(12, 20, max_iter=5).fit(np.random.default_rng(0).standard_normal((100, 16)))
    with pytest.raises(ValueError, match="measured has blocks of 8 by 8, but the model is for 4"):
        td.images.reconstruct(small, measured)
    with pytest.raises(NotFittedError):
        td.images.sense(td.CompressedSensing(), data.camera())
    with pytest.raises(TypeError, match="model must be a CompressedSensing, got ndarray"):
        td.images.sense(data.camera(), model)
    with pytest.raises(TypeError, match="measured must be the Measurements that sense returns, got ndarray"):
        td.images.reconstruct(model, measured.values)
