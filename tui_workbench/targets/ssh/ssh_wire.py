"""The protocol between the link (`ssh_link`) and its clients over a unix socket.

A client connects, reads an empty message as a greeting, sends one request and reads replies. A message is a length
of four bytes, followed by JSON. The request to start a program passes the program's three streams as file descriptors.
As with an SSH agent, the socket is protected by its folder, which only the user can enter.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import socket
import stat
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_workbench import __version__
from tui_workbench.core.addresses import Mistake, address_mistake, split_address, username_mistake
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import StorageError, TargetUnreachable, storage_errors
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, LoginRefused, SecretNeeded

# Values of `op` in requests, and the replies. Each request also has `login`, the values of a `Login`, and `agent`, the
# socket of the client's SSH agent.
EXEC = "exec"  # start the program `command` with three descriptors: {}, and later {"exit": code}
FORWARD = "forward"  # connect a local unix socket to the host's socket `path`: {"socket": local path}
FORWARD_PORT = "forward-port"  # `port` at `address` becomes the local port `here`: {"port": local port}, and later {}
WAIT = "wait"  # wait until the machine answers: {}
SECRET = "secret"  # hold `value` under `reference`; `kept` if it is in a keyring as well: {}
NO_SECRET = "no-secret"  # only the user knows the secret of `reference`: {}
ACCEPT = "accept"  # accept the host key with `fingerprint`: {}
ATTEND = "attend"  # a user can answer the questions of the server: {}
STATUS = "status"  # {"state": ..., "since": seconds since the epoch, "server": version, "peer": address, ...}
CLOSE = "close"  # end the connections of the login, and forget its secrets unless `keep_secrets`: {}

CONNECTING = frozenset((EXEC, FORWARD, FORWARD_PORT, WAIT))
"""The requests for which the link connects to the machine."""

AGENT_VARIABLE = "SSH_AUTH_SOCK"
"""The environment variable that names the socket of the SSH agent."""

_LONGEST_MESSAGE = 64 << 20
_HEADER = 4
_DESCRIPTORS = 3


class Login(NamedTuple):
    """The parameters of a login. Equal logins share their connections and secrets."""

    target: str  # the compute target's name, for messages
    address: str  # host name, address or alias from ~/.ssh/config, with :PORT if it is not the default
    username: str = ""  # "" for the user in ~/.ssh/config, or the local user's name
    private_key: str = ""  # a key file; "" for the keys in ~/.ssh/config, in the agent, and with the default names
    passphrase: str = ""  # reference of the key's passphrase
    password: str = ""  # reference of the password

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The parts of `address`; port 0 if missing. Accepts `[::1]:22` and `::1`."""
        return split_address(self.address)

    @property
    def mistake(self) -> Mistake | None:
        """The mistake in the address or the user name, if any. Such a login is always refused."""
        return address_mistake(self.address) or username_mistake(self.username)

    @property
    def ssh_words(self) -> str:
        """The arguments of `ssh` without the key, quoted for a shell."""
        host, port = self.host_and_port
        destination = shlex.quote(f"{self.username}@{host}" if self.username else host)
        if destination.lstrip("'").startswith("-"):
            destination = f"-- {destination}"  # otherwise, it would be an option
        return f"-p {port} {destination}" if port else destination

    @property
    def all_words(self) -> str:
        """The arguments of `ssh` with the key, quoted for a shell."""
        if not self.private_key:
            return self.ssh_words
        # A shell does not expand a quoted `~`.
        home = "~/" if self.private_key.startswith("~/") else ""
        return f"-i {home}{shlex.quote(self.private_key.removeprefix(home))} {self.ssh_words}"

    @property
    def label(self) -> str:
        """The name of the machine in error messages."""
        return f"{self.target} ({f'{self.username}@' if self.username else ''}{self.address})"


def login_of(target: ComputeTarget) -> Login:
    """Return the login of a compute target."""
    return Login(
        target=target.name,
        address=target.address,
        username=target.username,
        private_key=target.private_key,
        passphrase=target.private_key_passphrase,
        password=target.password,
    )


def environment_with(agent: str) -> dict[str, str]:
    """Return the environment for a command that the SSH configuration names, with the client's agent, or none for "".

    The agent of this process may be that of another client: the link serves all processes of the user.
    """
    environment = {name: value for name, value in os.environ.items() if name != AGENT_VARIABLE}
    return {**environment, AGENT_VARIABLE: agent} if agent else environment


class LinkPaths:
    """The paths of the link's files: `socket`, `lock`, `errors` and forwarded sockets. Raises StorageError.

    Clients do not share a link if their home directories, their state folders (which contain the trace of calls) or
    their versions of the workbench differ.
    """

    def __init__(self) -> None:
        identity = [__version__, os.path.expanduser("~"), user_state_directory()]
        # Shortened, because the path of a socket may have at most 107 bytes.
        self._base = os.path.join(runtime_directory(), _digest(*identity)[:16])
        self.socket = f"{self._base}.link"
        self.lock = f"{self._base}.lock"
        self.errors = f"{self._base}.err"

    def forwarded(self, login: Login, remote_path: str) -> str:
        """Return the local path of the unix socket `remote_path` of a host."""
        return f"{self._base}.{_digest(*login, remote_path)[:12]}"


def _digest(*values: str) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def runtime_directory() -> str:
    """Return the folder for sockets, which only this user may enter. Raises StorageError."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base) and os.path.isdir(base) and len(base) < 60:
        path = os.path.join(base, "workbench-tui")
    else:
        path = os.path.join(tempfile.gettempdir(), f"workbench-tui-{os.getuid()}")
    with storage_errors("create", path), contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise StorageError(
            "this is not a folder that only you can access, so it cannot contain the sockets of SSH connections",
            remedy="Remove it, or set XDG_RUNTIME_DIR to a folder with a short path that only you can access.",
            file=path,
        )
    return path


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message, with descriptors. Raises OSError."""
    data = json.dumps(message).encode("ascii")
    data = len(data).to_bytes(_HEADER, "big") + data
    sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else connection.send(data)
    # Send only missing bytes, because the receiver of a complete message may already have disconnected.
    if sent < len(data):
        connection.sendall(data[sent:])


def receive(connection: socket.socket, descriptors: list[int] | None = None) -> dict[str, Any] | None:
    """Return one message, and add its descriptors to `descriptors`; None if it is incomplete or too long.

    Raises OSError, TimeoutError, and ValueError for an invalid message.
    """
    header, received, _, _ = socket.recv_fds(connection, _HEADER, _DESCRIPTORS)
    if descriptors is not None:
        descriptors += received
    size = int.from_bytes(header, "big")
    if len(header) < _HEADER or size > _LONGEST_MESSAGE:
        return None
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    message = parse_json(data)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


_FIELDS_OF: dict[type[TargetUnreachable], tuple[str, ...]] = {
    ConnectionLost: ("failed_check",),
    LoginRefused: ("offers_password",),
    SecretNeeded: ("reference", "prompt", "host_verified", "is_question", "is_visible"),
    HostKeyRefused: ("presented", "known"),
}
_KINDS = {kind.__name__: kind for kind in _FIELDS_OF}


def error_to_message(error: TargetUnreachable) -> dict[str, Any]:
    """Return the reply that reports an error."""
    fields = {name: getattr(error, name) for name in _FIELDS_OF.get(type(error), ())}
    return {"error": type(error).__name__, "message": error.message, "remedy": error.remedy, **fields}


def error_from_message(message: dict[str, Any]) -> TargetUnreachable:
    """Return the error that a reply reports."""
    kind = _KINDS.get(message["error"], ConnectionLost)
    fields = {name: message[name] for name in _FIELDS_OF[kind] if name in message}
    if "known" in fields:
        fields["known"] = tuple(fields["known"])
    return kind(message["message"], remedy=message["remedy"], **fields)
