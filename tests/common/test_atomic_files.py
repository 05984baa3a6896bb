import os

import pytest

from taskdict._common import atomic_files
from taskdict._common.atomic_files import check_file, check_output, check_writable, replace_file, replace_text


def test_a_file_is_replaced_through_a_link_and_keeps_its_mode(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    replace_text(link, "λ")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "λ"
    assert target.stat().st_mode & 0o777 == 0o640
    assert set(tmp_path.iterdir()) == {target, link}


def test_an_error_keeps_the_old_file(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("the disk is full")

    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="full"):
        replace_file(tmp_path / "a", fail)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        replace_text(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_content_is_on_the_disk_before_the_name_is_moved(tmp_path, monkeypatch):
    seen = []
    sync = os.fsync

    def look(descriptor):
        sync(descriptor)
        (part,) = tmp_path.iterdir()
        seen.append((part.name.startswith(".a."), part.read_bytes()))

    monkeypatch.setattr(os, "fsync", look)
    replace_file(tmp_path / "a", lambda: b"whole")
    assert seen == [(True, b"whole")]


@pytest.mark.parametrize("name", ["a", "x" * 250, "a.b [c]*?"])
def test_stale_parts_of_the_same_file_are_removed_and_live_ones_kept(tmp_path, name):
    path = tmp_path / name
    with atomic_files._part_of(path) as (_, stale):
        pass
    stale.write_text("half")  # of a process that was killed: nothing locks it
    others = {tmp_path / f".{kin}.{'0' * 16}.part" for kin in ("other", "a.y")} | {tmp_path / ".a.part"}
    for other in others:
        other.write_bytes(b"")
    with atomic_files._part_of(path) as (_, live):
        replace_text(path, "new")
        assert set(tmp_path.iterdir()) == {path, live, *others}
    assert set(tmp_path.iterdir()) == {path, *others}
    assert path.read_text() == "new"


def test_only_regular_files_are_written(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(IsADirectoryError, match="output must be the path of a regular file, but"):
        check_file(tmp_path, "output")
    with pytest.raises(OSError, match="is a FIFO"):
        replace_text(tmp_path / "fifo", "new")
    with pytest.raises(FileNotFoundError, match="in a folder that exists"):
        replace_text(tmp_path / "nowhere" / "a", "new")
    with pytest.raises(FileNotFoundError, match="checkpoint must be the path of a file that can be written"):
        check_writable(tmp_path / "nowhere" / "a", "checkpoint")
    check_writable(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


def test_an_output_is_checked_before_the_work(tmp_path):
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "trap").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "fifo")
    for force in (False, True):
        check_output(tmp_path / "new", force=force)
        for path in (tmp_path, tmp_path / "nowhere" / "a"):
            with pytest.raises(ValueError, match="model must be the name of a file in a folder that exists"):
                check_output(path, force=force, name="model")
        with pytest.raises(ValueError, match="a link to a file that is not there"):
            check_output(tmp_path / "trap", force=force)
        with pytest.raises(ValueError, match="a device or a pipe"):
            check_output(tmp_path / "fifo", force=force)
    for name in ("there", "link"):
        check_output(tmp_path / name, force=True)
        with pytest.raises(FileExistsError, match="is there already: give another name, or --force"):
            check_output(tmp_path / name, force=False)
