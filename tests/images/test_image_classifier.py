import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import taskdict as td
from helpers import quick
from mutations import crafted
from taskdict._files import storage
from taskdict.streams.pairs import StreamPairs

DIGITS = load_digits()
IMAGES, LABELS = DIGITS.images[:1200], DIGITS.target[:1200]
TEST, TEST_LABELS = DIGITS.images[1200:], DIGITS.target[1200:]


def small(**parameters):
    settings = {"n_components": 20, "lambda1": 0.1, "max_iter": 60, "dictionary_init": "classes"}
    return quick(**{**settings, **parameters})


@pytest.fixture(scope="module")
def model():
    return td.ImageClassifier(small(), shifts=4, random_state=0).fit(IMAGES, LABELS)


def moved(images, down, right):
    result = np.zeros_like(images)
    height, width = images.shape[1:]
    result[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = images[
        :, max(-down, 0) : height + min(-down, 0), max(-right, 0) : width + min(-right, 0)
    ]
    return result


def test_it_learns(model):
    assert model.score(TEST, TEST_LABELS) > 0.9
    assert model.shape_ == (8, 8)
    assert model.background_ == 0
    assert list(model.classes_) == list(range(10))


def test_moved_digits_help_with_moved_digits(model):
    plain = td.ImageClassifier(small(), shifts=0, random_state=0).fit(IMAGES, LABELS)
    down = moved(TEST, 1, 0)
    assert model.score(down, TEST_LABELS) > plain.score(down, TEST_LABELS) + 0.1


def test_scores_are_those_of_the_classifier_on_normalised_pixels(model):
    signals = td.UnitNorm().fit_transform(TEST.reshape(-1, 64)).astype(np.float32)
    np.testing.assert_allclose(model.decision_function(TEST), model.classifier_.decision_function(signals), atol=1e-5)
    np.testing.assert_array_equal(model.transform(TEST).toarray(), model.classifier_.transform(signals).toarray())


def test_pooling_is_the_mean_over_places(model):
    pooled = copy.copy(model).set_params(pool=8)
    places = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    expected = np.mean([model.decision_function(moved(TEST, *place)) for place in places], axis=0)
    np.testing.assert_allclose(pooled.decision_function(TEST), expected, atol=1e-4)
    listed = pooled.set_params(pool=[(1, 0)])
    expected = (model.decision_function(TEST) + model.decision_function(moved(TEST, 1, 0))) / 2
    np.testing.assert_allclose(listed.decision_function(TEST), expected, atol=1e-4)


def test_flat_images_in_predictions(model):
    np.testing.assert_array_equal(model.predict(TEST.reshape(-1, 64)), model.predict(TEST))


def test_save_and_load(model, tmp_path):
    model.set_params(pool=4)
    try:
        model.save(tmp_path / "model")
        loaded = td.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.decision_function(TEST), model.decision_function(TEST))
        assert loaded.get_params(deep=False).keys() == model.get_params(deep=False).keys()
        assert loaded.pool == 4
        assert loaded.classifier.n_components == 20
    finally:
        model.set_params(pool=0)


def test_a_file_whose_shape_does_not_fit(model, tmp_path):
    model.save(tmp_path / "model")
    arrays, document = storage.read(tmp_path / "model")
    document["shape"] = [8, 9]
    (tmp_path / "model").write_bytes(crafted(arrays, document))
    with pytest.raises(td.ModelFileError, match="the shape of its images does not fit"):
        td.load(tmp_path / "model")


@pytest.fixture(scope="module")
def short():
    """A model on 24 principal directions of 64 pixels."""
    return td.ImageClassifier(small(), shifts=4, n_directions=24, random_state=0).fit(IMAGES, LABELS)


def test_principal_directions(short):
    assert short.score(TEST, TEST_LABELS) > 0.9
    assert short.classifier_.n_features_in_ == 24
    np.testing.assert_allclose(short.directions_ @ short.directions_.T, np.eye(24), atol=1e-5)
    pixels = td.UnitNorm().fit_transform(TEST.reshape(-1, 64))
    signals = pixels @ short.directions_.T
    np.testing.assert_allclose(
        short.decision_function(TEST), short.classifier_.decision_function(signals.astype(np.float32)), atol=1e-4
    )
    most = np.linalg.svd(pixels, compute_uv=False)[:24]  # what any 24 directions keep of these, at most
    assert np.square(signals).sum() > 0.97 * np.square(most).sum()


def test_atoms_are_images(model, short):
    assert model.atoms_.shape == short.atoms_.shape == (200, 8, 8)
    np.testing.assert_array_equal(model.atoms_.reshape(200, 64), model.classifier_.components_)
    back = short.atoms_.reshape(200, 64) @ short.directions_.T
    np.testing.assert_allclose(back, short.classifier_.components_, atol=1e-5)


def test_principal_directions_in_files(short, tmp_path):
    short.save(tmp_path / "model")
    loaded = td.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(TEST), short.decision_function(TEST))
    np.testing.assert_array_equal(loaded.atoms_, short.atoms_)
    assert loaded.n_directions == 24


def test_principal_directions_stay_in_a_warm_start(short):
    inner = small(max_iter=2, warm_start=True)
    model = td.ImageClassifier(inner, n_directions=24, random_state=0).fit(IMAGES[:600], LABELS[:600])
    before = model.directions_
    inner.max_iter = 4
    model.fit(IMAGES[600:], LABELS[600:])
    assert model.classifier_.n_iter_ == 4
    np.testing.assert_array_equal(model.directions_, before)


def test_callbacks_may_use_the_model():
    seen = []
    model = td.ImageClassifier(
        small(max_iter=3, callbacks=lambda progress: seen.append(model.score(TEST, TEST_LABELS))), random_state=0
    )
    model.fit(IMAGES, LABELS)
    assert len(seen) == 3
    assert min(seen) > 0.5


def test_a_fit_that_fails_at_once_leaves_the_model():
    model = td.ImageClassifier(small(max_iter=3), random_state=0).fit(IMAGES, LABELS)
    before = model.decision_function(TEST)
    with pytest.raises(ValueError, match="lambda1"):
        model.set_params(classifier=small(lambda1=-1)).fit(IMAGES[:, 1:], LABELS)
    np.testing.assert_array_equal(model.decision_function(TEST), before)
    fresh = td.ImageClassifier(small(lambda1=-1))
    with pytest.raises(ValueError, match="lambda1"):
        fresh.fit(IMAGES, LABELS)
    with pytest.raises(NotFittedError):
        fresh.predict(TEST)


@pytest.mark.parametrize("wrong", [{"lambda1": -1.0}, {}])
def test_a_warm_start_that_fails_leaves_the_model(wrong, tmp_path):
    images, labels = IMAGES[:100], LABELS[:100]
    learner = td.TaskDrivenClassifier(10, multi_class="softmax", max_iter=5, random_state=0)
    model = td.ImageClassifier(learner, shifts=0, random_state=0).fit(images, labels)
    before = model.decision_function(images)
    model.set_params(classifier=clone(learner).set_params(warm_start=True, max_iter=8, **wrong))
    with pytest.raises(ValueError, match="lambda1" if wrong else "77"):
        model.fit(images + 0.3, labels if wrong else np.where(labels == 3, 77, labels))
    np.testing.assert_array_equal(model.decision_function(images), before)
    assert model.background_ == images.min()
    model.save(tmp_path / "model")


def test_two_classes():
    two = LABELS < 2
    model = td.ImageClassifier(small(max_iter=20), shifts=0, pool=4, random_state=0).fit(IMAGES[two], LABELS[two])
    few = TEST_LABELS < 2
    assert model.decision_function(TEST[few]).ndim == 1
    assert model.score(TEST[few], TEST_LABELS[few]) > 0.97


def test_labels_may_be_words():
    words = np.array(["zero", "one"])
    two = LABELS < 2
    model = td.ImageClassifier(small(max_iter=10), shifts=0, random_state=0).fit(IMAGES[two], words[LABELS[two]])
    few = TEST_LABELS < 2
    assert model.score(TEST[few], words[TEST_LABELS[few]]) > 0.97


@pytest.mark.parametrize("n_classes", [2, 10])
def test_probabilities(n_classes):
    some, few = n_classes > LABELS, n_classes > TEST_LABELS
    inner = td.TaskDrivenClassifier(20, max_iter=20, random_state=0)
    model = td.ImageClassifier(inner, shifts=0, pool=4, random_state=0).fit(IMAGES[some], LABELS[some])
    p = model.predict_proba(TEST[few])
    assert p.shape == (few.sum(), n_classes)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(TEST[few])), p, atol=1e-6)
    assert (p.argmax(axis=1) == TEST_LABELS[few]).mean() > 0.85


def test_probabilities_are_the_mean_over_places():
    inner = td.TaskDrivenClassifier(20, max_iter=20, random_state=0)
    model = td.ImageClassifier(inner, shifts=0, random_state=0).fit(IMAGES, LABELS)
    pooled = copy.copy(model).set_params(pool=[(0, 0), (1, 0)])
    alone = model.predict_proba(TEST), model.predict_proba(moved(TEST, 1, 0))
    np.testing.assert_allclose(pooled.predict_proba(TEST), np.mean(alone, axis=0), atol=1e-5)


def test_no_probabilities_without_a_likelihood():
    squared = td.ImageClassifier(small(loss="squared", max_iter=5), shifts=0, random_state=0).fit(IMAGES, LABELS)
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(squared, name)


def test_a_warning_that_is_an_error_leaves_the_model_that_was_learned():
    """The baselines are compared after the last batch; the model is there then, with all it needs."""
    images = np.random.default_rng(0).standard_normal((1000, 8, 8))
    y = (images[:, 2, 3] + images[:, 5, 1] > 0).astype(int)
    model = td.ImageClassifier(td.TaskDrivenClassifier(5, decision="split", random_state=0), shifts=0, random_state=0)
    with warnings.catch_warnings(action="error"), pytest.raises(td.BaselineWarning, match="linear model is better"):
        model.fit(images, y)
    assert model.predict(images).shape == (1000,)
    assert set(model.classifier_.held_out_scores_) == {"linear", "unsupervised", "task_driven"}


def test_unlabelled_images_are_learned_from():
    y = np.where(np.arange(1200) < 200, LABELS, -1)
    model = td.ImageClassifier(small(mu=0.3), shifts=0, random_state=0).fit(IMAGES, y)
    assert model.score(TEST, TEST_LABELS) > 0.8


def test_an_interrupted_training_leaves_a_model():
    def stop(progress):
        if progress.n_iter == 5:
            raise KeyboardInterrupt

    model = td.ImageClassifier(small(callbacks=stop), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(IMAGES, LABELS)
    ended = td.ImageClassifier(small(callbacks=lambda progress: progress.n_iter == 5), random_state=0)
    ended.fit(IMAGES, LABELS)
    np.testing.assert_array_equal(model.decision_function(TEST), ended.decision_function(TEST))


def test_a_checkpoint_is_resumed_with_the_same_bits(tmp_path):
    def fit(callbacks=None, checkpoint=None):
        inner = small(max_iter=20, checkpoint=checkpoint, callbacks=callbacks)
        return td.ImageClassifier(inner, shifts=8, bend=0.5, random_state=1).fit(IMAGES, LABELS)

    def stop(progress):
        if progress.n_iter == 8:
            progress.model.save(tmp_path / "part")
            raise KeyboardInterrupt

    whole = fit()
    with pytest.raises(KeyboardInterrupt):
        fit(stop, str(tmp_path / "part"))
    resumed = fit(None, str(tmp_path / "part"))
    np.testing.assert_array_equal(resumed.classifier_.components_, whole.classifier_.components_)
    np.testing.assert_array_equal(resumed.classifier_.coef_, whole.classifier_.coef_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"classifier": td.UnitNorm()}, "classifier must be a TaskDrivenClassifier"),
        ({"shifts": 3}, "shifts must be 0, 4, 8"),
        ({"pool": 3}, "pool must be 0, 4, 8"),
        ({"bend": np.nan}, "bend must be finite"),
        ({"n_directions": 0}, "n_directions must be"),
        ({"n_directions": 65}, "n_directions must be at most the number of pixels, 64, got 65"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        td.ImageClassifier(**parameters).fit(IMAGES, LABELS)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        (np.linspace(0, 1, 1200), "Unknown label type"),
        (np.where(LABELS == 3, np.nan, LABELS), "y must be finite, but row"),
        (LABELS[:-1], "y has 1199 entries, but there are 1200 images"),
        (np.zeros(1200), "at least two classes"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(ValueError, match=message):
        td.ImageClassifier(small()).fit(IMAGES, y)


def test_early_stopping_validates_on_other_images():
    stream = td.streams.ImageStream(IMAGES[:40], np.arange(40), shifts=8, bend=0.3, random_state=0)
    source = StreamPairs(stream, lambda y: y, labels=True, validation=0.25, use_unlabelled=False)
    assert len(source.validation.X) == 10
    given = {int(y) for _ in range(10) for y in source.take(200).y} | {int(y) for y in source.sample().y}
    assert given == set(range(40)) - {int(y) for y in source.validation.y}
    inner = small(early_stopping=True, max_iter=20)
    model = td.ImageClassifier(inner, shifts=8, random_state=0).fit(IMAGES, LABELS)
    assert len(model.classifier_.history_["validation"]) > 0


def test_the_penalty_counts_labelled_images():
    y = np.where(np.arange(1200) < 400, LABELS, -1)
    for shifts in (0, 8):
        model = td.ImageClassifier(small(mu=0.5, max_iter=2, lambda1=0.15), shifts=shifts, random_state=0)
        assert model.fit(IMAGES, y).classifier_.nu_ * 400 == pytest.approx(0.1, rel=0.01)


def test_warm_start_resumes():
    whole = td.ImageClassifier(small(max_iter=20, learning_rate=1.0, average=False), random_state=0)
    whole.fit(IMAGES, LABELS)
    inner = small(max_iter=20, learning_rate=1.0, average=False, warm_start=True)
    inner.callbacks = lambda progress: progress.n_iter == 8
    model = td.ImageClassifier(inner, random_state=0).fit(IMAGES, LABELS)
    assert model.classifier_.n_iter_ == 8
    inner.callbacks = None
    model.fit(IMAGES, LABELS)
    np.testing.assert_array_equal(model.classifier_.components_, whole.classifier_.components_)


def test_a_warm_start_with_images_of_another_shape_leaves_the_model():
    model = td.ImageClassifier(small(max_iter=2, warm_start=True), random_state=0).fit(IMAGES, LABELS)
    before = model.decision_function(TEST)
    with pytest.raises(ValueError, match=r"X has images of shape \(7, 8\), but the model learned from \(8, 8\)"):
        model.fit(IMAGES[:, 1:], LABELS)
    np.testing.assert_array_equal(model.decision_function(TEST), before)


def test_display(model):
    assert repr(model).endswith("# fitted: 10 classes, images of 8 by 8 pixels, 200 atoms, 60 batches")


def test_bad_images(model):
    with pytest.raises(ValueError, match=r"X must have shape \(n_images, height, width\), got \(1200, 64\)"):
        td.ImageClassifier(small()).fit(IMAGES.reshape(-1, 64), LABELS)
    with pytest.raises(ValueError, match=r"shape \(7, 8\), but the model learned from \(8, 8\)"):
        model.predict(TEST[:, 1:])
    with pytest.raises(NotFittedError):
        td.ImageClassifier().predict(TEST)
