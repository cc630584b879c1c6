"""Which host keys are known, in OpenSSH's known_hosts files, and how one becomes known.

A key is only ever added by `accept`, which a person asked for by naming its fingerprint. The files are only appended
to. Lines that cannot be read are skipped, as OpenSSH skips them.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fnmatch
import hashlib
import hmac
import os

from tui_workbench.errors import StorageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFAULT_PORT = 22
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
CERTIFICATE_AUTHORITY = "@cert-authority"
REVOKED = "@revoked"


class HostKey(NamedTuple):
    """One line of a known_hosts file."""

    file: str
    line: int
    marker: str  # "", @cert-authority or @revoked
    hosts: str  # the pattern list as it stands there
    algorithm: str  # ssh-ed25519, ssh-rsa, ...
    blob: str  # the public key, base64

    @property
    def fingerprint(self) -> str:
        """`SHA256:...`, as OpenSSH shows it."""
        return fingerprint(self.blob)

    @property
    def openssh(self) -> str:
        """The public key as one word pair, `ssh-ed25519 AAAA...`."""
        return f"{self.algorithm} {self.blob}"


class KnownHosts:
    """The known_hosts files at `paths`; files that do not exist are empty."""

    def __init__(self, paths: Sequence[str] = (*USER_FILES, *GLOBAL_FILES)) -> None:
        self.paths = [os.path.expanduser(path) for path in paths]

    def entries(self) -> Iterator[HostKey]:
        """Every line that can be read."""
        for path in self.paths:
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, 1):
                    entry = _parse(path, number, line)
                    if entry is not None:
                        yield entry

    def matching(self, host: str, address: str, port: int) -> list[HostKey]:
        """The lines that speak of this host: by `[name]:port`, and when there is none by the bare name, as OpenSSH."""
        entries = list(self.entries())
        exact = [entry for entry in entries if _matches(entry.hosts, _names(host, address, port))]
        if port == DEFAULT_PORT or any(entry.marker != REVOKED for entry in exact):
            return exact
        return exact + [entry for entry in entries if _matches(entry.hosts, _names(host, address, DEFAULT_PORT))]

    def accept(self, host: str, port: int, openssh: str) -> str:
        """Append a host's public key (`ssh-ed25519 AAAA...`) to the user's file; returns the file's path.

        Raises StorageError.
        """
        path = self.paths[0]
        name = _names(host, "", port)[0]
        line = f"{name} {openssh}\n".encode()
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line
                os.write(descriptor, line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StorageError(
                f"the host key cannot be kept: {error.strerror}", remedy="Make the file writable.", file=path
            ) from error
        return path


def fingerprint(blob: str) -> str:
    """`SHA256:...` of a base64 public key."""
    digest = hashlib.sha256(base64.b64decode(blob)).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def shown_name(host: str, port: int) -> str:
    """The host as known_hosts files name it: bare for port 22, else `[host]:port`."""
    return _names(host, "", port)[0]


def _names(host: str, address: str, port: int) -> list[str]:
    names = [host.lower()] + ([address] if address and address != host else [])
    return names if port == DEFAULT_PORT else [f"[{name}]:{port}" for name in names]


def _parse(path: str, number: int, line: str) -> HostKey | None:
    words = line.split()
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#") or marker not in ("", CERTIFICATE_AUTHORITY, REVOKED):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    # The blob repeats the algorithm's name; a line where they differ was damaged.
    algorithm = words[1].encode("utf-8", "replace")
    if blob[:4] != len(algorithm).to_bytes(4, "big") or blob[4 : 4 + len(algorithm)] != algorithm:
        return None
    return HostKey(path, number, marker, words[0], words[1], words[2])


def _matches(hosts: str, names: Sequence[str]) -> bool:
    if hosts.startswith("|"):
        return any(_matches_hash(hosts, name) for name in names)
    found = False
    for pattern in hosts.lower().split(","):
        negated = pattern.startswith("!")
        # Only * and ? mean something here; fnmatch would give [ a meaning too.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if any(fnmatch.fnmatchcase(name, glob) for name in names):
            if negated:
                return False
            found = True
    return found


def _matches_hash(hosts: str, name: str) -> bool:
    try:
        _, kind, salt, digest = hosts.split("|")
        expected = base64.b64decode(digest, validate=True)
        found = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1).digest()
    except (ValueError, binascii.Error):
        return False
    return kind == "1" and hmac.compare_digest(found, expected)
