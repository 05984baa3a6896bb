import json

import numpy as np
import pytest

from taskdict.images.patches import PatchPairs, map_patches

RNG = np.random.default_rng(0)


def same(patches):
    return patches


def all_patches(image, size):
    rows, columns = image.shape[0] - size + 1, image.shape[1] - size + 1
    return np.array([image[i : i + size, j : j + size].ravel() for i in range(rows) for j in range(columns)])


def test_a_round_has_every_pair_once():
    clean = [RNG.random((9, 12)), RNG.random((7, 7)), RNG.random((3, 20))]  # the last is smaller than a patch
    damaged = [image**2 for image in clean]
    pairs = PatchPairs(damaged, clean, 5, random_state=0)
    assert pairs.n_signals == 5 * 8 + 3 * 3
    for _ in range(2):  # and so has the next round
        X, y = pairs.take_pairs(pairs.n_signals)
        expected = []
        for bad, good in zip(damaged[:2], clean[:2], strict=True):
            x, z = all_patches(bad, 5), all_patches(good, 5)
            mean = x.mean(axis=1, keepdims=True)
            expected.append(np.hstack([x - mean, z - mean]))
        expected = np.vstack(expected)
        found = np.hstack([X, y])
        order = [rows[np.lexsort(np.round(rows, 4).T)] for rows in (found, expected)]
        np.testing.assert_allclose(order[0], order[1], atol=1e-6)


def test_kodak_has_nine_million_pairs():
    image = np.zeros((512, 768), np.uint8)
    assert PatchPairs([image] * 24, [image] * 24, 10).n_signals == 9_162_648


def test_colour_patches_are_centred_by_channel():
    clean = RNG.integers(0, 256, (12, 15, 3), dtype=np.uint8)
    pairs = PatchPairs([clean], [255 - clean], 4, random_state=0)
    X, y = pairs.take_pairs(100)
    assert X.shape == (100, 48)
    assert X.dtype == y.dtype == np.float32
    np.testing.assert_allclose(X.reshape(-1, 16, 3).mean(axis=1), 0, atol=1e-6)
    means = (1 - (X + y)).reshape(-1, 16, 3) / 2  # x + y + 2 mean = 1
    np.testing.assert_allclose(means, np.broadcast_to(means[:, :1], means.shape), atol=1e-6)


def test_state():
    image = RNG.random((80, 90))
    first = PatchPairs([image], [image], 6, random_state=1)
    first.take(5000)
    state = json.loads(json.dumps(first.state()))
    after = first.take_pairs(300)
    second = PatchPairs([image], [image], 6, random_state=2)
    assert not second.reads_like(state)
    second.restore(state)
    assert second.reads_like(state)
    for a, b in zip(after, second.take_pairs(300), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="state belongs to a stream of 6375 patches, but this one has"):
        PatchPairs([image[1:]], [image[1:]], 6).restore(state)


def test_batches_do_not_depend_on_their_sizes():
    image = RNG.random((80, 90))
    streams = [PatchPairs([image], [image], 6, random_state=1) for _ in range(2)]
    whole = streams[0].take(9000)
    parts = np.concatenate([streams[1].take(n) for n in (1, 4095, 4096, 808)])
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize(
    ("damaged", "clean", "message"),
    [
        ([], [], "at least one picture"),
        ([np.zeros((9, 9))], [np.zeros((9, 8))], r"damaged\[0\] has shape \(9, 9, 1\), but clean\[0\] has \(9, 8, 1\)"),
        ([np.zeros((9, 9)), np.zeros((9, 9, 3))], [np.zeros((9, 9)), np.zeros((9, 9, 3))], "all grey"),
        ([np.zeros((4, 9))], [np.zeros((4, 9))], "smaller than a patch of 5 by 5"),
    ],
)
def test_bad_pairs(damaged, clean, message):
    with pytest.raises(ValueError, match=message):
        PatchPairs(damaged, clean, 5)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(20, 31, 1), (5, 5, 3), (5, 40, 1), (33, 5, 1), (23, 24, 3), (9, 4, 1), (2, 1, 3)])
@pytest.mark.parametrize("at_once", [1, 100, 10**6])
def test_patches_that_stay_make_the_picture(shape, stride, at_once):
    image = RNG.random(shape).astype(np.float32)
    np.testing.assert_allclose(map_patches(image, 5, same, stride=stride, at_once=at_once), image, atol=1e-6)


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
    for at_once in (1, 50, 10**6):
        found = map_patches(image, 4, mean_times_place, stride=stride, weights=weights, at_once=at_once)
        np.testing.assert_allclose(found, sums / counts, atol=1e-6)


def test_what_map_patches_cannot_do():
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
    map_patches(image, 8, same, at_once=10_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40e6


def test_reports():
    seen = []
    map_patches(np.zeros((20, 20, 1)), 5, same, at_once=64, report=lambda done, total: seen.append((done, total)))
    assert seen == [(64, 256), (128, 256), (192, 256), (256, 256)]


def test_other_channels_than_those_of_the_picture():
    image = np.random.default_rng(0).random((12, 13, 1), np.float32)
    found = map_patches(image, 4, lambda patches: np.repeat(patches, 3, axis=1), n_found=3)
    np.testing.assert_allclose(found, np.repeat(image, 3, axis=2), atol=1e-6)
    with pytest.raises(ValueError, match="n_found is for patches of all channels together"):
        map_patches(image, 4, lambda patches: patches, n_found=3, one_by_one=True)
