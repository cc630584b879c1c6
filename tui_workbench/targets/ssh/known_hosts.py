"""The known_hosts files, read as `ssh` reads them.

As in OpenSSH, missing files and invalid lines are ignored. Only `accept` adds a key, after the user has confirmed its
fingerprint; it appends the key to the user's file.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fnmatch
import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import read_file

DEFAULT_PORT = 22
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
CERTIFICATE_AUTHORITY = "@cert-authority"
REVOKED = "@revoked"
LARGEST_KNOWN_HOSTS = 64 << 20  # limit in bytes; organizations share files with all their machines


class HostKey(NamedTuple):
    """One line of a known_hosts file."""

    file: str
    line: int
    marker: str  # "", @cert-authority or @revoked
    hosts: str  # the list of patterns
    algorithm: str  # ssh-ed25519, ssh-rsa, ...
    blob: str  # the public key, base64

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.blob)

    @property
    def openssh(self) -> str:
        """The public key in OpenSSH's form, `ssh-ed25519 AAAA...`."""
        return f"{self.algorithm} {self.blob}"


class KnownKeys(NamedTuple):
    """The known_hosts lines of one host.

    `without_port` holds the lines without a port for a host on a port other than 22. `ssh` uses them if the key is
    not in `exact`. A key in these lines is known or revoked; any other key is unknown, not changed.
    """

    exact: tuple[HostKey, ...]
    without_port: tuple[HostKey, ...]


class KnownHosts:
    """The known_hosts files at `paths`, which may be missing."""

    def __init__(self, paths: Sequence[str] = (*USER_FILES, *GLOBAL_FILES), printed: Sequence[str] = ()) -> None:
        """`printed` are lines that KnownHostsCommand has printed."""
        self.paths = [os.path.expanduser(path) for path in paths]
        self._printed = printed

    def entries(self) -> Iterator[HostKey]:
        """Yield the valid lines of the files, in order."""
        for number, line in enumerate(self._printed, 1):
            entry = _parse("KnownHostsCommand", number, line)
            if entry is not None:
                yield entry
        for path in self.paths:
            with contextlib.suppress(OSError):
                for number, data in enumerate(read_file(path, LARGEST_KNOWN_HOSTS).splitlines(), 1):
                    entry = _parse(path, number, data.decode("utf-8", "replace"))
                    if entry is not None:
                        yield entry

    def lookup(self, host: str, port: int, alias: str = "") -> KnownKeys:
        """Return the lines of known_hosts for a host, by the names that `ssh` looks up.

        `alias` is HostKeyAlias of the SSH configuration, which is looked up without the port. The host's IP address is
        not looked up: CheckHostIP has been off by default since OpenSSH 8.5.
        """
        entries = list(self.entries())
        exact = tuple(entry for entry in entries if _matches(entry.hosts, alias.lower() or shown_name(host, port)))
        if alias or port == DEFAULT_PORT:
            return KnownKeys(exact, ())
        return KnownKeys(exact, tuple(entry for entry in entries if _matches(entry.hosts, host.lower())))

    def accept(self, name: str, openssh: str) -> str:
        """Append a public key (`ssh-ed25519 AAAA...`) to the user's file, and return the path of the file.

        `name` is an alias or the result of `shown_name`. Raises StorageError.
        """
        path = self.paths[0]
        line = f"{name} {openssh}\n".encode()
        with storage_errors("add the host key", path):
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
        return path


def fingerprint(blob: str) -> str:
    """Return the fingerprint of a base64 public key, `SHA256:...`."""
    digest = hashlib.sha256(base64.b64decode(blob)).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def shown_name(host: str, port: int) -> str:
    """Return the host's name in known_hosts files: `host` for port 22, else `[host]:port`."""
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def _parse(path: str, number: int, line: str) -> HostKey | None:
    words = line.split()
    marker = words.pop(0) if words and words[0].startswith("@") else ""
    if len(words) < 3 or words[0].startswith("#") or marker not in ("", CERTIFICATE_AUTHORITY, REVOKED):
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return None
    # The blob repeats the algorithm's name; a line with another name is damaged.
    algorithm = words[1].encode("utf-8", "replace")
    if blob[:4] != len(algorithm).to_bytes(4, "big") or blob[4 : 4 + len(algorithm)] != algorithm:
        return None
    return HostKey(path, number, marker, words[0], words[1], words[2])


def _matches(hosts: str, name: str) -> bool:
    if hosts.startswith("|"):
        return _matches_hash(hosts, name)
    is_listed = False
    for pattern in hosts.lower().split(","):
        negated = pattern.startswith("!")
        # Only * and ? are special in known_hosts; fnmatch also interprets [.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, glob):
            if negated:
                return False
            is_listed = True
    return is_listed


def _matches_hash(hosts: str, name: str) -> bool:
    try:
        _, kind, salt, digest = hosts.split("|")
        expected = base64.b64decode(digest, validate=True)
        actual = hmac.new(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1).digest()
    except (ValueError, binascii.Error):
        return False
    return kind == "1" and hmac.compare_digest(actual, expected)
