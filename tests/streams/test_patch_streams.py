"""Streams of patches."""

import json

import numpy as np
import pytest
from skimage import data

from taskdict.images import degrade
from taskdict.streams.patches import VIEW_DEVIATIONS, LabelledPatches, PatchPairs, RefinementPairs

RNG = np.random.default_rng(0)


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
        ([], [], "at least one image"),
        ([np.zeros((9, 9))], [np.zeros((9, 8))], r"damaged\[0\] has shape \(9, 9, 1\), but clean\[0\] has \(9, 8, 1\)"),
        (
            [np.zeros((9, 9)), np.zeros((9, 9, 3))],
            [np.zeros((9, 9)), np.zeros((9, 9, 3))],
            "the same number of channels",
        ),
        ([np.zeros((4, 9))], [np.zeros((4, 9))], "smaller than a patch of 5 by 5"),
    ],
)
def test_bad_pairs(damaged, clean, message):
    with pytest.raises(ValueError, match=message):
        PatchPairs(damaged, clean, 5)


def test_views_of_a_refinement_are_scaled():
    clean = [data.camera()[::2, ::2], data.coins()[:256], data.moon()[::2, ::2]]
    damaged = [degrade.floyd_steinberg(image) for image in clean]
    restored = [degrade.blur(image, 1.0)[:, :, None] / np.float32(255) for image in clean]
    denoised = [degrade.blur(image, 1.5)[:, :, None] / np.float32(255) for image in clean]
    pairs = RefinementPairs(damaged, clean, restored, denoised, 6, random_state=0)
    other = RefinementPairs(damaged, clean, restored, denoised, 6, random_state=1)
    np.testing.assert_array_equal(pairs.scales, other.scales)  # whatever the order is
    X, y = pairs.take_pairs(20_000)
    found = [np.sqrt(np.square(part).mean()) for part in np.split(X, 3, axis=1)]
    np.testing.assert_allclose(found, VIEW_DEVIATIONS, rtol=0.05)
    assert y.shape == (20_000, 36)


class TestLabelledPatches:
    def stream(self, images, labels, n_patches=600, normalise=False, seed=0):
        images = [image[:, :, None] for image in images]
        return LabelledPatches(images, np.array(labels), 4, n_patches=n_patches, normalise=normalise, random_state=seed)

    def test_drawn_evenly(self):
        images = [
            np.full((10 + k, 12), 10 * k, np.uint8) for k in range(5)
        ]  # the value of a patch identifies its image
        stream = self.stream(images, ["a", "b", "a", "a", "b"])
        assert stream.n_signals == 1200
        X, y = stream.take_pairs(1200)
        of = np.rint(25.5 * X.mean(axis=1)).astype(int)
        assert np.bincount(of).tolist() == [200, 300, 200, 200, 300]
        assert (np.isin(of, [0, 2, 3]) == (y == "a")).all()

    def test_all_places_before_one_is_used_again(self):
        image = np.arange(100, dtype=np.uint8).reshape(10, 10)
        stream = self.stream([image, 255 - image], ["a", "b"], n_patches=49)
        X, y = stream.take_pairs(98)
        assert len(np.unique(X[y == "a"][:, 0])) == 49

    def test_state(self):
        images, labels = [RNG.integers(0, 256, (12 + k, 15), np.uint8) for k in range(4)], ["a", "b"] * 2
        stream = self.stream(images, labels, normalise=True)
        stream.take(130)
        state = stream.state()
        expected = stream.take_pairs(70)
        other = self.stream(images, labels, normalise=True, seed=5)
        assert not other.reads_like(state)
        other.restore(state)
        for a, b in zip(other.take_pairs(70), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        with pytest.raises(ValueError, match="state belongs to a stream of 1200 signals"):
            self.stream(images, labels, n_patches=10).restore(state)

    def test_normalised(self):
        images, labels = [RNG.integers(0, 256, (12 + k, 15), np.uint8) for k in range(4)], ["a", "b"] * 2
        X = self.stream(images, labels, normalise=True).take(50)
        np.testing.assert_allclose(X.sum(axis=1), 0, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-5)
