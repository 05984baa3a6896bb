import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr
from skimage.restoration import denoise_nl_means

from taskdict.images import degrade, denoise
from taskdict.images.denoising import cosines

CAMERA = data.camera()[::2, ::2]


@pytest.mark.parametrize("sigma", [10 / 255, 25 / 255])
def test_better_than_non_local_means(sigma):
    noisy = degrade.gaussian_noise(CAMERA, sigma, random_state=0)
    means = denoise_nl_means(
        noisy / 255, patch_size=5, patch_distance=6, h=0.8 * sigma, sigma=sigma, fast_mode=True, preserve_range=True
    )
    assert psnr(CAMERA, denoise(noisy, sigma)) > psnr(CAMERA / 255, means, data_range=1) + 0.3


def test_dtypes_agree():
    noisy = degrade.gaussian_noise(CAMERA, 0.1, random_state=0)[:60, :70]
    expected = denoise(noisy / 255, 0.1)
    assert expected.dtype == np.float64
    for dtype, top in ((np.uint8, 255), (np.uint16, 65535)):
        found = denoise(noisy.astype(dtype) * dtype(top // 255), 0.1)
        assert found.dtype == dtype
        np.testing.assert_allclose(found / top, np.clip(expected, 0, 1), atol=0.01)  # another rounding, other atoms
    assert denoise(noisy > 100, 0.3).dtype == np.uint8


def test_colour():
    image = data.chelsea()[:100, 100:220]
    noisy = degrade.gaussian_noise(image, 0.1, random_state=0)
    seen = []
    found = denoise(noisy, 0.1, report=lambda done, total: seen.append((done, total)))
    assert psnr(image, found) > psnr(image, noisy) + 6
    assert seen[-1] == (3 * 93 * 113, 3 * 93 * 113)


@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (8, 8), (30, 17)])
def test_a_constant_image_stays(shape):
    image = np.full(shape, 77, np.uint8)
    np.testing.assert_array_equal(denoise(image, 0.1), image)


def test_threads_and_calls_do_not_matter():
    noisy = degrade.gaussian_noise(CAMERA[:60, :60], 0.1, random_state=0) / 255
    np.testing.assert_array_equal(denoise(noisy, 0.1, n_threads=1), denoise(noisy, 0.1, n_threads=2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sigma": 0.0}, "sigma must be a positive number"),
        ({"sigma": 0.1, "patch_size": 0}, "patch_size must be a positive integer"),
        ({"sigma": 0.1, "patch_size": 1}, "patch_size must be at least 2"),
        ({"sigma": 0.1, "stride": 9}, "stride must be from 1 to the patch size, 8"),
        ({"sigma": 0.1, "n_components": 0}, "n_components must be a positive integer"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        denoise(CAMERA[:20, :20], **arguments)


@pytest.mark.parametrize(("patch_size", "n_components"), [(8, 256), (8, 63), (5, 7), (3, 100)])
def test_cosines(patch_size, n_components):
    atoms = cosines(patch_size, n_components)
    assert atoms.shape == (n_components, patch_size**2)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(atoms.sum(axis=1), 0, atol=1e-5)
    assert np.linalg.matrix_rank(atoms) == min(n_components, patch_size**2 - 1)
    if n_components < patch_size**2:
        np.testing.assert_allclose(atoms @ atoms.T, np.eye(n_components), atol=1e-5)
