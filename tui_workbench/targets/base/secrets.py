"""Passwords and passphrases: in the system's keyring, and in files only by reference.

A reference, `AzureMlSecret=<target>#<user>#<id>`, stands in a `.compute` file that may be committed and shared. The
secret itself is in the keyring of this user; where there is none it lives in the memory of the link that uses it.
Never in a file, an argument list, an environment variable or a log. The keyring is asked by a process of its own: one
that waits for a person to unlock it, on a screen that nobody sees, is given up after a while.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.targets.hosts.host import ConnectionLost, LocalHost

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

PREFIX = "AzureMlSecret="
SERVICE = "workbench-tui"
"""What our entries are filed under in the keyring."""

KEYRING_SECONDS = 30.0
"""Time for a person to unlock the keyring when it asks on their screen."""

_FOUND, _UNKNOWN, _UNUSABLE = 0, 1, 2


class KeyringResult(NamedTuple):
    """Whether a secret is in the keyring; when not, `reason` says why, as a clause."""

    in_keyring: bool
    reason: str = ""


class SecretStore:
    """The keyring of this user."""

    def get(self, reference: str) -> str | None:
        """The secret of a reference; None when the keyring does not hold it or cannot be used."""
        if not is_reference(reference):
            return None
        code, said = _ask_keyring("get", reference)
        return said.decode("utf-8", "surrogateescape") if code == _FOUND else None

    def look(self, seconds: float) -> KeyringResult:
        """Whether there is a keyring; `reason` is then its kind. It is not opened, so nobody is asked to unlock it."""
        code, said = _ask_keyring("look", "", seconds=seconds)
        return KeyringResult(code == _FOUND, said.decode("utf-8", "replace").strip())

    def put(self, reference: str, secret: str) -> KeyringResult:
        """Keep a secret under its reference."""
        code, said = _ask_keyring("put", reference, secret.encode("utf-8", "surrogateescape"))
        return KeyringResult(code == _FOUND, said.decode("utf-8", "replace").strip())

    def forget(self, reference: str) -> None:
        """Remove a secret; nothing happens when there is none."""
        if is_reference(reference):
            _ask_keyring("forget", reference)


def new_reference(target: str, user: str) -> str:
    """A reference that was never used before."""
    # The separator cannot stand in a part; the id alone makes a reference unique.
    parts = [part.replace("#", "-") for part in (target, user)]
    return f"{PREFIX}{parts[0]}#{parts[1]}#{os.urandom(16).hex()}"


def is_reference(text: str) -> bool:
    """True for a reference; anything else in its place in a file is a secret in plain text."""
    return text.startswith(PREFIX) and text.count("#") == 2 and "\n" not in text


def _ask_keyring(verb: str, reference: str, secret: bytes = b"", seconds: float | None = None) -> tuple[int, bytes]:
    """Exit code of the helper and the secret found, or else why there is none. The default is KEYRING_SECONDS."""
    command = [sys.executable, "-P", "-m", "tui_workbench.targets.base.secrets", verb, reference]
    try:
        done = LocalHost().run(command, stdin=secret, timeout=KEYRING_SECONDS if seconds is None else seconds)
    except ConnectionLost:
        return _UNUSABLE, b"the keyring does not answer; it may be locked"
    if done.code == _FOUND:
        return done.code, done.stdout
    return done.code, done.stderr.strip().rpartition(b"\n")[2] or b"the keyring failed"


def _helper(verb: str, reference: str) -> int:
    """What the process of its own does: secrets come on stdin and go to stdout."""
    from keyring.errors import KeyringError, PasswordDeleteError

    try:
        backend = _backend()
        if backend is None:
            sys.stderr.write("this system has no keyring\n")
            return _UNUSABLE
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
    """The keyring to use. One that keeps secrets readable in a file has a priority below 1 and does not count."""
    import keyring
    from keyring.backends.chainer import ChainerBackend

    chosen = keyring.get_keyring()
    candidates = chosen.backends if isinstance(chosen, ChainerBackend) else [chosen]
    for backend in candidates:
        try:
            if backend.priority >= 1:
                return backend
        except RuntimeError:
            continue  # it cannot be used on this system
    return None


if __name__ == "__main__":
    sys.exit(_helper(sys.argv[1], sys.argv[2]))
