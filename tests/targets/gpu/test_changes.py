"""Marks of a run's files, which change when one of the files changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.runs.support import record_of
from tui_workbench.targets.gpu.changes import MOST_FILES, file_mark, log_mark
from tui_workbench.targets.hosts.host import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class RunFiles:
    """The files of a run: its directory and, for an untracked run, the project."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.directory = self.project / ".workbench" / "runs" / "p_1"
        for name in ("work/sub", "outputs", "ranks"):
            (self.directory / name).mkdir(parents=True)
        (self.directory / "work" / "train.py").write_text("")
        (self.directory / "outputs" / "model.pt").write_text("1")

    def mark(self, *, tracked: bool = True) -> str:
        spec = record_of(self.directory).spec
        configuration = spec.run_configuration._replace(tracked_run=tracked)
        return file_mark(LocalHost(), spec._replace(run_configuration=configuration))


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda run: (run / "outputs" / "model.pt").write_text("12"),
        lambda run: (run / "outputs" / "model.pt").rename(run / "outputs" / "best.pt"),
        lambda run: (run / "outputs" / "model.pt").unlink(),
        lambda run: (run / "work" / "sub" / "events.out.tfevents").touch(),
        lambda run: os.utime(run / "work" / "train.py", (1, 1)),
    ],
    ids=["longer", "renamed", "removed", "new", "only its time"],
)
def test_changed_file_changes_the_mark(files: RunFiles, change: Callable[[Path], object]) -> None:
    before = files.mark()
    assert before == files.mark() != ""
    change(files.directory)
    assert files.mark() != before


def test_checkpoint_behind_a_link_changes_the_mark(files: RunFiles, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (files.directory / "work" / "checkpoints").symlink_to(tmp_path / "scratch")
    (files.directory / "work" / "loop").symlink_to(files.directory / "work")
    before = files.mark()
    (tmp_path / "scratch" / "step_100.pt").touch()
    assert files.mark() != before


def test_files_that_no_script_writes_do_not_count(files: RunFiles) -> None:
    before = files.mark(tracked=False)
    (files.directory / "gpu.jsonl").touch()
    (files.directory / "work" / "__pycache__").mkdir()
    (files.directory / "work" / "__pycache__" / "x.pyc").touch()
    assert files.mark(tracked=False) == before


def test_project_of_an_untracked_run_counts(files: RunFiles) -> None:
    before, tracked = files.mark(tracked=False), files.mark()
    (files.project / "model.pt").touch()
    assert files.mark(tracked=False) != before
    assert files.mark() == tracked


def test_outputs_come_before_a_large_working_copy(files: RunFiles) -> None:
    for number in range(MOST_FILES):
        (files.directory / "work" / f"image{number}").touch()
    before = files.mark()
    (files.directory / "outputs" / "step_100.pt").touch()
    assert files.mark() != before


def test_missing_run_directory_has_no_mark(files: RunFiles) -> None:
    files.directory.rename(files.directory.with_name("p_2"))
    assert files.mark() == ""


def test_logs_of_the_run_and_its_ranks_have_a_mark(files: RunFiles) -> None:
    marks = [log_mark(str(files.directory))]
    for name in ("output.log", "metrics.jsonl", "ranks/3.log"):
        (files.directory / name).write_text("a line\n")
        marks.append(log_mark(str(files.directory)))
    (files.directory / "outputs" / "model.pt").write_text("12")
    marks.append(log_mark(str(files.directory)))
    assert len(set(marks)) == 4
