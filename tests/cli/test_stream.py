"""Following a run loses nothing and ends, whatever happens meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.runs.support import make_run
from tui_workbench.cli.stream import OutputStream
from tui_workbench.project import Project
from tui_workbench.runs import Runs
from tui_workbench.runs.rundir import RunDirectory


class Racing(OutputStream):
    """The run writes its last bytes and ends just when everything there was has been copied."""

    def copy_new(self) -> bool:
        moved = super().copy_new()
        if not self._directory.status().end:
            with open(self._path, "ab") as log:
                log.write(b"the last words\n")
            self._directory.append_event("state", state="completed", exit_code=0, final=True)
        return moved


def test_what_is_written_just_before_the_end_is_not_lost(
    project: Project, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    directory = make_run(project, "project_1")
    Path(directory.file("output.log")).write_bytes(b"first words\n")
    with Racing(Runs(project), directory) as stream:
        assert stream.follow().state == "completed"
    assert capfdbinary.readouterr().out == b"first words\nthe last words\n"


def test_a_run_whose_end_nobody_can_record_is_told_instead_of_waited_for(project: Project) -> None:
    directory = make_run(project, "project_1700000000001")
    Path(directory.file("events.jsonl")).unlink()
    Path(directory.file("events.jsonl")).mkdir()
    workbench = Installed(Path(project.root))
    result = workbench.run("logs", "-f", "1")
    assert result.code == 1
    assert "events.jsonl" in result.err
    assert "Traceback" not in result.err
    assert RunDirectory(directory.path).run().is_active
