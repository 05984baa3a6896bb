"""What the documents show works: the README's example, the docstrings' examples, the scripts in examples/."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import taskdict

ROOT = Path(__file__).parents[1]
MODULES = [m.name for m in pkgutil.walk_packages(taskdict.__path__, "taskdict.")]


@pytest.mark.parametrize("document", ["README.md"])
def test_code_blocks_run(document, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:  # one after the other, as a reader would
        exec(compile(block, document, "exec"), names)
    shown = capsys.readouterr().out
    assert "(1797, 100)" in shown
    assert "40 float32" in shown
    assert "(1797, 180)" in shown


@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_public_functions_have_examples():
    for name in ("sparse_encode", "SparseCoder", "DictionaryLearning", "stream", "ProgressLine"):
        assert ">>>" in getattr(taskdict, name).__doc__


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(script, tmp_path):
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={"PYTHONUTF8": "1"}, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout
    for line in run.stdout.splitlines():
        if line.startswith("saved "):
            assert (tmp_path / line.removeprefix("saved ")).stat().st_size > 0


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", taskdict.__version__)
