"""Changes of several files are atomic and can be undone exactly."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tui_workbench.config.changes.change_set import ChangeHistory, ChangeSet, FileChange
from tui_workbench.core.errors import ConfigurationError, StorageError


def change(path: Path, before: bytes | None, after: bytes | None) -> FileChange:
    return FileChange(str(path), before, after)


def test_change_set_creates_changes_and_removes_files(tmp_path: Path) -> None:
    kept, gone, new = tmp_path / "kept", tmp_path / "gone", tmp_path / "folder" / "new"
    kept.write_bytes(b"a\r\n")
    gone.write_bytes(b"b")
    history = ChangeHistory()
    history.apply(
        ChangeSet("three", (change(kept, b"a\r\n", b"A\r\n"), change(gone, b"b", None), change(new, None, b"c")))
    )
    assert (kept.read_bytes(), gone.exists(), new.read_bytes()) == (b"A\r\n", False, b"c")
    assert history.newest is not None
    assert history.newest.title == "three"
    undone = history.undo()
    assert undone is not None
    assert undone.title == "three"
    assert (kept.read_bytes(), gone.read_bytes(), new.exists()) == (b"a\r\n", b"b", False)
    assert history.undo() is None


def test_changed_file_stops_a_change_set(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"changed")
    with pytest.raises(ConfigurationError, match="has changed since the change was planned") as caught:
        ChangeSet("x", (change(one, b"1", b"2"), change(other, b"as planned", b"3"))).apply()
    assert caught.value.file == str(other)
    assert one.read_bytes() == b"1"
    with pytest.raises(ConfigurationError, match="already exists"):
        ChangeSet("x", (change(one, None, b"2"),)).apply()


def test_failed_write_restores_the_other_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    blocked = tmp_path / "file" / "below"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((StorageError, OSError)):
        ChangeSet("x", (change(one, b"1", b"2"), change(two, None, b"2"), change(blocked, None, b"3"))).apply()
    assert one.read_bytes() == b"1"
    assert not two.exists()


def test_undo_keeps_later_changes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    history = ChangeHistory()
    history.apply(ChangeSet("x", (change(path, b"1", b"2"),)))
    path.write_bytes(b"3")
    with pytest.raises(ConfigurationError):
        history.undo()
    assert path.read_bytes() == b"3"
    assert history.newest is not None
    assert history.newest.title == "x"


def test_diff_shows_only_files_of_the_project(tmp_path: Path) -> None:
    change_set = ChangeSet(
        "x",
        (
            change(tmp_path / "aml_config" / "a", b"1\r\n2\r\n", b"1\r\n3\r\n"),
            change(tmp_path / "new", None, b"no end"),
            change(tmp_path.parent / "outside", None, b"x"),
        ),
    )
    assert change_set.diff(str(tmp_path)) == (
        "--- a/aml_config/a\n+++ b/aml_config/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+no end\n\\ No newline at end of file\n"
    )


def test_change_set_without_changes_is_empty(tmp_path: Path) -> None:
    assert ChangeSet("x", ()).is_empty
    assert ChangeSet("x", (change(tmp_path / "a", b"1", b"1"),)).is_empty
    assert not ChangeSet("x", (change(tmp_path / "a", None, b""),)).is_empty


def test_change_set_keeps_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    path.chmod(0o600)
    ChangeSet("x", (change(path, b"1", b"2"),)).apply()
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_only_one_of_two_concurrent_change_sets_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "one"
    for _ in range(30):
        path.write_bytes(b"0")
        sets = [ChangeSet("x", (change(path, b"0", b"%d" % number),)) for number in (1, 2)]
        start = threading.Barrier(2)
        with ThreadPoolExecutor() as pool:
            done = [pool.submit(_applies, change_set, start) for change_set in sets]
            assert sorted(one.result() for one in done) == [False, True]


def _applies(change_set: ChangeSet, start: threading.Barrier) -> bool:
    start.wait()
    try:
        change_set.apply()
    except ConfigurationError:
        return False
    return True
