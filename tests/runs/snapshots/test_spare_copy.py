"""The unchanged files of an ended run become the working copy of the next run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.gated_project import GatedProject
from tests.runs.sources import listing
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots.snapshot import SPARE_FILES, SnapshotStore
from tui_workbench.runs.store.rundir import COPY_INDEX, RunDirectory

CHANGING = """\
import os, shutil
os.makedirs("made/deep")
for path in ("made/deep/new.txt", "data/changed.txt", "data/sub/000.txt", "ignored.bin", "outputs/model.bin"):
    with open(path, "w") as file:
        file.write("by the run")
os.remove("data/removed.txt")
shutil.rmtree("data/gone")
os.symlink("/etc", "data/gone")
"""


@pytest.fixture
def large(shop: GatedProject) -> GatedProject:
    """Return a project with many files, and with every kind of file that a run can get."""
    files = {f"data/sub/{number:03}.txt": str(number) for number in range(SPARE_FILES)}
    other = ("data/changed.txt", "data/removed.txt", "data/gone/file", "ignored.bin", "folder/file")
    write_files(shop.root, {**files, **dict.fromkeys(other, "1"), ".gitignore": "ignored.bin\n"})
    write_files(shop.root, {"changing.py": CHANGING})
    write_configuration(shop.root, Target="local", TrackedRun=True)
    (shop.root / "link").symlink_to("data/changed.txt")
    return shop


def spare_of(project: Project) -> Path:
    return Path(project.state_directory) / "snapshots.git" / "spare"


def ended(shop: GatedProject, script: str) -> Run:
    return shop.ended(shop.runs.submit(RunRequest("local", script)))


def project_files(root: Path) -> dict[str, str | bytes]:
    """Return the content of a working copy of the project at `root`."""
    files = {path: content for path, content in listing(root).items() if not path.startswith(".workbench")}
    return {**files, "outputs": "/"}


def test_next_run_takes_the_unchanged_files(large: GatedProject) -> None:
    first = ended(large, "changing.py")
    work = Path(first.directory) / "work"
    assert {path: content for path, content in listing(work).items() if content != "/"} == {
        "made/deep/new.txt": b"by the run", "data/changed.txt": b"by the run", "data/sub/000.txt": b"by the run",
        "ignored.bin": b"by the run", "data/gone": "-> /etc",
    }  # fmt: skip
    unchanged = (spare_of(large.project) / "data/sub/001.txt").stat().st_ino
    shutil.rmtree(large.root / "folder")
    write_files(large.root, {"data/sub/002.txt": "2 changed", "new.txt": "2", "ignored.bin": "2", "folder": "a file"})
    second = large.submit()
    work = Path(second.directory) / "work"
    (work / "ran").unlink()
    assert listing(work) == project_files(large.root)
    assert (work / "data/sub/001.txt").stat().st_ino == unchanged
    large.open()
    assert large.ended(second).state == "completed"
    assert spare_of(large.project).is_dir()


def test_two_runs_at_once_have_separate_copies(large: GatedProject) -> None:
    runs = [large.submit(), large.submit()]
    large.open()
    for run in runs:
        large.ended(run)
    # One of the two copies is kept, and the other is removed.
    assert listing(spare_of(large.project)).keys() >= {"data", "gated.py"}
    assert [sorted(os.listdir(Path(run.directory) / "work")) for run in runs] == [["ran"], ["ran"]]
    assert not any(os.path.exists(RunDirectory(run.directory).file(COPY_INDEX)) for run in runs)


def test_damaged_spare_copy_is_replaced(large: GatedProject) -> None:
    ended(large, "changing.py")
    (spare_of(large.project).parent / "spare.index").write_bytes(b"damaged")
    directory = Path(large.project.state_directory) / "runs" / "copied"
    copy = directory / "work"
    store = SnapshotStore(large.project.root, large.project.state_directory)
    store.take("copied", str(copy), str(directory / COPY_INDEX))
    assert listing(copy) == project_files(large.root)
    until(lambda: not store.has_spare, "the end of the damaged copy")
