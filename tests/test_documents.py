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
    for block in blocks:
        exec(compile(block, document, "exec"), {})
    assert "(1797, 180)" in capsys.readouterr().out


@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_public_functions_have_examples():
    for name in ("sparse_encode", "SparseCoder"):
        assert ">>>" in getattr(taskdict, name).__doc__


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(script):
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, env={"PYTHONUTF8": "1"})
    assert run.returncode == 0, run.stderr
    assert run.stdout


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", taskdict.__version__)
