"""The experiment on compressed sensing, with small crops in place of the real ones."""

import json

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from skimage import data as skimage_data

from helpers import data_folder
from taskdict import cli
from taskdict.experiments import sensing
from taskdict.experiments.data.voc2006 import Crops
from taskdict.experiments.sensing import procedure
from taskdict.experiments.sensing.crop_patches import CropPatches

SMALL = ["--measurements", "8", "--atoms", "20", "--patches", "2000", "--select", "600", "--test", "1000"]
SMALL += ["--lambda1", "0.1", "0.01", "--ratio", "0.1", "1", "--seeds", "0", "1", "--threads", "1", "--quick"]


@pytest.fixture(autouse=True, scope="module")
def few_projections():
    """The errors of linear projections are measured with a tenth of the patches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(procedure, "PROJECTION_PATCHES", 20_000)
        yield


@pytest.fixture(scope="module")
def crops():
    camera = skimage_data.camera()
    cut = np.array([camera[i : i + 32, j : j + 32] for i in range(0, 480, 32) for j in range(0, 480, 32)])
    cut = np.random.default_rng(0).permutation(cut)
    return Crops(cut[:120], cut[120:170], cut[170:])


@pytest.fixture(scope="module")
def done(tmp_path_factory, crops):
    """The record of an experiment that was interrupted once, and its folder."""
    folder = tmp_path_factory.mktemp("sensing") / "out"
    calls = []

    def interrupted(model, patches, n):
        calls.append(n)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return mean_error(model, patches, n)

    mean_error = procedure.mean_error
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(procedure, "load_voc2006", lambda data: crops)
        patch.setattr(procedure, "mean_error", interrupted)
        arguments = ["reproduce", "sensing", "--output", str(folder), *SMALL]
        assert cli.main(arguments) == 130
        assert cli.main(arguments) == 0
    record = json.loads((folder / "record.json").read_text())
    assert len(calls) == 1 + len(record["selection"]) + len(record["results"])  # nothing was done twice
    return record, folder


def errors(record, column, r=8):
    return [
        run["error"] for run in record["results"] if (run["settings"]["column"], run["settings"]["r"]) == (column, r)
    ]


def test_every_case_is_tested_with_every_seed(done):
    record, _ = done
    cases = {(run["settings"]["r"], run["settings"]["column"], run["settings"]["seed"]) for run in record["results"]}
    assert cases == {(r, column, seed) for r in (8,) for column in sensing.COLUMNS for seed in (0, 1)}
    assert len(record["results"]) == len(cases)


def test_weights_are_those_with_the_lowest_validation_error(done):
    record, _ = done
    for run in record["results"]:
        mine = run["settings"]
        tried = [
            other
            for other in record["selection"]
            if all(other["settings"][name] == mine[name] for name in ("r", "column"))
        ]
        assert all(other["settings"]["part"] == "validation" for other in tried)
        best = min(tried, key=lambda other: other["error"])["settings"]
        assert (mine["lambda1"], mine["ratio"]) == (best["lambda1"], best["ratio"])


def test_what_the_paper_concludes(done):
    record, _ = done
    found = {column: np.mean(errors(record, column)) for column in sensing.COLUMNS}
    assert found["SL2"] < found["PCA, SL"]
    assert max(found[f"PCA, {kind}"] for kind in ("DCT", "UL", "SL")) < min(
        found[f"RANDOM, {kind}"] for kind in ("DCT", "UL", "SL")
    )


def test_linear_line(done, crops):
    record, _ = done
    train, test = (procedure.stream(part, 0).take(3000).astype(float) for part in (crops.train, crops.test))
    _, vectors = np.linalg.eigh(train.T @ train)
    rest = test - test @ vectors[:, -8:] @ vectors[:, -8:].T
    assert record["linear"]["8"] == pytest.approx(100 * np.square(rest).sum(axis=1).mean(), rel=0.1)


def test_table(done):
    _, folder = done
    table = (folder / "table.md").read_text()
    assert "| RANDOM, DCT | RANDOM, UL | RANDOM, SL | SL1 | PCA, DCT | PCA, UL | PCA, SL | SL2 | LINEAR |" in table
    assert "r = 8, measured" in table
    assert "2 seeds" in table


def test_flat_patches_are_left_out():
    crops = np.zeros((3, 12, 12), np.uint8)
    crops[2] = np.random.default_rng(0).integers(0, 255, (12, 12))
    patches = procedure.stream(crops, 0).take(27)
    assert len(patches) == 9
    np.testing.assert_allclose(np.linalg.norm(patches, axis=1), 1, rtol=1e-5)


def test_crops_give_every_patch_once():
    images = np.random.default_rng(0).integers(0, 256, (3, 9, 11), np.uint8)
    stream = CropPatches(images, 5, random_state=0, preprocess=lambda patches: patches - 0.5)
    assert stream.n_signals == 3 * 5 * 7
    expected = np.concatenate([sliding_window_view(image, (5, 5)).reshape(-1, 25) for image in images]) / 255 - 0.5
    found = stream.take(stream.n_signals)
    assert (found != expected).any()  # another order
    order = [rows[np.lexsort(np.round(rows, 4).T)] for rows in (found, expected)]
    np.testing.assert_allclose(order[0], order[1], atol=1e-6)
    with pytest.raises(ValueError, match=r"images must have 10 by 10 pixels or more, got shape \(3, 9, 11\)"):
        CropPatches(images, 10)


@pytest.mark.parametrize("p", [100, 200, 400])
def test_cosines(p):
    atoms = procedure.cosines(p)
    assert atoms.shape == (p, 100)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, rtol=1e-5)
    assert np.linalg.matrix_rank(atoms, tol=1e-3) >= 99  # all that centred patches have
    if p == 100:
        np.testing.assert_allclose(atoms @ atoms.T, np.eye(100), atol=1e-5)  # the discrete cosine transform


def test_the_papers_grid():
    settings = sensing.SensingSettings()
    assert settings.measurements == tuple(sensing.PAPER_ERRORS)
    assert sorted(settings.lambda1) == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
    assert settings.train >= 1_000_000
    assert settings.test == 500_000
    assert len(settings.seeds) >= 3


def test_quick_on_real_crops(tmp_path):
    data = data_folder("voc2006").parent
    arguments = ["--data", str(data), "--output", str(tmp_path / "out"), "--patches", "2000", "--select", "500"]
    arguments += ["--atoms", "50", "--lambda1", "0.1"]
    assert (
        cli.main(["reproduce", "sensing", "--quick", *arguments, "--seeds", "0", "--test", "2000", "--threads", "1"])
        == 0
    )
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["linear"]["10"] == pytest.approx(35.9, abs=1.5)
    assert errors(record, "SL2", 10)[0] < errors(record, "RANDOM, DCT", 10)[0]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--lambda1", "0", "0.1"], "--lambda1 must be positive"),
        (["--ratio", "0"], "--ratio must be positive"),
        (["--measurements", "100"], "--measurements must be fewer than the 100 pixels of a patch"),
    ],
)
def test_bad_options(option, message, capsys, tmp_path):
    assert cli.main(["reproduce", "sensing", "--output", str(tmp_path / "out"), *option]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
