"""What ~/.ssh/config says about a host on the way: jump hosts, known hosts, keys, how a silent server is noticed.

The rest of it asyncssh applies itself. Files that it names and that are not there are left out, as OpenSSH does.
"""

from __future__ import annotations

import getpass
import os
from typing import Any

import asyncssh
from asyncssh.config import SSHClientConfig

from tui_workbench.targets.host_keys import GLOBAL_FILES, USER_FILES, KnownHosts

KEEPALIVE_SECONDS = 5
KEEPALIVE_COUNT = 3
"""A peer that says nothing for 5 s is asked; when three questions stay unanswered, the connection is lost.

The user's ServerAliveInterval and ServerAliveCountMax come first; an interval of 0 would never notice anything.
"""

CONFIGURATION_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
DEFAULT_IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")


class Hop:
    """One host on the way, the last being the target itself."""

    def __init__(self, host: str, port: int, username: str) -> None:
        """Raises asyncssh.ConfigParseError, UnicodeDecodeError."""
        self.alias, self.port, self.username = host, port, username
        self.files = [path for path in map(os.path.expanduser, CONFIGURATION_FILES) if os.access(path, os.R_OK)]
        configuration = SSHClientConfig.load(
            None, list(self.files), False, False, False, getpass.getuser(), username or (), host, port or ()
        )
        self.jump = str(configuration.get("ProxyJump") or "")
        self.keepalive = int(str(configuration.get("ServerAliveInterval") or KEEPALIVE_SECONDS))
        self.keepalive_count = int(str(configuration.get("ServerAliveCountMax") or KEEPALIVE_COUNT))
        self.has_ciphers = configuration.get("Ciphers") is not None
        # `none`, or no list at all, never means that any key will do.
        user_files: Any = configuration.get("UserKnownHostsFile") or USER_FILES
        global_files: Any = configuration.get("GlobalKnownHostsFile") or GLOBAL_FILES
        self.known = KnownHosts([*user_files, *global_files])
        self._identities: Any = configuration.get("IdentityFile") or ()
        self._certificates: Any = configuration.get("CertificateFile") or ()

    @property
    def authentication(self) -> dict[str, Any]:
        """The keys and certificates that are named for this host, as options of a connection."""
        named = {"client_keys": _existing(self._identities)} if self._identities else {}
        return {**named, "ignore_encrypted": True, "client_certs": _existing(self._certificates)}

    @property
    def locked_keys(self) -> list[str]:
        """The key files for this host that a passphrase protects, and that were not used for that."""
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
    """Whether a key could not be read because it needs a passphrase, or another one."""
    return isinstance(error, asyncssh.KeyEncryptionError) or "assphrase" in str(error)
