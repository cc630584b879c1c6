"""`status` and its single line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.ui.runs.past import past_run
from tui_workbench.core.model import RunRequest, RunState
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


def status(folder: str, *options: str) -> str:
    done = Installed(Path(folder)).run("status", *options)
    assert (done.code, done.err) == (0, "")
    return done.out


def test_status_without_runs_is_empty(project: Project) -> None:
    assert status(project.root, "--line") == ""
    assert status(project.root) == "No runs yet.\n"


def test_line_outside_a_project_is_empty(tmp_path: Path) -> None:
    assert status(str(tmp_path), "--line") == ""
    assert status("/", "--line", "--project", str(tmp_path / "missing")) == ""


@pytest.mark.parametrize(
    ("state", "code", "word"),
    [(RunState.COMPLETED, 0, "✓ train.py [1] completed"), (RunState.FAILED, 3, "✗ train.py [1] exit 3")],
)
def test_newest_run_is_shown_if_none_is_active(project: Project, state: str, code: int, word: str) -> None:
    past_run(project, 1, state=state, exit_code=code, script="train.py")
    assert status(project.root, "--line") == f"{word} · {project.name}\n"
    assert status(project.root) == f"{word}\n"


def test_active_runs_are_counted_and_listed(project: Project) -> None:
    Path(project.root, "hello.py").write_text("import time; time.sleep(600)")
    runs = Runs(project)
    begun = [runs.submit(RunRequest(run_configuration="local", script="hello.py")) for _ in range(2)]
    until(lambda: status(project.root, "--line") == f"● 2 running · {project.name}\n", "both run")
    assert status(project.root).splitlines() == [f"● hello.py [{number}] running" for number in (2, 1)]
    for run in begun:
        runs.cancel(run.run_id, grace=0)


def test_tmux_commands_are_left_out(project: Project) -> None:
    past_run(project, 1, state=RunState.COMPLETED, exit_code=0, script="a#[bg=red]#(id).py")
    assert status(project.root, "--line") == f"✓ a[bg=red](id).py [1] completed · {project.name}\n"
