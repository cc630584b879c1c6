"""Logins to servers that break the protocol, or that never answer, and with files that never end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh
import pytest

from tests.second_factor import AskingServer, OwnServer
from tui_workbench.targets.hosts.host import ConnectionLost, LoginRefused, SecretNeeded
from tui_workbench.targets.ssh import ssh_connection
from tui_workbench.targets.ssh.questions import LONGEST_PROMPT
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_secrets import Secrets
from tui_workbench.targets.ssh.ssh_wire import Login

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VERSION = b"SSH-2.0-OpenSSH_9.2\r\n"


def _packet(content: bytes) -> bytes:
    padding = 16 - (len(content) + 5) % 8
    return (len(content) + 1 + padding).to_bytes(4, "big") + bytes([padding]) + content + bytes(padding)


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


GO_AWAY = _packet(b"\x01" + (2).to_bytes(4, "big") + _text(b"\x1b[2Jgo\naway " + b"x" * 5000) + _text(b""))

ANSWERS = {
    "100 MB of lines": ([b"x" * 998 + b"\r\n"] * 100_000, "no SSH server answers on port .*: Too many banner lines"),
    "a line without end": ([b"x" * 65536] * 1000, "no SSH server answers on port .*: Banner line too long"),
    "an old version": ([b"SSH-1.5-x\r\n"], "no SSH server answers on port .*: Unsupported SSH version"),
    "a packet of 2 GB": ([VERSION, b"\x7f" + b"\xff" * 1000], "Max packet size exceeded"),
    "a reason": ([VERSION, GO_AWAY], r"\(u@127.0.0.1:\d+\): \[2Jgo away x{100,300}$"),
}


@contextlib.contextmanager
def answering(parts: Sequence[bytes]) -> Iterator[str]:
    """Yield the address of a server that sends the parts to each client, and then waits for the client to leave."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=_answer, args=(connection, parts)).start()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _answer(connection: socket.socket, parts: Sequence[bytes]) -> None:
    with contextlib.suppress(OSError), connection:
        for part in parts:
            connection.sendall(part)
        while connection.recv(1 << 16):
            pass


@pytest.mark.usefixtures("ssh_folder")
@pytest.mark.parametrize(("parts", "reason"), ANSWERS.values(), ids=ANSWERS)
def test_server_that_breaks_the_protocol_is_reported(parts: Sequence[bytes], reason: str) -> None:
    with answering(parts) as address, pytest.raises(ConnectionLost) as lost:
        SshHost(Login("t", address, "u")).run(["true"])
    assert re.search(reason, lost.value.message)


@pytest.mark.usefixtures("ssh_folder")
@pytest.mark.parametrize("parts", [[], [VERSION], [b"hello\r\n"]], ids=["nothing", "a version", "a line"])
def test_silent_server_is_given_up(parts: Sequence[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connection, "CONNECT_SECONDS", 0.3)
    with answering(parts) as address, pytest.raises(ConnectionLost, match="no answer within"):
        asyncio.run(ssh_connection.connect(Login("t", address, "u"), Secrets(), lambda _error: None))


def test_silent_agent_is_given_up(
    login: Login, ssh_folder: Path, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_connection, "CONNECT_SECONDS", 1.0)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(connections / "agent"))
        agent.listen()
        (ssh_folder / "config").write_text(f"Host *\n  IdentityAgent {connections / 'agent'}\n")
        with pytest.raises(ConnectionLost, match="no answer within"):
            asyncio.run(ssh_connection.connect(login, Secrets(), lambda _error: None))


class _Leaving(asyncssh.SSHServer):
    """Accepts every key, and ends the connection after the login."""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return True

    def auth_completed(self) -> None:
        self._connection.disconnect(asyncssh.DISC_SERVICE_NOT_AVAILABLE, "maintenance\x1b[2J until noon")


def known(server: OwnServer, ssh_folder: Path) -> SshHost:
    """Return the account `u` on a server, whose host key is made known."""
    (ssh_folder / "known_hosts").write_text(server.known_hosts_line)
    return SshHost(Login("t", server.address, "u"))


def test_server_that_leaves_after_the_login_gives_the_reason(ssh_folder: Path) -> None:
    with OwnServer(_Leaving) as server:
        host = known(server, ssh_folder)
        with pytest.raises(ConnectionLost, match=r"maintenance \[2J until noon"):
            host.run(["true"])
        host.disconnect()


def test_long_prompt_keeps_its_end(ssh_folder: Path) -> None:
    with AskingServer([("x" * 50_000 + " Code: ", False)], "first" + "y" * 50_000) as server:
        host = known(server, ssh_folder)
        with pytest.raises(SecretNeeded) as needed:
            host.run(["true"])
        assert needed.value.prompt.startswith(f"u on {server.address}: firstyyy")
        assert needed.value.prompt.endswith("xxx Code")
        assert len(needed.value.prompt) < LONGEST_PROMPT + 50
        host.disconnect()


def _pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return str(folder / "pipe")


FILES: dict[str, Callable[[Path], str]] = {
    "a pipe": _pipe, "an endless device": lambda _folder: "/dev/zero", "a folder": str,
}  # fmt: skip


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_key_that_is_not_a_file_is_refused(login: Login, tmp_path: Path, make: Callable[[Path], str]) -> None:
    path = make(tmp_path)
    with pytest.raises(LoginRefused, match=f"the private key {path} cannot be read"):
        SshHost(login._replace(private_key=path)).run(["true"])


@pytest.mark.parametrize("setting", ["IdentityFile", "CertificateFile", "IdentitiesOnly yes\n  IdentityFile"])
@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_configured_key_that_is_not_a_file_is_skipped(
    host: SshHost, ssh_folder: Path, tmp_path: Path, make: Callable[[Path], str], setting: str
) -> None:
    (ssh_folder / "config").write_text(
        f"Host *\n  {setting} {make(tmp_path)}\n  IdentityFile {ssh_folder / 'id_ed25519'}\n"
    )
    assert host.run(["id", "-un"]).text == "research"
