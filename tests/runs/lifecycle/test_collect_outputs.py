"""Collecting outputs keeps every file of the run and removes unchanged files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import missing, require_root
from tests.faults.support import until
from tests.runs.sources import listing
from tests.runs.support import as_anybody, let_everybody_in, write_files
from tui_workbench.runs.lifecycle import collecting
from tui_workbench.runs.lifecycle.collecting import collect_outputs


class Copy:
    """A complete working copy, and the time of its completion."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "work"
        self.outputs = folder / "outputs"
        self.aside = folder / "spare" / "ended"  # the place of a large copy
        write_files(self.path, {"train.py": "1", "pkg/code.py": "1", "pkg/deep/more.py": "1", "data.txt": "1"})
        write_files(folder, {"elsewhere/set.bin": "large"})
        (self.path / "outputs").mkdir()
        (self.path / "linked").symlink_to(folder / "elsewhere")
        marker = folder / "run.json"
        marker.write_text("{}")
        self.since = marker.stat().st_mtime_ns
        while self.now(folder) <= self.since:
            continue

    @staticmethod
    def now(folder: Path) -> int:
        (folder / "clock").write_text("tick")
        return (folder / "clock").stat().st_mtime_ns

    def settle(self, *, drop_unchanged: bool = True, is_unused: bool = False) -> list[str]:
        return collect_outputs(
            str(self.path.parent),
            self.since,
            drop_unchanged=drop_unchanged,
            aside=str(self.aside),
            is_unused=is_unused,
        )

    def left(self) -> list[str]:
        return sorted(
            str(Path(folder, name).relative_to(self.path))
            for folder, folders, files in os.walk(self.path)
            for name in (*files, *(name for name in folders if Path(folder, name).is_symlink()))
        )


@pytest.fixture(params=["small", "large"])
def copy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    """Return a copy that counts as small, and one that counts as large."""
    monkeypatch.setattr(collecting, "SPARE_FILES", 1_000 if request.param == "small" else 1)
    return Copy(tmp_path)


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    monkeypatch.setattr(collecting, "SPARE_FILES", 1)
    return Copy(tmp_path)


def test_unchanged_working_copy_is_removed(copy: Copy) -> None:
    assert copy.settle() == []
    assert not copy.path.exists()
    assert copy.outputs.is_dir()


def test_outputs_are_moved_out(copy: Copy) -> None:
    write_files(copy.path, {"outputs/model.bin": b"\0weights", "outputs/deep/log.txt": "l"})
    (copy.path / "outputs" / "latest").symlink_to("model.bin")
    assert copy.settle() == []
    assert (copy.outputs / "model.bin").read_bytes() == b"\0weights"
    assert (copy.outputs / "deep" / "log.txt").read_text() == "l"
    assert (copy.outputs / "latest").read_bytes() == b"\0weights"


def test_new_files_and_changed_files_are_kept(copy: Copy) -> None:
    write_files(copy.path, {"checkpoint.pt": "w", "pkg/new/notes": "n", "data.txt": "2"})
    assert copy.settle() == ["checkpoint.pt", "data.txt", "pkg/new/notes"]
    assert copy.left() == ["checkpoint.pt", "data.txt", "pkg/new/notes"]


def test_file_with_an_old_mtime_is_kept(copy: Copy) -> None:
    write_files(copy.path, {"restored.bin": "from an archive", "train.py": "2"})
    for name in ("restored.bin", "train.py"):
        os.utime(copy.path / name, (1e9, 1e9))
    assert copy.settle() == ["restored.bin", "train.py"]


def test_renamed_and_linked_files_are_kept(copy: Copy) -> None:
    os.rename(copy.path / "data.txt", copy.path / "renamed.txt")
    os.link(copy.path / "train.py", copy.path / "second name.py")
    (copy.path / "best").symlink_to("renamed.txt")
    kept = copy.settle()
    assert {"renamed.txt", "second name.py", "best"} <= set(kept)
    assert (copy.path / "best").read_text() == "1"


def test_file_with_a_changed_mode_is_kept(copy: Copy) -> None:
    (copy.path / "data.txt").chmod(0o600)
    assert copy.settle() == ["data.txt"]


def test_link_targets_are_untouched(copy: Copy, tmp_path: Path) -> None:
    (copy.path / "linked" / "set.bin").write_text("changed by the run")
    assert copy.settle() == []
    assert (tmp_path / "elsewhere" / "set.bin").read_text() == "changed by the run"


def test_only_bytecode_is_removed(copy: Copy) -> None:
    write_files(copy.path, {"pkg/__pycache__/code.pyc": "x", "my__pycache__stuff/kept": "k"})
    assert copy.settle() == ["my__pycache__stuff/kept"]
    assert copy.left() == ["my__pycache__stuff/kept"]


def test_script_can_remove_outputs_and_other_files(copy: Copy) -> None:
    shutil.rmtree(copy.path / "outputs")
    (copy.path / "train.py").unlink()
    assert copy.settle() == []
    assert list(copy.outputs.iterdir()) == []


def test_script_can_remove_its_folder(copy: Copy) -> None:
    shutil.rmtree(copy.path)
    assert copy.settle() == []
    assert copy.outputs.is_dir()


def test_outputs_can_be_a_link_or_a_file(copy: Copy, tmp_path: Path) -> None:
    (copy.path / "outputs").rmdir()
    (copy.path / "outputs").symlink_to(tmp_path / "elsewhere")
    assert copy.settle() == ["outputs"]
    assert (copy.path / "outputs" / "set.bin").read_text() == "large"
    assert list(copy.outputs.iterdir()) == []


def test_interrupted_collection_continues(copy: Copy) -> None:
    write_files(copy.path, {"outputs/model.bin": "w", "kept.txt": "k"})
    os.rename(copy.path / "outputs", copy.outputs)
    (copy.path / "train.py").unlink()
    assert copy.settle() == ["kept.txt"]
    assert copy.settle() == ["kept.txt"]
    assert (copy.outputs / "model.bin").read_text() == "w"


def test_moved_outputs_are_not_replaced(copy: Copy) -> None:
    write_files(copy.outputs, {"model.bin": "first"})
    write_files(copy.path, {"outputs/model.bin": "late"})
    assert copy.settle() == ["outputs/model.bin"]
    assert (copy.outputs / "model.bin").read_text() == "first"


def test_without_a_snapshot_the_copy_is_kept(copy: Copy) -> None:
    write_files(copy.path, {"outputs/model.bin": "w", "new.txt": "n", "pkg/__pycache__/code.pyc": "x"})
    assert copy.settle(drop_unchanged=False) == ["new.txt"]
    assert copy.left() == ["data.txt", "linked", "new.txt", "pkg/code.py", "pkg/deep/more.py", "train.py"]
    assert (copy.outputs / "model.bin").read_text() == "w"


def test_unchanged_files_of_a_large_copy_are_set_aside(large: Copy) -> None:
    write_files(large.path, {"outputs/model.bin": "w", "data.txt": "2", "pkg/new": "n", "pkg/__pycache__/a.pyc": "b"})
    inode = (large.path / "train.py").stat().st_ino
    assert large.settle() == ["data.txt", "pkg/new"]
    assert (large.aside / "train.py").stat().st_ino == inode
    assert not {"data.txt", "pkg/new", "outputs"} & set(listing(large.aside))
    assert not (large.path.parent / "unchanged").exists()


def test_large_copy_that_no_script_has_used_is_set_aside_whole(large: Copy) -> None:
    write_files(large.path, {"data.txt": "2"})
    assert large.settle(is_unused=True) == []
    assert not large.path.exists()
    assert (large.aside / "data.txt").read_text() == "2"


@pytest.mark.parametrize("moved", [[], ["data.txt"], ["data.txt", "pkg/new"]])
def test_interrupted_setting_aside_continues(large: Copy, moved: list[str]) -> None:
    write_files(large.path, {"data.txt": "2", "pkg/new": "n"})
    large.path.rename(large.path.parent / "unchanged")
    for name in moved:
        (large.path / name).parent.mkdir(parents=True, exist_ok=True)
        (large.path.parent / "unchanged" / name).rename(large.path / name)
    assert large.settle() == ["data.txt", "pkg/new"]
    assert large.settle() == ["data.txt", "pkg/new"]
    assert {name: (large.path / name).read_text() for name in large.left()} == {"data.txt": "2", "pkg/new": "n"}
    assert "train.py" in listing(large.aside)


@pytest.mark.system
def test_files_in_an_inaccessible_folder_stay(large: Copy, tmp_path: Path) -> None:
    write_files(large.path, {"hidden/result.txt": "r", "locked/result.txt": "r"})

    def settle() -> None:
        assert large.settle() == ["locked/result.txt"]
        assert not large.aside.exists()

    require_root("to give files away")
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    large.since = max(path.lstat().st_ctime_ns for path in tmp_path.rglob("*"))
    until(lambda: large.now(tmp_path) > large.since, "a tick of the clock")
    for name in ("hidden", "locked"):
        (large.path / name / "result.txt").chmod(0o600)
    (large.path / "hidden").chmod(0)
    (large.path / "locked").chmod(0o555)
    let_everybody_in(tmp_path)
    as_anybody(settle)
    (large.path / "hidden").chmod(0o700)
    assert (large.path / "hidden" / "result.txt").read_text() == "r"
    assert (large.path / "locked" / "result.txt").read_text() == "r"


def test_link_in_place_of_a_large_copy_is_not_followed(large: Copy, tmp_path: Path) -> None:
    large.path.rename(tmp_path / "moved")
    large.path.symlink_to("moved")
    before = listing(tmp_path / "moved")
    with pytest.raises(OSError, match="work"):
        large.settle()
    assert listing(tmp_path / "moved") == before


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_link_in_place_of_the_folder_of_spares_is_not_followed(
    large: Copy, tmp_path: Path, is_interrupted: bool
) -> None:
    write_files(large.path, {"data.txt": "2"})
    write_files(tmp_path / "victim", {"ended/file": "mine"})
    large.aside.parent.symlink_to("victim")
    if is_interrupted:
        large.path.rename(tmp_path / "unchanged")
    assert large.settle() == ["data.txt"]
    assert large.left() == ["data.txt"]
    assert listing(tmp_path / "victim") == {"ended": "/", "ended/file": b"mine"}
    assert not list(tmp_path.glob("unchanged*"))


def test_large_copy_is_cleared_in_place_without_the_hidden_repository(large: Copy, tmp_path: Path) -> None:
    write_files(large.path, {"data.txt": "2"})
    large.aside = tmp_path / "missing" / "spare" / "ended"
    assert large.settle() == ["data.txt"]
    assert large.left() == ["data.txt"]
    assert not list(tmp_path.glob("unchanged*"))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return a function that mounts something at a path, as `mount` with these arguments does."""
    require_root("to mount a file system")
    mounts: list[Path] = []

    def mount(path: Path, *arguments: str) -> None:
        path.mkdir(exist_ok=True)
        if subprocess.run(["mount", *arguments, path], capture_output=True, check=False).returncode != 0:
            missing("the permission to mount file systems")
        mounts.append(path)

    yield mount
    for path in mounts:
        subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.system
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_large_copy_on_another_mount_is_cleared_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: Callable[..., None], is_interrupted: bool
) -> None:
    monkeypatch.setattr(collecting, "SPARE_FILES", 1)
    (tmp_path / "elsewhere").mkdir()
    run = tmp_path / "run"
    mounted(run, "--bind", str(tmp_path / "elsewhere"))
    large = Copy(run)
    large.aside = tmp_path / "spare" / "ended"
    write_files(large.path, {"data.txt": "2"})
    if is_interrupted:
        large.path.rename(run / "unchanged")
    assert large.settle() == ["data.txt"]
    assert large.left() == ["data.txt"]
    assert not list(run.glob("unchanged*"))
