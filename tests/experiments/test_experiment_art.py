"""The experiment on works of art, with stripes in their place."""

import json

import numpy as np
import pytest
from PIL import Image

from helpers import data_folder
from taskdict import cli
from taskdict.datasets import ImageSet
from taskdict.experiments import art
from taskdict.experiments.art import procedure
from taskdict.experiments.data.art import load_art

SMALL = ["--atoms", "15", "--patches", "1000", "--select", "400", "--patch-size", "6", "--threads", "1"]
SMALL += ["--lambda1", "0.1"]


def striped(seed, across):
    """Stripes with a sharp rise and a slow fall, along one axis or the other."""
    rng = np.random.default_rng(seed)
    ramp = np.add.outer(np.arange(60), rng.integers(0, 3, 60)) % 7 / 7
    grey = np.clip((ramp if across else ramp.T) + 0.1 * rng.standard_normal((60, 60)), 0, 1)
    return np.rint(255 * grey[:, :, None] * rng.uniform(0.6, 1, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def images():
    names = [f"{group}_{k}" for group, n in (("a", 3), ("b", 2), ("c", 2), ("d", 2)) for k in range(n)]
    return ImageSet("art", {name: striped(k, name[0] in "ac") for k, name in enumerate(names)})


@pytest.fixture(scope="module")
def done(tmp_path_factory, images):
    """The record of an experiment that was interrupted once, and its folder."""
    folder = tmp_path_factory.mktemp("art") / "out"
    made = []

    def interrupted(settings, n_threads):
        made.append(settings)
        if len(made) == 30:
            raise KeyboardInterrupt
        return classifier(settings, n_threads)

    classifier = procedure.classifier
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(procedure, "load_art", lambda data: images)
        patch.setattr(procedure, "classifier", interrupted)
        patch.setattr(procedure, "SHOWN_PAIRS", {"ab": ("a_0", "b_0")})
        arguments = ["reproduce", "art", "--output", str(folder), *SMALL]
        assert cli.main(arguments) == 130
        assert cli.main(arguments) == 0
    return json.loads((folder / "record.json").read_text()), folder


def test_every_pair_is_left_out_once(done):
    record, _ = done
    for kind in art.KINDS:
        mine = [run for run in record["results"] if run["settings"]["kind"] == kind]
        pairs = [tuple(pair["pictures"]) for run in mine for pair in run["found"]]
        wanted = [
            (f"{x[0]}_{i}", f"{x[1]}_{j}")
            for x, n, m in (("ab", 3, 2), ("cd", 2, 2))
            for i in range(n)
            for j in range(m)
        ]
        assert sorted(pairs) == sorted(wanted)


def test_weights_are_chosen_on_the_other_groups(done):
    record, _ = done
    for run in record["results"]:
        mine = run["settings"]
        others = [
            other
            for other in record["selection"]
            if other["settings"]["groups"] != mine["groups"] and other["settings"]["kind"] == mine["kind"]
        ]
        accuracy = {
            other["settings"]["lambda1"]: np.mean([pair["accuracy"] for pair in other["found"]]) for other in others
        }
        assert accuracy[mine["lambda1"]] == max(accuracy.values())
        assert {0.1, 0.2} < set(accuracy)  # refined by factors of two
        assert max(accuracy) < 1


def test_artists_are_classified(done):
    record, _ = done
    for run in record["results"]:
        if run["settings"]["kind"] == "supervised":
            assert all(pair["right"] for pair in run["found"])
        for pair in run["found"]:
            own = pair["votes"]
            assert pair["accuracy"] == pytest.approx(50 * (own[0] + 1 - own[1]), abs=0.02)


def test_table_and_maps(done):
    _, folder = done
    table = (folder / "table.md").read_text()
    assert table.startswith("A substitute: the paper's scans of Bruegel and his imitators are not public")
    assert "| pen drawings against engravings, supervised |" in table
    assert "6 of 6" in table
    for kind in art.KINDS:
        with Image.open(folder / f"votes-{kind}.png") as shown:
            assert shown.size == (60, 30)
            assert shown.mode == "RGB"


def test_colour(tmp_path, images, monkeypatch):
    monkeypatch.setattr(procedure, "load_art", lambda data: images)
    arguments = ["reproduce", "art", "--colour", "--quick", "--output", str(tmp_path), *SMALL, "--pairs", "2"]
    assert cli.main(arguments) == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["settings"]["colour"] is True
    assert "in colour, as they are" in (tmp_path / "table.md").read_text()
    assert sum(len(run["found"]) for run in record["results"]) == 2 * 2 * 2


def test_real_images():
    images = load_art(data_folder("art").parent)
    assert [len(group) for groups in art.GROUPS for group in procedure.split(images, groups)] == [9, 6, 7, 7]
    assert all(image.shape == (800, 800, 3) for image in images.images.values())
