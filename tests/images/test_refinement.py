"""The residual refinement of a restorer."""

import copy
import pickle

import numpy as np
import pytest
from PIL import Image
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr

import taskdict as td
from mutations import crafted
from taskdict import cli
from taskdict._files import storage
from taskdict.images import degrade
from taskdict.images.patches import map_patches

CLEAN = [data.camera()[::2, ::2], data.coins()[:256], data.moon()[::2, ::2]]
SETTINGS = {"lambda1": 0.5, "max_iter": 300, "random_state": 0}
CAMERA = data.camera()[:150, :160]  # learned from at half the size only
COLOUR = data.chelsea()[:80, 100:190]


def noisy(image):
    return degrade.gaussian_noise(image, 0.1, random_state=0)


@pytest.fixture(scope="module")
def model():
    return td.ImageRestorer(8, 80, refine=0.02, **SETTINGS).fit(CLEAN, degrade=degrade.floyd_steinberg)


@pytest.fixture(scope="module")
def colour():
    restorer = td.ImageRestorer(5, 40, lambda1=0.3, refine=0.03, max_iter=100, random_state=0)
    return restorer.fit([COLOUR], degrade=noisy)


def first_only(model):
    once = copy.copy(model)
    once.refinement_ = None
    return once


def test_it_is_better(model):
    halftone = degrade.floyd_steinberg(CAMERA)
    once = first_only(model).restore(halftone)
    assert psnr(CAMERA, model.restore(halftone)) > psnr(CAMERA, once) + 0.2


def test_the_first_part_is_what_it_is_without(model):
    once = td.ImageRestorer(8, 80, **SETTINGS).fit(CLEAN, degrade=degrade.floyd_steinberg)
    for name in ("components_", "coef_", "weights_"):
        np.testing.assert_array_equal(getattr(once, name), getattr(model, name))
    assert (once.n_iter_, model.n_iter_) == (300, 600)
    assert len(model.history_["objective"]) == 600
    assert once.refinement_ is None
    assert list(once.history_) == list(model.history_)


def test_fitted_again_without(model):
    again = copy.copy(model).set_params(refine=None, max_iter=5).fit(CLEAN[:1], degrade=degrade.floyd_steinberg)
    assert again.refinement_ is None


def test_what_it_is(model):
    """Codes of the three views of a patch, mapped to the error of the denoised one."""
    halftone = degrade.floyd_steinberg(CAMERA)[:24, :26] / 255
    restored = first_only(model).restore(halftone).astype(np.float32)
    clear = td.images.denoise(np.clip(restored, 0, 1), 0.02)
    found = model.refinement_

    def missing(patches):
        views = patches.reshape(len(patches), 64, 3)
        parts = views[:, :, 0] - views[:, :, 0].mean(axis=1, keepdims=True), views[:, :, 1], views[:, :, 2]
        signals = np.concatenate([scale * part for scale, part in zip(found.scales, parts, strict=True)], axis=1)
        codes = td.sparse_encode(signals, found.patch_map.components, lambda1=0.15 * 8)
        return codes @ found.patch_map.coef.T

    stack = np.stack([clear, halftone - clear, restored - clear], axis=2).astype(np.float32)
    expected = clear + map_patches(stack, 8, missing, weights=found.patch_map.weights, n_outputs=1)[:, :, 0]
    np.testing.assert_allclose(model.restore(halftone), expected, atol=1e-4)


@pytest.mark.parametrize("value", [0, 77, 255])
def test_a_constant_image_stays(model, colour, value):
    for shape in ((30, 17), (3, 50), (1, 1)):
        image = np.full(shape, value, np.uint8)
        np.testing.assert_array_equal(model.restore(image), image)
        image = np.full((*shape, 3), value, np.uint8)
        np.testing.assert_array_equal(colour.restore(image), image)


def test_colour(model, colour):
    image = degrade.floyd_steinberg(COLOUR)
    restored = model.restore(image)
    for k in range(3):
        np.testing.assert_array_equal(restored[:, :, k], model.restore(image[:, :, k]))
    damaged = degrade.gaussian_noise(COLOUR, 0.1, random_state=1)
    assert psnr(COLOUR, colour.restore(damaged)) > psnr(COLOUR, first_only(colour).restore(damaged))


def test_dtypes_and_threads(model):
    image = degrade.floyd_steinberg(CAMERA)[:40, :41]
    expected = model.restore(image)
    np.testing.assert_array_equal(model.restore(image > 0), expected)
    deep = model.restore((image > 0).astype(np.uint16) * 65535)
    assert deep.dtype == np.uint16
    np.testing.assert_allclose(deep / 65535, expected / 255, atol=0.51 / 255)
    for n_threads in (1, 2):
        alone = copy.copy(model).set_params(n_threads=n_threads)
        np.testing.assert_array_equal(alone.restore(image), expected)


def test_save_and_load(model, colour, tmp_path):
    for restorer, image in ((model, CAMERA[:50, :60]), (colour, COLOUR[:30])):
        restorer.save(tmp_path / "model")
        loaded = td.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.restore(image), restorer.restore(image))
        assert loaded.get_params() == restorer.get_params()
    first_only(model).save(tmp_path / "model")
    assert td.load(tmp_path / "model").refine is None  # a file says what there is


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, document: arrays.update({"refine scales": np.ones(2, "f4")}), "its scales must be positive"),
        (lambda arrays, document: arrays.update({"refine scales": -np.ones(3, "f4")}), "its scales must be positive"),
        (
            lambda arrays, document: arrays.update({"refine W": arrays["W"].T.copy()}),
            "its arrays do not fit each other",
        ),
        (lambda arrays, document: arrays.update({"refine D": arrays["refine D"][1:]}), "its arrays do not fit"),
        (lambda arrays, document: arrays.update({"refine weights": 0 * arrays["weights"]}), "must be positive"),
        (lambda arrays, document: document["parameters"].update({"refine": -1.0}), "refine must be a positive number"),
        (lambda arrays, document: document["parameters"].update({"refine": 5.0}), "refine must be at most 1"),
        (lambda arrays, document: document.update({"refine lambda1": -1.0}), "lambda1 must be"),
    ],
)
def test_a_file_that_does_not_fit(model, tmp_path, change, message):
    model.save(tmp_path / "model")
    arrays, document = storage.read(tmp_path / "model")
    change(arrays, document)
    (tmp_path / "model").write_bytes(crafted(arrays, document))
    with pytest.raises(td.ModelFileError, match=message):
        td.load(tmp_path / "model")


@pytest.mark.parametrize("last", [5, 35])
@pytest.mark.parametrize("seed", [0, None])
def test_interrupted_and_resumed(tmp_path, last, seed):
    """In the first part, or in the second: what was learned is left, and the same call ends with the same bits."""
    seen = []

    def stop(progress):
        seen.append(progress.n_iter)
        if len(seen) == last:
            raise KeyboardInterrupt

    settings = {"lambda1": 0.5, "refine": 0.02, "max_iter": 20, "random_state": seed}
    image = CAMERA[:60, :70]
    broken = td.ImageRestorer(6, 20, checkpoint=str(tmp_path / "state"), callbacks=stop, **settings)
    with pytest.raises(KeyboardInterrupt):
        broken.fit([image], degrade=degrade.floyd_steinberg)
    assert broken.n_iter_ == last
    assert (broken.refinement_ is None) == (last < 20)
    damaged = degrade.floyd_steinberg(image)
    assert psnr(image, broken.restore(damaged)) > psnr(image, damaged) + 5
    seen.clear()
    resumed = td.ImageRestorer(
        6, 20, checkpoint=str(tmp_path / "state"), callbacks=[lambda p: seen.append(0)], **settings
    )
    resumed.fit([image], degrade=degrade.floyd_steinberg)
    assert len(seen) == 41 - last  # the batch whose callback has raised comes again
    if seed is not None:
        whole = td.ImageRestorer(6, 20, **settings).fit([image], degrade=degrade.floyd_steinberg)
        np.testing.assert_array_equal(resumed.restore(image), whole.restore(image))
    (tmp_path / "state").unlink()
    with pytest.raises(ValueError, match=r"does not exist, but .*state.refine' does, of another training"):
        resumed.fit([image], degrade=degrade.floyd_steinberg)


def test_progress(model):
    seen = []
    image = degrade.floyd_steinberg(COLOUR[:60, :60])
    model.restore(image, stride=4, denoise=0.01, report=lambda *numbers: seen.append(numbers))
    each = 3 * 14**2
    assert {total for _, total in seen} == {8 * each}  # first; artefacts and the rest, three times; artefacts again
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (8 * each, 8 * each)


def test_verbose(capsys):
    td.ImageRestorer(6, 20, refine=0.02, max_iter=5, verbose=1).fit(
        [CAMERA[:40, :40], CAMERA[:5], CAMERA[:40, :40]], degrade=degrade.floyd_steinberg
    )
    assert "\n2/2 images restored\n" in capsys.readouterr().err  # one of them has no patches


def test_a_callback_ends_it():
    restorer = td.ImageRestorer(6, 20, refine=0.02, max_iter=20, random_state=0, callbacks=lambda p: p.n_iter == 7)
    restorer.fit([CAMERA[:60, :70]], degrade=degrade.floyd_steinberg)
    assert (restorer.n_iter_, restorer.refinement_) == (7, None)


def test_super_resolution():
    restorer = td.ImageRestorer(6, 20, lambda1=0.02, refine=0.01, upscale=2, max_iter=20, random_state=0)
    restorer.fit([CAMERA], degrade=degrade.downsample)
    restored = restorer.restore(CAMERA[:20, :25])
    assert restored.shape == (40, 50)
    assert (restored != first_only(restorer).restore(CAMERA[:20, :25])).any()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(restorer)).restore(CAMERA[:20, :25]), restored)


def test_command_line(tmp_path, capsys):
    """Only the model is left, and no other file is lost."""
    Image.fromarray(CAMERA[:60, :60]).save(tmp_path / "model.training.png")
    numbers = ["--patch-size", "6", "--atoms", "20", "--iterations", "10", "--refine", "0.02"]
    model, image = str(tmp_path / "model"), str(tmp_path / "model.training.png")
    assert cli.main(["train-restorer", model, image, "--kind", "floyd-steinberg", *numbers]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.training.png"]
    assert td.load(model).refine == 0.02
    assert cli.main(["restore", image, str(tmp_path / "out.png"), "--model", model]) == 0
