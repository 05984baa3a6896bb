"""The model that comes with the package, on images of scikit-image, which it has not learned from."""

import numpy as np
import pytest
from PIL import Image
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr

import taskdict as td
from helpers import data_folder
from taskdict import cli
from taskdict.experiments.data.halftones import load_halftones
from taskdict.images import degrade


@pytest.mark.parametrize(("name", "least", "gain"), [("camera", 28.5, 2), ("moon", 38.0, 0.2), ("brick", 29.0, 2)])
def test_halftones_are_restored(name, least, gain):
    clean = getattr(data, name)()[100:356, 100:356]
    halftone = degrade.floyd_steinberg(clean)
    blurred = max(psnr(clean, degrade.blur(halftone, sigma)) for sigma in (1.0, 1.5, 2.0))
    value = psnr(clean, td.images.pretrained().restore(halftone))
    assert value > blurred + gain  # the moon is smooth
    assert value > least


def test_from_the_command_line(tmp_path):
    clean = data.camera()[:100, :120]
    Image.fromarray(degrade.floyd_steinberg(clean) > 0).save(tmp_path / "halftone.png")  # one bit per pixel
    assert cli.main(["restore", str(tmp_path / "halftone.png"), str(tmp_path / "restored.png")]) == 0
    with Image.open(tmp_path / "restored.png") as image:
        assert image.mode == "L"
        assert psnr(clean, np.asarray(image)) > 27


def test_an_image_that_is_no_halftone_is_noticed(tmp_path, capsys):
    for name, function in (("halftone", degrade.floyd_steinberg), ("grey", np.asarray)):
        Image.fromarray(function(data.camera()[:50, :60])).save(tmp_path / f"{name}.png")
        assert cli.main(["restore", str(tmp_path / f"{name}.png"), str(tmp_path / f"{name}-restored.png")]) == 0
        assert ("is not black and white" in capsys.readouterr().err) == (name == "grey")


def test_a_halftone_of_old(tmp_path):
    """The moon of xphoon, whose original is lost: what is restored has its grey, and no dots."""
    moon = load_halftones(data_folder("halftones").parent).images["xphoon_moon"]
    restored = td.images.pretrained().restore(moon)
    for sigma in (4, 8):
        difference = degrade.blur(restored / 255, sigma) - degrade.blur(moon / 255, sigma)
        assert np.abs(difference).mean() < 0.02
    edges = [np.abs(np.diff(image.astype(float), axis=1)).mean() for image in (restored, moon)]
    assert edges[0] < 0.2 * edges[1]


def test_a_kind_that_is_not_there():
    with pytest.raises(ValueError, match=r"kind must be one of \['floyd-steinberg'\], got 'blur'"):
        td.images.pretrained("blur")
