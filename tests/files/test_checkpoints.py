"""Checkpoints: a training does not end because one cannot be written, and nothing but a file is taken for one."""

import errno
import os
import socket
import warnings

import pytest

import taskdict as td
from contracts import CASES, assert_learned_the_same
from taskdict._files.checkpoint import FinishedTrainingWarning
from taskdict._learning import training_run

CLASSIFIER = CASES["TaskDrivenClassifier"]
REFINED = CASES["ImageRestorer, refined"]


class Disk:
    """A disk that is full at some of the times that something is written."""

    def __init__(self, full):
        self.full, self.writes = full, 0

    def __call__(self, descriptor):
        self.writes += 1
        if self.full(self.writes):
            raise OSError(errno.ENOSPC, "No space left on device")


def fit_on(disk, monkeypatch, tmp_path):
    """Return a model that was trained with a checkpoint after each batch on this disk, and the warnings."""
    monkeypatch.setattr(training_run, "CHECKPOINT_SECONDS", 0.0)
    with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patched.setattr(os, "fsync", disk)
        model = CLASSIFIER.fit(checkpoint=tmp_path / "state")
    assert all(warning.category is RuntimeWarning for warning in caught)
    return model, [str(warning.message) for warning in caught]


def test_a_full_disk_ends_no_training(tmp_path, monkeypatch):
    model, said = fit_on(Disk(lambda n: n in (3, 4, 6)), monkeypatch, tmp_path)  # 0, then after each batch
    assert_learned_the_same(CLASSIFIER, model, CLASSIFIER.whole)
    assert len(said) == 2  # one for each time that the disk was full
    assert "state' could not be written after 2 batches: [Errno 28] No space left on device. The training" in said[0]
    assert "after 5 batches" in said[1]
    assert td.load(tmp_path / "state").n_iter_ == 6
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_disk_that_stays_full(tmp_path, monkeypatch):
    model, said = fit_on(Disk(lambda n: n > 3), monkeypatch, tmp_path)
    assert_learned_the_same(CLASSIFIER, model, CLASSIFIER.whole)
    assert len(said) == 2
    assert "at the end, after 6 batches" in said[1]
    assert said[1].endswith("the file holds an earlier state.")
    assert_learned_the_same(CLASSIFIER, CLASSIFIER.fit(checkpoint=tmp_path / "state"), CLASSIFIER.whole)
    (tmp_path / "state").unlink()
    model, said = fit_on(Disk(lambda n: True), monkeypatch, tmp_path)
    assert_learned_the_same(CLASSIFIER, model, CLASSIFIER.whole)
    assert len(said) == 2
    assert "after 0 batches" in said[0]
    assert said[1].endswith("the file does not exist.")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_on_a_full_disk_stays_an_interrupt(tmp_path, monkeypatch):
    def interrupt(progress):
        monkeypatch.setattr(os, "fsync", Disk(lambda n: True))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        CLASSIFIER.fit(checkpoint=tmp_path / "state", callbacks=interrupt)
    assert "state' could not be written: [Errno 28]" in caught.value.__notes__[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="checkpoint must be the path of a file that can be written"):
        CLASSIFIER.fit(checkpoint=tmp_path / "state")


def test_what_is_no_file_is_never_opened(tmp_path):
    """A FIFO would wait for a writer, /dev/zero does not end; the contracts have directories and devices."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    server.close()
    paths = {tmp_path / "fifo": "FIFO", tmp_path / "socket": "socket", tmp_path / "link": "device"}
    for path, kind in {**paths, "/dev/full": "device", "/dev/null": "device"}.items():
        with pytest.raises(OSError, match=f"checkpoint must be the path of a regular file, but .* is a {kind}"):
            CLASSIFIER.fit(checkpoint=path)


def test_the_second_checkpoint_of_a_restorer_must_be_a_file(tmp_path):
    os.mkfifo(tmp_path / "state.refine")
    with pytest.raises(OSError, match=r"checkpoint must be the path of a regular file, but .*state\.refine' is a FIFO"):
        REFINED.fit(checkpoint=tmp_path / "state")


def test_a_resumed_training_removes_what_a_kill_has_left(tmp_path):
    for name in ("state", "state.refine"):
        (tmp_path / f".{name}.0123456789abcdef.part").write_bytes(b"half")
    REFINED.fit(checkpoint=tmp_path / "state")
    assert {path.name for path in tmp_path.iterdir()} == {"state", "state.refine"}
    (tmp_path / ".state.0123456789abcdef.part").write_bytes(b"half")
    with pytest.warns(FinishedTrainingWarning):
        REFINED.fit(checkpoint=tmp_path / "state")
    assert {path.name for path in tmp_path.iterdir()} == {"state", "state.refine"}


def test_a_checkpoint_holds_what_callbacks_have_seen(tmp_path, monkeypatch):
    """A batch whose callback did not end is learned again, so that no callback misses one."""
    monkeypatch.setattr(training_run, "CHECKPOINT_SECONDS", 0.0)
    path, held = tmp_path / "state", []
    CLASSIFIER.fit(checkpoint=path, callbacks=lambda progress: held.append(td.load(path).n_iter_))
    assert held == list(range(6))
    assert td.load(path).n_iter_ == 6
