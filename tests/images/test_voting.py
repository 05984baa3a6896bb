"""Large images classified by the votes of their patches."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import taskdict as td
from taskdict._learning import training_run


def stripes(rng, across, shape=(40, 50), channels=None):
    """An image of random stripes, in a direction."""
    height, width = shape
    lines = rng.random((height, 1) if across else (1, width))
    image = np.clip(np.broadcast_to(lines, shape) + 0.02 * rng.standard_normal(shape), 0, 1)
    if channels is not None:
        image = image[:, :, None] * rng.uniform(0.5, 1, channels)
    return np.rint(255 * image).astype(np.uint8)


def collection(n=4, seed=0, **parameters):
    rng = np.random.default_rng(seed)
    images = [stripes(rng, k % 2 == 0, **parameters) for k in range(2 * n)]
    return images, ["across", "upright"] * n


def voter(**parameters):
    learner = td.TaskDrivenClassifier(20, decision="bilinear", max_iter=100, random_state=0)
    settings = {"patch_size": 6, "n_patches": 2000, "stride": 3, "random_state": 0, **parameters}
    return td.PatchVotingClassifier(settings.pop("classifier", learner), **settings)


@pytest.fixture(scope="module")
def fitted():
    return voter().fit(*collection())


def test_predictions(fitted):
    images, labels = collection(seed=1)
    np.testing.assert_array_equal(fitted.predict(images), labels)
    assert fitted.score(images, labels) == 1.0
    votes = fitted.votes(images)
    np.testing.assert_allclose(votes.sum(axis=1), 1)
    assert (votes.max(axis=1) > 0.8).all()
    assert fitted.classes_.tolist() == ["across", "upright"]


def test_display(fitted):
    assert repr(fitted).endswith("# fitted: 2 classes, patches of 6 by 6 pixels, 1 channels")


def test_compare(fitted):
    images, _ = collection(seed=2)
    assert fitted.compare(images[0], images[1], "across") == 0
    assert fitted.compare(images[1], images[0], "across") == 1
    assert fitted.compare(images[0], images[1], "upright") == 1
    with pytest.raises(ValueError, match=r"label must be one of \['across', 'upright'\], got 'slanted'"):
        fitted.compare(images[0], images[1], "slanted")


def test_map_shows_where_votes_fall(fitted):
    images, _ = collection(seed=3)
    both = np.concatenate([images[0], images[1]], axis=1)  # across on the left, upright on the right
    shares = fitted.vote_map(both)
    assert shares.shape == (40, 100, 2)
    np.testing.assert_allclose(shares.sum(axis=2), 1, rtol=1e-5)
    assert shares[:, :44, 0].mean() > 0.8
    assert shares[:, 56:, 1].mean() > 0.8


def test_map_is_the_mean_over_the_patches_of_a_pixel(fitted):
    image = np.concatenate([images[:17, :10] for images in collection(seed=4)[0][:2]], axis=1)
    rows, columns = (0, 3, 6, 9, 11), (0, 3, 6, 9, 12, 14)  # the last touch the edges
    patches = [image[i : i + 6, j : j + 6].reshape(1, 36) / 255 for i in rows for j in columns]
    labels = fitted.classifier_.predict(td.UnitNorm().fit_transform(np.concatenate(patches)).astype(np.float32))
    upright = (labels == "upright").reshape(5, 6)
    assert 0 < upright.mean() < 1
    np.testing.assert_allclose(fitted.votes([image])[0, 1], upright.mean())
    shares = fitted.vote_map(image)
    for pixel in np.ndindex(17, 20):
        over = [
            upright[i, j]
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
            if row <= pixel[0] < row + 6 and column <= pixel[1] < column + 6
        ]
        assert shares[pixel][1] == pytest.approx(np.mean(over))


def test_colour():
    images, labels = collection(channels=3)
    model = voter().fit(images, labels)
    assert model.channels_ == 3
    assert model.classifier_.n_features_in_ == 108
    test, wanted = collection(seed=1, channels=3)
    np.testing.assert_array_equal(model.predict(test), wanted)
    with pytest.raises(ValueError, match="an image has 1 channels, but the model has learned from images with 3"):
        model.predict([test[0][:, :, 0]])


def test_three_classes():
    rng = np.random.default_rng(0)
    images, labels = collection()
    images = images[:6] + [rng.integers(0, 256, (40, 40), np.uint8) for _ in range(3)]
    model = voter().fit(images, [*labels[:6], "noise", "noise", "noise"])
    test = [*collection(seed=1)[0][:2], rng.integers(0, 256, (40, 40), np.uint8)]
    assert model.predict(test).tolist() == ["across", "upright", "noise"]
    shares = model.vote_map(test[2])
    assert shares.shape == (40, 40, 3)
    assert (shares.argmax(axis=2) == np.flatnonzero(model.classes_ == "noise")).mean() > 0.9


def test_other_classifiers():
    pipeline = make_pipeline(td.DictionaryLearning(20, lambda1=0.1, random_state=0), SVC())
    model = voter(classifier=pipeline).fit(*collection())
    assert model.score(*collection(seed=1)) == 1.0
    with pytest.raises(TypeError, match="only a model with a TaskDrivenClassifier can be saved"):
        model.save("never.safetensors")


@pytest.mark.parametrize("other", [SVC(decision_function_shape="ovo"), RandomForestClassifier(10, random_state=0)])
def test_votes_are_predictions(other):
    rng = np.random.default_rng(0)
    images, labels = collection(2)
    images += [rng.integers(0, 256, (40, 40), np.uint8) for _ in range(2)]
    model = voter(classifier=other, n_patches=300).fit(images, [*labels, "noise", "noise"])
    assert model.predict([images[0], images[1], images[4]]).tolist() == ["across", "upright", "noise"]


def test_parameters_that_change_later_do_not_change_what_was_learned(tmp_path):
    model = voter(normalise=False).fit(*collection())
    images, _ = collection(seed=1)
    votes = model.votes(images)
    model.set_params(normalise=True, patch_size=3)
    np.testing.assert_array_equal(model.votes(images), votes)
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(td.load(tmp_path / "model.safetensors").votes(images), votes)


def test_files(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    other = td.load(tmp_path / "model.safetensors")
    images, _ = collection(seed=1)
    np.testing.assert_array_equal(other.votes(images), fitted.votes(images))
    assert (other.patch_size, other.stride, other.normalise) == (6, 3, True)


def test_interrupted_and_resumed(tmp_path):
    images, labels = collection()
    path = tmp_path / "state.safetensors"

    def learner(**more):
        return td.TaskDrivenClassifier(10, max_iter=40, random_state=0, learning_rate="adaptive", **more)

    whole = voter(classifier=learner()).fit(images, labels)

    def stop(progress):
        if progress.n_iter == 15:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_run, "CHECKPOINT_SECONDS", 0.0)
        broken = voter(classifier=learner(checkpoint=path, callbacks=stop))
        with pytest.raises(KeyboardInterrupt):
            broken.fit(images, labels)
    assert broken.classifier_.n_iter_ == 15
    again = voter(classifier=learner(checkpoint=path)).fit(images, labels)
    np.testing.assert_array_equal(again.classifier_.coef_, whole.classifier_.coef_)
    np.testing.assert_array_equal(again.classifier_.components_, whole.classifier_.components_)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        ([np.zeros((5, 5), np.uint8)] * 2, [0, 1], r"images\[0\] of shape \(5, 5\) is smaller than a patch of 6 by 6"),
        ([np.zeros((9, 9), np.uint8)] * 2, [1, 1], "labels must have at least two classes, got one class only"),
        ([np.zeros((9, 9), np.uint8)] * 2, [1], "labels has 1 entries, but there are 2 images"),
        (
            [np.zeros((9, 9), np.uint8), np.zeros((9, 9, 3), np.uint8)],
            [0, 1],
            r"images\[0\] has 1 and images\[1\] has 3",
        ),
        (np.zeros((9, 9), np.uint8), [0], "images must be a list of images, got one image"),
        ([], [], "images must have at least one image"),
        ([np.zeros((9, 9), np.uint8)] * 3, [0, -1, 1], "labels must not be -1, which stands for no label"),
    ],
)
def test_bad_images(images, labels, message):
    with pytest.raises(ValueError, match=message):
        voter().fit(images, labels)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"stride": 7}, ValueError, "stride must be at most the patch size, 6"),
        ({"n_patches": 0}, ValueError, "n_patches must be a positive integer"),
        ({"normalise": "yes"}, TypeError, "normalise must be True or False"),
    ],
)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        voter(**parameters).fit(*collection())


def test_an_image_smaller_than_a_patch(fitted):
    with pytest.raises(ValueError, match=r"an image of shape \(5, 40\) is smaller than a patch of 6 by 6"):
        fitted.predict([np.zeros((5, 40), np.uint8)])
