"""Settings of ~/.ssh/config that asyncssh does not apply, and known_hosts files.

As in OpenSSH, missing files and invalid lines are ignored. Only `accept` adds a key, after the user has confirmed its
fingerprint; it appends the key to the user's file.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fnmatch
import getpass
import hashlib
import hmac
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import asyncssh
from asyncssh.config import SSHClientConfig

from tui_workbench.core.errors import storage_errors
from tui_workbench.targets.ssh.ssh_wire import AGENT_VARIABLE

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

    def __init__(self, paths: Sequence[str] = (*USER_FILES, *GLOBAL_FILES)) -> None:
        self.paths = [os.path.expanduser(path) for path in paths]

    def entries(self) -> Iterator[HostKey]:
        """Yield the valid lines of the files, in order."""
        for path in self.paths:
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, 1):
                    entry = _parse(path, number, line)
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
    found = False
    for pattern in hosts.lower().split(","):
        negated = pattern.startswith("!")
        # Only * and ? are special in known_hosts; fnmatch also interprets [.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name, glob):
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


KEEPALIVE_SECONDS = 5
KEEPALIVE_COUNT = 3
"""Defaults of ServerAliveInterval and ServerAliveCountMax. An interval of 0 would not detect a lost connection."""

CONFIGURATION_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
DEFAULT_IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")


class Hop:
    """A jump host or the target. `agent` is the socket of the user's SSH agent, or "" without one."""

    def __init__(self, host: str, port: int, username: str, agent: str = "") -> None:
        """Read the SSH configuration for a host, which may run commands (`Match exec`).

        Raises asyncssh.ConfigParseError or UnicodeDecodeError.
        """
        self.alias, self.port, self.username = host, port, username
        self.files = [path for path in map(os.path.expanduser, CONFIGURATION_FILES) if os.access(path, os.R_OK)]
        configuration = SSHClientConfig.load(
            None, list(self.files), False, False, False, getpass.getuser(), username or (), host, port or ()
        )
        self.agent = str(configuration.get("IdentityAgent", agent) or "")  # asyncssh stores None for `none`
        command = str(configuration.get("ProxyCommand") or "")
        # The environment of this process may name the agent of another client.
        proxy = ["env", f"{AGENT_VARIABLE}={agent}", *shlex.split(command)] if command and agent else ()
        self.proxy_command: Sequence[str] = proxy
        self.jump = str(configuration.get("ProxyJump") or "")
        self.keepalive = int(str(configuration.get("ServerAliveInterval") or KEEPALIVE_SECONDS))
        self.keepalive_count = int(str(configuration.get("ServerAliveCountMax") or KEEPALIVE_COUNT))
        self.has_ciphers = configuration.get("Ciphers") is not None
        self.host_key_alias = str(configuration.get("HostKeyAlias") or "")
        # Neither `none` nor a missing list means that any key is accepted.
        user_files: Any = configuration.get("UserKnownHostsFile") or USER_FILES
        global_files: Any = configuration.get("GlobalKnownHostsFile") or GLOBAL_FILES
        self.known = KnownHosts([*user_files, *global_files])
        self._identities: Any = configuration.get("IdentityFile") or ()
        self._certificates: Any = configuration.get("CertificateFile") or ()

    @property
    def authentication(self) -> dict[str, Any]:
        """The configured keys and certificates of this host, as options of a connection."""
        named = {"client_keys": _existing(self._identities)} if self._identities else {}
        return {**named, "ignore_encrypted": True, "client_certs": _existing(self._certificates)}

    @property
    def locked_keys(self) -> list[str]:
        """The key files for this host that were skipped because a passphrase protects them."""
        usual = [os.path.join("~", ".ssh", name) for name in DEFAULT_IDENTITIES]
        return [path for path in self._identities or usual if _is_locked(os.path.expanduser(path))]


def _existing(paths: list[str]) -> list[str]:
    return [path for path in paths if os.access(os.path.expanduser(path), os.R_OK)]


def _is_locked(path: str) -> bool:
    try:
        asyncssh.read_private_key(path)
    except OSError:
        return False
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        return asks_for_passphrase(error)
    return False


def asks_for_passphrase(error: Exception) -> bool:
    """Return True if a key could not be read because its passphrase is missing or wrong."""
    return isinstance(error, asyncssh.KeyEncryptionError) or "assphrase" in str(error)


def import_keys(entries: Sequence[HostKey]) -> list[asyncssh.SSHKey]:
    """Return the keys of entries of a known_hosts file. Keys of unknown types are omitted."""
    return [key for entry in entries for key in import_key(entry)]


def import_key(entry: HostKey) -> list[asyncssh.SSHKey]:
    """Return the key of an entry in a list, which is empty if the type of the key is unknown."""
    try:
        return [asyncssh.import_public_key(entry.openssh)]
    except asyncssh.KeyImportError:
        return []  # an unsupported type of key, which OpenSSH ignores too
