"""Following a run loses no output and ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Installed
from tests.runs.support import make_run
from tui_workbench.cli.shared.stream import OutputStream
from tui_workbench.core.errors import StorageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable


class Changing(OutputStream):
    """A stream of a run that does something right after the first copy, and ends."""

    def __init__(self, run: RunDirectory, act: Callable[[Path], object]) -> None:
        super().__init__(run)
        self.run, self.act = run, act

    def copy_new(self) -> bool:
        moved = super().copy_new()
        if not self.run.status().end:
            self.act(Path(self.run.file("output.log")))
            self.run.append_event("state", state="completed", exit_code=0, final=True)
        return moved


def write_last_words(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"the last words\n")


def test_last_bytes_of_a_run_are_not_lost(project: Project, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    directory = make_run(project, "project_1")
    Path(directory.file("output.log")).write_bytes(b"first words\n")
    with Changing(directory, write_last_words) as stream:
        assert stream.follow().state == "completed"
    assert capfdbinary.readouterr().out == b"first words\nthe last words\n"


@pytest.mark.parametrize("follow", [(), ("-f",)], ids=["logs", "logs -f"])
def test_pipe_in_place_of_the_log_does_not_block(project: Project, follow: tuple[str, ...]) -> None:
    directory = make_run(project, "project_1700000000001")
    os.mkfifo(directory.file("output.log"))
    directory.append_event("state", state="completed", exit_code=0, final=True)
    result = Installed(Path(project.root)).run("logs", *follow, "1")
    assert result.code == 1
    assert "cannot read the log: not a regular file" in result.err


def test_truncated_log_is_followed_from_its_beginning(
    project: Project, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    directory = make_run(project, "project_1")
    Path(directory.file("output.log")).write_bytes(b"a long first line\n")
    with Changing(directory, lambda log: log.write_bytes(b"anew\n")) as stream:
        stream.follow()
    assert capfdbinary.readouterr().out == b"a long first line\nanew\n"


def test_temporarily_full_disk_does_not_end_following(project: Project) -> None:
    directory = make_run(project, "project_1")
    failures = iter(range(3))

    def take_over(run: RunDirectory) -> bool:
        for _ in failures:
            raise StorageError("cannot lock it: No space left on device")
        run.append_event("state", state="completed", exit_code=0, final=True)
        return True

    with OutputStream(directory, take_over=take_over) as stream:
        assert stream.follow().state == "completed"


@pytest.mark.processes
def test_follow_reports_an_end_that_cannot_be_recorded(project: Project) -> None:
    directory = make_run(project, "project_1700000000001")
    Path(directory.file("events.jsonl")).unlink()
    Path(directory.file("events.jsonl")).mkdir()
    workbench = Installed(Path(project.root))
    result = workbench.run("logs", "-f", "1")
    assert result.code == 1
    assert "events.jsonl" in result.err
    assert "Traceback" not in result.err
    assert RunDirectory(directory.path).run().is_active


@pytest.mark.parametrize("options", [(), ("-f",), ("--tail", "3"), ("--plain",), ("-o", "json")], ids=str)
def test_hole_of_a_log_is_left_out_and_reported(project: Project, options: tuple[str, ...]) -> None:
    directory = make_run(project, "project_1700000000001")
    directory.append_event("state", state="completed", exit_code=0, final=True)
    with open(directory.file("output.log"), "wb") as log:
        log.write(b"first line\n")
        log.seek(1 << 40)
        log.write(b"\nlast line\n")
    result = Installed(Path(project.root)).run("logs", *options, "1")
    assert result.code == 0
    assert "last line" in result.out
    assert len(result.out) < 8 << 20
    if "--tail" not in options:  # the last lines do not begin before the hole
        assert "bytes of the log contain no data (a hole in the file); left out" in result.err
