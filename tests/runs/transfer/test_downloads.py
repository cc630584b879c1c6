"""Artifacts of a run, and safe downloads."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.runs.support import make_run, write_files
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.transfer.downloads import (
    artifact_path,
    attachments,
    download,
    outside_copy_text,
    outside_outputs_text,
)

OUTPUTS = {"outputs/model.pkl": b"\0\xff", "outputs/plots/a b.png": b"png", "outputs/tool.sh": b"#!/bin/sh\n"}


@pytest.fixture
def run(project: Project) -> Path:
    directory = Path(make_run(project, "project_1700000000001", state="completed", exit_code=0).path)
    write_files(directory, {**OUTPUTS, "output.log": "log\n", "work/kept.txt": "kept", "pid": "1", "exit": "0"})
    (directory / "outputs" / "tool.sh").chmod(0o755)
    os.utime(directory / "outputs" / "model.pkl", (1_000_000_000, 1_000_000_000))
    return directory


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_outputs_and_record_are_attachments(run: Path) -> None:
    assert attachments(str(run)) == [*sorted(OUTPUTS), "work/kept.txt", "output.log", "events.jsonl", "run.json"]


def test_working_copy_of_an_active_run_is_not_an_attachment(project: Project) -> None:
    directory = make_run(project, "project_1700000000003").path
    write_files(Path(directory), {"work/train.py": "code"})
    assert attachments(directory) == ["events.jsonl", "run.json"]
    assert outside_outputs_text(directory) == ""


def test_end_of_a_run_lists_files_outside_outputs(run: Path) -> None:
    assert outside_outputs_text(str(run)) == "created 1 file (4 B) outside outputs/"
    write_files(run, {"work/out/ckpt.pt": bytes(2_000_000)})
    assert outside_outputs_text(str(run)) == "created 2 files (2.0 MB) outside outputs/"


@pytest.mark.parametrize("looks", [1, 2])
def test_file_that_disappears_meanwhile_is_skipped(run: Path, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """The file is removed after the code has looked at it once or twice."""
    kept, lstat, seen = run / "work" / "kept.txt", os.lstat, []

    def remove_after(path: str) -> os.stat_result:
        found = lstat(path)
        seen.extend([path] if path == str(kept) else [])
        if len(seen) == looks:
            kept.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os, "lstat", remove_after)
    assert outside_outputs_text(str(run)) == ""
    assert not kept.exists()


def test_file_outside_the_copy_can_disappear(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(run, {"stray/kept.pt": bytes(2_000_000), "stray/tmp": "gone soon"})
    removed, lstat = run / "stray" / "tmp", os.lstat

    def remove_after(path: str) -> os.stat_result:
        found = lstat(path)
        if path == str(removed):
            removed.unlink()
        return found

    monkeypatch.setattr(os, "lstat", remove_after)
    assert outside_copy_text(str(run)).startswith("the script wrote 2.0 MB to ../stray")


def test_folders_of_the_workbench_are_not_files_of_the_script(run: Path) -> None:
    page = (REPOSITORY / "docs/run-directory.md").read_text()
    cells = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    folders = [name for cell in cells for name in re.findall(r"`([^`]+)/`", cell)]
    assert "notifications" in folders
    write_files(run, {f"{folder}/file": "x" for folder in folders})
    assert outside_copy_text(str(run)) == ""


def test_run_without_outputs_has_its_record(project: Project) -> None:
    directory = make_run(project, "project_1700000000002").path
    assert attachments(directory) == ["events.jsonl", "run.json"]


def test_download_of_everything(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    written = download(str(run), str(target), [])
    assert written == [str(target / name) for name in attachments(str(run))]
    assert tree(target) == {name: (run / name).read_bytes() for name in attachments(str(run))}
    assert (target / "outputs/tool.sh").stat().st_mode & 0o111
    assert not (target / "outputs/model.pkl").stat().st_mode & 0o111
    assert (target / "outputs/model.pkl").stat().st_mtime == 1_000_000_000


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["outputs/model.pkl"], ["outputs/model.pkl"]),
        (["./outputs//model.pkl", "outputs/model.pkl"], ["outputs/model.pkl"]),
        (["outputs/plots"], ["outputs/plots/a b.png"]),
        (["outputs"], sorted(OUTPUTS)),
        (["driver_log"], ["output.log"]),
        (["control_log.txt", "run.json"], ["events.jsonl", "run.json"]),
        (["work/kept.txt"], ["work/kept.txt"]),
        (["work"], ["work/kept.txt"]),
    ],
)
def test_download_of_some_artifacts(run: Path, tmp_path: Path, names: list[str], found: list[str]) -> None:
    assert [os.path.relpath(path, tmp_path) for path in download(str(run), str(tmp_path), names)] == found


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../other", "outputs/../../x", "/etc/passwd", "pid", "exit", "nothing", "outputs/nothing",
     "outputs/../pid", "controller.lock", "a\0b", "outputs/link", "outputs/linked/passwd", "outputs/pipe"],
)  # fmt: skip
def test_unknown_artifact_is_refused(run: Path, tmp_path: Path, name: str) -> None:
    (run / "outputs" / "link").symlink_to("/etc/passwd")
    (run / "outputs" / "linked").symlink_to("/etc")
    os.mkfifo(run / "outputs" / "pipe")
    with pytest.raises(UsageError) as caught:
        download(str(run), str(tmp_path / "new"), ["outputs/model.pkl", name])
    assert "attachments" in caught.value.remedy
    assert not (tmp_path / "new").exists()
    assert attachments(str(run)) == [*sorted(OUTPUTS), "work/kept.txt", "output.log", "events.jsonl", "run.json"]


def test_link_within_outputs_is_followed(run: Path) -> None:
    (run / "outputs" / "latest").symlink_to("model.pkl")
    assert artifact_path(str(run), "outputs/latest") == str((run / "outputs/model.pkl").resolve())


def test_existing_files_are_replaced_only_on_request(run: Path, tmp_path: Path) -> None:
    write_files(tmp_path, {"outputs/plots/a b.png": "mine"})
    with pytest.raises(UsageError, match=r"a b\.png already exists"):
        download(str(run), str(tmp_path), [])
    assert tree(tmp_path) == {"outputs/plots/a b.png": b"mine"} | tree_of_project(tmp_path)
    download(str(run), str(tmp_path), ["outputs"], overwrite=True)
    assert (tmp_path / "outputs/plots/a b.png").read_bytes() == b"png"


def tree_of_project(folder: Path) -> dict[str, bytes]:
    """Return the project that a fixture has created in the same folder."""
    return {name: content for name, content in tree(folder).items() if not name.startswith("outputs/")}


def test_links_in_the_destination_are_not_followed(run: Path, tmp_path: Path) -> None:
    elsewhere, target = tmp_path / "elsewhere", tmp_path / "target"
    elsewhere.mkdir()
    target.mkdir()
    (target / "outputs").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="because of a symbolic link"):
        download(str(run), str(target), ["outputs/model.pkl"], overwrite=True)
    assert list(elsewhere.iterdir()) == []
    (target / "output.log").symlink_to(elsewhere / "log")
    download(str(run), str(target), ["output.log"], overwrite=True)
    assert list(elsewhere.iterdir()) == []
    assert (target / "output.log").read_bytes() == b"log\n"


def test_folder_in_place_of_a_file_is_reported(run: Path, tmp_path: Path) -> None:
    (tmp_path / "t" / "output.log").mkdir(parents=True)
    with pytest.raises(StorageError) as caught:
        download(str(run), str(tmp_path / "t"), ["output.log"], overwrite=True)
    assert caught.value.file.endswith("output.log")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        download(str(run), str(tmp_path / "file"), ["output.log"], overwrite=True)
