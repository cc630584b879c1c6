"""Checks of Python, git, SSH, Docker and the keyring; every call has a time limit."""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any

from tui_workbench.cli.doctor.answer import Answer, broken, limited, ok, run_program
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.installation import repeat_command, repeat_remedy
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.checks.result import CheckFailed
from tui_workbench.targets.docker.checks import check_version
from tui_workbench.targets.docker.docker_socket import EngineOutOfReach, docker_socket
from tui_workbench.targets.docker.engine_answers import EngineFacts
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.secrets import SecretStore

TIME_LIMIT = 5.0
"""Time limit for a program or service, in seconds."""

KEYRING = "gnome-keyring-daemon"
UNLOCKED_SHELL = (
    f'dbus-run-session -- bash -c \'read -rsp "Password of the keyring: " P; printf %s "$P" | {KEYRING} --unlock; '
    "exec bash'"
)
"""The command that starts a shell with a message bus and an unlocked keyring."""

IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")

_LIST_KEYS, _KEYS = b"\x00\x00\x00\x01\x0b", 12
"""The message that requests the keys of an SSH agent, and the type of the answer."""

_READ_CONFIGURATION = (
    "import sys; from tui_workbench.targets.ssh.ssh_config import configuration_problem; "
    "sys.exit(configuration_problem() or 0)"
)
_ANSWER_LIMIT = 1 << 20


def python() -> Answer:
    """Check that the required packages are installed."""
    version = ".".join(map(str, sys.version_info[:3]))
    wrong = _wrong_packages()
    if wrong:
        message = f"{version} in {sys.prefix} lacks {', '.join(wrong)}"
        command = repeat_command()
        remedy = "Install the workbench again:" if command else repeat_remedy()
        cost = "Features that need these packages fail."
        return broken("python", message, cost, remedy, command)
    return ok("python", f"{version} in {sys.prefix}")


def _wrong_packages() -> list[str]:
    """Return missing packages and wrong versions; [] if the workbench is not installed as a package."""
    from importlib import metadata

    try:
        requirements = metadata.requires("workbench-tui") or []
    except metadata.PackageNotFoundError:
        return []
    wrong = []
    for requirement in requirements:
        match = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*(==([\w.]+))?", requirement)
        if "extra ==" in requirement or match is None:  # the packages of an extra are optional
            continue
        try:
            installed = metadata.version(match[1])
        except metadata.PackageNotFoundError:
            wrong.append(match[1])
        else:
            wrong += [f"{match[1]} {match[3]} (installed: {installed})"] if match[3] not in (None, installed) else []
    return wrong


def program(name: str, option: str, cost: str, package: str) -> Answer:
    done = run_program(name, option, timeout=TIME_LIMIT)
    if done is not None and done.code == 0:
        # `ssh -V` prints its version to stderr.
        return ok(name, (done.stderr + done.stdout).decode("utf-8", "replace").strip())
    if done is None:
        message = f"no answer from {name}"
    else:
        message = "not installed" if done.code == 127 else f"{name} fails: {done.complaint}"
    remedy = "Install it" if done is not None and done.code == 127 else "Check its installation, or install it again"
    command = _install(package)
    return limited(name, message, cost, f"{remedy}:" if command else f"{remedy}.", command)


def git() -> Answer:
    cost = "Snapshots are plain copies: projects cannot be restored, and code and commits of runs cannot be compared."
    return program("git", "--version", cost, "git")


def ssh() -> Answer:
    cost = "The workbench connects without it, but ProxyCommand lines and copied commands usually call it."
    return program("ssh", "-V", cost, "openssh-client")


def agent() -> Answer:
    """Check that an SSH agent provides keys."""
    folder = os.path.join(os.path.expanduser("~"), ".ssh")
    files = [name for name in IDENTITIES if os.path.exists(os.path.join(folder, name))]
    cost = "Keys in ~/.ssh with a passphrase are not tried without an agent."
    path = os.environ.get("SSH_AUTH_SOCK", "")
    try:
        reply = _request(path, _LIST_KEYS) if path else b""
        number = struct.unpack(">I", reply[5:9])[0] if reply[4:5] == bytes([_KEYS]) else 0
        message = counted(number, "key") if path else "not running"
    except (OSError, struct.error) as error:
        number, message = 0, f"no answer at {path} ({error})"
        path = ""
    if not number and not files:
        cost = (
            "Logins work only with keys that a target or ~/.ssh/config names, or with passwords. "
            "`workbench-tui computetarget attach -k` creates a key for the workbench."
        )
        return limited(
            "ssh agent",
            f"{message}, no keys with the usual names in ~/.ssh",
            cost,
            "Create a key:",
            "ssh-keygen -t ed25519",
        )
    if path:
        return ok("ssh agent", message)
    command = 'eval "$(ssh-agent)" && ssh-add'
    return limited("ssh agent", f"{message}; keys in ~/.ssh: {', '.join(files)}", cost, "Start the agent:", command)


def configuration() -> Answer:
    """Check that ~/.ssh/config is valid and that private keys are not readable by others."""
    path = os.path.join(os.path.expanduser("~"), ".ssh")
    loose = [name for name in IDENTITIES if _mode(os.path.join(path, name)) & 0o077]
    if loose:
        files = " ".join(f"~/.ssh/{name}" for name in loose)
        cost = "OpenSSH refuses keys that others can read."
        return limited("ssh config", f"others can read {files}", cost, "Restrict access:", f"chmod 600 {files}")
    if not os.path.exists(os.path.join(path, "config")):
        return ok("ssh config", "no ~/.ssh/config (optional)")
    done = run_program(sys.executable, "-P", "-c", _READ_CONFIGURATION, timeout=TIME_LIMIT)
    if done is not None and done.code == 0:
        return ok("ssh config", "~/.ssh/config is valid")
    message = "reading ~/.ssh/config takes too long" if done is None else done.complaint.rpartition("\n")[2]
    return limited(
        "ssh config", message, "Machines cannot be reached over SSH.", "See how ssh reads the file:", "ssh -G localhost"
    )


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def docker() -> Answer:
    """Check that the user may use the Docker engine."""
    cost = "Targets of type localdocker do not work; local and remote targets do."
    try:
        socket_path = docker_socket(LocalHost())
        facts: dict[str, Any] = _engine(socket_path)
    except (ConfigurationError, EngineOutOfReach) as error:
        command = getattr(error, "command", "")
        remedy = f"{error.remedy.partition(command)[0].rstrip(' `:')}:" if command else error.remedy
        return limited("docker", error.message, cost, remedy, command)
    except (OSError, ValueError) as error:
        message = f"the engine at {socket_path} does not answer: {error}"
        return limited("docker", message, cost, "Check the service:", "sudo systemctl status docker")
    version, system, kind = (str(facts.get(key, "")) for key in ("Version", "Os", "Arch"))
    try:
        check = check_version(EngineFacts(version, system, kind, rootless=False, runtimes=(), root=""))
    except CheckFailed as failure:
        return limited("docker", failure.message, cost, failure.remedy, failure.command)
    return ok("docker", f"{check.message}, at {socket_path}")


def _engine(socket_path: str) -> dict[str, Any]:
    """Return the answer of the engine to a request for its version. Raises OSError or ValueError."""
    reply = _request(socket_path, b"GET /version HTTP/1.0\r\nHost: docker\r\n\r\n", to_the_end=True)
    facts = parse_json(reply.partition(b"\r\n\r\n")[2])
    if not isinstance(facts, dict):
        raise ValueError("not a Docker engine")
    return facts


def _request(path: str, request: bytes, *, to_the_end: bool = False) -> bytes:
    """Send a request to a Unix socket and return the answer. Raises OSError, including for a timeout."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIME_LIMIT)
        connection.connect(path)
        connection.sendall(request)
        reply = b""
        while (piece := connection.recv(1 << 16)) and len(reply) < _ANSWER_LIMIT:
            reply += piece
            # 9 bytes: length, type of the answer and number of keys. An agent does not close the connection.
            if not to_the_end and len(reply) >= 9:
                break
        return reply


def keyring() -> Answer:
    """Check that secrets can be stored."""
    status = SecretStore().look(TIME_LIMIT)
    if status.in_keyring:
        return ok("keyring", f"stores secrets ({status.reason})")
    cost = (
        "Channels for notifications cannot be added. Passwords and passphrases are kept in memory only. You are asked "
        "for them again after 12 hours without use, or after a restart of this machine."
    )
    if shutil.which(KEYRING) is None:
        remedy, command = "Log in with keys, or install a keyring:", _install("gnome-keyring")
    elif not status.has_bus:
        remedy = "Log in with keys, or start a shell with a bus and an unlocked keyring:"
        command = UNLOCKED_SHELL
    else:
        remedy, command = "Log in with keys, or unlock the keyring.", ""
    return limited("keyring", status.reason, cost, remedy, command)


def _install(package: str) -> str:
    """Return the system's command to install a package; "" if its package manager is unknown."""
    managers: Sequence[tuple[str, str]] = (
        ("apt-get", "sudo apt-get install"),
        ("dnf", "sudo dnf install"),
        ("pacman", "sudo pacman -S"),
        ("zypper", "sudo zypper install"),
        ("apk", "sudo apk add"),
        ("brew", "brew install"),
    )
    for manager, command in managers:
        if shutil.which(manager):
            return f"{command} {package}"
    return ""


CHECKS = (python, git, ssh, agent, configuration, docker, keyring)
