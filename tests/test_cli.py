import re
import subprocess
import sys

import numpy as np
import pytest

import taskdict as td
from taskdict import cli


def test_demo(tmp_path):
    command = [sys.executable, "-m", "taskdict.cli", "demo", "--seed", "1", "--output", "atoms.png"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    pixels, codes, tuned = (float(error) for error in re.findall(r"([\d.]+) %", run.stdout))
    assert tuned < 0.8 * codes
    assert tuned < pixels
    assert (tmp_path / "atoms.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--output", "nowhere/atoms.png"], "there is no 'nowhere'"),
        (["demo", "--output", "atoms.gif"], "--output must be the name of a .png file"),
        (["demo", "--seed", "-1"], "--seed must be at least 0"),
    ],
)
def test_errors_come_before_the_work(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


def test_help_and_version(capsys):
    for argument in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            cli.main([argument])
        assert ended.value.code == 0
    assert "demo" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main([])


def test_a_reader_that_has_had_enough(tmp_path):
    """`taskdict predict ... | head -1` ends in silence."""
    X, y = np.random.default_rng(0).standard_normal((20_000, 4)), np.tile([0, 1], 10_000)
    td.TaskDrivenClassifier(3, max_iter=2, random_state=0).fit(X[:100], y[:100]).save(tmp_path / "model")
    np.save(tmp_path / "signals.npy", X)
    command = [sys.executable, "-m", "taskdict.cli", "predict", tmp_path / "model", tmp_path / "signals.npy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline().strip() in ("0", "1")
        run.stdout.close()
        assert run.stderr.read() == ""
        assert run.wait() == 1
