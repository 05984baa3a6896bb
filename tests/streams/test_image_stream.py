import json

import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from sklearn.datasets import load_digits

from taskdict.streams import ImageStream
from taskdict.streams import images as augmentation

DIGITS = load_digits()


def random_images(n=20, height=6, width=5, seed=0):
    """Images that all differ, with a background of zero."""
    return np.random.default_rng(seed).integers(0, 255, (n, height, width), dtype=np.uint8)


def normalised(images):
    rows = images.reshape(len(images), -1).astype(np.float64)
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_hand(image, down, right, background):
    """An image shifted, pixel by pixel."""
    height, width = image.shape
    result = np.full_like(image, background)
    for i in range(height):
        for j in range(width):
            if 0 <= i - down < height and 0 <= j - right < width:
                result[i, j] = image[i - down, j - right]
    return result


@pytest.mark.parametrize(("shifts", "versions"), [(0, 1), (4, 5), (8, 9), ([(2, -3), (0, 1), (0, 0)], 3), ([], 1)])
def test_a_round_has_every_version_once(shifts, versions):
    images = random_images()
    stream = ImageStream(images, np.arange(20), shifts=shifts, random_state=0)
    assert stream.n_signals == 20 * versions
    X, y = stream.take_pairs(stream.n_signals)
    assert X.dtype == np.float32
    expected = np.array([by_hand(image, *shift, images.min()) for image in images for shift in stream.shifts])
    labels = np.repeat(np.arange(20), versions)
    for label in range(20):
        mine, wanted = X[y == label], normalised(expected[labels == label])
        nearest = np.abs(mine[:, None] - wanted[None]).max(axis=2)
        assert (nearest.min(axis=1) < 1e-6).all()
        assert (nearest.min(axis=0) < 1e-6).all()


def test_four_and_eight_directions():
    four, eight = (set(ImageStream(random_images(), shifts=n).shifts) for n in (4, 8))
    assert four == {(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)}
    assert eight == {(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)}


def test_signals_are_centred_and_of_norm_one():
    X = ImageStream(DIGITS.images, shifts=8, bend=0.8, random_state=0).take(500)
    np.testing.assert_allclose(X.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-5)


def test_the_background_comes_in_at_the_edge():
    images = np.full((3, 4, 4), -7, np.int16)
    images[:, 1:3, 1:3] = 5
    shifted = augmentation.shifted(images.astype(np.float32), np.array([[1, 1], [-2, 0], [0, 5]]), -7.0)
    assert (
        shifted == [by_hand(image, *s, -7) for image, s in zip(images, ((1, 1), (-2, 0), (0, 5)), strict=True)]
    ).all()


def test_distortion_is_bilinear_interpolation():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((4, 9, 7)).astype(np.float32)
    offsets, knots = np.array([[0, 0], [1, -1], [0, 1], [-1, 0]]), rng.standard_normal((4, 2, 5, 5)).astype(np.float32)
    bent = augmentation.distorted(images, offsets, knots, -3.0)
    for image, offset, knot, result in zip(images, offsets, knots, bent, strict=True):
        field = augmentation.knot_weights(9) @ knot @ augmentation.knot_weights(7).T
        rows = np.arange(9)[:, None] - offset[0] + field[0]
        columns = np.arange(7) - offset[1] + field[1]
        framed = np.pad(image, 1, constant_values=-3.0)
        at = np.stack([np.clip(rows, -1, 9) + 1, np.clip(columns, -1, 7) + 1])
        np.testing.assert_allclose(result, map_coordinates(framed, at, order=1, mode="nearest"), atol=1e-4)


def test_the_size_of_a_displacement_is_in_pixels():
    knots = np.random.default_rng(0).standard_normal((2000, 2, 5, 5))
    fields = augmentation.knot_weights(28) @ knots @ augmentation.knot_weights(28).T
    np.testing.assert_allclose(fields.std(axis=0), 1, atol=0.08)


def test_distorted_images_are_new_each_round_and_near_the_original():
    images = DIGITS.images[:50]
    stream = ImageStream(images, np.arange(50), bend=0.3, random_state=0)
    (first, y1), (second, y2) = stream.take_pairs(50), stream.take_pairs(50)
    first, second = first[np.argsort(y1)], second[np.argsort(y2)]
    original = normalised(images)
    alike = (first * second).sum(axis=1)
    assert (alike < 0.99999).all()
    assert np.median((first * original).sum(axis=1)) > 0.9
    far = ImageStream(images, np.arange(50), bend=1.5, random_state=0)
    X, y = far.take_pairs(50)
    assert np.median((X[np.argsort(y)] * original).sum(axis=1)) < np.median((first * original).sum(axis=1))


@pytest.mark.parametrize("bend", [0.0, 0.7])
def test_batch_sizes_and_breaks_do_not_change_the_signals(bend):
    def make(seed=3):
        return ImageStream(random_images(), np.arange(20), shifts=4, bend=bend, random_state=seed)

    X, y = make().take_pairs(700)  # several rounds and several blocks of displacements
    stream = make()
    parts = [stream.take_pairs(n) for n in (1, 99, 300)]
    state = json.loads(json.dumps(stream.state()))
    other = make(seed=4)
    other.take(7)
    assert not other.reads_like(state)
    other.restore(state)
    assert other.reads_like(state)
    parts.append(other.take_pairs(300))
    np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), X)
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in parts]), y)


def test_unlabelled_images_take_turns():
    y = np.full(20, -1)
    y[[3, 8, 11]] = [0, 1, 0]
    stream = ImageStream(random_images(), y, shifts=4, random_state=0)
    X, labels = stream.take_pairs(2 * 3 * 5)
    assert (labels[::2] >= 0).all()
    assert (labels[1::2] == -1).all()
    assert len(np.unique(X[::2], axis=0)) == 3 * 5  # each version of those with labels
    again = ImageStream(random_images(), y, shifts=4, random_state=0)
    parts = [again.take_pairs(n) for n in (1, 4, 25)]
    np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), X)


def test_minus_one_beside_one_is_a_class():
    y = np.where(np.arange(20) < 4, 1, -1)
    _, labels = ImageStream(random_images(), y, random_state=0).take_pairs(20)
    assert (labels == 1).sum() == 4


@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_held_out_images_are_not_given_in_any_version(bend):
    y = np.arange(20)
    y[15:] = -1
    stream = ImageStream(random_images(), y, shifts=8, bend=bend, random_state=0)
    held, labels = stream.hold_out(0.4)
    assert len(held) == len(set(labels)) == 6
    np.testing.assert_allclose(held, normalised(random_images()[labels]), atol=1e-6)
    _, given = stream.take_pairs(800)
    assert set(given) == set(range(15)) - set(labels) | {-1}
    again = ImageStream(random_images(), y, shifts=8, bend=bend, random_state=1)
    again.hold_out(0.4)
    again.restore(stream.state())
    np.testing.assert_array_equal(again.take(50), stream.take(50))
    assert len(stream.hold_out(0.0)[0]) == 0
    assert set(stream.take_pairs(800)[1]) == set(range(15)) | {-1}


def test_values_of_any_size():
    images = random_images().astype(np.float64)
    expected = ImageStream(images, shifts=4, random_state=0).take(40)
    for factor in (1e200, 1e-200):
        np.testing.assert_allclose(ImageStream(images * factor, shifts=4, random_state=0).take(40), expected, atol=1e-6)


def test_memory_mapped_images(tmp_path):
    np.save(tmp_path / "images.npy", random_images())
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    streams = [ImageStream(images, shifts=8, random_state=0) for images in (random_images(), mapped)]
    np.testing.assert_array_equal(*(stream.take(50) for stream in streams))


def test_constant_images_become_zero():
    images = np.concatenate([np.zeros((1, 3, 3)), np.full((1, 3, 3), 9.0)])
    assert (ImageStream(images, random_state=0).take(4) == 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": np.zeros((3, 4))}, r"images must have shape \(n_images, height, width\), got \(3, 4\)"),
        ({"images": np.zeros((0, 4, 4))}, "images must have at least one image"),
        ({"images": np.array([[["a"]]])}, "images must hold real numbers"),
        ({"shifts": 5}, "shifts must be 0, 4, 8"),
        ({"shifts": [(0.5, 1)]}, "in whole pixels"),
        ({"shifts": [(1, 2, 3)]}, "shifts must be"),
        ({"shifts": True}, "shifts must be"),
        ({"shifts": {(1, 0)}}, "shifts must be"),
        ({"shifts": [(6, 0)]}, r"shifts must be smaller than images of shape \(6, 5\), got \(6, 0\)"),
        ({"bend": 6.0}, "bend must be less than the size of the images"),
        (
            {"images": np.where(np.arange(20)[:, None, None] == 7, np.nan, np.ones((20, 6, 5)))},
            "image 7 contains NaN",
        ),
        ({"bend": -1.0}, "bend must be finite and at least 0"),
        ({"y": np.zeros((20, 2))}, r"y must have one label for each image, got shape \(20, 2\)"),
        ({"y": [1, 2]}, "y has 2 targets, but there are 20"),
    ],
)
def test_bad_arguments(arguments, message):
    images = arguments.pop("images", random_images())
    with pytest.raises((ValueError, TypeError), match=message):
        ImageStream(images, **arguments)


def test_a_state_of_other_images():
    with pytest.raises(ValueError, match="100 signals, but this one has 180"):
        ImageStream(random_images(), shifts=8).restore(ImageStream(random_images(), shifts=4).state())


def test_directions():
    directions = np.random.default_rng(0).standard_normal((5, 64))
    pixels, short = (ImageStream(DIGITS.images, shifts=4, directions=d, random_state=0) for d in (None, directions))
    np.testing.assert_allclose(short.take(50), pixels.take(50) @ directions.T, atol=1e-5)
    with pytest.raises(ValueError, match=r"directions must be finite and of shape .* \(n, 64\), got shape \(5, 63\)"):
        ImageStream(DIGITS.images, directions=directions[:, 1:])
