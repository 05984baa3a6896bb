"""The experiment on halftones, with small images in place of the real ones."""

import json

import numpy as np
import pytest
from PIL import Image
from skimage import data as skimage_data
from skimage.metrics import peak_signal_noise_ratio

import taskdict as td
from helpers import data_folder
from taskdict import cli
from taskdict.datasets import images as images_module
from taskdict.experiments import halftoning
from taskdict.experiments.data import halftones as halftones_module
from taskdict.experiments.halftoning import procedure

SMALL = ["--patch-size", "5", "--atoms", "20", "--passes", "0.5", "--restoration", "0.2", "0.3", "--lambda1", "0.3"]
SMALL += ["--denoise", "0.01", "0.02"]


def read(path):
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of an experiment that is complete, and that of its data."""
    folder = tmp_path_factory.mktemp("halftoning")
    sets = {
        "kodak": (images_module, "KODAK_DIGESTS"),
        "classic12": (images_module, "CLASSICAL_DIGESTS"),
        "halftones": (halftones_module, "HALFTONE_DIGESTS"),
    }
    camera = skimage_data.camera()
    with pytest.MonkeyPatch.context() as patch:
        for k, (name, (module, attribute)) in enumerate(sets.items()):
            (folder / "data" / name).mkdir(parents=True)
            digests = {}
            for i, key in enumerate(getattr(module, attribute)):
                image = camera[40 * k + i : 40 * k + i + 40, 20 * i : 20 * i + 42]
                if name == "halftones":
                    image = td.images.degrade.jarvis(image)
                Image.fromarray(image).save(folder / "data" / name / f"{key}.png")
                digests[key] = images_module.image_digest(image)
            patch.setattr(module, attribute, digests)
        arguments = ["--data", str(folder / "data"), "--output", str(folder / "out"), "--threads", "1", *SMALL]
        assert cli.main(["reproduce", "halftoning", *arguments]) == 0
        ours = [
            *arguments,
            "--recipe",
            "ours",
            "--restoration",
            "0.3",
            "--denoise",
            "0",
            "--output",
            str(folder / "ours"),
        ]
        assert cli.main(["reproduce", "halftoning", *ours]) == 0
        before = (folder / "out" / "record.json").read_text()
        patch.setattr(procedure, "train", None)
        assert cli.main(["reproduce", "halftoning", *arguments]) == 0  # nothing is done twice
        assert (folder / "out" / "record.json").read_text() == before
    return folder / "out", folder / "data"


def test_record(done):
    record = json.loads((done[0] / "record.json").read_text())
    assert [list(run["psnr"]) for run in record["results"]] == [list(images_module.CLASSICAL_DIGESTS)] * 2
    for name, values in (("restoration", (0.2, 0.3)), ("denoise", (0.01, 0.02))):
        runs = [run for run in record["selection"] if (run["settings"]["denoise"] is None) == (name == "restoration")]
        means = {run["settings"][name]: np.mean(list(run["psnr"].values())) for run in runs}
        assert tuple(means) == values
        assert record["chosen"][name] == max(means, key=means.get)
    for run in record["selection"]:
        assert tuple(run["psnr"]) == halftoning.VALIDATION_IMAGES
        assert run["settings"]["pictures"] == "validation"
    assert record["training"][0]["batches"] == np.ceil(0.5 * 24 * 36 * 38 / 200)
    assert record["seconds"] > 0


def test_ours(done):
    folder = done[0].parent / "ours"
    record = json.loads((folder / "record.json").read_text())
    assert record["settings"]["refine"] == record["training"][0]["settings"]["refine"] == 0.02
    assert record["training"][0]["batches"] == 2 * np.ceil(0.5 * 24 * 36 * 38 / 200)
    assert "artefacts of 0.02 removed between" in (folder / "table.md").read_text()
    model = td.load(folder / "models" / "restorer.safetensors")
    assert (model.refine, model.overlap, model.n_components) == (0.02, "weighted", 20)
    assert halftoning.RECIPES["ours"].size == 1000
    name = "boat"
    found = model.restore(read(folder / "pictures" / f"{name}-halftone.png"))
    np.testing.assert_array_equal(read(folder / "pictures" / f"{name}-restored.png"), found)


@pytest.mark.parametrize(("number", "kind"), [(0, "restored"), (1, "denoised")])
def test_numbers_are_those_of_the_images(done, number, kind):
    folder, data = done
    record = json.loads((folder / "record.json").read_text())
    chosen = record["chosen"]
    model = td.load(folder / "models" / "restorer.safetensors").set_params(overlap="plain")
    for name in ("house", "bridge"):
        clean = read(data / "classic12" / f"{name}.png")
        halftone, restored = (read(folder / "pictures" / f"{name}-{each}.png") for each in ("halftone", kind))
        np.testing.assert_array_equal(halftone, td.images.degrade.floyd_steinberg(clean))
        denoise = None if kind == "restored" else chosen["denoise"]
        np.testing.assert_array_equal(restored, model.restore(halftone, lambda1=chosen["restoration"], denoise=denoise))
        value = peak_signal_noise_ratio(clean, restored)
        assert record["results"][number]["psnr"][name] == pytest.approx(value, abs=1e-3)


def test_table_and_figures(done):
    folder, _ = done
    table = (folder / "table.md").read_text()
    assert "| the paper | 33.0 | 29.6 | 28.1 |" in table
    assert "| measured |" in table
    assert "| measured, denoised |" in table
    assert "| 29.54 | 28.85 |" in table  # the paper's means: of all images, and of those that nothing is chosen on
    with Image.open(folder / "side-by-side.png") as image:
        assert image.size == (3 * 42 + 2 * 8, 3 * 40)
    with Image.open(folder / "details.png") as image:
        assert image.size == (4 * 42 + 3 * 8, 2 * 40)
    for kind in ("restored", "denoised"):
        assert (folder / "pictures" / f"xphoon_moon-{kind}.png").exists()


def test_quick_on_real_images(tmp_path):
    data = data_folder("kodak").parent
    arguments = ["--data", str(data), "--output", str(tmp_path / "out"), "--passes", "0.002", "--stride", "8"]
    arguments += ["--restoration", "0.55", "--denoise", "0"]
    assert cli.main(["reproduce", "halftoning", "--quick", *arguments]) == 0
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert np.mean(list(record["results"][0]["psnr"].values())) > 20


def test_defaults_are_the_papers():
    settings = halftoning.HalftoningSettings()
    assert (settings.patch_size, settings.size, settings.lambda1, settings.passes) == (10, 500, 0.6, 2.0)
    np.testing.assert_allclose(settings.restoration, np.arange(0.4, 0.81, 0.05))
    assert np.mean(halftoning.PAPER_PSNR["the paper"]) == pytest.approx(29.54, abs=0.01)
