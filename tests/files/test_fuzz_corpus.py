"""The inputs that fuzzing has kept: every reader treats them as promised. The native corpus is replayed by .ci/run."""

import shutil
from pathlib import Path

import pytest

from campaign_kinds import images, models

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"


def inputs(kind):
    return [pytest.param(path, id=path.name) for path in sorted((CORPUS / kind).iterdir())]


@pytest.mark.parametrize("path", inputs("models"))
def test_models(path, tmp_path):
    what, wrong = models.read(shutil.copy(path, tmp_path / "file"))
    assert wrong == ""
    assert what == "loaded and used" or "crash" in path.name


@pytest.mark.parametrize("path", inputs("images"))
def test_images(path, tmp_path):
    what, wrong = images.read(shutil.copy(path, tmp_path / "file"))
    assert wrong == ""
    assert what in ("read", "refused")


def test_images_are_not_all_refused(tmp_path):
    read = [
        path for path in (CORPUS / "images").iterdir() if images.read(shutil.copy(path, tmp_path / "f"))[0] == "read"
    ]
    assert len(read) > 20
