"""Passwords and passphrases in the system's keyring.

A `.compute` file holds only a reference, `AzureMlSecret=<target>#<user>#<id>`, and can be committed and shared. The
secret is in the user's keyring or, without a keyring, in the memory of the process that holds the SSH connection. It is
never in a file, an argument list, an environment variable or a log. A child process accesses the keyring, because a
locked keyring may block until the user unlocks it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.core.libraries import search_without_programs
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import ConnectionLost, LocalHost

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

PREFIX = "AzureMlSecret="
SERVICE = "workbench-tui"
"""The service name of the workbench's keyring entries."""

KEYRING_SECONDS = 30.0
"""Time limit in seconds for the user to unlock the keyring."""

SECRET_ATTEMPTS = 3
"""Maximum number of attempts to enter a secret, the same as in `ssh`."""

BUS = "DBUS_SESSION_BUS_ADDRESS"
"""The variable with the address of the message bus through which the keyring is reached."""

NO_BUS = "this session has no D-Bus message bus for a keyring"

_FOUND, _UNKNOWN, _UNUSABLE, _NO_BUS = 0, 1, 2, 3


class KeyringResult(NamedTuple):
    """The answer of the keyring. `reason` is the error if the keyring does not have the secret."""

    in_keyring: bool
    reason: str = ""
    has_bus: bool = True  # False if the session has no message bus through which a keyring could be reached

    @property
    def text(self) -> str:
        """A clause that tells the user where the secret is kept, and for how long."""
        if self.in_keyring:
            return "the secret is in the keyring"
        return (
            f"the secret is kept in memory only ({self.reason}); you are asked for it again after 12 hours without "
            "use, a disconnect, or a restart of this machine"
        )


class SecretStore:
    """The keyring of this user."""

    def get(self, reference: str) -> str | None:
        """Return the secret of a reference; None if the keyring does not have it or is not usable."""
        return self.look_up(reference)[0]

    def look_up(self, reference: str, bus: str = "") -> tuple[str | None, str]:
        """Return the secret of a reference and "", or None and the reason why the keyring does not return it.

        `bus` is the address of the message bus of the keyring; by default, it is that of this process.
        """
        if not is_reference(reference):
            return None, "it is not a reference"
        code, answer = _ask_keyring("get", reference, bus=bus)
        if code == _FOUND:
            return answer.decode("utf-8", "surrogateescape"), ""
        return None, "it is not in the keyring" if code == _UNKNOWN else answer.decode("utf-8", "replace")

    def look(self, seconds: float) -> KeyringResult:
        """Look for a keyring without unlocking it. In the result, `reason` is the kind of the keyring, or the error."""
        code, answer = _ask_keyring("look", "", seconds=seconds)
        return KeyringResult(code == _FOUND, answer.decode("utf-8", "replace").strip(), code != _NO_BUS)

    def put(self, reference: str, secret: str) -> KeyringResult:
        """Store a secret under its reference, and return the keyring's answer."""
        code, answer = _ask_keyring("put", reference, secret.encode("utf-8", "surrogateescape"))
        return KeyringResult(code == _FOUND, answer.decode("utf-8", "replace").strip(), code != _NO_BUS)

    def forget(self, reference: str) -> None:
        """Remove a secret, if it exists."""
        if is_reference(reference):
            _ask_keyring("forget", reference)


def new_reference(target: str, user: str) -> str:
    """Return a new, unique reference to a secret."""
    # `#` separates the parts; the random ID makes the reference unique.
    parts = [part.replace("#", "-") for part in (target, user)]
    return f"{PREFIX}{parts[0]}#{parts[1]}#{os.urandom(16).hex()}"


def is_reference(text: str) -> bool:
    """Return True if a value is a reference. Any other value is a plain-text secret."""
    return text.startswith(PREFIX) and text.count("#") == 2 and "\n" not in text


def plain_text_secrets(target: ComputeTarget) -> dict[str, str]:
    """Return the plain-text secrets in a target's file, by key."""
    secrets = {"password": target.password, "privateKeyPassphrase": target.private_key_passphrase}
    return {key: value for key, value in secrets.items() if value and not is_reference(value)}


def _ask_keyring(
    verb: str, reference: str, secret: bytes = b"", seconds: float | None = None, bus: str = ""
) -> tuple[int, bytes]:
    """Return the exit code of the child process, and the secret or an error message."""
    # -P: do not import modules from the current folder.
    command = [sys.executable, "-P", "-m", "tui_workbench.targets.hosts.secrets", verb, reference, bus]
    try:
        done = LocalHost().run(command, stdin=secret, timeout=KEYRING_SECONDS if seconds is None else seconds)
    except ConnectionLost:
        return _UNUSABLE, b"the keyring does not answer; it may be locked"
    if done.code == _FOUND:
        return done.code, done.stdout
    return done.code, done.stderr.strip().rpartition(b"\n")[2] or b"the keyring failed"


def keyring_helper(verb: str, reference: str, bus: str) -> int:
    """Execute `verb` in the child process, with the secret on stdin or stdout; return the exit code."""
    if bus:
        os.environ[BUS] = bus
    search_without_programs()  # keyring imports its modules for every system
    from keyring.errors import KeyringError, PasswordDeleteError

    try:
        backend = _backend()
        if backend is None:
            has_bus = sys.platform != "linux" or BUS in os.environ
            sys.stderr.write("this system has no keyring\n" if has_bus else f"{NO_BUS}\n")
            return _UNUSABLE if has_bus else _NO_BUS
        if verb == "look":
            sys.stdout.write(type(backend).__module__.rpartition(".")[2])
        elif verb == "get":
            secret = backend.get_password(SERVICE, reference)
            if secret is None:
                return _UNKNOWN
            sys.stdout.buffer.write(secret.encode("utf-8", "surrogateescape"))
        elif verb == "put":
            backend.set_password(SERVICE, reference, sys.stdin.buffer.read().decode("utf-8", "surrogateescape"))
        else:
            backend.delete_password(SERVICE, reference)
    except PasswordDeleteError:
        return _UNKNOWN
    except KeyringError as error:
        sys.stderr.write(f"the keyring refused: {' '.join(str(error).split()) or type(error).__name__}\n")
        return _UNUSABLE
    return _FOUND


def _backend() -> KeyringBackend | None:
    """Return the keyring to use; None if no keyring is usable.

    Keyrings with a priority below 1 store secrets in readable files and are ignored.
    """
    import keyring
    from keyring.backends.chainer import ChainerBackend

    chosen = keyring.get_keyring()
    candidates = chosen.backends if isinstance(chosen, ChainerBackend) else [chosen]
    for backend in candidates:
        try:
            if backend.priority >= 1:
                return backend
        except RuntimeError:
            continue  # not usable on this system
    return None


if __name__ == "__main__":
    sys.exit(keyring_helper(*sys.argv[1:]))
