"""Large pictures told apart by the votes of their patches."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import taskdict as td
from taskdict.estimators.task_driven import learning
from taskdict.images.labelled_patches import LabelledPatches
from taskdict.images.voting import as_pictures


def stripes(rng, across, shape=(40, 50), channels=None):
    """A picture of random stripes, in a direction."""
    height, width = shape
    lines = rng.random((height, 1) if across else (1, width))
    picture = np.clip(np.broadcast_to(lines, shape) + 0.02 * rng.standard_normal(shape), 0, 1)
    if channels is not None:
        picture = picture[:, :, None] * rng.uniform(0.5, 1, channels)
    return np.rint(255 * picture).astype(np.uint8)


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
    image = collection(seed=4)[0][0][:17, :19]
    votes, rows, columns = fitted._vote(image[:, :, None])
    assert rows.tolist() == [0, 3, 6, 9, 11]  # the last touches the edge
    for pixel in ((0, 0), (7, 8), (16, 18)):
        over = [
            votes[i, j]
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
            if row <= pixel[0] < row + 6 and column <= pixel[1] < column + 6
        ]
        assert fitted.vote_map(image)[pixel][1] == pytest.approx(np.mean(over))


def test_colour():
    images, labels = collection(channels=3)
    model = voter().fit(images, labels)
    assert model.channels_ == 3
    assert model.classifier_.n_features_in_ == 108
    test, wanted = collection(seed=1, channels=3)
    np.testing.assert_array_equal(model.predict(test), wanted)
    with pytest.raises(ValueError, match="a picture has 1 channels, but the model has learned from pictures with 3"):
        model.predict([test[0][:, :, 0]])


def test_three_classes():
    rng = np.random.default_rng(0)
    images, labels = collection()
    images = images[:6] + [rng.integers(0, 256, (40, 40), np.uint8) for _ in range(3)]
    model = voter().fit(images, [*labels[:6], "noise", "noise", "noise"])
    test = [*collection(seed=1)[0][:2], rng.integers(0, 256, (40, 40), np.uint8)]
    assert model.predict(test).tolist() == ["across", "upright", "noise"]
    assert model.vote_map(test[2]).shape == (40, 40, 3)


def test_other_classifiers():
    pipeline = make_pipeline(td.DictionaryLearning(20, lambda1=0.1, random_state=0), LogisticRegression())
    model = voter(classifier=pipeline).fit(*collection())
    assert model.votes(collection(seed=1)[0]).shape == (8, 2)
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


def test_killed_and_taken_up(tmp_path):
    images, labels = collection()
    path = tmp_path / "state.safetensors"

    def learner(**more):
        return td.TaskDrivenClassifier(10, max_iter=40, random_state=0, learning_rate="adaptive", **more)

    whole = voter(classifier=learner()).fit(images, labels)

    def stop(progress):
        if progress.n_iter == 15:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "CHECKPOINT_SECONDS", 0.0)
        broken = voter(classifier=learner(checkpoint=path, callbacks=stop))
        with pytest.raises(KeyboardInterrupt):
            broken.fit(images, labels)
    assert broken.classifier_.n_iter_ == 15
    again = voter(classifier=learner(checkpoint=path)).fit(images, labels)
    np.testing.assert_array_equal(again.classifier_.coef_, whole.classifier_.coef_)
    np.testing.assert_array_equal(again.classifier_.components_, whole.classifier_.components_)


class TestPatches:
    def stream(self, images, labels, n_patches=600, normalise=False, seed=0):
        pictures = as_pictures(images)
        return LabelledPatches(
            pictures, np.array(labels), 4, n_patches=n_patches, normalise=normalise, random_state=seed
        )

    def test_drawn_evenly(self):
        images = [np.full((10 + k, 12), 10 * k, np.uint8) for k in range(5)]  # patches tell their picture
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
        images, labels = collection()
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
        images, labels = collection()
        X = self.stream(images, labels, normalise=True).take(50)
        np.testing.assert_allclose(X.sum(axis=1), 0, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-5)


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
        (np.zeros((9, 9), np.uint8), [0], "images must be a list of pictures, got one picture"),
        ([], [], "images must have at least one picture"),
        ([np.zeros((9, 9), np.uint8)] * 3, [0, -1, 1], "labels must not be -1, which stands for no label"),
    ],
)
def test_bad_pictures(images, labels, message):
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


def test_a_picture_smaller_than_a_patch(fitted):
    with pytest.raises(ValueError, match=r"a picture of shape \(5, 40\) is smaller than a patch of 6 by 6"):
        fitted.predict([np.zeros((5, 40), np.uint8)])
