import numpy as np
import pytest

from taskdict.images.patches import map_patches

RNG = np.random.default_rng(0)


def same(patches):
    return patches


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(20, 31, 1), (5, 5, 3), (5, 40, 1), (33, 5, 1), (23, 24, 3), (9, 4, 1), (2, 1, 3)])
@pytest.mark.parametrize("patches_per_chunk", [1, 100, 10**6])
def test_unchanged_patches_give_the_image(shape, stride, patches_per_chunk):
    image = RNG.random(shape).astype(np.float32)
    np.testing.assert_allclose(
        map_patches(image, 5, same, stride=stride, patches_per_chunk=patches_per_chunk), image, atol=1e-6
    )


@pytest.mark.parametrize("weights", [None, RNG.random((4, 4)) + 0.1])
@pytest.mark.parametrize("stride", [1, 3])
def test_pixels_are_the_averages_over_patches(stride, weights):
    shares = np.ones((4, 4, 1)) if weights is None else weights[:, :, None]
    image = RNG.random((13, 17, 2)).astype(np.float32)

    def mean_times_place(patches):
        tiled = patches.reshape(len(patches), 16, 2)
        ramp = np.linspace(0, 1, 16, dtype=np.float32)[:, None]
        return (tiled.mean(axis=1, keepdims=True) * ramp + 0 * tiled).reshape(patches.shape)

    sums, counts = np.zeros(image.shape), np.zeros(image.shape)
    rows = sorted({*range(0, 9, stride), 9})
    columns = sorted({*range(0, 13, stride), 13})
    for i in rows:
        for j in columns:
            patch = image[i : i + 4, j : j + 4].reshape(1, -1)
            sums[i : i + 4, j : j + 4] += shares * mean_times_place(patch).reshape(4, 4, 2)
            counts[i : i + 4, j : j + 4] += shares
    for patches_per_chunk in (1, 50, 10**6):
        found = map_patches(
            image, 4, mean_times_place, stride=stride, weights=weights, patches_per_chunk=patches_per_chunk
        )
        np.testing.assert_allclose(found, sums / counts, atol=1e-6)


def test_a_stride_above_the_patch_size():
    with pytest.raises(ValueError, match="stride must be from 1 to the patch size, 5"):
        map_patches(np.zeros((9, 9, 1)), 5, same, stride=6)


def test_values_are_from_0_to_1():
    seen = []

    def look(patches):
        seen.append((patches.dtype, patches.min(), patches.max()))
        return patches

    map_patches(np.array([0, 255] * 8, np.uint8).reshape(4, 4, 1), 2, look)
    map_patches(np.array([0, 65535] * 8, np.uint16).reshape(4, 4, 1), 2, look)
    map_patches(np.array([False, True] * 8).reshape(4, 4, 1), 2, look)
    assert seen == [(np.float32, 0, 1)] * 3


def test_memory_does_not_grow_with_the_number_of_patches():
    import tracemalloc

    image = np.zeros((1500, 1000, 1), np.uint8)  # 1.5 million patches: 400 MB as floats
    tracemalloc.start()
    map_patches(image, 8, same, patches_per_chunk=10_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40e6


def test_reports():
    seen = []
    map_patches(
        np.zeros((20, 20, 1)), 5, same, patches_per_chunk=64, report=lambda done, total: seen.append((done, total))
    )
    assert seen == [(64, 256), (128, 256), (192, 256), (256, 256)]


def test_other_channels_than_those_of_the_image():
    image = np.random.default_rng(0).random((12, 13, 1), np.float32)
    found = map_patches(image, 4, lambda patches: np.repeat(patches, 3, axis=1), n_outputs=3)
    np.testing.assert_allclose(found, np.repeat(image, 3, axis=2), atol=1e-6)
    with pytest.raises(ValueError, match="n_outputs is for patches of all channels together"):
        map_patches(image, 4, lambda patches: patches, n_outputs=3, one_by_one=True)
