"""The screen of open ports, with servers on this machine."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.pilot import Pilot

from tests.runs.support import write_configuration
from tests.stand_in_servers import add_packages, python_with
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tests.waiting import wait_until
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs import ports
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.ports import PortRecord, close_ports, open_ports
from tui_workbench.ui.blocking import wait_for_exit_holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow


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


async def show_ports(pilot: Pilot[list[Run]]) -> None:
    """Open the screen when the run is selected in Jobs."""
    await until(lambda: "hello.py [1]" in seen(pilot))
    await pilot.press("9")
    await until(lambda: "for hello.py [1]" in seen(pilot) and "open port" in seen(pilot))


async def test_server_is_opened_and_closed(project_with_run: Project) -> None:
    hanging = Path(project_with_run.root).parent / "hanging"
    os.mkfifo(hanging)
    package = hanging.parent / "packages" / "jupyter_server"
    package.mkdir()
    (package / "serverapp.py").write_text(f"raise RuntimeError(open({str(hanging)!r}).read())")
    async with opened(project_with_run) as pilot:
        await show_ports(pilot)
        await pilot.press("t")
        await until(lambda: "1 open port" in seen(pilot))
        (record,) = open_ports()
        assert record.url in seen(pilot)
        assert f"127.0.0.1:{record.port}  hello.py [1]" in seen(pilot)
        await pilot.resize_terminal(80, 24)
        await until(lambda: all(key in seen(pilot).splitlines()[-1] for key in ("x Close", "y Copy", "esc Back")))
        await pilot.press("y")
        await until(lambda: pilot.app.clipboard == record.url)
        await until(lambda: f"Copied http://127.0.0.1:{record.port}/" in seen(pilot))
        await pilot.press("n")
        await until(lambda: "Opening jupyter" in seen(pilot))
        await pilot.press("x")
        await until(lambda: "Closed tensorboard" in seen(pilot) and "0 open ports" in seen(pilot))
        assert open_ports() == []
        os.close(os.open(hanging, os.O_WRONLY))
        await until(lambda: "jupyter did not start" in " ".join(seen(pilot).split()))


@proves("view.notebook ports.notebook")
async def test_notebook_is_started_on_the_project(project_with_run: Project) -> None:
    async with opened(project_with_run) as pilot:
        driver = CommandDriver(pilot)
        # The Python of the project has no Jupyter.
        await driver.finds("view.notebook", lacks_jupyter(pilot))
        await pilot.press("escape")
        await show_ports(pilot)
        await driver.does("ports.notebook", lacks_jupyter(pilot))


def lacks_jupyter(pilot: Pilot[list[Run]]) -> Callable[[], bool]:
    return lambda: "jupyterlab is not installed" in " ".join(seen(pilot).split())


async def test_browser_is_started_from_a_trusted_folder(
    project_with_run: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(project_with_run.root)
    opened_page, executed = root.parent / "opened", root.parent / "executed"
    add_program(root, f"touch {executed}")
    add_program(root.parent / "bin", f'cat "${{1#file://}}" > {opened_page}.new; mv {opened_page}.new {opened_page}')
    monkeypatch.chdir(root)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("PATH", f".:{root.parent / 'bin'}:{os.environ['PATH']}")
    async with opened(project_with_run) as pilot:
        await show_ports(pilot)
        await pilot.press("t")
        await until(opened_page.exists)
        (record,) = open_ports()
        assert record.url in opened_page.read_text()
        assert not executed.exists()
        (path,) = [path for path in ports_folder().iterdir() if path.suffix != ".html"]
        link = path.with_name(f"{os.getpid()}-link")
        link.hardlink_to(path)
        wait_for_exit_holds()
        assert [*ports_folder().iterdir()] == [link]
        assert [*close_ports()] == [record]


def add_program(folder: Path, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / "xdg-open"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def ports_folder() -> Path:
    return Path(os.environ["XDG_RUNTIME_DIR"], "workbench-tui", "ports")


async def test_suspended_process_does_not_hide_other_ports(
    project_with_run: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "ANSWER_SECONDS", 0.5)
    assert open_ports() == []
    stale = ports_folder() / "999999999-killed.html"
    stale.touch()
    with socket.socket(socket.AF_UNIX) as suspended:
        suspended.bind(str(ports_folder() / f"{os.getpid()}-suspended"))
        suspended.listen()
        async with opened(project_with_run) as pilot:
            await show_ports(pilot)
            await pilot.press("t")
            await until(lambda: "1 open port" in seen(pilot))
            assert not stale.exists()
            closed: list[PortRecord] = []
            with pytest.raises(WorkbenchError, match=f"do not answer: {os.getpid()}"):
                closed.extend(close_ports())
            assert [record.kind for record in closed] == ["tensorboard"]


async def test_errors_are_shown(project_with_run: Project) -> None:
    async with opened(project_with_run) as pilot:
        await show_ports(pilot)
        await pilot.press("p", *"x1", "enter")
        await until(lambda: "'x1' is not a port" in seen(pilot))
        await pilot.press("n")
        await until(lambda: "jupyterlab is not installed" in " ".join(seen(pilot).split()))
