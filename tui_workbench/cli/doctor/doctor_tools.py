"""What `doctor` finds out about the programs that the workbench works with: Python, git, SSH, Docker, the keyring.

Each is asked in a way that ends by itself: a program with a time limit, a socket with one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any

from tui_workbench.cli.doctor.answer import Answer, ask, broken, limited, ok
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.targets.base.secrets import SecretStore
from tui_workbench.targets.checks.check_engine import check_version
from tui_workbench.targets.checks.result import CheckFailed
from tui_workbench.targets.docker.docker_socket import EngineOutOfReach, docker_socket
from tui_workbench.targets.docker.engine import EngineFacts
from tui_workbench.targets.hosts.host import Completed, LocalHost

PATIENCE = 5.0
"""Seconds for a program or a service that others wait for as well."""

IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")

_LIST_KEYS, _KEYS = b"\x00\x00\x00\x01\x0b", 12
"""The agent protocol's question for its keys, and the kind of its answer."""

_READ_CONFIGURATION = "from tui_workbench.targets.ssh.ssh_config import Hop; Hop('localhost', 0, '')"
_ANSWER_LIMIT = 1 << 20


def python() -> Answer:
    """Whether this Python will do, and everything is installed in it."""
    version = ".".join(map(str, sys.version_info[:3]))
    wrong = _wrong_packages()
    if wrong:
        said = f"{version} in {sys.prefix} lacks {', '.join(wrong)}"
        command = f"{sys.executable} -m pip install --upgrade --force-reinstall workbench-tui"
        return broken("python", said, "What needs them fails.", "Install the workbench again:", command)
    return ok("python", f"{version} in {sys.prefix}")


def _wrong_packages() -> list[str]:
    """What the installation asks for and does not have; nothing is known where it has no record of itself."""
    from importlib import metadata

    try:
        wanted = metadata.requires("workbench-tui") or []
    except metadata.PackageNotFoundError:
        return []
    wrong = []
    for requirement in wanted:
        found = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*(==([\w.]+))?", requirement)
        if "extra ==" in requirement or found is None:
            continue
        try:
            has = metadata.version(found[1])
        except metadata.PackageNotFoundError:
            wrong.append(found[1])
        else:
            wrong += [f"{found[1]} {found[3]} (it has {has})"] if found[3] not in (None, has) else []
    return wrong


def program(name: str, option: str, cost: str, package: str) -> Answer:
    """Whether a program is there; the workbench works without."""
    done = ask(name, option, patience=PATIENCE)
    if done is not None and done.code == 0:
        return ok(name, (done.stderr + done.stdout).decode("utf-8", "replace").strip())
    return limited(name, _fault(name, done), cost, "Install it:", _install(package))


def git() -> Answer:
    """Whether snapshots are taken by git."""
    cost = "Runs work in plain copies of the project: nothing can be restored, no code compared, no commit told."
    return program("git", "--version", cost, "git")


def ssh() -> Answer:
    """Whether there is an OpenSSH client. The workbench's own connections do not need it."""
    cost = "The workbench logs in without it, but ProxyCommand lines and copied commands mostly call it."
    return program("ssh", "-V", cost, "openssh-client")


def agent() -> Answer:
    """Whether keys are at hand without their passphrases being asked for."""
    folder = os.path.join(os.path.expanduser("~"), ".ssh")
    files = [name for name in IDENTITIES if os.path.exists(os.path.join(folder, name))]
    cost = "A key with a passphrase asks for it at each login."
    path = os.environ.get("SSH_AUTH_SOCK", "")
    try:
        reply = _asked(path, _LIST_KEYS) if path else b""
        number = struct.unpack(">I", reply[5:9])[0] if reply[4:5] == bytes([_KEYS]) else 0
        said = f"it holds {number} key{'' if number == 1 else 's'}" if path else "there is none"
    except (OSError, struct.error) as error:
        number, said = 0, f"nobody answers at {path} ({error})"
        path = ""
    if not number and not files:
        cost = "There is no key to log in with; `computetarget attach -k` makes one for the workbench alone."
        return limited("ssh agent", f"{said}, and no keys in ~/.ssh", cost, "Make one:", "ssh-keygen -t ed25519")
    if path:
        return ok("ssh agent", said)
    command = 'eval "$(ssh-agent)" && ssh-add'
    return limited("ssh agent", f"{said}; keys in ~/.ssh: {', '.join(files)}", cost, "Start one:", command)


def configuration() -> Answer:
    """Whether ~/.ssh/config can be understood, and its keys are safe from others."""
    path = os.path.join(os.path.expanduser("~"), ".ssh")
    loose = [name for name in IDENTITIES if _mode(os.path.join(path, name)) & 0o077]
    if loose:
        files = " ".join(f"~/.ssh/{name}" for name in loose)
        cost = "OpenSSH refuses a key that others may read."
        return limited("ssh config", f"others may read {files}", cost, "Keep it to yourself:", f"chmod 600 {files}")
    if not os.path.exists(os.path.join(path, "config")):
        return ok("ssh config", "there is no ~/.ssh/config, and none is needed")
    done = ask(sys.executable, "-P", "-c", _READ_CONFIGURATION, patience=PATIENCE)
    if done is not None and done.code == 0:
        return ok("ssh config", "~/.ssh/config is understood")
    said = "reading ~/.ssh/config does not end" if done is None else done.complaint.rpartition("\n")[2]
    return limited(
        "ssh config", said, "No machine over SSH can be reached.", "See how ssh reads it:", "ssh -G localhost"
    )


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def docker() -> Answer:
    """Whether the engine of this machine may be used."""
    cost = "Targets of the type localdocker cannot be used; local ones and other machines can."
    try:
        socket = docker_socket(LocalHost())
        facts: dict[str, Any] = _engine(socket)
    except (ConfigurationError, EngineOutOfReach) as error:
        command = getattr(error, "command", "")
        remedy = error.remedy.partition(command)[0].strip() if command else error.remedy
        return limited("docker", error.message, cost, remedy, command)
    except (OSError, ValueError) as error:
        said = f"the engine at {socket} does not answer: {error}"
        return limited("docker", said, cost, "Look what ails it:", "sudo systemctl status docker")
    version, system, kind = (str(facts.get(key, "")) for key in ("Version", "Os", "Arch"))
    try:
        result = check_version(EngineFacts(version, system, kind, rootless=False, runtimes=(), root=""))
    except CheckFailed as broken:
        return limited("docker", broken.message, cost, broken.remedy, broken.command)
    return ok("docker", f"{result.message}, at {socket}")


def _engine(socket: str) -> dict[str, Any]:
    """What the engine says of itself. Raises OSError, ValueError."""
    reply = _asked(socket, b"GET /version HTTP/1.0\r\nHost: docker\r\n\r\n", to_the_end=True)
    facts = json.loads(reply.partition(b"\r\n\r\n")[2])
    if not isinstance(facts, dict):
        raise ValueError("what answers there is no Docker engine")
    return facts


def _asked(path: str, question: bytes, *, to_the_end: bool = False) -> bytes:
    """The answer at a unix socket. Raises OSError; TimeoutError is one."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(question)
        reply = b""
        while (piece := connection.recv(1 << 16)) and len(reply) < _ANSWER_LIMIT:
            reply += piece
            if not to_the_end and len(reply) >= 9:
                break
        return reply


def keyring() -> Answer:
    """Whether secrets can be kept."""
    found = SecretStore().look(PATIENCE)
    if found.in_keyring:
        return ok("keyring", f"secrets are kept in it ({found.reason})")
    cost = "Passwords and passphrases are held in memory, and asked for again after a day or a restart."
    return limited("keyring", found.reason, cost, "Install one, or log in with keys:", _install("gnome-keyring"))


def _fault(name: str, done: Completed | None) -> str:
    if done is None:
        return f"{name} does not end"
    return "it is not installed" if done.code == 127 else f"{name} fails: {done.complaint}"


def _install(package: str) -> str:
    """The command that installs a package of this system."""
    managers: Sequence[tuple[str, str]] = (
        ("apt-get", "sudo apt-get install"),
        ("dnf", "sudo dnf install"),
        ("pacman", "sudo pacman -S"),
        ("zypper", "sudo zypper install"),
        ("apk", "sudo apk add"),
        ("brew", "brew install"),
    )
    for program, command in managers:
        if shutil.which(program):
            return f"{command} {package}"
    return ""


CHECKS = (python, git, ssh, agent, configuration, docker, keyring)
