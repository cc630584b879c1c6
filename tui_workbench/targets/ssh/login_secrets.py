"""The secrets of logins in the keyring, each bound to the machine or the key file that it was stored for.

The reference in a `.compute` file is part of the project, and so is the address beside it: a project could name another
address, and would get the password. Therefore the entry in the keyring, which no project can change, also says what the
secret is for: a password for an address, a port, a user and a host key, and a passphrase for a key file. For anything
else, the secret is not used, and the user is asked. Targets with the same reference have their own secrets in an entry.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.json_values import parse_json, read_as
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts.host import StoredSecret
from tui_workbench.targets.hosts.secrets import KeyringResult, SecretStore, is_reference, plain_text_secrets
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import Login, login_of

_MOST_SECRETS = 8  # in an entry; the oldest is dropped
_FORMAT = "workbench-tui"
_VERSION = 1


class Purpose(NamedTuple):
    """The use of a secret: a login to a machine, or a key file."""

    host: str = ""
    port: int = 0  # 0 for the port in ~/.ssh/config, or 22
    user: str = ""  # "" for the user in ~/.ssh/config, or the local user
    key_file: str = ""  # of a passphrase; the other fields are then empty

    @property
    def text(self) -> str:
        """A phrase for messages."""
        if self.key_file:
            return f"the key {self.key_file}"
        return f"{f'{self.user}@' if self.user else ''}{self.host}{f':{self.port}' if self.port else ''}"


class _Entry(NamedTuple):
    purpose: Purpose
    secret: str
    host_key: str  # a fingerprint, `SHA256:...`; "" if no login has succeeded yet


def purpose_of(login: Login, reference: str) -> Purpose:
    """Return what the secret with this reference is for."""
    if reference != login.password:
        return Purpose(key_file=login.private_key)
    host, port = login.host_and_port
    return Purpose(host.lower(), port, login.username)


def stored_secret(login: Login, reference: str) -> StoredSecret | None:
    """Return the secret of a login in the keyring; None if the keyring has none. See `StoredSecret`."""
    text = SecretStore().get(reference)
    if text is None:
        return None
    entries, purpose = _read(text), purpose_of(login, reference)
    kind = "passphrase" if purpose.key_file else "password"
    if entries is None:
        return StoredSecret(refusal=f"the stored {kind} does not say which machine it is for: enter it once more")
    for entry in entries:
        if entry.purpose == purpose:
            bind = partial(_store, reference, purpose, entry.secret)
            return StoredSecret(entry.secret, entry.host_key, bind=None if entry.host_key or purpose.key_file else bind)
    return StoredSecret(refusal=f"the stored {kind} is for {', '.join(entry.purpose.text for entry in entries)}")


def store_secret(login: Login, reference: str, secret: str, host_key: str = "") -> KeyringResult:
    """Store a secret of a login for its machine, and return the keyring's answer.

    `host_key` is the fingerprint of the host key for which the login succeeded; "" before a login.
    """
    purpose = purpose_of(login, reference)
    return _store(reference, purpose, secret, "" if purpose.key_file else host_key)


def store_typed(host: SshHost, typed: Mapping[str, str]) -> list[KeyringResult]:
    """Store the secrets that the user typed, by reference, after a login. Return the keyring's answers."""
    secrets = {reference: secret for reference, secret in typed.items() if is_reference(reference)}
    host_key = str(host.status().get("host_key", "")) if secrets else ""
    return [store_secret(host.login, reference, secret, host_key) for reference, secret in secrets.items()]


def ssh_host_of(target: ComputeTarget) -> SshHost:
    """Return the host of a remote target, which gets the secrets of its login from the keyring.

    Raises ConfigurationError if the file of the target contains a plain-text password or passphrase.
    """
    # A login contains only references of secrets, so that messages may show it.
    command = f"workbench-tui computetarget login {shlex.quote(target.name)} --move-secrets"
    for key in plain_text_secrets(target):
        raise ConfigurationError(
            f"`{key}` is a plain-text secret",
            remedy=f"Move it to the keyring: `{command}`.",
            file=target.path,
            line=line_of_key(target.path, key),
        )
    return SshHost.of(target, partial(stored_secret, login_of(target)))


def _store(reference: str, purpose: Purpose, secret: str, host_key: str) -> KeyringResult:
    store = SecretStore()
    entries = [entry for entry in _read(store.get(reference) or "") or () if entry.purpose != purpose]
    entries = [*entries[1 - _MOST_SECRETS :], _Entry(purpose, secret, host_key)]
    secrets = [{"for": entry.purpose._asdict(), "secret": entry.secret, "hostKey": entry.host_key} for entry in entries]
    return store.put(reference, json.dumps({_FORMAT: _VERSION, "secrets": secrets}))


def _read(text: str) -> list[_Entry] | None:
    """Return the secrets in an entry of the keyring; None for a bare secret, as earlier versions stored it."""
    try:
        value: Any = parse_json(text)
        if value[_FORMAT] != _VERSION:
            return None
        return [
            _Entry(read_as(Purpose, item["for"]), str(item["secret"]), str(item["hostKey"]))
            for item in value["secrets"]
        ]
    except (ValueError, KeyError, TypeError):
        return None
