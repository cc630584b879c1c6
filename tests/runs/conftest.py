"""Projects for the tests of runs and of snapshots."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.gated_project import GatedProject, kill, watchers
from tests.runs.sources import Source
from tests.runs.support import children
from tui_workbench.projects.project import Project


@pytest.fixture
def shop(project: Project, tmp_path: Path) -> Iterator[GatedProject]:
    shop = GatedProject(project, tmp_path)
    yield shop
    for run in shop.runs.list():
        if run.is_active:
            shop.runs.cancel(run.run_id, grace=0)
    for pid in watchers():  # a watcher waits some seconds for the next run
        kill(pid)
    until(lambda: children() <= shop.children_before, "the end of all children")


@pytest.fixture(params=["git", "copy"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """Return a project on a machine with git, and on a machine without git."""
    if request.param == "copy":
        monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    return Source(tmp_path)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder in which any user may write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def with_git(tmp_path: Path) -> Source:
    return Source(tmp_path)
