"""The workbench's SSH key pair, one per user.

The private key is in the user's data directory, readable by the user alone, and never leaves this machine.
"""

from __future__ import annotations

import getpass
import os
import shlex
from typing import NamedTuple

from tui_workbench.core.directories import user_data_directory
from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.files import read_file, write_atomically
from tui_workbench.core.locks import held
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host

ALGORITHM = "ssh-ed25519"

_INSTALL = shell_script("targets/ssh/scripts/install_key.sh")


class KeyPair(NamedTuple):
    """The private key's file, and the public key as one line of `authorized_keys`."""

    path: str
    public: str

    @property
    def install_command(self) -> str:
        """The command that installs the key, to be typed on the machine."""
        return f"mkdir -p -m 700 ~/.ssh && echo {shlex.quote(self.public)} >> ~/.ssh/authorized_keys"


def workbench_key() -> KeyPair:
    """Return the user's key pair, generated on first use. Raises StorageError."""
    path = os.path.join(user_data_directory(), "ssh", "id_ed25519")
    public = f"{path}.pub"
    if not os.path.exists(path) or not os.path.exists(public):
        _make(path)
    with storage_errors("read", public):
        return KeyPair(path, read_file(public).decode().strip())


def install(key: KeyPair, host: Host) -> None:
    """Add the public key to authorized_keys on a machine. Raises TargetUnreachable or WorkbenchError."""
    host.check(["sh", "-c", _INSTALL, "sh", key.public])


def _make(path: str) -> None:
    from tui_workbench.targets.ssh.library import asyncssh

    folder = os.path.dirname(path)
    with storage_errors("create a key", folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with held(lock):  # two processes must not generate two keys
            if os.path.exists(path):
                key = asyncssh.read_private_key(path)
            else:
                comment = f"workbench-tui {getpass.getuser()}@{os.uname().nodename}"
                key = asyncssh.generate_private_key(ALGORITHM, comment=comment)
                write_atomically(path, key.export_private_key(), mode=0o600)
            write_atomically(f"{path}.pub", key.export_public_key(), mode=0o644)
    except (OSError, asyncssh.KeyImportError) as error:
        raise StorageError(
            f"cannot use this SSH key: {error}",
            remedy="Check the disk and the permissions of the file. If the key is damaged, move the file away: the "
            "workbench then creates a new key.",
            file=path,
        ) from error
