"""Where a host's Docker engine listens, and why this user cannot reach it when that is so.

Only unix sockets count: an engine behind TCP runs on a machine whose folders we could not mount.
"""

from __future__ import annotations

import os

from tui_workbench.core.errors import ConfigurationError, TargetUnreachable
from tui_workbench.targets.hosts.host import SHELL, Host

SYSTEM_SOCKET = "/var/run/docker.sock"

# $1 the system's socket. The others are those of rootless engines.
_PROBE = """\
runtime=${XDG_RUNTIME_DIR:-/run/user/$(id -u)} found=
case $DOCKER_HOST in
    unix://*) set -- "${DOCKER_HOST#unix://}" ;;
    *) set -- "$1" "$runtime/docker.sock" "$HOME/.docker/run/docker.sock" "$HOME/.docker/desktop/docker.sock" ;;
esac
for socket; do
    [ -S "$socket" ] || continue
    [ -r "$socket" ] && [ -w "$socket" ] && { printf 'usable\\n%s\\n' "$socket"; exit; }
    found=${found:-$socket}
done
[ -n "$found" ] && { printf 'refused\\n%s\\n%s\\n%s\\n' "$found" "$(id -un)" "$(stat -c %G "$found")"; exit; }
case $DOCKER_HOST in unix://*) printf 'silent\\n%s\\n' "$1"; exit ;; esac
command -v docker >/dev/null 2>&1 && { echo stopped; exit; }
echo missing
"""


class EngineOutOfReach(ConfigurationError):
    """There is no engine for this user; `command` is what mends it there, as an administrator, "" when nothing does.

    A target without its engine cannot be reached; that is no TargetUnreachable, as waiting does not help.

    `group` is the group that the user would have to be in, "" when that is not what is wrong.
    """

    exit_code = TargetUnreachable.exit_code

    def __init__(self, message: str, *, remedy: str, command: str = "", group: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.command = command
        self.group = group


def docker_socket(host: Host) -> str:
    """The path of a unix socket on this machine that leads to the engine of a host.

    It stays good until the link breaks. Raises TargetUnreachable, or ConfigurationError when there is no engine or this
    user may not use it.
    """
    named = os.environ.get("DOCKER_HOST", "")
    if host.is_local and named and not named.startswith("unix://"):
        raise ConfigurationError(
            f"DOCKER_HOST is {named}, and a local target needs an engine on this machine",
            remedy="Unset DOCKER_HOST, or attach that machine as a remotedocker target.",
        )
    match host.check([SHELL, "-c", _PROBE, "sh", SYSTEM_SOCKET]).text.split("\n"):
        case ["usable", socket]:
            return host.forward(socket)
        case ["refused", socket, user, group]:
            command = f"sudo usermod -aG {group} {user}"
            raise EngineOutOfReach(
                f"{host.label}: the user {user} may not use Docker: {socket} belongs to the group {group}",
                remedy=f"An administrator adds the user, once: {command}   Then log in anew "
                "(from here: workbench-tui computetarget disconnect TARGET). Nothing here ever uses sudo.",
                command=command,
                group=group,
            )
        case ["silent", socket]:
            raise EngineOutOfReach(
                f"nothing listens at {socket}, which DOCKER_HOST names", remedy="Start Docker, or unset DOCKER_HOST."
            )
        case ["stopped"]:
            command = "sudo systemctl start docker"
            raise EngineOutOfReach(
                f"{host.label}: Docker is installed, but its engine is not running",
                remedy=f"Start it: {command}",
                command=command,
            )
    raise EngineOutOfReach(
        f"{host.label}: there is no Docker engine",
        remedy="Install Docker Engine: https://docs.docker.com/engine/install/",
    )
