"""The workbench's own SSH key: one pair for each user, made once, whose public half is installed on machines.

The private half lies in the user's data directory, readable by the user alone, and never leaves this machine.
"""

from __future__ import annotations

import getpass
import os
import shlex
from typing import NamedTuple

from tui_workbench.core.directories import user_data_directory
from tui_workbench.core.errors import StorageError, storage_error
from tui_workbench.core.files import write_atomically
from tui_workbench.core.locks import held
from tui_workbench.targets.hosts.host import Host

ALGORITHM = "ssh-ed25519"

# Added once however often it is asked for, on a line of its own whatever the file ends with.
_INSTALL = """\
umask 077
mkdir -p "$HOME/.ssh" && touch "$HOME/.ssh/authorized_keys" || exit 1
cd "$HOME/.ssh" || exit 1
grep -qxF -e "$1" authorized_keys && exit 0
[ -z "$(tail -c 1 authorized_keys)" ] || echo >>authorized_keys || exit 1
printf '%s\\n' "$1" >>authorized_keys
"""


class KeyPair(NamedTuple):
    """The private key's file, and the public key as one line of `authorized_keys`."""

    path: str
    public: str

    @property
    def install_command(self) -> str:
        """What to type on the machine to let this key in."""
        return f"mkdir -p -m 700 ~/.ssh && echo {shlex.quote(self.public)} >> ~/.ssh/authorized_keys"


def workbench_key() -> KeyPair:
    """The user's pair, made when there is none yet. Raises StorageError."""
    path = os.path.join(user_data_directory(), "ssh", "id_ed25519")
    public = f"{path}.pub"
    if not os.path.exists(path) or not os.path.exists(public):
        _make(path)
    try:
        with open(public, encoding="utf-8") as file:
            return KeyPair(path, file.read().strip())
    except OSError as error:
        raise storage_error("read", public, error) from error


def install(key: KeyPair, host: Host) -> None:
    """Let the key in on a machine on which we are logged in. Raises TargetUnreachable, WorkbenchError."""
    host.check(["sh", "-c", _INSTALL, "sh", key.public])


def _make(path: str) -> None:
    import asyncssh

    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(
            f"cannot keep a key in it: {error.strerror}", remedy="Make the folder writable.", file=folder
        ) from error
    try:
        with held(lock):  # two that attach at once must not each make one
            if os.path.exists(path):
                key = asyncssh.read_private_key(path)
            else:
                key = asyncssh.generate_private_key(ALGORITHM, comment=f"workbench-tui {_who()}")
                write_atomically(path, key.export_private_key(), mode=0o600)
            write_atomically(f"{path}.pub", key.export_public_key(), mode=0o644)
    except (OSError, asyncssh.KeyImportError) as error:
        raise StorageError(f"this is no usable key: {error}", remedy="Move it away.", file=path) from error


def _who() -> str:
    """Who made the key where, for whoever reads an `authorized_keys` later."""
    return f"{getpass.getuser()}@{os.uname().nodename}"
