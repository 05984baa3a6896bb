import copy
import os
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc

import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import taskdict as td
from mutations import crafted
from taskdict._files import storage
from taskdict.images import degrade
from taskdict.images.lazy import Enlarged

CAMERA = data.camera()[::2, ::2]
COLOUR = data.chelsea()[:120, 100:260]
SETTINGS = {"learning_rate": "adaptive", "random_state": 0}


@pytest.fixture(scope="module")
def model():
    """One that has learned to undo halftones from three images."""
    clean = [CAMERA, data.coins()[:256], data.moon()[::2, ::2]]
    restorer = td.ImageRestorer(8, 100, lambda1=0.5, max_iter=600, **SETTINGS)
    return restorer.fit(clean, degrade=degrade.floyd_steinberg)


@pytest.fixture(scope="module")
def colour():
    """One that has learned to undo noise from the channels of an image together."""
    restorer = td.ImageRestorer(5, 60, lambda1=0.3, max_iter=300, **SETTINGS)
    return restorer.fit([COLOUR], degrade=lambda image: degrade.gaussian_noise(image, 0.1, random_state=0))


def test_halftones_are_restored(model):
    clean = data.camera()[:200, :200]  # learned from at half the size only
    halftone = degrade.floyd_steinberg(clean)
    restored = model.restore(halftone)
    assert restored.dtype == np.uint8
    assert restored.shape == clean.shape
    assert psnr(clean, restored) > max(psnr(clean, degrade.blur(halftone, sigma)) for sigma in (0.8, 1.0, 1.3, 1.6)) + 2


def averaged_patches(model, values, weights):
    """Return the average of the predictions of all patches, patch by patch."""
    sums, counts = np.zeros(values.shape), np.zeros(values.shape)
    for i in range(values.shape[0] - 7):
        for j in range(values.shape[1] - 7):
            patch = values[i : i + 8, j : j + 8]
            code = td.sparse_encode((patch - patch.mean()).reshape(1, -1), model.components_, lambda1=0.5)
            found = (code @ model.coef_.T).reshape(8, 8) + patch.mean()
            sums[i : i + 8, j : j + 8] += weights * found
            counts[i : i + 8, j : j + 8] += weights
    return sums / counts


@pytest.mark.parametrize("overlap", ["plain", "weighted"])
def test_it_is_the_average_of_the_predictions_of_patches(model, overlap):
    model = copy.copy(model).set_params(overlap=overlap)
    weights = np.ones((8, 8)) if overlap == "plain" else model.weights_
    image = degrade.floyd_steinberg(CAMERA)[:20, :25]
    values = image / 255
    np.testing.assert_allclose(model.restore(values), averaged_patches(model, values, weights), atol=1e-4)


def test_weights(model):
    """The middle of a patch is restored better than its corners, and has a greater weight; that helps."""
    assert model.weights_.max() == 1
    assert model.weights_.min() > 0
    assert model.weights_[2:6, 2:6].min() > 2 * model.weights_[[0, 0, 7, 7], [0, 7, 0, 7]].max()
    clean = data.camera()[:200, :200]
    halftone = degrade.floyd_steinberg(clean)
    plain = copy.copy(model).set_params(overlap="plain").restore(halftone)
    assert psnr(clean, model.restore(halftone)) > psnr(clean, plain)


def test_dtypes(model):
    image = degrade.floyd_steinberg(CAMERA)[:40, :41]
    expected = model.restore(image / 255)
    assert expected.dtype == np.float64
    for dtype, top in ((np.uint8, 255), (np.uint16, 65535)):
        restored = model.restore((image > 0).astype(dtype) * dtype(top))
        assert restored.dtype == dtype
        np.testing.assert_allclose(restored / top, np.clip(expected, 0, 1), atol=0.51 / top + 1e-5)
    assert model.restore((image / 255).astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(model.restore(image > 0), model.restore(image))  # bool gives uint8


@pytest.mark.parametrize("value", [0, 77, 255])
def test_a_constant_image_stays(model, colour, value):
    for shape in ((30, 17), (8, 8), (3, 50), (1, 1)):
        image = np.full(shape, value, np.uint8)
        np.testing.assert_array_equal(model.restore(image), image)
        image = np.full((*shape, 3), value, np.uint8)
        np.testing.assert_array_equal(colour.restore(image), image)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (7, 30), (30, 7), (9, 8)])
def test_any_size(model, shape):
    """An image that is smaller than a patch is mirrored at its edges."""
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    restored = model.restore(image)
    assert restored.shape == shape
    assert restored.dtype == np.uint8
    larger = np.pad(image, [(0, max(0, 8 - side)) for side in shape], mode="symmetric")
    expected = 255 * averaged_patches(model, larger / 255, model.weights_)[: shape[0], : shape[1]]
    np.testing.assert_allclose(restored, np.clip(expected, 0, 255), atol=0.55)


def test_colour_with_a_grey_model(model):
    image = degrade.floyd_steinberg(COLOUR)
    restored = model.restore(image)
    for k in range(3):
        np.testing.assert_array_equal(restored[:, :, k], model.restore(image[:, :, k]))


def test_colour_with_a_colour_model(colour, model):
    noisy = degrade.gaussian_noise(COLOUR, 0.1, random_state=1)
    assert colour.channels_ == 3
    assert psnr(COLOUR, colour.restore(noisy)) > psnr(COLOUR, noisy) + 3
    with pytest.raises(ValueError, match="image has 1 channels, but the model has learned from images with 3"):
        colour.restore(noisy[:, :, 0])
    with pytest.raises(ValueError, match="image has 4 channels"):
        colour.restore(np.dstack([noisy, noisy[:, :, 0]]))


def test_lambda1_and_stride_at_restoration(model):
    halftone = degrade.floyd_steinberg(CAMERA)
    restored = model.restore(halftone)
    np.testing.assert_array_equal(model.restore(halftone, lambda1=0.5), restored)
    assert (model.restore(halftone, lambda1=0.6) != restored).any()
    assert psnr(CAMERA, model.restore(halftone, stride=2)) == pytest.approx(psnr(CAMERA, restored), abs=0.3)
    with pytest.raises(ValueError, match="stride must be from 1 to the patch size, 8"):
        model.restore(halftone, stride=9)
    with pytest.raises(ValueError, match="lambda1 must be"):
        model.restore(halftone, lambda1=-1)


def test_artefacts_removed_as_noise(model):
    halftone = degrade.floyd_steinberg(CAMERA)[:70, :80] / 255
    restored = model.restore(halftone)
    expected = td.images.denoise(np.clip(restored, 0, 1).astype(np.float32), 0.03)
    np.testing.assert_allclose(model.restore(halftone, denoise=0.03), expected, atol=1e-5)
    assert np.abs(expected - restored).max() > 0.01
    with pytest.raises(ValueError, match="denoise must be a positive number"):
        model.restore(halftone, denoise=0.0)


def test_threads_do_not_matter(model):
    halftone = degrade.floyd_steinberg(CAMERA)
    results = [model.set_params(n_threads=n).restore(halftone / 255) for n in (1, 2)]
    model.set_params(n_threads=None)
    np.testing.assert_array_equal(*results)


def test_pairs_are_as_good_as_a_function():
    damaged = degrade.floyd_steinberg(CAMERA)
    restorers = [td.ImageRestorer(6, 20, max_iter=10, **SETTINGS) for _ in range(2)]
    restorers[0].fit([CAMERA], degrade=degrade.floyd_steinberg)
    restorers[1].fit([(damaged, CAMERA)])
    np.testing.assert_array_equal(restorers[0].restore(damaged), restorers[1].restore(damaged))


def test_super_resolution():
    restorer = td.ImageRestorer(6, 50, lambda1=0.02, upscale=2, max_iter=300, **SETTINGS)
    restorer.fit([CAMERA, data.coins()], degrade=degrade.downsample)
    clean = data.brick()[:101, :200]
    restored = restorer.restore(degrade.downsample(clean))
    assert restored.shape == (100, 200)
    bicubic = degrade.resize(degrade.downsample(clean), 100, 200)
    assert psnr(clean[:100], restored) > psnr(clean[:100], bicubic) + 0.8
    with pytest.raises(ValueError, match=r"must be smaller than the clean one \(256 by 256\) by upscale=2"):
        restorer.fit([(CAMERA, CAMERA)])


def test_super_resolution_of_black_and_white():
    """Images are enlarged before they are rounded to what their dtype can hold."""
    restorer = td.ImageRestorer(6, 20, lambda1=0.02, upscale=2, max_iter=20, **SETTINGS)
    restorer.fit([CAMERA], degrade=degrade.downsample)
    small = degrade.downsample(CAMERA) > 110
    expected = restorer.restore(small.astype(float))
    for image in (small, 255 * small.astype(np.uint8)):
        np.testing.assert_allclose(restorer.restore(image) / 255, np.clip(expected, 0, 1), atol=0.6 / 255)


def test_progress(model):
    seen = []
    model.restore(np.zeros((200, 200, 3), np.uint8), report=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3 * 193**2, 3 * 193**2)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_passes():
    image = CAMERA[:30, :30]
    restorer = td.ImageRestorer(6, 10, n_passes=1.5, **SETTINGS).fit([image], degrade=degrade.jarvis)
    assert restorer.n_iter_ == np.ceil(1.5 * 25**2 / 200)


def test_progress_of_denoising(model):
    seen = []
    model.restore(CAMERA[:60, :60], stride=4, denoise=0.02, report=lambda *numbers: seen.append(numbers))
    assert (14**2, 2 * 14**2) in seen
    assert seen[-1] == (2 * 14**2, 2 * 14**2)


def test_what_a_file_does_not_hold(model, tmp_path):
    """How many threads a training had is nobody's business, and other parameters do not make a model unusable."""
    model = copy.copy(model).set_params(n_threads=1, verbose=1, checkpoint="x", n_components=7, patch_size=3)
    model.save(tmp_path / "model")
    found = td.load(tmp_path / "model")
    assert (found.n_threads, found.verbose, found.checkpoint) == (None, 0, None)
    assert (found.n_components, found.patch_size) == (100, 8)


def test_the_function_cannot_change_the_clean_image():
    def in_place(image):
        image[:] = 0
        return image

    with pytest.raises(ValueError, match="read-only"):
        td.ImageRestorer().fit([CAMERA], degrade=in_place)


def test_a_training_is_resumed_from_its_own_start(tmp_path, monkeypatch):
    """The first dictionary is not learned again; it might differ on another machine."""

    def stop(progress):
        if progress.n_iter == 5:
            raise KeyboardInterrupt

    settings = {"max_iter": 12, "checkpoint": str(tmp_path / "state"), "random_state": None}
    with pytest.raises(KeyboardInterrupt):
        td.ImageRestorer(6, 20, callbacks=stop, **settings).fit([CAMERA], degrade=degrade.blur)
    monkeypatch.setattr("taskdict.images.restorer.learning.learn_dictionary", None)
    restorer = td.ImageRestorer(6, 20, **settings).fit([CAMERA], degrade=degrade.blur)
    assert restorer.n_iter_ == 12
    with pytest.warns(UserWarning, match="is of a finished training"):
        again = td.ImageRestorer(6, 20, **settings).fit([CAMERA], degrade=degrade.blur)
    np.testing.assert_array_equal(again.weights_, restorer.weights_)
    for name, value in (("n_components", 21), ("lambda1", 0.5)):
        other = td.ImageRestorer(6, 20, **settings).set_params(**{name: value})
        with pytest.raises(ValueError, match=f"belongs to a TaskDrivenRegressor with {name}=") as error:
            other.fit([CAMERA], degrade=degrade.blur)
        assert len(str(error.value)) < 300


def test_save_and_load(model, colour, tmp_path):
    for restorer, image in ((model, CAMERA), (colour, COLOUR)):
        restorer.save(tmp_path / "model")
        loaded = td.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.restore(image), restorer.restore(image))
        assert loaded.get_params() == restorer.get_params()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("channels", lambda value: 3, "its arrays do not fit each other"),
        ("weights", lambda value: value[1:], "its arrays do not fit each other"),
        ("weights", np.zeros_like, "its weights must be positive, and at most one"),
        ("W", lambda value: value.T.copy(), "its arrays do not fit each other"),
        ("W", lambda value: value.astype(np.float64), "its arrays are not finite numbers of float32"),
        ("D", lambda value: np.full_like(value, np.nan), "its arrays are not finite numbers of float32"),
        ("D", lambda value: np.full_like(value, 1e13), r"its arrays have numbers above 1e\+12"),
        ("n_iter", lambda value: -1, "its number of batches is negative"),
    ],
)
def test_a_file_that_does_not_fit(model, tmp_path, name, change, message):
    model.save(tmp_path / "model")
    arrays, document = storage.read(tmp_path / "model")
    part = arrays if name in arrays else document
    part[name] = change(part[name])
    (tmp_path / "model").write_bytes(crafted(arrays, document))
    with pytest.raises(td.ModelFileError, match=message):
        td.load(tmp_path / "model")


def test_display(model):
    text = "# fitted: one map of patches of 8 by 8 pixels, 1 channels, 600 batches"
    assert repr(model).endswith(text)


def test_clone(model):
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        clone(model).restore(CAMERA)


def test_an_interrupted_training_leaves_a_model():
    def stop(progress):
        if progress.n_iter == 5:
            raise KeyboardInterrupt

    restorer = td.ImageRestorer(6, 20, max_iter=50, callbacks=stop, **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        restorer.fit([CAMERA], degrade=degrade.blur)
    ended = clone(restorer).set_params(callbacks=lambda progress: progress.n_iter == 5)
    ended.fit([CAMERA], degrade=degrade.blur)
    assert restorer.n_iter_ == ended.n_iter_ == 5
    np.testing.assert_array_equal(restorer.components_, ended.components_)
    image = degrade.blur(CAMERA[:50, :60])
    plain = [model.set_params(overlap="plain").restore(image) for model in (restorer, ended)]
    np.testing.assert_array_equal(*plain)


def test_a_fit_that_fails_leaves_the_model(model):
    before = copy.copy(model)
    after = copy.copy(model).set_params(learning_rate="none")
    with pytest.raises(ValueError, match="learning_rate"):
        after.fit([CAMERA], degrade=degrade.blur)
    np.testing.assert_array_equal(after.restore(CAMERA[:30, :30]), before.restore(CAMERA[:30, :30]))


def test_killed_and_resumed(tmp_path):
    """SIGKILL in the middle; the same call resumes and ends with the same bits."""
    program = textwrap.dedent(
        """
        import sys
        import taskdict as td
        from skimage import data
        from taskdict._learning import training_run
        from taskdict.images import degrade

        training_run.CHECKPOINT_SECONDS = 0.0
        report = lambda progress: print(progress.n_iter, flush=True)
        restorer = td.ImageRestorer(
            6, 30, max_iter=60, learning_rate="adaptive", random_state=0, checkpoint=sys.argv[1], callbacks=report
        )
        restorer.fit([data.camera()[::4, ::4]], degrade=degrade.floyd_steinberg)
        restorer.save(sys.argv[2])
        """
    )
    command = [sys.executable, "-c", program]
    subprocess.run([*command, tmp_path / "a", tmp_path / "whole"], check=True, stdout=subprocess.DEVNULL)
    killed = subprocess.Popen([*command, tmp_path / "b", tmp_path / "part"], stdout=subprocess.PIPE, text=True)
    for line in killed.stdout:
        if int(line) >= 20:
            os.kill(killed.pid, signal.SIGKILL)
            break
    killed.wait()
    killed.stdout.close()
    assert not (tmp_path / "part").exists()
    time.sleep(0.1)
    resumed = subprocess.run([*command, tmp_path / "b", tmp_path / "part"], check=True, capture_output=True, text=True)
    assert int(resumed.stdout.split()[0]) > 15
    models = [td.load(tmp_path / name) for name in ("whole", "part")]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_array_equal(models[0].weights_, models[1].weights_)


@pytest.mark.parametrize(
    ("parameters", "images", "message"),
    [
        ({"patch_size": 0}, [CAMERA], "patch_size must be"),
        ({"lambda1": -1}, [CAMERA], "lambda1 must be"),
        ({"n_passes": 0}, [CAMERA], "n_passes must be a positive number"),
        ({"refine": 0.0}, [CAMERA], "refine must be a positive number"),
        ({"overlap": "mean"}, [CAMERA], "overlap must be 'weighted' or 'plain', got 'mean'"),
        ({}, [], "at least one image"),
        ({}, [CAMERA[:5]], "all images are smaller than a patch"),
        ({}, [CAMERA.astype(int)], "must be uint8, uint16, bool or floating-point"),
        ({}, [CAMERA.astype(float)], "must have values from 0 to 1 if they are floats, got 1 to 255: divide"),
        ({}, [np.ma.masked_array(CAMERA)], "must not be a masked array"),
        ({}, CAMERA, "images must be a list of images, got one image"),
    ],
)
def test_bad_input(parameters, images, message):
    with pytest.raises((TypeError, ValueError), match=message):
        td.ImageRestorer(**parameters).fit(images, degrade=degrade.blur)


def test_bad_pairs():
    with pytest.raises(ValueError, match=r"damaged image 0 has shape \(128, 128\), but .* smaller by `upscale`"):
        td.ImageRestorer().fit([CAMERA], degrade=degrade.downsample)
    with pytest.raises(ValueError, match=r"images must be pairs \(damaged, clean\), or clean images with degrade"):
        td.ImageRestorer().fit([CAMERA])
    with pytest.raises(TypeError, match="degrade must be a function of an image or None, got 'blur'"):
        td.ImageRestorer().fit([CAMERA], degrade="blur")


@pytest.mark.parametrize("factor", [2, 3, 5])
def test_rows_are_those_of_the_enlarged_image(factor):
    image = np.random.default_rng(0).random((23, 17, 2)).astype(np.float32)
    rows = Enlarged(image, factor)
    whole = degrade.resize(image, 23 * factor, 17 * factor)
    assert rows.shape == whole.shape
    for part in (slice(0, 1), slice(7, 30), slice(23 * factor - 4, 23 * factor), slice(0, 23 * factor)):
        np.testing.assert_allclose(rows[part], whole[part], rtol=0, atol=5e-7)


def test_a_file_cannot_ask_for_too_much_memory(model, tmp_path):
    """A model of 3 kB with upscale=400 and an image of 17 kB took 5 GB."""
    model.save(tmp_path / "model")
    arrays, document = storage.read(tmp_path / "model")
    document["parameters"]["upscale"] = 400
    (tmp_path / "model").write_bytes(crafted(arrays, document))
    with pytest.raises(td.ModelFileError, match="upscale must be from 1 to 16, got 400"):
        td.load(tmp_path / "model")
    document["parameters"]["upscale"] = 16
    (tmp_path / "model").write_bytes(crafted(arrays, document))
    large = np.zeros((2000, 3000), np.uint8)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"would become 32000 by 48000 with upscale=16, .* more than 512 MB"):
            td.load(tmp_path / "model").restore(large)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("settings", "most"), [({}, 3), ({"upscale": 2}, 3), ({"refine": 0.05}, 16)])
def test_memory_is_that_of_the_image(settings, most):
    """Bytes for each number of a restored uint8 image, beside some megabytes: patches and learning take these."""
    clean = np.add.outer(np.sin(np.arange(40) / 5), np.cos(np.arange(48) / 4)) / 4 + 0.5
    damage = degrade.downsample if settings.get("upscale") else degrade.blur
    restorer = td.ImageRestorer(4, 5, lambda1=0.1, max_iter=3, random_state=0, **settings).fit([clean], degrade=damage)

    def peak(side):
        image = np.random.default_rng(0).integers(0, 256, (side, side), np.uint8)
        tracemalloc.start()
        try:
            restored = restorer.restore(image, stride=4)
            return tracemalloc.get_traced_memory()[1], restored.size
        finally:
            tracemalloc.stop()

    (small, few), (large, many) = peak(500), peak(2000)
    assert (large - small) / (many - few) < most


def test_defaults_follow_the_size_of_a_patch():
    model = td.ImageRestorer(4, None, lambda1=None, max_iter=3, random_state=0)
    given = td.ImageRestorer(4, 80, lambda1=0.06 * 4, max_iter=3, random_state=0)
    image = np.random.default_rng(0).random((30, 31))
    for each in (model, given):
        each.fit([image], degrade=td.images.degrade.floyd_steinberg)
    np.testing.assert_array_equal(model.components_, given.components_)
    np.testing.assert_array_equal(model.restore(image), given.restore(image))
