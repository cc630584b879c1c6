"""`notebook` on other targets: a run that starts Jupyter, over a real SSH server and in containers of real engines.

The package `jupyter_server` is a stand-in.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import Workbench
from tests.runs.support import write_configuration
from tests.stand_in_servers import add_packages
from tests.targets.docker_project import DockerProject
from tests.targets.remote_project import Remote, box
from tests.targets.test_ports import Opened, status_of
from tests.ui.command_driver import CommandDriver
from tests.ui.main.test_main import WIDE, make_app, screen_of, seen
from tests.ui.waiting import until as until_seen
from tests.waiting import PATIENCE
from tui_workbench.projects.project import Project
from tui_workbench.runs.ports import open_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engines import DockerEngine
    from tests.machines import Machine

__all__ = ["box"]


@pytest.fixture
def with_jupyter(box: Remote) -> Iterator[Remote]:
    """Return a project with a notebook, whose remote Python has the stand-in."""
    box.write("{}", "train.ipynb")
    add_packages(box.machine.home() / ".local/lib/python3.11/site-packages")
    yield box
    shutil.rmtree(box.machine.home() / ".local")


@pytest.fixture
def opening() -> Iterator[Callable[..., Opened]]:
    """Return a function that starts `notebook`, and waits until Jupyter is open."""
    with contextlib.ExitStack() as stack:

        def start(workbench: Workbench, *words: str) -> Opened:
            process = stack.enter_context(workbench.start("notebook", *words, "--no-browser"))
            stack.callback(process.kill)
            return Opened(process)

        yield start


def newest(workbench: Workbench) -> str:
    """Return the ID of the newest run."""
    return str(workbench.history()[0]["run_id"])


def end(opened: Opened) -> str:
    """Press Ctrl-C, and return the messages of the command."""
    opened.process.send_signal(signal.SIGINT)
    return opened.end()


def environments(machine: Machine, run_id: str) -> list[bytes]:
    """Return the environments of the Python processes of a run on the machine, separated by NUL characters."""
    found = []
    for pid in machine.processes("python3"):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/environ").read_bytes())
    return [each for each in found if f"WORKBENCH_RUN_ID={run_id}".encode() in each.split(b"\0")]


def test_changed_notebook_is_in_the_run_when_jupyter_ends(with_jupyter: Remote, opening: Callable[..., Opened]) -> None:
    with_jupyter.configure(EnvironmentVariables={"MODEL": "small"}, ProcessesPerNode=2, Retry={"times": 2})
    opened = opening(with_jupyter, "-c", "box")
    assert status_of(opened.url) == 200
    assert status_of(f"http://127.0.0.1:{opened.port}/") == 404
    run_id = newest(with_jupyter)
    token = opened.url.rpartition("=")[2]
    assert token not in with_jupyter.machine.run(["sh", "-c", "cat /proc/[0-9]*/cmdline"])
    processes = environments(with_jupyter.machine, run_id)
    assert len(processes) == 2, "the script of the run, and Jupyter"
    assert all(b"MODEL=small" in each.split(b"\0") for each in processes)
    with_jupyter.run("open", "-r", run_id, "jupyter").error(1, "its Jupyter was already opened", "port list")
    (with_jupyter.there(run_id) / "work" / "train.ipynb").write_text('{"cells": []}')
    checkpoint = with_jupyter.there(run_id) / "work" / ".ipynb_checkpoints" / "train-checkpoint.ipynb"
    checkpoint.parent.mkdir()
    checkpoint.touch()
    with_jupyter.write('{"edited": "here"}', "train.ipynb")
    said = end(opened)
    assert "changed in run 1: train.ipynb\n" in said
    assert "meanwhile also changed in the project: train.ipynb\n" in said
    download = "history download -r 1 --into-project --overwrite"
    assert f"{download}\n" in said
    assert with_jupyter.status(run_id) == "Completed"
    assert not environments(with_jupyter.machine, run_id)
    assert status_of(opened.url) == 0
    notebook = with_jupyter.folder / "train.ipynb"
    assert notebook.read_text() == '{"edited": "here"}'
    assert with_jupyter.run(*download.split()).code == 0
    assert notebook.read_text() == '{"cells": []}'
    replaced = [*(with_jupyter.folder / ".workbench/replaced").rglob("train.ipynb")]
    assert [path.read_text() for path in replaced] == ['{"edited": "here"}']
    with_jupyter.run("experiment", "rerun", "-r", "1").error(2, "cannot be repeated", "workbench-tui notebook")


async def test_screens_start_jupyter_with_the_chosen_configuration(with_jupyter: Remote) -> None:
    with_jupyter.configure(ArgumentVector=["train.py"])
    with_jupyter.write("")
    async with make_app(Project.find(str(with_jupyter.folder))).run_test(size=WIDE) as pilot:
        await until_seen(lambda: screen_of(pilot).is_complete and screen_of(pilot).panes.run_bar.script)
        await CommandDriver(pilot).finds("view.notebook", lambda: "1 open port" in seen(pilot))
        (port,) = open_ports()
        assert f"jupyter: {port.url}" in seen(pilot)
        assert f"jupyter at port {port.port}" in port.title
        assert port.run_id == newest(with_jupyter)
        assert status_of(port.url) == 200
        await pilot.press("x")
        await until_seen(lambda: "0 open ports" in seen(pilot))
    with_jupyter.until_status(port.run_id, "Completed")


def test_run_ends_when_the_client_is_killed(with_jupyter: Remote, opening: Callable[..., Opened]) -> None:
    opened = opening(with_jupyter, "-t", "box")
    run_id = newest(with_jupyter)
    (with_jupyter.there(run_id) / "work" / "new.ipynb").write_text("{}")
    opened.process.send_signal(signal.SIGKILL)
    with_jupyter.until_status(run_id, "Completed")
    assert (with_jupyter.run_directory(run_id) / "work/new.ipynb").read_text() == "{}"
    assert status_of(opened.url) == 0


def test_canceled_run_ends_jupyter(with_jupyter: Remote, opening: Callable[..., Opened]) -> None:
    opened = opening(with_jupyter, "-c", "box")
    assert with_jupyter.run("experiment", "cancel", "-r", "1").code == 0
    _, said = opened.process.communicate(timeout=PATIENCE)
    assert opened.process.returncode == 130, said
    assert b"the server has ended" in said
    assert status_of(opened.url) == 0


def test_missing_package_ends_the_run(box: Remote) -> None:
    result = box.run("notebook", "-c", "box")
    place = f"research@{box.machine.address} /usr/bin/python3"
    assert result.code == 3
    assert "jupyterlab is not installed" in result.err
    assert f"`ssh {place} -m pip install jupyterlab`" in result.err
    assert not [each for each in box.history() if each["status"] not in ("Failed", "Canceled")]


def test_interrupted_start_cancels_the_queued_run(box: Remote) -> None:
    box.configure({"maxConcurrentRuns": 1})
    box.begin()
    with box.start("notebook", "-c", "box") as process:
        assert process.stderr
        assert any(b"Jupyter starts in run" in line for line in process.stderr)  # before this, the run is removed
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE)[0] == b""
    assert process.returncode == 130
    assert [each["status"] for each in box.history()] == ["Canceled", "Running"]


def test_jupyter_in_a_local_container(tmp_path: Path, engine: DockerEngine, opening: Callable[..., Opened]) -> None:
    project = DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
    check_container(project, opening)


def test_jupyter_in_a_remote_container(
    tmp_path: Path, gpubox: Machine, gpubox_engine: DockerEngine, ssh_folder: Path, opening: Callable[..., Opened]
) -> None:
    project = DockerProject(tmp_path / "project", type="remotedocker", address=gpubox.address, username="research")
    check_container(project, opening)


def check_container(project: DockerProject, opening: Callable[..., Opened]) -> None:
    """Start Jupyter in a container, and check that a file that is changed there is in the run."""
    add_packages(project.root / "packages")
    project.runconfig(EnvironmentVariables={"PYTHONPATH": "packages"})
    workbench = Workbench(project.root)
    opened = opening(workbench, "-c", "docker")
    assert status_of(opened.url) == 200
    said = end(opened)
    run_id = newest(workbench)
    assert workbench.status(run_id) == "Completed", said
    assert status_of(opened.url) == 0


@pytest.mark.parametrize("kind", ["slurm", "cluster", "group"])
def test_other_types_of_targets_are_refused(project_root: Path, kind: str) -> None:
    members = {"members": ["box", "two"]} if kind == "group" else {"address": "login", "username": "u"}
    write_configuration(project_root, "box", suffix="compute", type="remote", address="box", username="u")
    write_configuration(project_root, "two", suffix="compute", type="remote", address="two", username="u")
    write_configuration(project_root, "big", suffix="compute", type=kind, **members)
    write_configuration(project_root, "big", Target="big")
    workbench = Workbench(project_root)
    for words in (("-t", "big"), ("-c", "big")):
        workbench.run("notebook", *words).error(2, f"targets of type {kind}", "experiment submit -c NAME train.ipynb")


def test_run_configuration_is_needed(project_root: Path) -> None:
    write_configuration(project_root, "box", suffix="compute", type="remote", address="box", username="u")
    workbench = Workbench(project_root)
    workbench.run("notebook", "-t", "box").error(2, "no run configurations have this target", "-t box -c NAME")
    write_configuration(project_root, "spark", Target="box", Framework="PySpark")
    workbench.run("notebook", "-t", "box").error(3, "spark-submit cannot start Jupyter", "Framework: Python")
    write_configuration(project_root, "other", Target="box")
    workbench.run("notebook", "-t", "box").error(2, "2 run configurations have this target", "-t box -c NAME")
    assert workbench.history() == []
