"""Host keys are accepted and refused as by `ssh`, with real servers and the same known_hosts file."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.conftest import require, require_root
from tests.machines import make_key, wait_for
from tui_workbench.targets.hosts.host import HostKeyRefused
from tui_workbench.targets.ssh import ssh_connection
from tui_workbench.targets.ssh.ssh_secrets import Secrets
from tui_workbench.targets.ssh.ssh_wire import Login

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.ssh

ADDRESS = f"127.9.{os.getpid() // 200 % 200 + 1}.{os.getpid() % 200 + 1}"
"""A loopback address of this test process, so that two test runs can both have a server on port 22."""

ALIAS = "box"


class Server(NamedTuple):
    """An SSH server, and the folder with its keys."""

    port: int
    folder: Path

    def known_hosts(self, template: str) -> str:
        """Fill in a known_hosts file: `{host}`, `{port}` and `{HOST}` (the key) are the server's."""
        keys = {name: public_key(self.folder / name) for name in ("host", "other", "rsa", "authority")}
        return template.format(host=ADDRESS, port=self.port, **{name.upper(): key for name, key in keys.items()})


PLAIN = [
    "{host} {HOST}",
    "[{host}]:22 {HOST}",
    "[{host}]:{port} {HOST}",
    "[{host}]:{port} {OTHER}",
    "[{host}] {HOST}",
    "{host} {OTHER}",
    "{host} {RSA}",
    "[{host}]:{port} {RSA}",
    "127.9.* {HOST}",
    "* {HOST}",
    "[{host}]:* {HOST}",
    "{host},!127.9.* {HOST}",
    "!{host} {HOST}",
    "localhost {HOST}",
    "{host} {OTHER}\n[{host}]:{port} {HOST}",
    "{host} {HOST}\n[{host}]:{port} {OTHER}",
    "[{host}]:{port} {RSA}\n{host} {HOST}",
    "{host} {OTHER}\n{host} {HOST}",
    "@revoked * {HOST}\n{host} {HOST}\n[{host}]:{port} {HOST}",
    "@revoked {host} {HOST}\n[{host}]:{port} {HOST}",
    "@revoked {host} {HOST}\n{host} {HOST}",
    "@revoked [{host}]:{port} {HOST}\n{host} {HOST}",
    "@revoked elsewhere {HOST}\n{host} {HOST}",
    "@cert-authority * {HOST}",
    "@cert-authority * {AUTHORITY}",
    "# comment\n\n \t{host} {HOST} with a comment",
    "{host} {HOST}\r",
    "{host} {HOST}x",
    "{host} ssh-rsa {HOST}",
    "",
]
ALIASED = ["box {HOST}", "BOX {HOST}", "box {OTHER}", "[box]:{port} {HOST}", "{host} {HOST}", "[{host}]:{port} {HOST}"]
CERTIFIED = [
    "@cert-authority * {AUTHORITY}",
    "@cert-authority {host} {AUTHORITY}",
    "@cert-authority [{host}]:{port} {AUTHORITY}",
    "@cert-authority example.org {AUTHORITY}",
    "@cert-authority * {OTHER}",
    "@cert-authority * {AUTHORITY}\n@revoked * {AUTHORITY}",
    "@cert-authority * {AUTHORITY}\n@revoked * {HOST}",
    "@cert-authority * {AUTHORITY}\n[{host}]:{port} {HOST}",
    "@cert-authority * {AUTHORITY}\n[{host}]:{port} {OTHER}",
    "@cert-authority * {OTHER}\n[{host}]:{port} {HOST}",
    "@cert-authority {host} {AUTHORITY}\n[{host}]:{port} {OTHER}",
    "@cert-authority {host} {AUTHORITY}\n[{host}]:{port} {RSA}",
    "@cert-authority example.org {AUTHORITY}\n[{host}]:{port} {OTHER}",
    "[{host}]:{port} {HOST}",
    "",
]
CERTIFIED_ALIASED = ["@cert-authority box {AUTHORITY}", "@cert-authority {host} {AUTHORITY}"]

PORTS, SIGNED = ("usual", "other port"), ("signed", "signed for another")
CASES = [
    (kind, template, alias)
    for kinds, templates, alias in (
        (PORTS, PLAIN, ""),
        (PORTS, ALIASED, ALIAS),
        (SIGNED, CERTIFIED, ""),
        (SIGNED, CERTIFIED_ALIASED, ALIAS),
    )
    for kind in kinds
    for template in templates
]
"""Kinds of servers, with lines of known_hosts and HostKeyAlias."""


def public_key(path: Path) -> str:
    return path.with_suffix(".pub").read_text().strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, and a home folder whose SSH configuration both programs read."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("host", "other", "user", "authority"):
        make_key(folder / name)
    command = [require("ssh-keygen"), "-q", "-t", "rsa", "-N", "", "-C", "", "-f", str(folder / "rsa")]
    subprocess.run(command, check=True)
    (folder / "home/.ssh").mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[dict[str, Server]]:
    """SSH servers by the name of their configuration."""
    require_root("to listen on port 22")
    os.makedirs("/run/sshd", exist_ok=True)
    kinds = {"usual": "", "other port": "", "signed": f"{ADDRESS},{ALIAS}", "signed for another": "elsewhere"}
    found: dict[str, Server] = {}
    processes = []
    for number, (kind, principals) in enumerate(kinds.items()):
        key = folder / f"server{number}"
        shutil.copy(folder / "host", key)
        shutil.copy(folder / "host.pub", f"{key}.pub")
        lines = [f"ListenAddress {ADDRESS}", f"HostKey {key}", f"AuthorizedKeysFile {folder}/user.pub"]
        if principals:
            words = [require("ssh-keygen"), "-q", "-s", str(folder / "authority"), "-I", "test", "-h", "-n", principals]
            subprocess.run([*words, f"{key}.pub"], check=True)
            lines.append(f"HostCertificate {key}-cert.pub")
        found[kind] = Server(22 if kind == "usual" else _free_port(), folder)
        lines += [f"Port {found[kind].port}", "PidFile none", "StrictModes no", "UsePAM no", "MaxStartups 100"]
        configuration = folder / f"sshd_config{number}"
        configuration.write_text("\n".join(lines) + "\n")
        command = [require("sshd"), "-D", "-f", str(configuration)]
        processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for server in found.values():
        wait_for(lambda port=server.port: _listens(port), "the SSH server to listen")  # type: ignore[misc]
    yield found
    for process in processes:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.create_server((ADDRESS, 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((ADDRESS, port)) == 0


def ssh_says(server: Server) -> str:
    """Return the result of `ssh` for the host's key: accepted, unknown, changed or revoked."""
    home = server.folder / "home/.ssh"
    words = [require("ssh"), "-F", str(home / "config"), "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes"]
    done = subprocess.run(
        [*words, "-o", "UpdateHostKeys=no", "-p", str(server.port), ADDRESS, "true"], capture_output=True, text=True
    )
    if done.returncode == 0:
        return "accepted"
    signs = {"revoked": "revoked", "IDENTIFICATION HAS CHANGED": "changed", "host key is known": "unknown"}
    return next(answer for sign, answer in signs.items() if sign.lower() in done.stderr.lower())


def log_in(server: Server, secrets: Secrets) -> None:
    """Log in as the workbench does, and log out."""

    async def connect() -> None:
        login = Login("box", f"{ADDRESS}:{server.port}", getpass.getuser(), str(server.folder / "user"))
        async with await ssh_connection.connect(login, secrets, lambda _error: None):
            pass

    asyncio.run(connect())


def workbench_says(server: Server) -> str:
    """Return the result of the workbench for the host's key."""
    try:
        log_in(server, Secrets())
    except HostKeyRefused as error:
        signs = {"marked as revoked": "revoked", "THE HOST KEY CHANGED": "changed", "is unknown": "unknown"}
        return next(answer for sign, answer in signs.items() if sign in str(error))
    return "accepted"


def prepare(server: Server, template: str, monkeypatch: pytest.MonkeyPatch, alias: str = "") -> None:
    """Write the files that both programs read."""
    home = server.folder / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (home / ".ssh/known_hosts").write_text(server.known_hosts(template) + "\n")
    lines = [f"UserKnownHostsFile {home}/.ssh/known_hosts", "GlobalKnownHostsFile /dev/null"]
    lines += [f"IdentityFile {server.folder}/user", "IdentitiesOnly yes"]
    (home / ".ssh/config").write_text("\n".join(lines + [f"HostKeyAlias {alias}"] * bool(alias)) + "\n")


@pytest.mark.parametrize(("kind", "template", "alias"), CASES)
def test_host_keys_are_accepted_as_by_ssh(
    servers: dict[str, Server], kind: str, template: str, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(servers[kind], template, monkeypatch, alias)
    assert workbench_says(servers[kind]) == ssh_says(servers[kind])


@pytest.mark.parametrize("template", ["{host} {HOST}", "[{host}]:{port} {HOST}", "[{host}]:22 {HOST}"])
def test_hashed_names_are_matched(servers: dict[str, Server], template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for server in (servers["usual"], servers["other port"]):
        prepare(server, template, monkeypatch)
        path = server.folder / "home/.ssh/known_hosts"
        subprocess.run([require("ssh-keygen"), "-q", "-H", "-f", str(path)], check=True, capture_output=True)
        assert workbench_says(server) == ssh_says(server)


def test_ssh_accepts_a_key_that_the_user_accepted(servers: dict[str, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, alias in (("usual", ""), ("other port", ""), ("other port", ALIAS), ("signed for another", "")):
        server = servers[kind]
        prepare(server, "", monkeypatch, alias)
        secrets = Secrets()
        with pytest.raises(HostKeyRefused) as refused:
            log_in(server, secrets)
        secrets.accepted.add(refused.value.presented)
        log_in(server, secrets)
        assert ssh_says(server) == "accepted"
