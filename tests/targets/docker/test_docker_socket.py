"""Finding the socket of a Docker engine, with a separate error for each cause."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.targets.docker.docker_socket import docker_socket
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


def test_rootless_engine_is_found(connections: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("tui_workbench.targets.docker.docker_socket.SYSTEM_SOCKET", "/nowhere/docker.sock")
    path = str(connections / "docker.sock")  # where XDG_RUNTIME_DIR is
    with listening(path):
        assert docker_socket(LocalHost()) == path
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigurationError, match="Docker is not installed"):
        docker_socket(LocalHost())


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
    import subprocess
    import sys

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
    gpubox.kill_connections()
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
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
