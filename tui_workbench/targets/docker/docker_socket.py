"""Find the socket of a host's Docker engine, or the reason why this user cannot use it.

Only Unix sockets are supported, because an engine behind TCP could not mount folders of this host.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from tui_workbench.core.errors import ConfigurationError, TargetUnreachable
from tui_workbench.core.files import read_file
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import SHELL, Host

SYSTEM_SOCKET = "/var/run/docker.sock"

DEFAULT_CONTEXT = "default"
"""The Docker context that chooses no engine. It overrides the context in Docker's configuration file."""

_FIND_SOCKET = shell_script("targets/docker/scripts/find_socket.sh")


class EngineOutOfReach(ConfigurationError):
    """The user cannot use an engine. Not a TargetUnreachable, because waiting does not help.

    `command` is the command with which an administrator fixes the problem on the host, or "". `group` is the group that
    the user must join, or "". `is_missing` is True if Docker is not installed.
    """

    exit_code = TargetUnreachable.exit_code

    def __init__(
        self, message: str, *, remedy: str, command: str = "", group: str = "", is_missing: bool = False
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.command = command
        self.group = group
        self.is_missing = is_missing


def docker_socket(host: Host) -> str:
    """Return the path of a Unix socket on this machine that leads to the engine of a host.

    The socket works until the connection breaks. Raises the errors of `engine_socket`.
    """
    return host.forward(engine_socket(host))


def engine_socket(host: Host) -> str:
    """Return the path of the engine's socket on its host.

    Raises TargetUnreachable, or ConfigurationError if the engine does not exist or this user cannot use it.
    """
    engine = os.environ.get("DOCKER_HOST", "")
    if host.is_local and engine and not engine.startswith("unix://"):
        raise ConfigurationError(
            f"DOCKER_HOST is '{engine}', but a localdocker target needs an engine on this machine",
            remedy="Unset DOCKER_HOST, or attach the machine that it names as a target of type remotedocker.",
        )
    match host.check([SHELL, "-c", _FIND_SOCKET, "sh", SYSTEM_SOCKET]).text.split("\n"):
        case ["usable", socket]:
            return socket
        case ["refused", socket, user, group]:
            join = f"sudo usermod -aG {group} {user}"
            here = "Then log out and log in again."
            there = "Then run `workbench-tui computetarget disconnect TARGET`: the next login gets the new group."
            raise EngineOutOfReach(
                f"{host.label}: the user {user} has no permission to use Docker, because {socket} belongs to the group "
                f"{group}",
                remedy=f"Ask an administrator to run `{join}`. {here if host.is_local else there}",
                command=join,
                group=group,
            )
        case ["silent", "DOCKER_HOST", socket]:
            raise EngineOutOfReach(
                f"{host.label}: DOCKER_HOST names {socket}, but this socket does not exist",
                remedy="Start Docker on that machine, or unset DOCKER_HOST there.",
            )
        case ["silent", context, socket]:
            raise EngineOutOfReach(
                f"{host.label}: the Docker context '{context}' names {socket}, but this socket does not exist",
                remedy="Start the engine of this context, or choose another context there with `docker context use`.",
            )
        case ["stopped", *sockets]:
            raise _stopped(host, sockets)
        case answer:
            raise EngineOutOfReach(
                f"{host.label}: Docker is not installed (no socket at {', '.join(answer[1:])})",
                remedy="Install Docker Engine: https://docs.docker.com/engine/install/.",
                is_missing=True,
            )


def engine_choice() -> str:
    """Return the user's choice of an engine on this machine: a variable, the name of a context, or "" for the default.

    Starts no process and contacts no engine.
    """
    # The order is that of the `docker` command.
    choice = os.environ.get("DOCKER_HOST") or os.environ.get("DOCKER_CONTEXT")
    if not choice:
        folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
        with contextlib.suppress(OSError, ValueError, AttributeError):
            choice = parse_json(read_file(f"{folder}/config.json")).get("currentContext")
    return "" if choice in (None, DEFAULT_CONTEXT) else str(choice)


def engine_variables() -> dict[str, str]:
    """Return the environment variables with which a process keeps using the engine of `engine_choice`."""
    return {} if os.environ.get("DOCKER_HOST") else {"DOCKER_CONTEXT": engine_choice() or DEFAULT_CONTEXT}


def _stopped(host: Host, sockets: Sequence[str]) -> EngineOutOfReach:
    message = f"{host.label}: Docker is installed, but its engine is not running (no socket at {', '.join(sockets)})"
    if host.is_local and sys.platform == "darwin":
        return EngineOutOfReach(
            message, remedy="Start Docker Desktop, or run `colima start` or `podman machine start`."
        )
    start = "sudo systemctl start docker"
    return EngineOutOfReach(
        message,
        remedy=f"Start the engine: `{start}`. Start a rootless engine with `systemctl --user start docker`, "
        "and Docker Desktop from its menu.",
        command=start,
    )
