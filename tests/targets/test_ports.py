"""`open`: ports of runs on this machine, over a real SSH server, and in containers of real engines.

The packages `tensorboard` and `jupyter_server` are stand-ins.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.faults.support import Workbench, until
from tests.runs.support import write_configuration
from tests.stand_in_servers import SERVES, add_packages, python_with
from tests.targets.docker_project import DockerProject
from tests.targets.remote_project import Remote, box
from tests.waiting import PATIENCE
from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.runs.ports import Destination, parse_destination
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.serving import Server, ServerPlace
from tui_workbench.targets.registry import target_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engines import DockerEngine
    from tests.machines import Machine

__all__ = ["box"]

LISTENS = f"""{SERVES}
import sys, time
PATHS = ["/"]
server = http.server.HTTPServer(("0.0.0.0", int(sys.argv[1])), Handler)
print("began", flush=True)
server.serve_forever()
"""
PORT = 18080


class Opened:
    """A running `open` command and the URL that it has printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process = process
        self.url = process.stdout.readline().decode().strip()
        assert self.url, process.communicate()
        self.port = urlsplit(self.url).port

    def end(self) -> str:
        """Wait for the end of the command, and return its messages."""
        _, said = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, said
        return said.decode()


@pytest.fixture
def opening() -> Iterator[Callable[..., Opened]]:
    """Return a function that starts `open` for a run, and waits until the port is open."""
    with contextlib.ExitStack() as stack:

        def start(workbench: Workbench, run_id: str, *words: str) -> Opened:
            process = stack.enter_context(workbench.start("open", "-r", run_id, *words, "--no-browser"))
            stack.callback(process.kill)
            return Opened(process)

        yield start


def status_of(url: str) -> int:
    """Return the HTTP status of a URL, or 0 if nothing listens there."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def servers_there(box: Remote) -> list[int]:
    """Return the IDs of the servers that the workbench has started on the machine."""
    found = []
    for pid in box.machine.processes("python3"):
        with contextlib.suppress(OSError):
            if b"tensorboard" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a folder for sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:
        yield Path(folder)


@pytest.fixture
def with_packages(box: Remote) -> Iterator[Remote]:
    """Return a project whose remote Python has the stand-ins."""
    packages = box.machine.home() / ".local/lib/python3.11/site-packages"
    add_packages(packages)
    yield box
    shutil.rmtree(box.machine.home() / ".local")


@pytest.mark.parametrize("kind", ["tensorboard", "jupyter"])
def test_remote_server_needs_its_token(with_packages: Remote, opening: Callable[..., Opened], kind: str) -> None:
    run_id = with_packages.begin()
    opened = opening(with_packages, run_id, kind)
    assert status_of(opened.url) == 200
    assert status_of(f"http://127.0.0.1:{opened.port}/") == 404
    assert status_of(opened.url.replace("127.0.0.1", "127.0.0.2")) == 0
    token = opened.url.strip("/").rpartition("/")[2].removeprefix("?token=")
    assert token not in with_packages.machine.run(["sh", "-c", "cat /proc/[0-9]*/cmdline"])
    assert not [path for path in with_packages.run_directory(run_id).rglob("*") if holds(path, token)]
    listed = json.loads(with_packages.run("port", "list", "-o", "json").out)
    assert [each["url"] for each in listed] == [opened.url]
    closed = with_packages.run("port", "close", str(opened.port))
    assert f"closed {kind}" in closed.err
    opened.end()
    assert status_of(opened.url) == 0
    assert with_packages.run("port", "list").out.strip() == ""


def holds(path: Path, text: str) -> bool:
    return path.is_file() and text.encode() in path.read_bytes()


def test_killed_client_leaves_no_server(with_packages: Remote, opening: Callable[..., Opened]) -> None:
    run_id = with_packages.begin()
    opened = opening(with_packages, run_id, "tensorboard")
    assert len(servers_there(with_packages)) == 1
    opened.process.send_signal(signal.SIGKILL)
    until(lambda: not servers_there(with_packages), "the server to end")
    until(lambda: status_of(opened.url) == 0, "the forward to end")
    assert with_packages.run("port", "list").out.strip() == ""


def test_port_ends_with_the_connection(box: Remote, opening: Callable[..., Opened]) -> None:
    box.write(LISTENS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run_id = box.detach("train.py", str(port), configuration="box")
        until(lambda: "began" in box.log(run_id))
        opened = opening(box, run_id, "port", str(port))
        assert opened.port != port
        assert status_of(opened.url) == 200
    assert box.run("computetarget", "disconnect", "box").code == 0
    said = opened.end()
    assert f"port {port} of this machine is in use" in said
    assert "the connection has ended" in said
    box.run("open", "-r", run_id, "port", "1").error(1, "connection refused", "Check the port")
    with box.machine.configured("AllowTcpForwarding no"):
        box.run("computetarget", "disconnect", "box")
        box.run("open", "-r", run_id, "port", str(port)).error(1, "forbids forwarding", "AllowTcpForwarding yes")


def test_missing_package_is_reported_with_a_command(box: Remote) -> None:
    result = box.run("open", "-r", box.begin(), "tensorboard")
    place = f"research@{box.machine.address} /usr/bin/python3"
    result.error(3, "tensorboard is not installed", f"`ssh {place} -m pip install tensorboard`")


def test_port_of_a_local_container(tmp_path: Path, engine: DockerEngine, opening: Callable[..., Opened]) -> None:
    project = DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
    check_container(project, opening)


def test_port_of_a_remote_container(
    tmp_path: Path, gpubox: Machine, gpubox_engine: DockerEngine, ssh_folder: Path, opening: Callable[..., Opened]
) -> None:
    project = DockerProject(tmp_path / "project", type="remotedocker", address=gpubox.address, username="research")
    assert check_container(project, opening).url.startswith("http://127.0.0.1:")


def check_container(project: DockerProject, opening: Callable[..., Opened]) -> Opened:
    """Open a port and a server in the container of a run; return the port."""
    add_packages(project.root)
    run = project.submit(LISTENS, str(PORT))
    project.until(run, "began")
    workbench = Workbench(project.root)
    opened = opening(workbench, run.run_id, "port", str(PORT))
    assert status_of(opened.url) == 200
    # The packages of the project are not imported.
    workbench.run("open", "-r", run.run_id, "jupyter").error(
        3, "jupyterlab is not installed", "docker -H", "pip install"
    )
    workbench.run("experiment", "cancel", "-r", run.run_id)
    workbench.run("open", "-r", run.run_id, "tensorboard").error(1, "is not running", "tensorboard --logdir")
    return opened


def test_local_server_ends_when_it_is_closed(
    project_root: Path, opening: Callable[..., Opened], short_folder: Path
) -> None:
    packages = project_root.parent / "packages"
    add_packages(packages)
    python = python_with(packages, sys.executable)
    write_configuration(project_root, suffix="compute", type="local", pythonLocation=str(python))
    workbench = Workbench(project_root, {"XDG_RUNTIME_DIR": str(short_folder)})
    workbench.write("print(1)")
    workbench.submit("train.py")
    opened = opening(workbench, "1", "tensorboard")
    assert status_of(opened.url) == 200
    assert "closed tensorboard" in workbench.run("port", "close", "--all").err
    opened.end()
    assert "no open ports" in workbench.run("port", "close", "--all").err
    assert status_of(opened.url) == 0
    workbench.run("open", "-r", "1", "port", "0").error(2, "'0' is not a port", "1 to 65535")
    workbench.run("open", "-r", "1", "port").error(2, "`port` needs a number")
    workbench.run("open", "-r", "7", "jupyter").error(2, "no run '7'")
    with socket.create_server(("127.0.0.1", 0)) as other:  # of another program
        port = str(other.getsockname()[1])
        workbench.run("open", "-r", "1", "port", port).error(2, "[1] has ended", f"127.0.0.1:{port}")
        assert f"http://127.0.0.1:{port}/" in workbench.run("open", "-r", "1", "port", f"127.0.0.1:{port}").out


def test_notebook_starts_jupyter_on_the_project(project_root: Path, short_folder: Path) -> None:
    packages = project_root.parent / "packages"
    add_packages(packages)
    python = python_with(packages, sys.executable)
    write_configuration(project_root, suffix="compute", type="local", pythonLocation=str(python))
    workbench = Workbench(project_root, {"XDG_RUNTIME_DIR": str(short_folder)})
    with workbench.start("notebook", "--no-browser") as process:
        opened = Opened(process)
        assert status_of(opened.url) == 200
        (listed,) = json.loads(workbench.run("port", "list", "-o", "json").out)
        assert (listed["kind"], listed["run_id"], listed["run_title"]) == ("jupyter", "", "project")
        assert "closed jupyter" in workbench.run("port", "close", "--all").err
        opened.end()
    workbench.run("notebook", "-t", "none").error(3, "none")
    write_configuration(project_root, "managed", suffix="compute", type="local", userManagedEnvironment="false")
    workbench.run("notebook", "-t", "managed").error(2, "depends on the run configuration", "notebook -c NAME")
    (project_root / "needs.yml").write_text("dependencies:\n- pip:\n  - jupyterlab\n")
    write_configuration(project_root, "sweep", Target="managed", CondaDependenciesFile="needs.yml")
    workbench.run("notebook", "-c", "sweep").error(3, "is not built", "experiment prepare -c sweep")


@pytest.mark.parametrize("kind", ["slurm", "group"])
def test_clusters_and_groups_are_refused(kind: str) -> None:
    target = ComputeTarget("big", "big.compute", kind, address="login")
    configuration = RunConfiguration("big", "big.runconfig", "big")
    spec = RunSpec("p_1", "/r", "/p", "p", "/p", "train.py", (), configuration, target)
    with pytest.raises(ConfigurationError, match=f"targets of type {kind} cannot be opened"):
        target_for(target).server_place(spec)


@pytest.mark.parametrize("text", ["", "0", "65536", "http", "node:", "-1", "٣"])
def test_invalid_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a port"):
        parse_destination(text)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "\udcff", "a\0b"])
def test_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="invalid host name"):
        parse_destination(f"{host}:80")


def local_server(python: str, folder: Path | str, kind: str = "tensorboard") -> Server:
    place = ServerPlace(LocalHost(), "this machine", python=(python,), logs=(str(folder),), folders=(str(folder),))
    return Server(place, kind, "token", "/runs/7")


@pytest.mark.parametrize("reply", ["listens", "listens x", "listens 0", "listens 65536", "listens 1 2", "1" * 5000])
def test_invalid_reply_is_refused(tmp_path: Path, reply: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {reply}\n")
    python.chmod(0o755)
    with pytest.raises(WorkbenchError, match="tensorboard did not start"):
        local_server(str(python), tmp_path)


def test_removed_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="the files of the run were removed") as raised:
        local_server(sys.executable, tmp_path / "removed")
    assert "the folder /runs/7 on this machine" in raised.value.remedy


STRANGER = """
import __main__, subprocess, sys
LISTENS = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print(1, flush=True); input()"
stranger = subprocess.Popen(
    [sys.executable, "-c", LISTENS, str(__main__.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
stranger.stdout.readline()
"""


@pytest.mark.parametrize("kind", ["tensorboard", "jupyter"])
def test_other_listener_at_the_port_is_not_used(tmp_path: Path, kind: str) -> None:
    packages = tmp_path / "packages"
    add_packages(packages)
    for path in packages.glob("*/*.py"):
        path.write_text(STRANGER + path.read_text())
    server = local_server(str(python_with(packages, sys.executable)), tmp_path, kind)
    try:
        words = "token/" if kind == "tensorboard" else "?token=token"
        assert status_of(f"http://127.0.0.1:{server.port}/{words}") == 200
    finally:
        server.close()


def test_host_before_a_port() -> None:
    assert parse_destination("node7:8088") == Destination(8088, "node7")
    assert parse_destination("[::1]:80") == Destination(80, "::1")
