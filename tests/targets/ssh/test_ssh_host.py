"""The shared SSH connection: opening, losing and reopening it."""

from __future__ import annotations

import functools
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines import Machine, wait_for
from tests.proc import PROC
from tests.targets.conftest import link_processes
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, HostProcess, LoginRefused
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_host import SshHost

_ANOTHER_PROCESS = (
    "import sys; from tui_workbench.targets.ssh.ssh_host import SshHost, wire; "
    "host = SshHost(wire.Login(*sys.argv[1:]))"
)


# Sharing.


def chunks_of(process: HostProcess) -> Iterator[bytes]:
    """Yield the output of a process as it arrives."""
    while data := os.read(process.stdout, READ_SIZE):
        yield data


def test_all_callers_share_one_connection(host: SshHost, login: wire.Login, connections: Path) -> None:
    assert _client_port(host) == _client_port(SshHost(login))
    code = f"{_ANOTHER_PROCESS}; sys.stdout.write(host.run(['sh', '-c', 'echo $SSH_CLIENT']).text)"
    done = subprocess.run([sys.executable, "-c", code, *login], check=True, capture_output=True, text=True)
    assert done.stdout.split()[1] == _client_port(host)
    assert len(link_processes(connections)) == 1


def test_concurrent_callers_start_one_link(login: wire.Login, connections: Path) -> None:
    ports: list[str] = []
    threads = [threading.Thread(target=lambda: ports.append(_client_port(SshHost(login)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ports) == 8
    assert len(set(ports)) == 1
    assert len(link_processes(connections)) == 1


def test_callers_that_disconnect_leave_no_program(host: SshHost, login: wire.Login, connections: Path) -> None:
    host.run(["true"])
    (link,) = link_processes(connections)
    held = PROC / f"{link}/fd"
    before = len(list(held.iterdir()))

    def hang_up() -> None:
        for number in range(60):
            pipes = [os.pipe() for _ in range(3)]
            theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(wire.LinkPaths().socket)
                assert wire.receive(connection) is not None
                wire.send(connection, {"op": wire.EXEC, "login": login, "command": "exec cat"}, theirs)
                wait_ready([connection.fileno()], timeout=number / 10_000)
            for descriptor in (end for pipe in pipes for end in pipe):
                os.close(descriptor)

    threads = [threading.Thread(target=hang_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: len(list(held.iterdir())) <= before, "the link to have let go of everything")
    assert host.run(["cat"], stdin=b"still there").stdout == b"still there"


def test_callers_load_no_ssh_library(login: wire.Login) -> None:
    heavy = {"asyncssh", "asyncio", "cryptography"}
    code = f"{_ANOTHER_PROCESS}; host.run(['true']); sys.exit(' '.join({heavy} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", code, *login], check=True)


def test_link_does_not_import_from_the_current_folder(
    host: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asyncssh.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert host.run(["echo", "here"]).text == "here"


def test_status_describes_the_server(host: SshHost, gpubox: Machine) -> None:
    assert host.status()["state"] == "down"
    host.run(["true"])
    status = host.status()
    assert (status["state"], status["peer"], status["username"]) == ("up", gpubox.address, "research")
    assert "OpenSSH" in status["server"]
    assert status["cipher"].startswith("aes256-gcm")


def test_disconnect_ends_the_link(host: SshHost, connections: Path) -> None:
    host.run(["true"])
    host.disconnect()
    wait_for(lambda: not link_processes(connections), "the link to end")
    assert not list(connections.glob("workbench-tui/*.link"))
    assert host.run(["echo", "again"]).text == "again"


def test_disconnect_without_link_is_harmless(host: SshHost, connections: Path) -> None:
    host.disconnect()
    assert link_processes(connections) == []


# Losing the connection.


def test_program_reports_a_lost_connection(host: SshHost, gpubox: Machine) -> None:
    process = host.open(["cat"])
    gpubox.kill_connections()
    assert list(chunks_of(process)) == []
    with pytest.raises(ConnectionLost, match="the connection was lost"):
        process.wait(120.0)
    process.close()
    assert host.run(["echo", "back"]).text == "back"


def test_log_is_complete_after_three_lost_connections(host: SshHost, gpubox: Machine) -> None:
    path = gpubox.home() / "output.log"
    path.touch()
    lines = [b"line %d\n" % number for number in range(100_000)]
    expected = b"".join(lines)
    mirrored = bytearray()

    def follow() -> None:
        while len(mirrored) < len(expected):
            host.wait_until_reachable()
            process = host.read("/home/research/output.log", len(mirrored))
            for data in chunks_of(process):
                mirrored.extend(data)
                if len(mirrored) >= len(expected):
                    break
            process.close()

    follower = threading.Thread(target=follow)
    follower.start()
    with path.open("ab", buffering=0) as file:
        for quarter in range(4):
            before = len(mirrored)
            for start in range(quarter * 25_000, (quarter + 1) * 25_000, 100):
                file.write(b"".join(lines[start : start + 100]))
            wait_for(functools.partial(_is_longer, mirrored, before), "the log to be followed")
            if quarter < 3:
                gpubox.kill_connections()
    follower.join(60)
    path.unlink()
    assert bytes(mirrored) == expected


def test_silent_server_is_noticed_and_reconnected(host: SshHost, gpubox: Machine, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  ServerAliveInterval 1\n  ServerAliveCountMax 1\n")
    process = host.open(["cat"])
    with gpubox.frozen_sshd():
        assert list(chunks_of(process)) == []
        with pytest.raises(ConnectionLost):
            process.wait(120.0)
    process.close()
    assert host.wait_until_reachable()
    assert host.run(["echo", "back"]).text == "back"


def test_wait_ends_when_the_machine_answers(host: SshHost, gpubox: Machine) -> None:
    gpubox.stop_sshd()
    try:
        with pytest.raises(ConnectionLost, match="nothing listens on port 22"):
            host.run(["true"])
        reachable: list[bool] = []
        waiting = threading.Thread(target=lambda: reachable.append(host.wait_until_reachable()))
        waiting.start()
        wait_for(lambda: host.status()["state"] in ("down", "connecting"))
        assert not reachable
    finally:
        gpubox.start_sshd()
    waiting.join(60)
    assert reachable == [True]


def test_wait_can_be_interrupted(host: SshHost, gpubox: Machine) -> None:
    reading, writing = os.pipe()
    gpubox.stop_sshd()
    try:
        os.write(writing, b"!")
        assert host.wait_until_reachable(reading) is False
    finally:
        gpubox.start_sshd()
        os.close(reading)
        os.close(writing)


def test_wait_ends_if_the_login_is_refused(login: wire.Login) -> None:
    with pytest.raises(LoginRefused):
        SshHost(login._replace(username="nobody-here")).wait_until_reachable()


def test_internal_error_of_the_link_is_reported(
    host: SshHost, login: wire.Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "STATUS", "no such request")
    with pytest.raises(
        ConnectionLost, match="internal error of the process that holds the SSH connection: KeyError: 'no such request'"
    ) as told:
        host.status()
    assert wire.LinkPaths().errors in told.value.remedy
    assert host.run(["echo", "fine"]).text == "fine"
    host.disconnect()


def test_link_writes_no_core_dump(host: SshHost, connections: Path) -> None:
    host.run(["true"])
    (link,) = link_processes(connections)
    limits = (PROC / f"{link}/limits").read_text()
    assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)


def test_request_is_not_repeated(host: SshHost, login: wire.Login) -> None:
    """A link that dies during a request may have executed it."""
    paths = wire.LinkPaths()
    calls = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(paths.socket)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                calls.append(connection)
                wire.send(connection, {})

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectionLost, match="has ended"):
            host.run(["true"])
        thread.join()
    os.unlink(paths.socket)
    assert len(calls) == 1


def test_restarted_machine_is_reconnected(host: SshHost, gpubox: Machine) -> None:
    before = host.run(["cat", "/proc/sys/kernel/random/boot_id"]).text
    gpubox.reboot()
    host.wait_until_reachable()
    assert host.run(["cat", "/proc/sys/kernel/random/boot_id"]).text != before


# Unreachable machines.


@pytest.mark.parametrize("name", ["no-such-host.invalid", "gpu..example.org", "a" * 64 + ".example.org"])
def test_unknown_host_name_is_reported(login: wire.Login, name: str) -> None:
    with pytest.raises(ConnectionLost, match=f"unknown host name {re.escape(name)}") as caught:
        SshHost(login._replace(address=name)).run(["true"])
    assert caught.value.failed_check == "name"
    assert caught.value.exit_code == 4


def test_closed_port_is_reported(login: wire.Login) -> None:
    with pytest.raises(ConnectionLost, match="nothing listens on port 23") as caught:
        SshHost(login._replace(address=login.address + ":23")).run(["true"])
    assert caught.value.failed_check == "port"


def test_other_service_on_the_port_is_reported(login: wire.Login) -> None:
    with Server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, pytest.raises(ConnectionLost):
        SshHost(login._replace(address=f"127.0.0.1:{port}")).run(["true"])


@pytest.mark.parametrize("said", [b"SSH-2.0-\xff\xfe\r\n", b"SSH-1.0-old\r\n", b"x" * 100_000])
def test_unknown_protocol_on_the_port_is_reported(login: wire.Login, said: bytes) -> None:
    with Server(said) as port, pytest.raises(ConnectionLost, match="no SSH server answers on port") as caught:
        SshHost(login._replace(address=f"127.0.0.1:{port}")).run(["true"])
    assert caught.value.failed_check == "port"


def test_slow_handshake_is_awaited(login: wire.Login, ssh_folder: Path) -> None:
    with SlowProxy(login.address, seconds=5.0) as port:
        (ssh_folder / "known_hosts").write_text(
            (ssh_folder / "known_hosts").read_text().replace(login.address, f"[127.0.0.1]:{port}")
        )
        host = SshHost(login._replace(address=f"127.0.0.1:{port}"))
        assert host.run(["echo", "slow"], timeout=120).text == "slow"
        host.disconnect()


# Addresses.


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("box", ("box", 0)),
        ("box:2222", ("box", 2222)),
        ("10.0.0.1:22", ("10.0.0.1", 22)),
        ("::1", ("::1", 0)),
        ("[::1]", ("::1", 0)),
        ("[fe80::1%eth0]:2222", ("fe80::1%eth0", 2222)),
        ("box:", ("box:", 0)),
        ("box:ssh", ("box:ssh", 0)),
        ("box:²", ("box:²", 0)),
    ],
)
def test_address_is_split_into_host_and_port(address: str, expected: tuple[str, int]) -> None:
    assert wire.Login("t", address).host_and_port == expected


@pytest.mark.parametrize(
    ("address", "key", "words"),
    [
        ("box", "", "ssh-copy-id me@box"),
        ("box:2222", "~/.ssh/my key", "ssh-copy-id -i ~/'.ssh/my key' -p 2222 me@box"),
        ("$(reboot)", "/a;b", "ssh-copy-id -i '/a;b' 'me@$(reboot)'"),
    ],
)
def test_shell_commands_are_quoted(address: str, key: str, words: str) -> None:
    login = wire.Login("t", address, "me", private_key=key)
    assert f"ssh-copy-id {login.all_words}" == words
    assert login._replace(username="-oProxyCommand=x").ssh_words.startswith(("-- -o", "-- '-o", "-p 2222 -- -o"))


def test_folder_of_sockets_must_be_private(login: wire.Login, connections: Path) -> None:
    from tui_workbench.core.errors import StorageError

    (connections / "workbench-tui").mkdir(mode=0o755, exist_ok=True)
    (connections / "workbench-tui").chmod(0o755)
    with pytest.raises(StorageError, match="not a folder that only you can access"):
        SshHost(login).run(["true"])


def _is_longer(data: bytearray, size: int) -> bool:
    return len(data) > size


def _client_port(host: SshHost) -> str:
    return host.run(["sh", "-c", "echo $SSH_CLIENT"]).text.split()[1]


class Server:
    """A server that answers each connection with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(self._answer)

    def __enter__(self) -> int:
        self._thread.start()
        port: int = self._listener.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


class SlowProxy(Server):
    """A proxy to an SSH server that delays the first bytes of the server."""

    def __init__(self, address: str, seconds: float) -> None:
        super().__init__(b"")
        self._address = address
        self._seconds = seconds

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection, socket.create_connection((self._address, 22)) as server:
            import time

            time.sleep(self._seconds)  # the delay is the subject of the test
            back = threading.Thread(target=_copy, args=(server, connection))
            back.start()
            _copy(connection, server)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
