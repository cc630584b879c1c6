"""The thread that looks at the project, on real folders and real runs."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, TypeVar

import pytest
from textual.message import Message

from tui_workbench.core.model import RunRequest, RunState
from tui_workbench.runs.facade import Runs
from tui_workbench.ui import messages, watcher
from tui_workbench.ui.watcher import ProjectWatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


_Message = TypeVar("_Message", bound=Message)


class Heard:
    """Everything that was posted, and waiting for some of it."""

    def __init__(self) -> None:
        self.all: list[Message] = []

    def of(self, kind: type[_Message]) -> list[_Message]:
        return [message for message in self.all if isinstance(message, kind)]

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < end, self.all
            time.sleep(0.005)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def looking(project: Project, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProjectWatcher]:
    """A watcher that has had its first look."""
    monkeypatch.setattr(watcher, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr(watcher, "ACTIVE_SECONDS", 0.02)
    looking = ProjectWatcher(project, heard.all.append)
    looking.watch_folders(["", "aml_config"])
    looking.start()
    heard.until(lambda: heard.of(messages.RunsRead) and heard.of(messages.InterpretersFound))
    yield looking
    looking.stop()
    looking.join()


def test_the_first_look_tells_everything(looking: ProjectWatcher, heard: Heard) -> None:
    (configuration,) = heard.of(messages.ConfigurationRead)
    assert [target.name for target in configuration.targets] == ["local"]
    assert [configuration.name for configuration in configuration.configurations] == ["local"]
    assert heard.of(messages.RunsRead)[0].runs == []
    (found,) = heard.of(messages.InterpretersFound)
    assert found.versions == {"local": ".".join(map(str, sys.version_info[:3]))}
    heard.until(lambda: heard.of(messages.BranchRead))


def test_nothing_is_told_while_nothing_changes(looking: ProjectWatcher, heard: Heard) -> None:
    # Between the first look and the second, unfinished runs are resumed, which may be told as work.
    heard.until(lambda: looking.looks > 1)
    before = len(heard.all)
    looks = looking.looks
    heard.until(lambda: looking.looks > looks + 5)
    assert heard.all[before:] == []


def test_a_file_that_comes_is_told_by_its_folder(looking: ProjectWatcher, heard: Heard, project_root: Path) -> None:
    looks = looking.looks
    heard.until(lambda: looking.looks > looks)
    (project_root / "new.py").write_text("")
    heard.until(lambda: heard.of(messages.FoldersChanged))
    assert heard.of(messages.FoldersChanged)[0].folders == [""]


def test_a_target_that_comes_and_one_that_is_edited_in_place_are_told(
    looking: ProjectWatcher, heard: Heard, project_root: Path
) -> None:
    (project_root / "aml_config" / "new.compute").write_text("type: local\n")
    heard.until(lambda: len(heard.of(messages.ConfigurationRead)[-1].targets) == 2)
    with open(project_root / "aml_config" / "new.compute", "a") as file:
        file.write("pythonLocation: /no/such/python\n")
    heard.until(lambda: "new" in heard.of(messages.InterpretersFound)[-1].errors)
    os.remove(project_root / "aml_config" / "new.compute")
    heard.until(lambda: len(heard.of(messages.ConfigurationRead)[-1].targets) == 1)


def test_a_run_of_the_command_line_appears_and_is_followed_to_its_end(
    looking: ProjectWatcher, heard: Heard, project: Project
) -> None:
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    heard.until(lambda: any(listed.run_id == run.run_id for listed in heard.of(messages.RunsRead)[-1].runs))
    heard.until(lambda: not heard.of(messages.RunsRead)[-1].runs[0].is_active)
    assert heard.of(messages.RunsRead)[-1].runs[0].exit_code == 0


def test_what_a_run_does_while_it_is_being_read_is_not_missed(
    looking: ProjectWatcher, heard: Heard, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = Runs.list
    changed: list[str] = []

    def list_and_then_change(runs: Runs, *, adopt: bool) -> list[Run]:
        listed = listing(runs, adopt=adopt)
        for run in listed:
            # The last thing that happens to this run, right behind the reader's back.
            if not changed and run.is_active:
                changed.append(run.run_id)
                runs.directory(run.run_id).append_event("state", state="finalizing")
        return listed

    monkeypatch.setattr(Runs, "list", list_and_then_change)
    with open(os.path.join(project.root, "hello.py"), "w") as script:
        script.write("import time\ntime.sleep(600)\n")
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    try:
        heard.until(lambda: heard.of(messages.RunsRead)[-1].runs[:1])
        heard.until(lambda: heard.of(messages.RunsRead)[-1].runs[0].state == RunState.FINALIZING)
    finally:
        Runs(project).cancel(run.run_id, grace=0.0)


def test_the_branch_is_told_when_it_changes(looking: ProjectWatcher, heard: Heard, project_root: Path) -> None:
    git = project_root / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    heard.until(lambda: heard.of(messages.BranchRead) and heard.of(messages.BranchRead)[-1].branch == "feature/x")
    (git / "HEAD").write_text("0123456789abcdef\n")
    heard.until(lambda: heard.of(messages.BranchRead)[-1].branch == "01234567")


def test_it_ends_at_once_when_it_is_told_to(project: Project, heard: Heard) -> None:
    looking = ProjectWatcher(project, heard.all.append)
    looking.start()
    heard.until(lambda: heard.of(messages.BranchRead))
    looking.stop()
    looking.join()
