"""The settings of a login's hosts: from `ssh`, or from the files where no `ssh` is installed.

`Hop` has the settings that concern the login and the connection. Commands, terminals and forwarding are ignored.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.core import processes
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.files import read_file
from tui_workbench.targets.hosts.host import LoginRefused
from tui_workbench.targets.ssh.effective_settings import SECONDS, Settings, read_settings
from tui_workbench.targets.ssh.known_hosts import GLOBAL_FILES, USER_FILES, HostKey, KnownHosts
from tui_workbench.targets.ssh.library import (
    SSHClientConfig,
    asyncssh,
    get_certificate_algs,
    get_encryption_algs,
    get_kex_algs,
    get_mac_algs,
    get_public_key_algs,
)

KEEPALIVE_SECONDS = 5
KEEPALIVE_COUNT = 3
"""Defaults of ServerAliveInterval and ServerAliveCountMax. An interval of 0 would not detect a lost connection."""

LARGEST_KEY = 1 << 20  # limit in bytes for the file of a key or certificate

CONFIGURATION_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
DEFAULT_IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")


def _host_key_algs() -> list[bytes]:
    return [*get_certificate_algs(), *get_public_key_algs()]


_ALGORITHMS: dict[str, tuple[str, Callable[[], list[bytes]]]] = {
    "ciphers": ("encryption_algs", get_encryption_algs),
    "macs": ("mac_algs", get_mac_algs),
    "kexalgorithms": ("kex_algs", get_kex_algs),
    "hostkeyalgorithms": ("server_host_key_algs", _host_key_algs),
    "pubkeyacceptedalgorithms": ("signature_algs", _host_key_algs),
}
"""By setting: the option of asyncssh, and the function that lists the algorithms that asyncssh has."""

_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}


class Hop:
    """A jump host or the target. `agent` is the socket of the user's SSH agent, or "" without one.

    `alias` is the host as the caller named it, and `host` and `port` are the address to connect to. `options` are
    options of `asyncssh.connect`.
    """

    def __init__(self, host: str, port: int, username: str, agent: str = "") -> None:
        """Read the SSH configuration for a host, which may run commands (`Match exec`, `KnownHostsCommand`).

        The caller has checked the host and the user name. Raises LoginRefused or ConnectionLost without a label.
        """
        self.alias = host
        settings = read_settings(host, port, username, agent)
        if settings is None:
            self._read_files(port, username, agent)
        else:
            self._take(settings)

    def _take(self, settings: Settings) -> None:
        self.host, self.port = settings.get("hostname"), settings.number("port")
        self.agent = settings.agent
        self.proxy_command = settings.proxy_command()
        self.jump = settings.get("proxyjump")
        self.keepalive = settings.number("serveraliveinterval") or KEEPALIVE_SECONDS
        self.keepalive_count = settings.number("serveralivecountmax") or KEEPALIVE_COUNT
        self.host_key_alias = settings.get("hostkeyalias")
        self.connect_timeout = settings.number("connecttimeout")
        user_files = settings.paths("userknownhostsfile") if settings.differs("userknownhostsfile") else ()
        global_files = settings.paths("globalknownhostsfile")
        # Neither `none` nor a missing list means that any key is accepted.
        files = [*(user_files or USER_FILES), *(global_files or GLOBAL_FILES)]
        self.known = KnownHosts(files, _printed_keys(settings.known_hosts_command()))
        differs = settings.differs("identityfile")
        self._identities = [settings.path(path) for path in settings.all("identityfile")] if differs else []
        self._certificates = [settings.path(path) for path in settings.all("certificatefile")]
        self._has_named_keys = differs
        self._only_named_keys = settings.get("identitiesonly").lower() in ("yes", "true")
        self.options = _connection_options(settings)

    def _read_files(self, port: int, username: str, agent: str) -> None:
        files = [path for path in map(os.path.expanduser, CONFIGURATION_FILES) if os.access(path, os.R_OK)]
        try:
            configuration = SSHClientConfig.load(
                None, list(files), False, False, False, getpass.getuser(), username or (), self.alias, port or ()
            )
        except (asyncssh.ConfigParseError, UnicodeDecodeError) as error:
            remedy = "Correct the SSH configuration, and save it as UTF-8."
            raise LoginRefused(f"the SSH configuration is invalid: {error}", remedy=remedy) from error
        self.host, self.port = self.alias, port
        self.agent = str(configuration.get("IdentityAgent", agent) or "")  # asyncssh stores None for `none`
        command = str(configuration.get("ProxyCommand") or "")
        self.proxy_command = f"exec {command}" if command else ""
        self.jump = str(configuration.get("ProxyJump") or "")
        self.keepalive = int(str(configuration.get("ServerAliveInterval") or KEEPALIVE_SECONDS))
        self.keepalive_count = int(str(configuration.get("ServerAliveCountMax") or KEEPALIVE_COUNT))
        self.host_key_alias = str(configuration.get("HostKeyAlias") or "")
        self.connect_timeout = 0
        user_files: Any = configuration.get("UserKnownHostsFile") or USER_FILES
        global_files: Any = configuration.get("GlobalKnownHostsFile") or GLOBAL_FILES
        self.known = KnownHosts([*user_files, *global_files])
        identities: Any = configuration.get("IdentityFile") or ()
        certificates: Any = configuration.get("CertificateFile") or ()
        self._identities, self._certificates = list(identities), list(certificates)
        self._has_named_keys, self._only_named_keys = bool(identities), False
        self.options = {"config": files, "username": username or (), "proxy_command": None}
        if configuration.get("Ciphers") is not None:
            self.options["encryption_algs"] = ()

    @property
    def authentication(self) -> dict[str, Any]:
        """The configured keys and certificates of this host, as options of a connection."""
        certificates = _existing(self._certificates)
        options: dict[str, Any] = {"ignore_encrypted": True, "client_certs": certificates}
        if self._has_named_keys:
            # With an empty list, asyncssh uses the default keys. Without a list, it does not use the agent.
            pairs = [pair for path in _existing(self._identities) for pair in _key_pairs(path, certificates)]
            options["client_keys"] = pairs if pairs or self.agent else None
        if self._only_named_keys:
            public = [blob for path in self._identities or _default_identities() for blob in _public_keys(path)]
            options |= {"agent_identities": public} if public else {"agent_path": ""}
        return options

    @property
    def locked_keys(self) -> list[str]:
        """The key files for this host that were skipped because a passphrase protects them."""
        return [path for path in self._identities or _default_identities() if _is_locked(os.path.expanduser(path))]


def configuration_problem() -> str:
    """Return what is wrong with the SSH configuration, or ""."""
    try:
        Hop("localhost", 0, "")
    except TargetUnreachable as error:
        return error.message
    return ""


def _connection_options(settings: Settings) -> dict[str, Any]:
    """Return the options of asyncssh that the settings mean."""
    options: dict[str, Any] = {"config": [], "username": settings.get("user"), "proxy_command": None}
    options["family"] = _FAMILIES.get(settings.get("addressfamily").lower(), socket.AF_UNSPEC)
    if settings.get("bindaddress"):
        options["local_addr"] = (settings.get("bindaddress"), 0)
    for name, option in (
        ("tcpkeepalive", "tcp_keepalive"),
        ("pubkeyauthentication", "public_key_auth"),
        ("passwordauthentication", "password_auth"),
        ("kbdinteractiveauthentication", "kbdint_auth"),
        ("hostbasedauthentication", "host_based_auth"),
        ("gssapiauthentication", "gss_auth"),
        ("gssapikeyexchange", "gss_kex"),
    ):
        options[option] = not settings.is_off(name)
    if settings.get("preferredauthentications"):
        options["preferred_auth"] = settings.get("preferredauthentications")
    for name, (option, supported) in _ALGORITHMS.items():
        if settings.differs(name):
            algorithms = settings.get(name).split(",")
            available = supported()
            options[option] = [algorithm for algorithm in algorithms if algorithm.encode() in available]
            if not options[option]:
                remedy = f"Add an algorithm to the setting {name}, such as one that `ssh -Q {name}` lists."
                raise LoginRefused(f"the workbench has none of the algorithms {settings.get(name)!r}", remedy=remedy)
    return options


def _printed_keys(command: str) -> list[str]:
    """Return the lines that KnownHostsCommand prints; it is not a shell line. A failed command prints no keys."""
    try:
        words = shlex.split(command)
        done = processes.run(words, timeout=SECONDS, new_session=True) if words else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines() if done is not None and done.returncode == 0 else []


def _default_identities() -> list[str]:
    return [os.path.join("~", ".ssh", name) for name in DEFAULT_IDENTITIES]


def read_key_file(path: str) -> bytes:
    """Return the content of a file with a key. asyncssh reads pipes and devices too, and without a limit.

    Raises OSError for a file that is missing, not a regular file, or too large for a key.
    """
    try:
        return read_file(os.path.expanduser(path), LARGEST_KEY)
    except ValueError as error:  # a NUL character
        raise OSError(errno.EINVAL, "the path contains a NUL character") from error


def _key_pairs(path: str, certificates: Sequence[str]) -> Sequence[asyncssh.SSHKeyPair]:
    """Return the keys in a file. As in `ssh`, a file that is not a private key or has a passphrase is skipped."""
    try:
        read_key_file(path)
        return asyncssh.load_keypairs(os.path.expanduser(path), None, certificates, ignore_encrypted=True)
    except (OSError, ValueError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
        return []


def _public_keys(path: str) -> list[bytes]:
    """Return the public key of an identity, which may be only in the file beside it."""
    for file in (f"{path}.pub", path):
        try:
            return [asyncssh.import_public_key(read_key_file(file)).public_data]
        except (OSError, ValueError, asyncssh.KeyImportError):
            continue
    return [pair.public_data for pair in _key_pairs(path, ())]


def _existing(paths: list[str]) -> list[str]:
    readable = []
    for path in paths:
        with contextlib.suppress(OSError):
            read_key_file(path)
            readable.append(path)
    return readable


def _is_locked(path: str) -> bool:
    try:
        asyncssh.import_private_key(read_key_file(path))
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
