"""What the documents show works: the README's example, the docstrings' examples, the scripts in examples/."""

import dataclasses
import doctest
import enum
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import taskdict
from taskdict.experiments import art_report, halftoning_report, sensing_report
from taskdict.experiments.tables import digits_table, semi_supervised_table

ROOT = Path(__file__).parents[1]
MODULES = [m.name for m in pkgutil.walk_packages(taskdict.__path__, "taskdict.")]


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_code_blocks_run(document, capsys):
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:  # one after the other, as a reader would
        exec(compile(block, str(document), "exec"), names)
    shown = capsys.readouterr().out
    assert shown
    if document.stem == "README":
        assert "(1797, 100)" in shown
        assert "40 float32" in shown
        assert "(1797, 180)" in shown
    if document.stem == "maths":
        numeric, analytic = map(float, shown.split())
        assert numeric == pytest.approx(analytic, rel=1e-4)


@pytest.mark.parametrize("document", [*DOCUMENTS, *ROOT.glob("benchmarks/*.md")], ids=lambda path: path.stem)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)|<img src=\"([^\"]+)\"", document.read_text()):
        path = target[0] or target[1]
        if "://" not in path:
            assert (document.parent / path).exists(), path


TABLES = {  # what makes the table of an experiment, and the page that shows it
    "digits": (digits_table, "digits.md"),
    "digits, semi-supervised": (semi_supervised_table, "digits.md"),
    "halftoning": (halftoning_report.table, "restoring.md"),
    "sensing": (sensing_report.table, "sensing.md"),
    "art": (art_report.table, "hands.md"),
}
RECORDS = sorted((ROOT / "docs" / "results").glob("*/record.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.parent.name)
def test_tables_are_those_of_the_records(path):
    """A page shows what the record says, and the table beside it is made from it."""
    record = json.loads(path.read_text())
    make, page = TABLES[record["experiment"]]
    table = make(record)
    assert table in (path.parent / "table.md").read_text()
    assert table in (ROOT / "docs" / page).read_text()
    assert f"results/{path.parent.name}" in (ROOT / "docs" / page).read_text()
    assert record["seconds"] > 0
    digests = record["data"]["sha256"]
    assert all(len(digest) == 64 for digest in (digests.values() if isinstance(digests, dict) else [digests]))


@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_public_functions_have_examples():
    for name in taskdict.__all__:
        thing = getattr(taskdict, name)
        is_record = isinstance(thing, type) and (
            issubclass(thing, Exception) or dataclasses.is_dataclass(thing) or issubclass(thing, enum.Enum)
        )
        if callable(thing) and not is_record and name != "load":
            assert ">>>" in thing.__doc__, name


EXAMPLES = [(script.name, ()) for script in sorted((ROOT / "examples").glob("*.py"))]
EXAMPLES += [("restore_pictures.py", (kind, "picture.png")) for kind in ("deblur", "upscale")]


@pytest.mark.parametrize(("script", "arguments"), EXAMPLES)
def test_examples_run(script, arguments, tmp_path):
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / script, *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONUTF8": "1"},
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout
    if script == "restore_pictures.py":
        decibels = {line[:18].strip(): float(line[18:].split()[0]) for line in run.stdout.splitlines() if "dB" in line}
        ours = ("damaged", "taskdict", "td.images.denoise")
        assert decibels["taskdict"] > max(value for name, value in decibels.items() if name not in ours)
        assert decibels["taskdict"] > decibels["damaged"] + 0.5
    for line in run.stdout.splitlines():
        if line.startswith("saved "):
            assert (tmp_path / line.removeprefix("saved ")).stat().st_size > 0


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", taskdict.__version__)
