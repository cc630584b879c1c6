"""The watcher on real folders and real runs."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tui_workbench.core.model import RunRequest, RunState
from tui_workbench.runs.facade import Runs
from tui_workbench.ui import watcher
from tui_workbench.ui.watcher import ProjectWatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tui_workbench.core.errors import WorkbenchError
    from tui_workbench.core.model import ComputeTarget, Run, RunConfiguration
    from tui_workbench.core.progress import Progress
    from tui_workbench.projects.project import Project


class Recorder:
    """A listener that records all reports."""

    def __init__(self) -> None:
        self.count = 0
        self.folders: list[list[str]] = []
        self.branches: list[str] = []
        self.targets: list[list[ComputeTarget]] = []
        self.configurations: list[list[RunConfiguration]] = []
        self.versions: list[Mapping[str, str]] = []
        self.errors: list[Mapping[str, WorkbenchError]] = []
        self.runs: list[list[Run]] = []

    def make(self, call: Callable[[], object]) -> None:
        """Execute a call from the watcher immediately."""
        self.count += 1
        call()

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < end, vars(self)
            time.sleep(0.005)

    def show_folders(self, changed: list[str]) -> None:
        self.folders.append(changed)

    def show_branch(self, branch: str) -> None:
        self.branches.append(branch)

    def show_changes(self, number: int) -> None: ...
    def show_approvals(self, waiting: int) -> None: ...

    def show_configuration(self, targets: list[ComputeTarget], configurations: list[RunConfiguration]) -> None:
        self.configurations.append(configurations)
        self.targets.append(targets)

    def show_interpreters(self, versions: Mapping[str, str], errors: Mapping[str, WorkbenchError]) -> None:
        self.versions.append(versions)
        self.errors.append(errors)

    def show_runs_read(self, runs: list[Run], steps: Mapping[str, str]) -> None:
        self.runs.append(runs)

    def show_progress(self, progress: Progress | None) -> None: ...

    def show_failure(self, error: WorkbenchError) -> None: ...


@pytest.fixture
def heard() -> Recorder:
    return Recorder()


@pytest.fixture
def looking(project: Project, heard: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProjectWatcher]:
    """Return a watcher after its first poll."""
    monkeypatch.setattr(watcher, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr(watcher, "ACTIVE_SECONDS", 0.02)
    looking = ProjectWatcher(project, heard.make)
    looking.watch_folders(["", "aml_config"])
    looking.start(heard)
    heard.until(lambda: heard.runs and heard.errors)
    yield looking
    looking.stop()
    looking.join()


def test_first_poll_reports_everything(looking: ProjectWatcher, heard: Recorder) -> None:
    assert [[target.name for target in targets] for targets in heard.targets] == [["local"]]
    assert [configuration.name for configuration in heard.configurations[0]] == ["local"]
    assert heard.runs[0] == []
    (versions,) = heard.versions
    assert versions == {"local": ".".join(map(str, sys.version_info[:3]))}
    heard.until(lambda: heard.branches)


def test_nothing_is_reported_without_changes(looking: ProjectWatcher, heard: Recorder) -> None:
    # Between the first two polls, unfinished runs are resumed, which may report progress.
    heard.until(lambda: looking.polls > 1)
    before = heard.count
    looks = looking.polls
    heard.until(lambda: looking.polls > looks + 5)
    assert heard.count == before


def test_new_file_reports_its_folder(looking: ProjectWatcher, heard: Recorder, project_root: Path) -> None:
    looks = looking.polls
    heard.until(lambda: looking.polls > looks)
    (project_root / "new.py").write_text("")
    heard.until(lambda: heard.folders)
    assert heard.folders[0] == [""]


def test_new_and_edited_targets_are_reported(looking: ProjectWatcher, heard: Recorder, project_root: Path) -> None:
    (project_root / "aml_config" / "new.compute").write_text("type: local\n")
    heard.until(lambda: len(heard.targets[-1]) == 2)
    with open(project_root / "aml_config" / "new.compute", "a") as file:
        file.write("pythonLocation: /no/such/python\n")
    heard.until(lambda: "new" in heard.errors[-1])
    os.remove(project_root / "aml_config" / "new.compute")
    heard.until(lambda: len(heard.targets[-1]) == 1)


def test_run_of_the_command_line_is_followed_to_its_end(
    looking: ProjectWatcher, heard: Recorder, project: Project
) -> None:
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    heard.until(lambda: any(listed.run_id == run.run_id for listed in heard.runs[-1]))
    heard.until(lambda: not heard.runs[-1][0].is_active)
    assert heard.runs[-1][0].exit_code == 0


def test_changes_during_a_poll_are_not_missed(
    looking: ProjectWatcher, heard: Recorder, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = Runs.list
    changed: list[str] = []

    def list_and_then_change(runs: Runs, *, adopt: bool) -> list[Run]:
        listed = listing(runs, adopt=adopt)
        for run in listed:
            # The last event of this run, directly after the read.
            if not changed and run.state == RunState.RUNNING:
                changed.append(run.run_id)
                runs.directory(run.run_id).append_event("state", state="finalizing")
        return listed

    monkeypatch.setattr(Runs, "list", list_and_then_change)
    with open(os.path.join(project.root, "hello.py"), "w") as script:
        script.write("import time\ntime.sleep(600)\n")
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    try:
        heard.until(lambda: heard.runs[-1][:1])
        heard.until(lambda: heard.runs[-1][0].state == RunState.FINALIZING)
    finally:
        Runs(project).cancel(run.run_id, grace=0.0)


def test_changed_branch_is_reported(looking: ProjectWatcher, heard: Recorder, project_root: Path) -> None:
    git = project_root / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    heard.until(lambda: heard.branches and heard.branches[-1] == "feature/x")
    (git / "HEAD").write_text("0123456789abcdef" * 2 + "01234567\n")
    heard.until(lambda: heard.branches[-1] == "01234567")


def test_watcher_stops_at_once(project: Project, heard: Recorder) -> None:
    looking = ProjectWatcher(project, heard.make)
    looking.start(heard)
    heard.until(lambda: heard.branches)
    looking.stop()
    looking.join()
