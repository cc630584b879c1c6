"""Attach a machine: log in, write `NAME.compute` and `NAME.runconfig`, and store the secrets in the keyring.

`connect` tries the login, and `write` writes both files in one step that can be undone. An existing file is never
replaced. Secrets are never in the files: they are held in memory until `write` stores them in the keyring. `connect`
raises an error if it needs a secret or the user's consent to a host key; the caller asks the user, then calls `connect`
again. The link is the process that holds the SSH connection (see `ssh_link`).
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

from tui_workbench.config.changes.change_set import ChangeSet, FileChange
from tui_workbench.config.changes.lifecycle import COMPUTE, RUNCONFIG, check_name
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.targets.attaching.attachable import attachable_types
from tui_workbench.targets.base.attaching import Attaching, Values
from tui_workbench.targets.hosts.host import ConnectionLost, Host, LocalHost, LoginRefused, SecretNeeded
from tui_workbench.targets.hosts.secrets import KeyringResult, SecretStore, new_reference
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.login_secrets import store_secret
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.workbench_key import KeyPair, install, workbench_key


class AttachRequest(NamedTuple):
    """The user's choices, without secrets."""

    type: str
    name: str
    address: str = ""
    username: str = ""  # "" for the user in ~/.ssh/config, or the local user's name
    has_password: bool = False  # log in with a password and store it in the keyring
    private_key: str = ""
    workbench_key: bool = False  # log in with the workbench's key
    values: Values = MappingProxyType({})  # of the fields of the type


class Attached(NamedTuple):
    """The written files, and the keyring's answer for each secret."""

    change_set: ChangeSet
    compute: str
    run_configuration: str
    kept: tuple[KeyringResult, ...] = ()


class Attachment:
    """A machine that is being attached to the project at `root`.

    After `connect`, `install_by_hand` is the key whose public part the user must install on the machine. It is None if
    the user need not install a key.
    """

    def __init__(self, root: str, request: AttachRequest) -> None:
        """Raises UsageError or ConfigurationError for an invalid request. Does not contact the machine."""
        self._type = _type_of(request)
        _check(root, request, self._type)
        self.root = root
        self.request = request
        self.install_by_hand: KeyPair | None = None
        self._values = request.values
        self._accepted: list[str] = []
        self._host_key = ""
        self._is_abandoned = False
        self._attended: set[wire.Login] = set()
        self._secrets: dict[str, str] = {}
        self._password = new_reference(request.name, request.username)
        self._passphrase = new_reference(request.name, request.username)
        self._key = workbench_key() if request.workbench_key else None

    @property
    def host(self) -> Host:
        """The machine. Use it only after `connect`."""
        login = self._login()
        return LocalHost() if login is None else SshHost(login)

    def accept_host_key(self, fingerprint: str) -> None:
        """Let `connect` accept the host key with this fingerprint (`SHA256:...`) and add it to known_hosts."""
        self._accepted.append(fingerprint)

    def give_password(self, password: str) -> None:
        """Set the password. With `workbench_key`, the password is used only to install the key."""
        self._secrets[self._password] = password

    def give_passphrase(self, passphrase: str) -> None:
        """Set the passphrase of the private key."""
        self._secrets[self._passphrase] = passphrase

    def give(self, needed: SecretNeeded, secret: str) -> None:
        """Set the secret that `connect` asked for."""
        login = self._login()
        if needed.is_question and login is not None:
            SshHost(login).give_secret(needed.reference, secret)
        elif needed.reference == self._password:
            self.give_password(secret)
        else:
            self.give_passphrase(secret)

    def connect(self) -> None:
        """Log in, install the workbench's key if requested, and ask the machine what the target file depends on.

        Raises TargetUnreachable. After HostKeyRefused with an empty `known`, accept the host key. After SecretNeeded,
        give the secret. Then call this method again.
        """
        login = self._login()
        if login is not None:
            try:
                self._reach(login)
            except SecretNeeded as error:
                # The usual remedy names a command that needs an attached target.
                if error.reference == self._password:
                    error.remedy = (
                        "Enter the correct password. If the server does not allow passwords, attach with a key."
                    )
                raise
            if self.install_by_hand is not None:
                return
        self._values = self._type.complete(self.request.values, self.host)

    def write(self, apply: Callable[[ChangeSet], None] = ChangeSet.apply) -> Attached:
        """Write both files with `apply`, and store the secrets that later logins need.

        Raises ConfigurationError if one of the files already exists, and StorageError if writing fails.
        """
        store, login = SecretStore(), self._login()
        references = (login.password, login.passphrase) if login is not None else ()
        secrets = {reference: self._secrets[reference] for reference in references if reference in self._secrets}
        kept = {}
        if login is not None:
            for reference, secret in secrets.items():
                kept[reference] = store_secret(login, reference, secret, self._host_key)
        with contextlib.ExitStack() as undo:
            for reference in secrets:
                undo.callback(store.forget, reference)
            change_set = self.change_set()
            for reference, result in kept.items():
                if login is not None and not result.in_keyring:
                    # The link does not have the secret if `connect` was not called.
                    SshHost(login).give_secret(reference, secrets[reference])
            apply(change_set)
            undo.pop_all()
        compute, run_configuration = (change.path for change in change_set.changes)
        return Attached(change_set, compute, run_configuration, tuple(kept.values()))

    def change_set(self) -> ChangeSet:
        """Return the change set that `write` applies: the two new files."""
        files = ((COMPUTE, self._compute()), (RUNCONFIG, self._run_configuration()))
        changes = [FileChange(_path(self.root, self.request.name, end), None, _text(values)) for end, values in files]
        return ChangeSet(f"attach {self.request.name}", tuple(changes))

    def abandon(self) -> None:
        """Forget the secrets, in this process and in the link."""
        login = self._login()
        self._is_abandoned = True
        if login is not None:
            _forget(SshHost(login))
        self._secrets.clear()

    # -- the login ---------------------------------------------------------------------------------------------------

    def _login(self, *, use_workbench_key: bool = True) -> wire.Login | None:
        """Return the login that the `.compute` file will describe; None if the target needs no login.

        Without `use_workbench_key`, return the login that installs the workbench's key.
        """
        request = self.request
        if not self._type.has_login(request.address):
            return None
        login = wire.Login(request.name, request.address, request.username)
        if self._key is not None and use_workbench_key:
            return login._replace(private_key=_from_home(self._key.path))
        if request.private_key:
            # The SSH agent may hold the key, so use a passphrase only if the user gave one.
            passphrase = self._passphrase if self._passphrase in self._secrets else ""
            return login._replace(private_key=_from_home(request.private_key), passphrase=passphrase)
        return login._replace(password=self._password) if request.has_password else login

    def _reach(self, login: wire.Login) -> None:
        try:
            self._log_in(login)
        except LoginRefused:
            other = self._login(use_workbench_key=False)
            if self._key is None or other is None:
                raise
            self._install(self._key, other)
            if self.install_by_hand is None:
                self._log_in(login)

    def _log_in(self, login: wire.Login) -> SshHost:
        host = SshHost(login)
        for fingerprint in self._accepted:
            host.accept_host_key(fingerprint)
        # Give the secrets before the login, because a link with a wrong secret would try that secret first.
        for reference in (login.password, login.passphrase):
            if reference in self._secrets:
                host.give_secret(reference, self._secrets[reference])
        if login not in self._attended:  # a repeated login reports why it failed after an answer
            self._attended.add(login)
            host.attend()
        if self._is_abandoned:  # another thread called `abandon` while the link was being started
            _forget(host)
            raise ConnectionLost(f"{host.label}: the login was canceled", remedy="Try again.")
        host.run(["true"])
        self._host_key = str(host.status().get("host_key", ""))
        return host

    def _install(self, key: KeyPair, login: wire.Login) -> None:
        """Install the workbench's key with another login.

        If that login is refused and uses neither a key file nor a password, set `install_by_hand` instead.
        """
        try:
            install(key, self._log_in(login))
        except LoginRefused:
            if login.private_key or login.password:
                raise
            self.install_by_hand = key
        finally:
            _forget(SshHost(login))

    # -- the files ---------------------------------------------------------------------------------------------------

    def _compute(self) -> dict[str, Any]:
        values = {**self._type.compute(self._values), "type": self.request.type}
        login = self._login()
        if login is not None:
            values |= {"address": login.address, "username": login.username, "privateKey": login.private_key}
            values |= {"password": login.password, "privateKeyPassphrase": login.passphrase}
        return {key: value for key, value in values.items() if value != ""}

    def _run_configuration(self) -> dict[str, Any]:
        return {
            "ArgumentVector": ["$file"],
            "EnvironmentVariables": None,
            "Framework": "Python",
            "Target": self.request.name,
            "TrackedRun": True,
            "UseSampling": True,
            **self._type.run_configuration(self.root),
        }


def _forget(host: SshHost) -> None:
    """Close the connection if its login has a secret. Otherwise keep it, because another project may use it too."""
    if host.login.password or host.login.passphrase:
        host.disconnect()


def _type_of(request: AttachRequest) -> Attaching:
    types = attachable_types()
    if request.type not in types:
        raise UsageError(f"unknown target type {request.type!r}", remedy=f"Choose one of: {', '.join(types)}.")
    return types[request.type]


def _check(root: str, request: AttachRequest, described: Attaching) -> None:
    check_name(request.name)
    if described.has_login(request.address):
        _check_address(request, described)
    described.check(request.values)
    if request.private_key and not os.path.isfile(os.path.expanduser(request.private_key)):
        raise UsageError(
            f"private key not found: {request.private_key}",
            remedy="Give the path of a private key. `ls ~/.ssh/id_*` lists the keys with the usual names.",
        )
    _refuse_existing(root, request.name)


def _refuse_existing(root: str, name: str) -> None:
    path, quoted = _path(root, name, COMPUTE), shlex.quote(name)
    if os.path.lexists(path):
        raise ConfigurationError(
            f"a compute target named {name!r} already exists",
            remedy=f"Choose another name, or detach that target: `workbench-tui computetarget detach {quoted}`.",
            file=path,
        )
    path = _path(root, name, RUNCONFIG)
    if os.path.lexists(path):
        raise ConfigurationError(
            f"a run configuration named {name!r} already exists",
            remedy="Choose another name, or delete that run configuration: "
            f"`workbench-tui runconfiguration delete -n {quoted}`.",
            file=path,
        )


def _check_address(request: AttachRequest, described: Attaching) -> None:
    if not request.address:
        raise UsageError(
            f"a {request.type} target needs the address of {described.machine}",
            remedy="Give the address as HOST or HOST:PORT (on the command line with `--address`).",
        )
    mistake = wire.Login("", request.address, request.username).mistake
    if mistake is not None and mistake.user:
        raise UsageError(
            mistake.message,
            remedy=f"Give the user {mistake.user} and the address {mistake.host} separately: "
            f"`--username {shlex.quote(mistake.user)} --address {shlex.quote(mistake.host)}`.",
        )
    if mistake is not None:
        raise UsageError(mistake.message, remedy=mistake.remedy)


def _path(root: str, name: str, suffix: str) -> str:
    return os.path.join(root, CONFIG_DIRECTORY, name + suffix)


def _text(values: dict[str, Any]) -> bytes:
    """Return YAML as Azure ML Workbench wrote it: formatted by PyYAML, with sorted keys."""
    import yaml

    text: str = yaml.safe_dump(values, default_flow_style=False, allow_unicode=True, width=1 << 20)
    return text.encode()


def _from_home(path: str) -> str:
    """Return the path with the home directory replaced by `~`, so that the target file works for other users."""
    if path.startswith("~"):
        return path
    path, home = os.path.abspath(path), os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(f"{home}/") else path
