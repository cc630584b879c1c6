"""How the programs of one user share an SSH connection: where its socket lies and what is said over it.

One process for each login, the link (`ssh_link`), holds the connection; everybody else connects to its unix socket,
is greeted with an empty message, sends one request and reads replies. A message is a length of four bytes and JSON;
the request to start a program carries the program's three streams as file descriptors. The folder of the socket is the
user's alone, which is all the protection there is, and all that an SSH agent has.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import socket
import stat
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_workbench.core.errors import StorageError, TargetUnreachable
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, LoginRefused, SecretNeeded

# What a request is: its `op`, and `agent`, the caller's SSH agent: the one that the link was started with may be gone.
EXEC = "exec"  # start a program: `command`, three descriptors; answered by {} and later {"exit": code}
FORWARD = "forward"  # listen for the unix socket `path` of the host: {"socket": path here}
WAIT = "wait"  # {} once the machine answers
SECRET = "secret"  # remember `value` under `reference`, in memory; `kept` when a keyring holds it as well: {}
NO_SECRET = "no-secret"  # nobody but a person knows `reference`: {}
ACCEPT = "accept"  # accept the host key with `fingerprint` when it is shown next: {}
STATUS = "status"  # {"state": ..., "since": seconds since the epoch, "server": version, "peer": address}
CLOSE = "close"  # end the connection and the link: {}

_LONGEST_MESSAGE = 64 << 20
_HEADER = 4

MOST_DESCRIPTORS = 3
"""That come with a message."""


class Login(NamedTuple):
    """Who logs in where and with what; equal logins share a connection."""

    target: str  # the compute target's name, for messages
    address: str  # host name, address or alias of ~/.ssh/config, with :PORT when it is not the usual one
    username: str = ""  # "" leaves it to ~/.ssh/config, else the local user's name
    private_key: str = ""  # a key file; "" for those of ~/.ssh/config, the agent and the usual names
    passphrase: str = ""  # reference of the secret that opens it
    password: str = ""  # reference of the secret to log in with

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The parts of `address`; port 0 when it names none. `[::1]:22` and a bare `::1` are understood."""
        host, colon, port = self.address.rpartition(":")
        if not colon or not port.isdigit() or (":" in host and not host.endswith("]")):
            host, port = self.address, "0"
        return host.strip("[]"), int(port)

    @property
    def ssh_words(self) -> str:
        """What `ssh` is to be called with to log in on the machine, as words for a shell to copy."""
        host, port = self.host_and_port
        place = shlex.quote(f"{self.username}@{host}" if self.username else host)
        place = f"-- {place}" if place.lstrip("'").startswith("-") else place  # else it would be an option
        return f"-p {port} {place}" if port else place

    @property
    def key_words(self) -> str:
        """The option that names the key for `ssh` and its like, "" when no key is named."""
        if not self.private_key:
            return ""
        # A quoted `~` would mean a file of that name.
        home = "~/" if self.private_key.startswith("~/") else ""
        return f"-i {home}{shlex.quote(self.private_key.removeprefix(home))} "

    @property
    def all_words(self) -> str:
        """What `ssh` is to be called with to log in on the machine with the key that is named, if one is."""
        return f"{self.key_words}{self.ssh_words}"

    @property
    def label(self) -> str:
        """The machine in an error message."""
        return f"{self.target} ({f'{self.username}@' if self.username else ''}{self.address})"


def login_of(target: ComputeTarget) -> Login:
    """What a `.compute` file says about the login."""
    return Login(
        target=target.name,
        address=target.address,
        username=target.username,
        private_key=target.private_key,
        passphrase=target.private_key_passphrase,
        password=target.password,
    )


class LinkPaths:
    """The files of the link for one login: `socket`, `lock`, `errors`; and sockets that it forwards."""

    def __init__(self, login: Login) -> None:
        folder = runtime_directory()
        identity = json.dumps([*login, os.path.expanduser("~")])
        # Half of SHA-256 is plenty among a person's machines, and a socket's path may have 107 bytes only.
        self._base = os.path.join(folder, hashlib.sha256(identity.encode()).hexdigest()[:16])
        self.socket = f"{self._base}.link"
        self.lock = f"{self._base}.lock"
        self.errors = f"{self._base}.err"

    def forwarded(self, remote_path: str) -> str:
        """Where the unix socket `remote_path` of the host appears here."""
        return f"{self._base}.{hashlib.sha256(os.fsencode(remote_path)).hexdigest()[:6]}"


def runtime_directory() -> str:
    """The folder for sockets, which only this user may enter. Raises StorageError when there can be none."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base) and os.path.isdir(base) and len(base) < 60:
        path = os.path.join(base, "workbench-tui")
    else:
        path = os.path.join(tempfile.gettempdir(), f"workbench-tui-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise StorageError(f"cannot make it: {error.strerror}", remedy="Free some space there.", file=path) from error
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StorageError(
            "this folder is not yours alone, so no connection may be kept in it",
            remedy="Remove it, or set XDG_RUNTIME_DIR.",
            file=path,
        )
    return path


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message, with descriptors. Raises OSError."""
    data = json.dumps(message).encode("ascii")
    data = len(data).to_bytes(_HEADER, "big") + data
    sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else connection.send(data)
    # Nothing more than needed: who has the whole message may have answered and hung up by now.
    if sent < len(data):
        connection.sendall(data[sent:])


def receive(connection: socket.socket, descriptors: list[int] | None = None) -> dict[str, Any] | None:
    """Wait for one message, whose descriptors are added to `descriptors`; None when the other side has closed.

    Raises OSError, TimeoutError, and ValueError for what is no message.
    """
    header, received, _, _ = socket.recv_fds(connection, _HEADER, MOST_DESCRIPTORS)
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
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


_KINDS = {kind.__name__: kind for kind in (ConnectionLost, LoginRefused, SecretNeeded, HostKeyRefused)}
_FIELDS = ("reference", "prompt", "host_verified", "presented", "known", "failed_check")


def error_to_message(error: TargetUnreachable) -> dict[str, Any]:
    """An error as a reply."""
    fields = {name: getattr(error, name) for name in _FIELDS if hasattr(error, name)}
    return {"error": type(error).__name__, "message": error.message, "remedy": error.remedy, **fields}


def error_from_message(message: dict[str, Any]) -> TargetUnreachable:
    """The error that a reply carries."""
    kind = _KINDS.get(message["error"], ConnectionLost)
    fields = {
        name: message[name]
        for name in _FIELDS
        if name in message and (name != "failed_check" or kind is ConnectionLost)
    }
    if "known" in fields:
        fields["known"] = tuple(fields["known"])
    return kind(message["message"], remedy=message["remedy"], **fields)
