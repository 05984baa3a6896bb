import contextlib
import os
import pty
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import taskdict as td
from mutations import mutated_images, mutated_models, small_images
from taskdict import cli


def test_demo(tmp_path):
    command = [sys.executable, "-m", "taskdict.cli", "demo", "--seed", "1", "--output", "atoms.png"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    pixels, codes, tuned, default, kernel = (float(error) for error in re.findall(r"([\d.]+) %", run.stdout))
    assert tuned < 0.8 * codes
    assert tuned < pixels
    assert default < 1.3 * kernel
    assert (tmp_path / "atoms.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["demo", "--output", "nowhere/atoms.png"],
            "must be the name of a file in a folder that exists, got 'nowhere/atoms.png'",
        ),
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
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 2


def test_the_package_is_a_command():
    for module in ("taskdict", "taskdict.cli"):
        run = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
        assert (run.returncode, run.stdout) == (0, f"taskdict {td.__version__}\n")
    run = subprocess.run([sys.executable, "-m", "taskdict", "demo", "--seed", "-1"], capture_output=True, text=True)
    assert run.returncode == 1
    assert "--seed must be at least 0" in run.stderr


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a classifier whose labels a terminal would obey, and signals."""
    folder = tmp_path_factory.mktemp("saved")
    X, y = np.random.default_rng(0).standard_normal((60, 4)), np.array(LABELS)[np.arange(60) % 3]
    td.TaskDrivenClassifier(3, max_iter=2, random_state=0).fit(X, y).save(folder / "model")
    np.save(folder / "signals.npy", X)
    return folder


LABELS = ["\x1b]0;title\x07\x1b[2J", "a\u202eb", "café λ"]


def test_labels_are_escaped_on_a_terminal(saved):
    command = [sys.executable, "-m", "taskdict.cli", "predict", saved / "model", saved / "signals.npy"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    predicted = td.load(saved / "model").predict(np.load(saved / "signals.npy"))
    assert piped == "".join(f"{label}\n" for label in predicted)  # a program gets them as they are
    outer, inner = pty.openpty()
    with subprocess.Popen(command, stdout=inner, env={**os.environ, "PYTHONIOENCODING": "utf-8"}) as run:
        os.close(inner)
        shown = b""
        with contextlib.suppress(OSError):  # the end, on Linux
            while part := os.read(outer, 10_000):
                shown += part
    os.close(outer)
    assert run.returncode == 0
    text = shown.decode().replace("\r\n", "\n")
    escaped = {LABELS[0]: r"\x1b]0;title\x07\x1b[2J", LABELS[1]: r"a\u202eb", LABELS[2]: "café λ"}
    assert text == "".join(f"{escaped[label]}\n" for label in predicted)


def test_predictions_are_not_written_over_a_file_unasked(saved, tmp_path, capsys):
    out, notes = tmp_path / "out.npy", tmp_path / "notes.txt"
    arguments = ["predict", str(saved / "model"), str(saved / "signals.npy"), "--output", str(out)]
    notes.write_text("my notes")
    (tmp_path / ".out.npy.part").symlink_to(notes)  # a trap at the name that was used before
    assert cli.main(arguments) == 0
    assert notes.read_text() == "my notes"
    np.testing.assert_array_equal(np.load(out), td.load(saved / "model").predict(np.load(saved / "signals.npy")))
    out.write_text("mine")
    out.chmod(0o600)
    capsys.readouterr()
    assert cli.main(arguments) == 1
    assert (
        capsys.readouterr().err == f"taskdict: '{out}' is there already: give another name, or --force to replace it.\n"
    )
    assert out.read_text() == "mine"
    assert cli.main([*arguments, "--force"]) == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert len(np.load(out)) == 60


@pytest.mark.parametrize("command", ["predict", "degrade", "restore", "train-restorer", "demo"])
def test_links_to_nothing_and_devices_are_no_outputs(command, saved, tmp_path, capsys):
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(tmp_path / "a.png")
    image = str(tmp_path / "a.png")
    for name in ("trap.png", "pipe.png"):
        out = str(tmp_path / name)
        if name == "trap.png":
            os.symlink(tmp_path / "elsewhere", out)
        else:
            os.mkfifo(out)
        arguments = {
            "predict": [str(saved / "model"), str(saved / "signals.npy"), "--output", out, "--force"],
            "degrade": [image, out, "--kind", "blur", "--force"],
            "restore": [image, out, "--force"],
            "train-restorer": [out, image, "--kind", "blur", "--force"],
            "demo": ["--output", out],
        }[command]
        assert cli.main([command, *arguments]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert ("a link to a file that is not there" if name == "trap.png" else "is a device or a pipe") in error
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "pipe.png", "trap.png"]


@pytest.mark.parametrize("suffix", [".training", ".training.refine"])
def test_a_trap_at_the_name_of_a_training_is_refused(suffix, tmp_path, capsys):
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(tmp_path / "a.png")
    os.symlink(tmp_path / "elsewhere", tmp_path / f"m{suffix}")
    arguments = [str(tmp_path / "m"), str(tmp_path / "a.png"), "--kind", "noise", "--iterations", "3"]
    assert cli.main(["train-restorer", *arguments]) == 1
    assert "a link to a file that is not there" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


def test_names_of_files_are_escaped(tmp_path, capsys):
    name = tmp_path / "a\x1b[31m\u202e.png"
    assert cli.main(["degrade", str(name), str(tmp_path / "b.png"), "--kind", "blur"]) == 1
    assert "\\x1b[31m\\u202e.png" in capsys.readouterr().err
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(name)
    assert cli.main(["degrade", str(name), str(tmp_path / "b\x1b\n.png"), "--kind", "blur"]) == 0
    shown = capsys.readouterr()
    assert shown.out.endswith("b\\x1b\\n.png\n")
    assert "\x1b" not in shown.out + shown.err


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00v\x00" + b"(" * 118, b"PK\x03\x04"])
def test_bad_signals(content, saved, tmp_path, capsys):
    (tmp_path / "bad.npy").write_bytes(content)
    assert cli.main(["predict", str(saved / "model"), str(tmp_path / "bad.npy")]) == 1
    assert capsys.readouterr().err == f"taskdict: '{tmp_path / 'bad.npy'}' is not a .npy file of numbers.\n"


def test_bad_files_give_one_line(saved, tmp_path, capsys):
    """Mutated models and images: a message of one line that a terminal does not obey, never a traceback."""
    rng = np.random.default_rng(0)
    model, image = tmp_path / "model", tmp_path / "a.png"
    models, images = mutated_models(rng, saved / "model"), mutated_images(rng, small_images()["PNG P"])
    for _ in range(40):
        model.write_bytes(next(models))
        image.write_bytes(next(images))
        for arguments in (
            ["predict", str(model), str(saved / "signals.npy")],
            ["degrade", str(image), str(tmp_path / "b.png"), "--kind", "blur", "--force"],
        ):
            status, error = cli.main(arguments), capsys.readouterr().err
            assert (status, error.count("\n")) in ((0, 0), (1, 1))
            assert not status or (error.startswith("taskdict: ") and error[:-1].isprintable())
