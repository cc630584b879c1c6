"""Where a host's Docker engine listens, and why this user cannot reach it when that is so.

Only unix sockets count: an engine behind TCP runs on a machine whose folders we could not mount.
"""

from __future__ import annotations

import os
import stat

from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_workbench.targets.host import Host

SYSTEM_SOCKET = "/var/run/docker.sock"
USER_SOCKETS = ("docker.sock",)  # below the user's runtime folder: a rootless engine
HOME_SOCKETS = (".docker/run/docker.sock", ".docker/desktop/docker.sock")

_PROBE = """\
runtime=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
for socket in "${DOCKER_HOST#unix://}" /var/run/docker.sock "$runtime/docker.sock" "$HOME/.docker/run/docker.sock"; do
    [ -n "$socket" ] && [ -S "$socket" ] || continue
    [ -w "$socket" ] && { printf 'usable\\n%s\\n' "$socket"; exit; }
    found=$socket
done
[ -n "$found" ] && { printf 'refused\\n%s\\n%s\\n%s\\n' "$found" "$(id -un)" "$(stat -c %G "$found")"; exit; }
command -v docker >/dev/null 2>&1 && { echo stopped; exit; }
echo missing
"""


class EngineOutOfReach(ConfigurationError):
    """There is no engine for this user; `command` is what mends it there, as an administrator, "" when nothing does.

    `group` is the group that the user would have to be in, "" when that is not what is wrong.
    """

    def __init__(self, message: str, *, remedy: str, command: str = "", group: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.command = command
        self.group = group


def local_docker_socket() -> str:
    """The socket of this machine's engine. Raises ConfigurationError with what to do when there is none for us."""
    named = os.environ.get("DOCKER_HOST", "")
    if named and not named.startswith("unix://"):
        raise ConfigurationError(
            f"DOCKER_HOST is {named}, and a local target needs an engine on this machine",
            remedy="Unset DOCKER_HOST, or attach that machine as a remotedocker target.",
        )
    candidates = [named.removeprefix("unix://")] if named else _candidates()
    found = [path for path in candidates if _is_socket(path)]
    for path in found:
        if os.access(path, os.R_OK | os.W_OK):
            return path
    if found:
        import getpass

        raise _refused("this machine", found[0], getpass.getuser(), _group_of(found[0]))
    if named:
        raise ConfigurationError(
            f"nothing listens at {candidates[0]}, which DOCKER_HOST names", remedy="Start Docker, or unset DOCKER_HOST."
        )
    raise _missing("this machine", stopped=_is_installed())


def remote_docker_socket(host: Host) -> str:
    """The socket of another machine's engine, as a path there. Raises the same, or TargetUnreachable."""
    words = host.check(["sh", "-c", _PROBE]).text.split("\n")
    if words[0] == "usable":
        return words[1]
    if words[0] == "refused":
        raise _refused(host.label, *words[1:4])
    raise _missing(host.label, stopped=words[0] == "stopped")


def _candidates() -> list[str]:
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    home = os.path.expanduser("~")
    return [
        SYSTEM_SOCKET,
        *(os.path.join(runtime, name) for name in USER_SOCKETS),
        *(os.path.join(home, name) for name in HOME_SOCKETS),
    ]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _is_installed() -> bool:
    return any(os.access(os.path.join(folder, "docker"), os.X_OK) for folder in os.get_exec_path())


def _group_of(path: str) -> str:
    import grp

    group = os.stat(path).st_gid
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _refused(place: str, socket: str, user: str, group: str) -> EngineOutOfReach:
    command = f"sudo usermod -aG {group} {user}"
    return EngineOutOfReach(
        f"{place}: the user {user} may not use Docker: {socket} belongs to the group {group}",
        remedy=f"An administrator adds the user, once: {command}   Then log in anew "
        "(from here: workbench-tui computetarget disconnect TARGET). Nothing here ever uses sudo.",
        command=command,
        group=group,
    )


def _missing(place: str, *, stopped: bool) -> EngineOutOfReach:
    if stopped:
        return EngineOutOfReach(
            f"{place}: Docker is installed, but its engine is not running",
            remedy="Start it: sudo systemctl start docker",
            command="sudo systemctl start docker",
        )
    return EngineOutOfReach(
        f"{place}: there is no Docker engine", remedy="Install Docker Engine: https://docs.docker.com/engine/install/"
    )
