import re
import subprocess
import sys

import pytest

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
