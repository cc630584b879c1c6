"""The screen of open ports, with servers on this machine."""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from tests.runs.support import write_configuration
from tests.stand_in_servers import add_packages, python_with
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tests.waiting import wait_until
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.ports import open_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project_with_run(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Return a project with a run whose Python has a stand-in for TensorBoard, and no Jupyter."""
    packages = project_root.parent / "packages"
    add_packages(packages, jupyter=False)
    python = python_with(packages, sys.executable)
    write_configuration(project_root, suffix="compute", type="local", pythonLocation=str(python))
    project = Project.find(str(project_root))
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    wait_until(lambda: not Runs(project).get(run.run_id).is_active)
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:  # the path of a socket must be short
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield project


async def test_server_is_opened_and_closed(project_with_run: Project) -> None:
    async with opened(project_with_run) as pilot:
        await pilot.press("9")
        await until(lambda: "No open ports." in seen(pilot))
        await pilot.press("t")
        await until(lambda: "1 open port" in seen(pilot))
        (record,) = open_ports()
        assert record.url in seen(pilot)
        await pilot.press("y")
        await until(lambda: pilot.app.clipboard == record.url)
        await pilot.press("x")
        await until(lambda: "Closed tensorboard" in seen(pilot) and "0 open ports" in seen(pilot))
        assert open_ports() == []


async def test_errors_are_shown(project_with_run: Project) -> None:
    async with opened(project_with_run) as pilot:
        await pilot.press("9")
        await until(lambda: "No open ports." in seen(pilot))
        await pilot.press("p", *"x1", "enter")
        await until(lambda: "'x1' is not a port" in seen(pilot))
        await pilot.press("n")
        await until(lambda: "jupyterlab is not installed" in " ".join(seen(pilot).split()))
