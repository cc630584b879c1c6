"""The secrets of a login in the memory of the link, and the host key that may get a password."""

from __future__ import annotations

import base64

from tui_workbench.core import trace
from tui_workbench.targets.ssh.known_hosts import fingerprint
from tui_workbench.targets.ssh.library import asyncssh
from tui_workbench.targets.ssh.questions import Questions


class Secrets:
    """The secrets of a login by reference, and the fingerprints of host keys that the user accepted.

    All of these are only in memory. `agent` is the socket of the SSH agent of the client that asked last, or "".
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.unknown: set[str] = set()  # references of secrets that only the user can enter
        self.are_only_here = False  # at least one secret is not in a keyring
        self.accepted: set[str] = set()
        self.questions = Questions()
        self.agent = ""
        self._refused: dict[str, str] = {}
        self._host_keys: dict[str, str] = {}

    def add(self, reference: str, value: str, *, kept: bool, host_key: str = "") -> None:
        """Remember a secret. `kept` is True if it comes from a keyring, not from the user.

        `host_key` is the fingerprint of the host key that may get the secret, or "" for that of the next login.
        """
        self.values[reference] = value
        self._host_keys[reference] = host_key
        trace.hide((value,))
        self.unknown.discard(reference)
        if not kept:
            self.are_only_here = True
            self._refused.pop(reference, None)

    def refuse(self, reference: str) -> None:
        """Mark a secret as wrong, so that it is not tried again: wrong passwords can lock an account."""
        if reference in self.values:
            self._refused[reference] = self.values[reference]

    def is_refused(self, reference: str) -> bool:
        """Return True if the current secret was marked as wrong. A secret that the user gives again is not refused."""
        return reference in self.values and self._refused.get(reference) == self.values[reference]

    def is_for(self, reference: str, host_key: str) -> bool:
        """Return True if a machine with this host key may get the secret."""
        return self._host_keys.get(reference, "") in ("", host_key)

    def bind(self, reference: str, host_key: str) -> None:
        """Let only machines with this host key get the secret from now on."""
        self._host_keys[reference] = host_key


def host_key_of(connection: asyncssh.SSHClientConnection) -> str:
    """Return the fingerprint of the verified host key of a connection; "" before the key exchange."""
    key = connection.get_server_host_key()
    return fingerprint(base64.b64encode(key.public_data).decode("ascii")) if key else ""


def is_revoked(error: Exception) -> bool:
    """Return True if known_hosts revokes the host key."""
    return isinstance(error, asyncssh.HostKeyNotVerifiable) and "revoked" in error.reason
