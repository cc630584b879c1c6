"""Restoring a snapshot loses nothing, and can be undone with one call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import write_project
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.errors import LargeFiles, StorageError, UsageError
from tui_workbench.core.files import leads_through_folders
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.snapshots.restore import ADDED, CHANGED, LEFT, MOST_LEVELS, REMOVED, Change
from tui_workbench.runs.submission.launch import create_run

Tree = dict[str, tuple[str, bytes | str]]


def tree(root: Path) -> Tree:
    """Every file and link of the project with its mode, without the workbench's own files."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        relative = str(path.relative_to(root))
        if relative.startswith((".workbench", "outputs")):
            continue
        if path.is_symlink():
            found[relative] = ("link", os.readlink(path))
        elif path.is_file():
            found[relative] = (oct(path.stat().st_mode & 0o777), path.read_bytes())
    return found


class Bench:
    """A tracked project whose snapshots belong to runs that never start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = Project.find(str(root))
        self.runs = Runs(self.project)
        write_configuration(root, TrackedRun=True)

    def moment(self) -> str:
        """Take a snapshot of the current project and return the ID of its run."""
        directory, lock, _ = create_run(self.project, RunRequest("local", "hello.py"))
        directory.request_cancel(0.0)
        lock.release()
        return directory.run_id


@pytest.fixture
def bench(project_root: Path) -> Bench:
    return Bench(project_root)


def test_restore_and_undo(bench: Bench) -> None:
    write_files(bench.root, {"changed.py": "old", "removed/deep.py": "x", "same": "same"})
    (bench.root / "tool.sh").write_text("#!/bin/sh\n")
    (bench.root / "tool.sh").chmod(0o755)
    (bench.root / "link").symlink_to("same")
    then = tree(bench.root)
    run = bench.moment()
    write_files(bench.root, {"changed.py": "new", "added/deep.py": "y", "untracked \n name": "z"})
    shutil.rmtree(bench.root / "removed")
    (bench.root / "tool.sh").chmod(0o644)
    (bench.root / "link").unlink()
    now = tree(bench.root)

    looked = bench.runs.restore(run, dry_run=True)
    assert tree(bench.root) == now, "a look changes nothing"
    done = bench.runs.restore(run)
    assert done.changes == looked.changes
    assert set(done.changes) == {
        Change(CHANGED, "changed.py"),
        Change(CHANGED, "tool.sh"),
        Change(ADDED, "removed/deep.py"),
        Change(ADDED, "link"),
        Change(REMOVED, "added/deep.py"),
        Change(REMOVED, "untracked \n name"),
    }
    assert tree(bench.root) == then
    assert not (bench.root / "added").exists()

    assert bench.runs.undoable_restore() == f"the state before the restore of {run}"
    write_files(bench.root, {"changed.py": "edited after"})
    assert bench.runs.undo_restore().restored == f"the state before the restore of {run}"
    assert tree(bench.root) == now
    bench.runs.undo_restore()
    assert (bench.root / "changed.py").read_text() == "edited after"


def test_ignored_files_are_untouched_even_if_in_the_snapshot(bench: Bench) -> None:
    write_files(bench.root, {"data": "a file then", "notes/a.txt": "tracked then"})
    run = bench.moment()
    (bench.root / "data").unlink()
    write_files(bench.root, {".gitignore": "data/\nnotes/\n", "data/big.bin": "precious", "notes/a.txt": "precious"})
    done = bench.runs.restore(run)
    assert {Change(LEFT, "data"), Change(LEFT, "notes/a.txt")} <= set(done.changes)
    assert (bench.root / "data" / "big.bin").read_text() == "precious"
    assert (bench.root / "notes" / "a.txt").read_text() == "precious"


@pytest.mark.parametrize("declared", ["then", "now"])
def test_data_is_neither_replaced_nor_removed(bench: Bench, declared: str) -> None:
    write_files(bench.root, {"data/set.bin": "first"})
    write_configuration(bench.root, TrackedRun=True, DataReferences=["data"] if declared == "then" else None)
    run = bench.moment()
    write_files(bench.root, {"data/set.bin": "second", "data/more.bin": "more"})
    write_configuration(bench.root, TrackedRun=True, DataReferences=["data"] if declared == "now" else None)
    for is_undo in (False, True):
        bench.runs.undo_restore() if is_undo else bench.runs.restore(run)
        assert (bench.root / "data/set.bin").read_text() == "second"
        assert (bench.root / "data/more.bin").read_text() == "more"


@pytest.mark.parametrize("other", [{"data/more": "/mnt/more"}, {"data": "~/data"}])
def test_data_of_every_configuration_is_kept(bench: Bench, other: dict[str, str]) -> None:
    write_configuration(bench.root, TrackedRun=True, DataReferences=["data"])
    write_configuration(bench.root, "another", DataReferences=other)
    write_configuration(bench.root, "remote", DataReferences=other)
    (bench.root / "data").mkdir()
    run = bench.moment()
    write_files(bench.root, {"data/set.bin": "precious", "data/more/set.bin": "precious"})
    assert bench.runs.restore(run).changes == ()
    assert (bench.root / "data/set.bin").read_text() == "precious"


def test_huge_file_is_refused_before_it_is_read(bench: Bench) -> None:
    run = bench.moment()
    with (bench.root / "dump.raw").open("wb") as file:
        file.truncate(50 << 30)
    with pytest.raises(LargeFiles, match=r"dump\.raw"):
        bench.runs.restore(run)


def test_link_out_of_the_project_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    write_files(bench.root, {"data/x": "then"})
    run = bench.moment()
    outside = tmp_path / "outside"
    write_files(outside, {"x": "precious"})
    shutil.rmtree(bench.root / "data")
    (bench.root / "data").symlink_to(outside)
    bench.runs.restore(run)
    assert (outside / "x").read_text() == "precious"
    assert (bench.root / "data" / "x").read_text() == "then"
    bench.runs.undo_restore()
    assert (bench.root / "data").is_symlink()


def test_ignored_link_in_place_of_a_file_stays(bench: Bench, tmp_path: Path) -> None:
    write_files(bench.root, {"data/x": "then"})
    run = bench.moment()
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(bench.root / "data")
    (bench.root / "data").symlink_to(outside)
    write_files(bench.root, {".gitignore": "data\n"})
    assert Change(LEFT, "data/x") in bench.runs.restore(run).changes
    assert list(outside.iterdir()) == []


def test_permissions_to_read_a_file_are_kept(bench: Bench) -> None:
    write_files(bench.root, {"keys.env": "old"})
    run = bench.moment()
    write_files(bench.root, {"keys.env": "new"})
    (bench.root / "keys.env").chmod(0o600)
    bench.runs.restore(run)
    assert (bench.root / "keys.env").read_text() == "old"
    assert (bench.root / "keys.env").stat().st_mode & 0o777 == 0o600


def test_empty_folder_in_place_of_a_file_is_replaced(bench: Bench) -> None:
    write_files(bench.root, {"x": "a file"})
    run = bench.moment()
    (bench.root / "x").unlink()
    write_files(bench.root, {"x/y/z": "tracked"})
    (bench.root / "x" / "empty").mkdir()
    bench.runs.restore(run)
    assert (bench.root / "x").read_text() == "a file"
    bench.runs.undo_restore()
    assert (bench.root / "x" / "y" / "z").read_text() == "tracked"


def test_restore_without_changes_cannot_be_undone(bench: Bench) -> None:
    run = bench.moment()
    assert bench.runs.restore(run).changes == ()
    assert bench.runs.undoable_restore() == ""
    with pytest.raises(UsageError, match="no restore to undo"):
        bench.runs.undo_restore()


class Killed(BaseException):
    """Simulates the end of the process."""


def kill_at(patched: pytest.MonkeyPatch, wanted: Callable[[str], bool]) -> None:
    """Kill a restore before it moves a chosen file to its path."""
    replace = os.replace

    def until_killed(source: str, destination: str) -> None:
        if "/restoring/" in str(source) and wanted(source):
            raise Killed
        replace(source, destination)

    patched.setattr(os, "replace", until_killed)


@pytest.mark.parametrize("after", range(4))
def test_undo_after_a_kill_at_any_file(bench: Bench, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    write_files(bench.root, {"a": "1", "b": "1", "c": "1", "only then": "1"})
    run = bench.moment()
    write_files(bench.root, {"a": "2", "b": "2", "c": "2"})
    (bench.root / "only then").unlink()
    now = tree(bench.root)
    calls = iter(range(9))
    with monkeypatch.context() as patched:
        kill_at(patched, lambda _: next(calls) == after)
        with pytest.raises(Killed):
            bench.runs.restore(run)
    bench.runs.undo_restore()
    assert tree(bench.root) == now


def test_undo_after_a_killed_and_repeated_restore(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(bench.root, {"a": "1", "b": "1"})
    run = bench.moment()
    write_files(bench.root, {"a": "2", "b": "2"})
    now = tree(bench.root)
    with monkeypatch.context() as patched:
        kill_at(patched, lambda path: path.endswith("/b"))
        with pytest.raises(Killed):
            bench.runs.restore(run)
    assert (bench.root / "a").read_text() + (bench.root / "b").read_text() == "12"
    bench.runs.restore(run)
    bench.runs.undo_restore()
    assert tree(bench.root) == now


def test_disk_error_names_the_undo_command(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(bench.root, {"a": "1"})
    run = bench.moment()
    write_files(bench.root, {"a": "2"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", _fails_for(full, str(bench.root / "a")))
    with pytest.raises(StorageError, match=r"a: cannot restore: the disk is full.*project restore --undo"):
        bench.runs.restore(run)
    assert not (bench.root / ".workbench" / "restoring").exists()


def _fails_for(fail: Any, path: str) -> Any:
    replace = os.replace

    def chosen(source: str, destination: str) -> None:
        fail() if destination == path else replace(source, destination)

    return chosen


def test_run_without_a_snapshot_cannot_be_restored(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.moment()
    write_configuration(bench.root, TrackedRun=False)
    with pytest.raises(UsageError, match="it was not tracked"):
        bench.runs.restore(bench.moment())
    shutil.rmtree(bench.root / ".workbench" / "snapshots.git")
    with pytest.raises(UsageError, match="no longer in the project's snapshots"):
        bench.runs.restore(run)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="needs git"):
        bench.runs.restore(run)


def test_damaged_object_is_named(bench: Bench) -> None:
    run = bench.moment()
    commit = bench.runs.get(run).commit_id
    place = bench.root / ".workbench" / "snapshots.git" / "objects" / commit[:2] / commit[2:]
    place.chmod(0o600)
    place.write_bytes(b"damaged")
    for repeat in (bench.runs.restore, lambda run: bench.runs.submit(bench.runs.request_of(run))):
        with pytest.raises(UsageError, match=rf"loose object {commit} \(stored in .*\) is corrupt"):
            repeat(run)


def test_damaged_journal_is_reported_with_a_remedy(bench: Bench) -> None:
    bench.project.prepare_state()
    for text in ("", "[]", json.dumps({"before": "x"})):
        (bench.root / ".workbench" / "restored.json").write_text(text)
        with pytest.raises(UsageError, match="for-each-ref refs/saved"):
            bench.runs.undo_restore()


def test_user_repository_is_untouched(bench: Bench) -> None:
    for words in (("init", "-q"), ("add", "hello.py")):
        subprocess.run(["git", *words], cwd=bench.root, check=True)
    run = bench.moment()
    before = {path: path.stat().st_mtime_ns for path in (bench.root / ".git").rglob("*")}
    write_files(bench.root, {"hello.py": "print('new')"})
    bench.runs.restore(run)
    assert {path: path.stat().st_mtime_ns for path in (bench.root / ".git").rglob("*")} == before


names = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "ig/x", "d", "b/a"])
contents = st.one_of(st.binary(max_size=3), st.sampled_from(["link:a", "link:/etc", "exec"]))


def put(root: Path, files: dict[str, bytes | str]) -> None:
    for name, content in files.items():
        path = root / name
        if not leads_through_folders(str(root), name):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() or path.is_symlink():
            continue
        if isinstance(content, str) and content.startswith("link:"):
            path.unlink(missing_ok=True)
            path.symlink_to(content[5:])
        else:
            path.write_bytes(content if isinstance(content, bytes) else b"#!")
            path.chmod(0o755 if content == "exec" else 0o644)


@pytest.mark.slow
@settings(max_examples=15)
@given(first=st.dictionaries(names, contents), second=st.dictionaries(names, contents))
def test_any_project_is_restored_from_any_other(first: dict[str, bytes | str], second: dict[str, bytes | str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write_project(Path(folder, "project"), tracked=True)
        (root / ".gitignore").write_text("ig/\n")
        bench = Bench(root)
        put(root, first)
        then = tree(root)
        run = bench.moment()
        for path in [*root.glob("[abd]"), root / "ig"]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        put(root, second)
        now = tree(root)
        bench.runs.restore(run)
        assert {n: c for n, c in tree(root).items() if n[:2] != "ig"} == {
            n: c for n, c in then.items() if n[:2] != "ig"
        }
        assert {n: c for n, c in tree(root).items() if n[:2] == "ig"} == {n: c for n, c in now.items() if n[:2] == "ig"}
        if bench.runs.undoable_restore():
            bench.runs.undo_restore()
        assert tree(root) == now


def crafted(bench: Bench, path: str) -> str:
    """Return a run whose snapshot has only the file `path`, as a received snapshot can have."""
    run = bench.moment()
    git = ["git", "--git-dir", f"{bench.root}/.workbench/snapshots.git", "-c", "user.name=a", "-c", "user.email=a@b.c"]

    def output(*words: str, stdin: str = "") -> str:
        return subprocess.run([*git, *words], input=stdin, capture_output=True, text=True, check=True).stdout.strip()

    *folders, name = path.split("/")
    made = output("mktree", stdin=f"100644 blob {output('hash-object', '-w', '--stdin', stdin='other')}\t{name}\n")
    for folder in reversed(folders):
        made = output("mktree", stdin=f"040000 tree {made}\t{folder}\n")
    commit = output("commit-tree", made, "-m", "other")
    record = bench.root / ".workbench" / "runs" / run / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "commit_id": commit}))
    return run


def test_snapshot_without_configuration_can_be_undone(bench: Bench) -> None:
    now = tree(bench.root)
    run = crafted(bench, "other.py")
    bench.runs.restore(run)
    assert list(tree(bench.root)) == ["other.py"]
    Runs(Project.find(str(bench.root))).undo_restore()
    assert tree(bench.root) == now


@pytest.mark.slow
def test_very_deep_file_is_refused_before_anything_is_changed(bench: Bench) -> None:
    now = tree(bench.root)
    run = crafted(bench, "a/" * (MOST_LEVELS + 1) + "deep.py")
    with pytest.raises(UsageError, match="nested folders"):
        bench.runs.restore(run)
    assert tree(bench.root) == now
    with pytest.raises(UsageError, match="no restore to undo"):
        bench.runs.undo_restore()
