"""The process that holds the SSH connections of all logins: two machines, and what happens to one without the other."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import open_folder, require
from tests.machines import PASSWORD, Machine, machine, wait_for
from tests.proc import PROC
from tests.targets.conftest import link_processes
from tests.targets.test_ssh_login import RELAY
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, LoginRefused, SecretNeeded
from tui_workbench.targets.ssh import ssh_link
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_host import SshHost

REFERENCE = "AzureMlSecret=gpubox#research#0123456789abcdef0123456789abcdef"

PROMPT = 10.0
"""Seconds within which a machine that answers must answer. The connection to a silent machine lasts longer."""


@pytest.fixture(scope="module")
def otherbox(key: Path) -> Iterator[Machine]:
    """A second machine, shared by the tests of this module."""
    with open_folder() as folder, machine("otherbox", folder, key) as made:
        yield made


@pytest.fixture
def other_login(otherbox: Machine, ssh_folder: Path) -> wire.Login:
    """Return a login on otherbox that works."""
    with (ssh_folder / "known_hosts").open("a") as file:
        file.write(otherbox.known_hosts_line)
    return wire.Login("otherbox", otherbox.address, "research")


@pytest.fixture
def other(other_login: wire.Login) -> SshHost:
    """Return the account of the user research on otherbox."""
    return SshHost(other_login)


@pytest.fixture
def link(connections: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Thread]:
    """Return a thread of this process in which the link runs, with a short time until a login counts as idle."""
    monkeypatch.setattr(ssh_link, "IDLE_SECONDS", 0.5)
    paths = wire.LinkPaths()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(paths.socket)
        listener.listen()
        thread = threading.Thread(target=asyncio.run, args=(ssh_link.Link(listener.dup(), paths).run(),))
    thread.start()
    yield thread
    thread.join(120)
    assert not thread.is_alive()
    assert not os.path.exists(paths.socket)


def name_of(host: SshHost) -> str:
    return host.run(["hostname"], timeout=PROMPT).text


def port_of(host: SshHost) -> str:
    """Return the local port of the connection to a machine."""
    return host.run(["sh", "-c", "echo $SSH_CLIENT"]).text.split()[1]


@contextlib.contextmanager
def in_background(action: Callable[[], object]) -> Iterator[list[Exception]]:
    """Run an action in a thread while the context is active, and wait for it at the end. Yields its error, if any."""
    errors: list[Exception] = []

    def run() -> None:
        try:
            action()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield errors
    finally:
        thread.join(120)
        assert not thread.is_alive()


# One process.


def test_one_process_serves_all_machines(host: SshHost, other: SshHost, connections: Path) -> None:
    assert (name_of(host), name_of(other)) == ("gpubox", "otherbox")
    assert len(link_processes(connections)) == 1


def test_killed_link_is_replaced(host: SshHost, other: SshHost, connections: Path) -> None:
    processes = [host.open(["cat"]), other.open(["cat"])]
    (link,) = link_processes(connections)
    os.kill(link, signal.SIGKILL)
    for process in processes:
        with pytest.raises(ConnectionLost, match="has ended"):
            process.wait(120.0)
        process.close()
    assert (name_of(host), name_of(other)) == ("gpubox", "otherbox")
    assert len(link_processes(connections)) == 1


def test_other_versions_homes_and_states_have_another_link(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sockets = {wire.LinkPaths().socket}
    for name in ("HOME", "XDG_STATE_HOME"):
        with monkeypatch.context() as changed:
            changed.setenv(name, str(home / "elsewhere"))
            sockets.add(wire.LinkPaths().socket)
    monkeypatch.setattr(wire, "__version__", "0.0.1")
    sockets.add(wire.LinkPaths().socket)
    assert len(sockets) == 4


def test_invalid_request_is_ignored(host: SshHost, connections: Path) -> None:
    assert name_of(host) == "gpubox"
    for request in ({}, {"op": wire.STATUS}, {"op": wire.STATUS, "login": ["one"]}, {"op": wire.STATUS, "login": 1}):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(wire.LinkPaths().socket)
            assert wire.receive(connection) == {}
            wire.send(connection, request)
            assert wire.receive(connection) is None
    assert name_of(host) == "gpubox"
    assert len(link_processes(connections)) == 1


# One machine does not delay the others.


@pytest.fixture(params=["cut off", "silent", "stopped", "flooding"])
def trouble(request: pytest.FixtureRequest, otherbox: Machine, other: SshHost) -> Iterator[None]:
    """Otherbox, to which a connection is open, does not answer, or sends without end; a client uses it meanwhile."""
    process = other.open(["cat", "/dev/zero" if request.param == "flooding" else "-"])
    read = threading.Event()

    def follow() -> None:
        while os.read(process.stdout, READ_SIZE):
            read.set()

    with in_background(follow), contextlib.ExitStack() as undo:
        undo.callback(process.close_stdin)
        if request.param == "flooding":
            assert read.wait(120)
            undo.callback(otherbox.kill_connections)
        elif request.param == "stopped":
            otherbox.stop_sshd()
            undo.callback(otherbox.start_sshd)
        else:
            undo.enter_context(otherbox.cut_off() if request.param == "cut off" else otherbox.frozen_sshd())
        yield
    process.close()
    other.wait_until_reachable()


@pytest.mark.usefixtures("trouble")
def test_one_machine_does_not_delay_others(host: SshHost, other: SshHost, request: pytest.FixtureRequest) -> None:
    reading, writing = os.pipe()
    with in_background(lambda: other.wait_until_reachable(reading)):
        try:
            for _ in range(20):
                assert name_of(host) == "gpubox"
            process = host.open(["cat"], timeout=PROMPT)
            os.write(process.stdin, b"through")
            assert os.read(process.stdout, 100) == b"through"
            process.close()
        finally:
            os.write(writing, b"!")
    os.close(reading)
    os.close(writing)


def test_lost_machine_comes_back(host: SshHost, other: SshHost, otherbox: Machine) -> None:
    port = port_of(host)
    assert name_of(other) == "otherbox"
    otherbox.stop_sshd()
    try:
        with pytest.raises(ConnectionLost):
            other.run(["true"])
    finally:
        otherbox.start_sshd()
    assert name_of(other) == "otherbox"
    assert port_of(host) == port, "the connection to gpubox was not touched"


def test_commands_of_the_configuration_that_hang_delay_no_other_machine(
    host: SshHost, ssh_folder: Path, connections: Path
) -> None:
    pipe = connections / "pipe"
    os.mkfifo(pipe)
    (ssh_folder / "config").write_text(f'Match originalhost hangs* exec "cat {pipe}"\n  User nobody\n')
    hanging = [SshHost(wire.Login("t", f"hangs{number}")) for number in range(20)]
    with contextlib.ExitStack() as undo:
        errors = [undo.enter_context(in_background(functools.partial(each.run, ["true"]))) for each in hanging]
        for each in hanging:
            undo.callback(each.disconnect)
        wait_for(lambda: all(each.status()["state"] == "connecting" for each in hanging), "the logins to begin")
        for _ in range(20):
            assert name_of(host) == "gpubox"
    assert [type(error) for (error,) in errors] == [ConnectionLost] * len(hanging)
    host.disconnect()
    wait_for(lambda: not link_processes(connections), "the link to end, although its threads still wait")
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))


# Each login has its own secrets, agent and connections.


def test_secret_of_one_login_is_not_used_for_another(
    login: wire.Login, other_login: wire.Login, ssh_folder: Path
) -> None:
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    host, other = SshHost(login._replace(password=REFERENCE)), SshHost(other_login._replace(password=REFERENCE))
    host.give_secret(REFERENCE, PASSWORD)
    assert name_of(host) == "gpubox"
    with pytest.raises(SecretNeeded, match="none is stored"):
        other.run(["true"])
    other.give_secret(REFERENCE, "wrong")
    with pytest.raises(SecretNeeded, match="the password is wrong"):
        other.run(["true"])
    assert name_of(host) == "gpubox"


def test_another_password_or_key_does_not_use_the_old_connection(
    login: wire.Login, ssh_folder: Path, home: Path
) -> None:
    (ssh_folder / "id_ed25519").rename(home / "key")
    with_key, with_password = SshHost(login._replace(private_key="~/key")), SshHost(login._replace(password=REFERENCE))
    with_password.give_secret(REFERENCE, PASSWORD)
    assert port_of(with_key) != port_of(with_password)
    with pytest.raises(LoginRefused):
        SshHost(login._replace(private_key="~/another-key")).run(["true"])
    port = port_of(with_password)
    with_password.give_secret(REFERENCE, PASSWORD)
    assert port_of(with_password) == port
    with_password.give_secret(REFERENCE, "wrong")
    with pytest.raises(SecretNeeded, match="the password is wrong"):
        with_password.run(["true"])


@pytest.fixture
def agents(connections: Path, ssh_folder: Path) -> Iterator[dict[str, str]]:
    """Return the sockets of two SSH agents: one `full`, with the only key, and one `empty`."""
    sockets = {name: str(connections / name) for name in ("full", "empty")}
    command = [require("ssh-agent"), "-D", "-a"]
    processes = [subprocess.Popen([*command, path], stdout=subprocess.DEVNULL) for path in sockets.values()]
    try:
        add = [require("ssh-add"), "-q", str(ssh_folder / "id_ed25519")]
        environment = {**os.environ, "SSH_AUTH_SOCK": sockets["full"]}
        wait_for(lambda: subprocess.run(add, env=environment, capture_output=True).returncode == 0, "the agent")
        wait_for(lambda: os.path.exists(sockets["empty"]), "the other agent")
        for path in ssh_folder.glob("id_*"):
            path.unlink()
        yield sockets
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_each_login_uses_the_agent_of_its_clients(
    host: SshHost, other: SshHost, agents: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["empty"])
    with pytest.raises(LoginRefused):
        host.run(["true"])
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["full"])
    assert name_of(other) == "otherbox"
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["empty"])
    with pytest.raises(LoginRefused):
        host.run(["true"])
    assert name_of(other) == "otherbox", "its connection is open"
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["full"])
    assert name_of(host) == "gpubox"


def test_configured_agent_comes_before_the_agent_of_the_client(
    host: SshHost, agents: dict[str, str], ssh_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ssh_folder / "config").write_text(f"Host *\n  IdentityAgent {agents['full']}\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["empty"])
    assert name_of(host) == "gpubox"


def test_no_agent_is_used_if_the_configuration_says_none(
    host: SshHost, agents: dict[str, str], ssh_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ssh_folder / "config").write_text("Host *\n  IdentityAgent none\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["full"])
    with pytest.raises(LoginRefused):
        host.run(["true"])


def test_proxy_command_gets_the_agent_of_the_client(
    host: SshHost, agents: dict[str, str], gpubox: Machine, ssh_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ssh_folder / "agent"
    relay = ssh_folder / "relay.py"
    relay.write_text(f"import os\nopen({str(said)!r}, 'w').write(os.environ['SSH_AUTH_SOCK'])\n{RELAY}\n")
    (ssh_folder / "config").write_text(
        f"Host box\n  HostName {gpubox.address}\n  User research\n  ProxyCommand {sys.executable} '{relay}' %h %p\n"
    )
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["empty"])
    with pytest.raises(LoginRefused):
        host.run(["true"])  # starts the process
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["full"])
    assert name_of(SshHost(wire.Login("t", "box"))) == "gpubox"
    assert said.read_text() == agents["full"]


# The end of a login, and of the process.


def test_disconnect_ends_one_login(host: SshHost, other: SshHost, otherbox: Machine, connections: Path) -> None:
    kept, ended = host.open(["cat"]), other.open(["cat"])
    socket_path = other.forward("/run/nothing.sock")
    other.disconnect()
    with pytest.raises(ConnectionLost):
        ended.wait(120.0)
    ended.close()
    wait_for(lambda: len(otherbox.processes("sshd")) == 1, "the connection to end")
    assert not os.path.exists(socket_path)
    os.write(kept.stdin, b"still here")
    assert os.read(kept.stdout, 100) == b"still here"
    kept.close()
    assert len(link_processes(connections)) == 1


def test_disconnect_ends_waiting_clients(host: SshHost, other: SshHost, otherbox: Machine) -> None:
    assert name_of(host) == "gpubox"
    with otherbox.frozen_sshd(), in_background(other.wait_until_reachable) as errors:
        wait_for(lambda: other.status()["state"] == "connecting", "an attempt")
        other.disconnect()
    assert isinstance(errors[0], ConnectionLost)
    assert other.status()["state"] == "down"


def test_idle_link_ends(link: threading.Thread, login: wire.Login) -> None:
    process = SshHost(login).open(["cat"])
    with pytest.raises(TimeoutError):
        process.wait(1.0)  # in use, even without data for a long time
    process.close()
    link.join(120)
    assert not link.is_alive()


def test_idle_login_is_closed_while_others_are_in_use(
    link: threading.Thread, host: SshHost, other: SshHost, otherbox: Machine
) -> None:
    process = host.open(["cat"])
    assert name_of(other) == "otherbox"
    wait_for(lambda: len(otherbox.processes("sshd")) == 1, "the idle connection to end")
    os.write(process.stdin, b"still here")
    assert os.read(process.stdout, 100) == b"still here"
    process.close()
    link.join(120)
    assert not link.is_alive()


def test_idle_login_keeps_its_secrets(
    link: threading.Thread, login: wire.Login, gpubox: Machine, ssh_folder: Path
) -> None:
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    host = SshHost(login._replace(password=REFERENCE))
    host.give_secret(REFERENCE, PASSWORD)
    assert name_of(host) == "gpubox"
    wait_for(lambda: len(gpubox.processes("sshd")) == 1, "the connection to be given up")
    assert link.is_alive()
    assert name_of(host) == "gpubox"
    host.disconnect()
    link.join(120)
    assert not link.is_alive()


@pytest.mark.linux("reads the memory of a process in /proc")
@pytest.mark.parametrize("stream", ["1", "2"])
def test_endless_output_to_a_slow_reader_does_not_fill_the_memory(
    host: SshHost, connections: Path, stream: str
) -> None:
    process = host.open(["sh", "-c", f"exec cat /dev/zero >&{stream}"])
    reading = process.stdout if stream == "1" else process.stderr
    (link,) = link_processes(connections)
    before = memory_of(link)
    # Small reads are slower than the machine writes.
    for _ in range(200):
        wait_ready([], timeout=0.01)
        assert os.read(reading, 1 << 16)
    process.close()
    assert memory_of(link) - before < 64 << 20


def memory_of(pid: int) -> int:
    """Return the maximum resident memory of a process in bytes."""
    lines = (PROC / str(pid) / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10
