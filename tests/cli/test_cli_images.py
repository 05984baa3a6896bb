import sys

import numpy as np
import pytest
from PIL import Image
from skimage import data as skimage_data

import taskdict as td
from taskdict import cli
from taskdict.images import degrade

CAMERA = skimage_data.camera()[::4, ::4]
FAST = ["--patch-size", "6", "--atoms", "30", "--iterations", "40", "--threads", "1"]


@pytest.fixture
def camera(tmp_path):
    Image.fromarray(CAMERA).save(tmp_path / "camera.png", dpi=(72, 72))
    return tmp_path / "camera.png"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The file of a model for halftones."""
    folder = tmp_path_factory.mktemp("model")
    Image.fromarray(CAMERA).save(folder / "camera.png")
    assert cli.main(["train-restorer", str(folder / "m"), str(folder), "--kind", "floyd-steinberg", *FAST]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["camera.png", "m"]
    return folder / "m"


def read(path):
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.mark.parametrize("kind", cli.images.KINDS)
def test_degrade(kind, camera, tmp_path, capsys):
    assert cli.main(["degrade", str(camera), str(tmp_path / "out.png"), "--kind", kind]) == 0
    assert "saved" in capsys.readouterr().out
    damaged = read(tmp_path / "out.png")
    assert damaged.shape == ((64, 64) if kind == "downsample" else (128, 128))
    assert (damaged[: len(CAMERA)] != CAMERA[: len(damaged), : len(damaged)]).any()
    with Image.open(tmp_path / "out.png") as image:
        assert image.info["dpi"] == pytest.approx((72, 72), rel=1e-2)


def test_every_degradation_has_a_name():
    assert set(cli.images.KINDS) == set(degrade.DEGRADATIONS)


def test_amounts(camera, tmp_path, capsys):
    out = str(tmp_path / "out.png")
    assert cli.main(["degrade", str(camera), out, "--kind", "blur", "--amount", "3"]) == 0
    np.testing.assert_array_equal(read(out), degrade.blur(CAMERA, 3.0))
    arguments = ["degrade", str(camera), out, "--force"]
    assert cli.main([*arguments, "--kind", "blur", "--amount", "much"]) == 1
    assert cli.main([*arguments, "--kind", "jarvis", "--amount", "1"]) == 1
    assert cli.main([*arguments, "--kind", "noise", "--amount", "-1"]) == 1
    assert cli.main([*arguments, "--kind", "noise", "--amount", "25"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == "taskdict: --amount must be a number for --kind blur, got 'much'."
    assert errors[1] == "taskdict: --amount is not for --kind jarvis."
    assert errors[2] == "taskdict: --amount must be a positive number, got -1.0."
    assert errors[3].startswith("taskdict: --amount must be at most 1, since values are from 0 to 1, got 25.0.")
    assert errors[3].endswith("For a standard deviation of 25.0 on a scale of 0 to 255, give 0.098.")
    with pytest.raises(ValueError, match=r"sigma must be at most 1.* got 25\. For .* of 0 to 255, give 0\.098"):
        degrade.gaussian_noise(CAMERA, 25)


def test_restore(model, camera, tmp_path, capsys):
    halftone, restored = str(tmp_path / "halftone.png"), str(tmp_path / "restored.png")
    assert cli.main(["degrade", str(camera), halftone, "--kind", "floyd-steinberg"]) == 0
    assert cli.main(["restore", halftone, restored, "--model", str(model)]) == 0
    found = read(restored)
    np.testing.assert_array_equal(found, td.load(model).restore(read(halftone)))
    error, before = (np.square(image - CAMERA.astype(float)).mean() for image in (found, read(halftone)))
    assert error < before / 10
    assert cli.main(["restore", halftone, restored, "--model", str(model)]) == 1
    assert "is there already: give another name, or --force" in capsys.readouterr().err
    assert cli.main(["restore", halftone, restored, "--model", str(model), "--force", "--stride", "3"]) == 0
    assert (read(restored) != found).any()
    with Image.open(restored) as image:
        assert image.info["dpi"] == pytest.approx((72, 72), rel=1e-2)


def test_one_bit_becomes_grey(model, tmp_path):
    Image.fromarray(degrade.floyd_steinberg(CAMERA) > 0).save(tmp_path / "a.png")
    assert cli.main(["restore", str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--model", str(model)]) == 0
    assert read(tmp_path / "b.png").dtype == np.uint8
    assert len(np.unique(read(tmp_path / "b.png"))) > 50


def test_alpha_stays(model, tmp_path):
    alpha = np.arange(CAMERA.size).reshape(CAMERA.shape).astype(np.uint8)
    Image.fromarray(np.dstack([CAMERA] * 3 + [alpha])).save(tmp_path / "a.png")
    assert cli.main(["restore", str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--model", str(model)]) == 0
    np.testing.assert_array_equal(read(tmp_path / "b.png")[:, :, 3], alpha)


def test_what_restore_refuses(model, camera, tmp_path, capsys):
    out = str(tmp_path / "out.png")
    (tmp_path / "text.png").write_text("hello")
    assert cli.main(["restore", str(tmp_path / "text.png"), out, "--model", str(model)]) == 1
    assert cli.main(["restore", str(tmp_path / "no.png"), out, "--model", str(model)]) == 1
    td.DictionaryLearning(5, lambda1=0.1, max_iter=2).fit(np.eye(5)).save(tmp_path / "other")
    assert cli.main(["restore", str(camera), out, "--model", str(tmp_path / "other")]) == 1
    assert cli.main(["restore", str(camera), str(tmp_path / "out"), "--model", str(model)]) == 1
    errors = capsys.readouterr().err
    for words in ("not an image", "there is no file", "which restores no images", "must end like an image file"):
        assert words in errors
    assert not (tmp_path / "out.png").exists()


def test_training_from_degraded_images(camera, tmp_path):
    for name in ("clean", "damaged"):
        (tmp_path / name).mkdir()
    Image.fromarray(CAMERA).save(tmp_path / "clean" / "a.png")
    Image.fromarray(degrade.floyd_steinberg(CAMERA)).save(tmp_path / "damaged" / "a.png")
    arguments = [str(tmp_path / "clean"), "--damaged", str(tmp_path / "damaged"), *FAST]
    assert cli.main(["train-restorer", str(tmp_path / "one"), *arguments]) == 0
    arguments = [str(tmp_path / "clean" / "a.png"), "--kind", "floyd-steinberg", *FAST]
    assert cli.main(["train-restorer", str(tmp_path / "two"), *arguments]) == 0
    models = [td.load(tmp_path / name) for name in ("one", "two")]
    np.testing.assert_array_equal(models[0].restore(CAMERA), models[1].restore(CAMERA))


def test_what_training_refuses(model, camera, tmp_path, capsys):
    out = str(tmp_path / "m")
    assert cli.main(["train-restorer", str(model), str(camera), "--kind", "blur"]) == 1
    assert cli.main(["train-restorer", out, str(camera)]) == 1
    assert cli.main(["train-restorer", out, str(camera), "--kind", "blur", "--damaged", str(tmp_path)]) == 1
    (tmp_path / "empty").mkdir()
    assert cli.main(["train-restorer", out, str(tmp_path / "empty"), "--kind", "blur"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert "is there already" in errors[0]
    assert "either --kind" in errors[1]
    assert "either --kind" in errors[2]
    assert "has no images" in errors[3]


def test_training_is_resumed(camera, tmp_path, monkeypatch, capsys):
    arguments = [str(camera), "--kind", "jarvis", *FAST]
    assert cli.main(["train-restorer", str(tmp_path / "whole"), *arguments]) == 0
    fit = td.ImageRestorer.fit

    def broken(self, images, **named):
        def stop(progress):
            if progress.n_iter == 20:
                progress.model.save(self.checkpoint)
                raise KeyboardInterrupt

        return fit(self.set_params(callbacks=stop), images, **named)

    monkeypatch.setattr(td.ImageRestorer, "fit", broken)
    assert cli.main(["train-restorer", str(tmp_path / "part"), *arguments]) == 130
    assert "the same command resumes from here" in capsys.readouterr().err
    assert not (tmp_path / "part").exists()
    monkeypatch.undo()
    assert cli.main(["train-restorer", str(tmp_path / "part"), *arguments]) == 0
    models = [td.load(tmp_path / name) for name in ("whole", "part")]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)


def test_without_pillow(monkeypatch, camera, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert cli.main(["degrade", str(camera), str(tmp_path / "out.png"), "--kind", "blur"]) == 1
    assert capsys.readouterr().err == 'taskdict: images need Pillow: pip install "taskdict[images]"\n'
