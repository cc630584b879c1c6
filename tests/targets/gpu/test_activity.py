"""Marks of a run's files, which change when one of the files changes."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.runs.support import record_of
from tui_workbench.targets.gpu.activity import MOST_FILES, file_mark, log_mark
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
    (files.directory / "work" / "__pycache__").mkdir()
    before = files.mark(tracked=False)
    (files.directory / "gpu.jsonl").touch()
    (files.directory / "work" / "__pycache__" / "x.pyc").touch()
    assert files.mark(tracked=False) == before


def test_project_of_an_untracked_run_counts(files: RunFiles) -> None:
    before, tracked = files.mark(tracked=False), files.mark()
    (files.project / "model.pt").touch()
    assert files.mark(tracked=False) != before
    assert files.mark() == tracked


@pytest.mark.slow
def test_outputs_come_before_a_large_working_copy(files: RunFiles) -> None:
    for number in range(MOST_FILES):
        (files.directory / "work" / f"image{number}").touch()
    before = files.mark()
    (files.directory / "outputs" / "step_100.pt").touch()
    assert files.mark() != before


@pytest.fixture
def large(files: RunFiles, tmp_path: Path) -> Path:
    """A folder with too many files, to which the working copy has a link."""
    for number in range(2 * MOST_FILES):
        if number % 1000 == 0:
            (tmp_path / "large" / f"exp{number}" / "run_9").mkdir(parents=True)
        (tmp_path / "large" / f"image{number}").touch()
    (files.directory / "work" / "data").symlink_to(tmp_path / "large")
    return tmp_path / "large"


@pytest.mark.slow
def test_large_linked_folder_hides_no_other_file(files: RunFiles, tmp_path: Path, large: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (files.directory / "work" / "zlink").symlink_to(tmp_path / "scratch")
    (files.directory / "work" / "zckpt").mkdir()
    places = (tmp_path / "scratch", files.directory / "work" / "zckpt", files.directory / "work" / "sub")
    marks = [files.mark()]
    for text in ("", "1"):  # a new file, then a changed one
        for place in places:
            (place / "last.pt").write_text(text)
            marks.append(files.mark())
    assert len(set(marks)) == 7


@pytest.mark.slow
def test_new_file_beyond_the_limit_changes_the_mark(files: RunFiles, large: Path) -> None:
    marks = [files.mark()]
    assert marks == [files.mark()]
    folders = list(large.glob("exp*/run_9"))
    for folder in folders:  # about half of them are beyond the limit
        (folder / "step_100.pt").touch()
        marks.append(files.mark())
    assert len(set(marks)) == 1 + len(folders) == 11


def test_names_with_line_ends_are_harmless(files: RunFiles) -> None:
    (files.directory / "work" / "a\nb 'c").touch()
    before = files.mark()
    assert before == files.mark() != ""
    (files.directory / "work" / "train.py").write_text("1")
    assert files.mark() != before


def test_listing_that_takes_too_long_has_no_mark(
    files: RunFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "find").write_text("#!/bin/sh\nexec sleep 60\n")
    (programs / "timeout").write_text(f'#!/bin/sh\nshift 3\nexec {shutil.which("timeout")} -s KILL 0.2 "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert files.mark() == ""


@pytest.mark.parametrize("name", ["output.log", "metrics.jsonl", "ranks/1.log"])
def test_log_that_is_not_copied_changes_the_mark(files: RunFiles, name: str) -> None:
    before = files.mark()
    (files.directory / name).write_text("step 1\n")
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
