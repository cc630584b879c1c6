"""Finding the socket of a Docker engine, with a separate error for each cause."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.waiting import PATIENCE
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.targets.docker.docker_socket import docker_socket, engine_choice, engine_variables
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.ssh.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.machines import Machine
    from tui_workbench.targets.ssh import ssh_wire as wire


@contextlib.contextmanager
def listening(path: str) -> Iterator[None]:
    """Listen on a socket within the context."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        try:
            yield
        finally:
            os.unlink(path)


def test_docker_host_has_priority(connections: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(connections / "engine.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with listening(path):
        assert docker_socket(LocalHost()) == path
    with pytest.raises(ConfigurationError, match=r"DOCKER_HOST names .*, but this socket does not exist"):
        docker_socket(LocalHost())


def test_remote_engine_is_refused_for_a_local_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    with pytest.raises(ConfigurationError, match="needs an engine on this machine"):
        docker_socket(LocalHost())


@pytest.fixture
def without_system_socket(connections: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder of a user of this machine, which has no engine."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tui_workbench.targets.docker.docker_socket.SYSTEM_SOCKET", "/nowhere/docker.sock")
    home = connections / "home"  # the path of a socket must be short
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.system
def test_rootless_engine_is_found(
    without_system_socket: Path, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(connections / "docker.sock")  # where XDG_RUNTIME_DIR is
    with listening(path):
        assert docker_socket(LocalHost()) == path
    tools = connections / "tools"  # without docker
    tools.mkdir()
    for name in ("grep", "id", "sh"):
        (tools / name).symlink_to(require(name))
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(ConfigurationError, match="Docker is not installed") as caught:
        docker_socket(LocalHost())
    assert f"no socket at /nowhere/docker.sock, {path}, " in caught.value.message


@pytest.mark.parametrize(
    "place",
    [".docker/run/docker.sock", ".colima/default/docker.sock", ".local/share/containers/podman/machine/podman.sock"],
)
def test_engine_in_a_virtual_machine_is_found(without_system_socket: Path, place: str) -> None:
    path = without_system_socket / place
    path.parent.mkdir(parents=True)
    with listening(str(path)):
        assert docker_socket(LocalHost()) == str(path)


def use_context(name: str, endpoint: str) -> None:
    subprocess.run([require("docker"), "context", "create", name, "--docker", f"host={endpoint}"], check=True)
    subprocess.run(["docker", "context", "use", name], check=True)


@pytest.mark.docker
def test_current_context_has_priority(
    without_system_socket: Path, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, path = str(connections / "colima.sock"), str(connections / "docker.sock")
    use_context("colima", f"unix://{chosen}")
    with listening(path):
        with listening(chosen):
            assert docker_socket(LocalHost()) == chosen
        with pytest.raises(ConfigurationError, match=f"the Docker context 'colima' names {chosen}"):
            docker_socket(LocalHost())
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        assert docker_socket(LocalHost()) == path
        monkeypatch.delenv("DOCKER_HOST")
        monkeypatch.setenv("DOCKER_CONTEXT", "default")
        assert docker_socket(LocalHost()) == path


@pytest.mark.docker
def test_context_of_another_machine_is_ignored(without_system_socket: Path, connections: Path) -> None:
    use_context("far", "tcp://10.0.0.1:2375")
    path = str(connections / "docker.sock")
    with listening(path):
        assert docker_socket(LocalHost()) == path


@pytest.fixture
def engine(gpubox: Machine, without_engine: None) -> Iterator[str]:
    """Listen on the socket of gpubox's engine, which belongs to the group `docker`."""
    code = (
        "import socket, os, signal; s = socket.socket(socket.AF_UNIX); s.bind('/run/docker.sock'); s.listen();"
        "os.chown('/run/docker.sock', 0, 2375); os.chmod('/run/docker.sock', 0o660); print('up', flush=True);"
        # The first connection may only test whether the engine answers.
        "taken = (s.accept()[0] for _ in iter(int, 1)); said = ((c, c.recv(100)) for c in taken);"
        "c, data = next(pair for pair in said if pair[1]); c.sendall(data.upper()); signal.pause()"
    )
    process = gpubox.enter([os.path.realpath(sys.executable), "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    yield "/var/run/docker.sock"
    gpubox.run(["pkill", "-f", "signal.pause"])
    process.wait()
    process.stdout.close()
    gpubox.leave(process)
    gpubox.run(["rm", "/run/docker.sock"])


@pytest.mark.usefixtures("engine")
def test_user_in_the_group_reaches_the_engine(host: SshHost) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(docker_socket(host))
        connection.sendall(b"hello")
        assert connection.recv(100) == b"HELLO"


@pytest.mark.usefixtures("engine")
def test_forwarded_socket_ends_with_the_connection(host: SshHost, gpubox: Machine) -> None:
    path = docker_socket(host)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(b"hello")
        assert connection.recv(100) == b"HELLO"
        gpubox.kill_connections()
        with contextlib.suppress(ConnectionError):  # a timeout is not suppressed
            assert connection.recv(1) == b""
    assert docker_socket(host) == path


@pytest.mark.usefixtures("engine")
def test_error_names_the_group_of_the_engine(login: wire.Login) -> None:
    with pytest.raises(ConfigurationError, match="the user outsider has no permission to use Docker") as caught:
        docker_socket(SshHost(login._replace(username="outsider")))
    assert "sudo usermod -aG docker outsider" in caught.value.remedy


@pytest.mark.usefixtures("without_engine")
def test_machine_without_engine_is_reported(host: SshHost) -> None:
    with pytest.raises(ConfigurationError, match=r"Docker is not installed|its engine is not running"):
        docker_socket(host)


def test_choice_of_an_engine_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert engine_choice() == ""
    for text, choice in (("{", ""), ("[]", ""), ("{}", ""), ('{"currentContext": "colima"}', "colima")):
        (tmp_path / "config.json").write_text(text)
        assert engine_choice() == choice
    for name, choice in (("other", "other"), ("default", "")):
        monkeypatch.setenv("DOCKER_CONTEXT", name)
        assert engine_choice() == choice
    monkeypatch.setenv("DOCKER_HOST", "unix:///a.sock")
    assert engine_choice() == "unix:///a.sock"


def test_process_with_the_variables_keeps_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for text, choice in (("{}", ""), ('{"currentContext": "colima"}', "colima")):
        (tmp_path / "config.json").write_text(text)
        with monkeypatch.context() as other:
            for name, value in engine_variables().items():
                other.setenv(name, value)
            (tmp_path / "config.json").write_text('{"currentContext": "later"}')
            assert engine_choice() == choice
    monkeypatch.setenv("DOCKER_HOST", "unix:///a.sock")
    assert engine_variables() == {}
