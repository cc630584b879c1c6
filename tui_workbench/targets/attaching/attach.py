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
from typing import Any, NamedTuple

from tui_workbench.config.changes.change_set import ChangeSet, FileChange
from tui_workbench.config.changes.lifecycle import COMPUTE, RUNCONFIG, check_name
from tui_workbench.config.checks.image_names import (
    DEFAULT_AMD_IMAGE,
    DEFAULT_GPU_IMAGE,
    OLDER_DRIVER_GPU_IMAGE,
    require_image,
)
from tui_workbench.config.option_texts import typed_values
from tui_workbench.config.schema import fields
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.targets.base.run_environment import DEFAULT_SHARE
from tui_workbench.targets.gpu.gpus import OLDEST_DRIVER_OF_DEFAULT_IMAGE, Gpus, gpus_of
from tui_workbench.targets.gpu.vendors import AMD
from tui_workbench.targets.hosts.host import ConnectionLost, Host, LocalHost, LoginRefused, SecretNeeded
from tui_workbench.targets.hosts.secrets import KeyringResult, SecretStore, new_reference
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.login_secrets import store_secret
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.workbench_key import KeyPair, install, workbench_key

REMOTE_DOCKER, LOCAL_DOCKER, REMOTE, SLURM, CLUSTER = "remotedocker", "localdocker", "remote", "slurm", "cluster"
TYPES = (REMOTE_DOCKER, LOCAL_DOCKER, REMOTE, SLURM, CLUSTER)
"""The target types that can be attached."""

CPU_IMAGE = "python:3.12-slim"
"""The image for a machine without a GPU."""

REMOTE_PYTHON = "python3"
_CONDA_FILE = f"{CONFIG_DIRECTORY}/conda_dependencies.yml"
_SPARK_FILE = f"{CONFIG_DIRECTORY}/spark_dependencies.yml"


class AttachRequest(NamedTuple):
    """The user's choices, without secrets."""

    type: str
    name: str
    address: str = ""
    username: str = ""  # "" for the user in ~/.ssh/config, or the local user's name
    has_password: bool = False  # log in with a password and store it in the keyring
    private_key: str = ""
    workbench_key: bool = False  # log in with the workbench's key
    image: str = ""  # "" chooses an image for the machine
    gpu: bool | None = None  # None: use a GPU if the machine has one
    python: str = ""  # the interpreter of a `remote`, `slurm` or `cluster` target
    run_root: str = ""  # this field and the next two: options of a `slurm` target; "" for the default
    partition: str = ""
    account: str = ""

    @property
    def has_login(self) -> bool:
        """True if the machine is reached over SSH. Without an address, Slurm's commands run on this machine."""
        return self.type != LOCAL_DOCKER and (self.type != SLURM or bool(self.address))

    @property
    def has_image(self) -> bool:
        """True if runs execute in containers. Then the target file names an image."""
        return self.type in (REMOTE_DOCKER, LOCAL_DOCKER)


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
        _check(root, request)
        self.root = root
        self.request = request
        self.install_by_hand: KeyPair | None = None
        self._gpus: Gpus | None = None
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
        """Log in, install the workbench's key if requested, and look for a GPU if the target file depends on it.

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
        if self.request.gpu is None and self.request.has_image:
            self._gpus = gpus_of(self.host)

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
        if not request.has_login:
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
        request = self.request
        values: dict[str, Any] = {"type": request.type}
        login = self._login()
        if login is not None:
            values |= {"address": login.address, "username": login.username, "privateKey": login.private_key}
            values |= {"password": login.password, "privateKeyPassphrase": login.passphrase}
        if request.type in (REMOTE, CLUSTER):
            values |= {"pythonLocation": request.python or REMOTE_PYTHON, "userManagedEnvironment": True}
        elif request.type == SLURM:
            values |= _slurm_values(request)
        else:
            gpu, image = self._engine_values()
            values |= {"baseDockerImage": image, "nvidiaDocker": gpu}
            values |= {"sharedVolumes": True, "nativeSharedDirectory": DEFAULT_SHARE}
        return {key: value for key, value in values.items() if value != ""}

    def _engine_values(self) -> tuple[bool, str]:
        """Return whether containers use GPUs, and the image. An unchecked machine is assumed to have a GPU."""
        gpus = self._gpus
        has_gpu = gpus is None or bool(gpus.listed)
        gpu = has_gpu if self.request.gpu is None else self.request.gpu
        if self.request.image:
            return gpu, self.request.image
        if not gpu:
            return gpu, CPU_IMAGE
        if gpus is not None and gpus.vendor is AMD:
            return gpu, DEFAULT_AMD_IMAGE
        driver = gpus.driver if gpus is not None else ""
        is_old = driver.partition(".")[0].isdigit() and int(driver.partition(".")[0]) < OLDEST_DRIVER_OF_DEFAULT_IMAGE
        return gpu, OLDER_DRIVER_GPU_IMAGE if is_old else DEFAULT_GPU_IMAGE

    def _run_configuration(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "ArgumentVector": ["$file"],
            "EnvironmentVariables": None,
            # Azure ML Workbench wrote PySpark for every type, but machines of other types may not have Spark.
            "Framework": "PySpark" if self.request.type == CLUSTER else "Python",
            "Target": self.request.name,
            "TrackedRun": True,
            "UseSampling": True,
        }
        if self.request.has_image:
            values["PrepareEnvironment"] = True
            for key, file in (("CondaDependenciesFile", _CONDA_FILE), ("SparkDependenciesFile", _SPARK_FILE)):
                if os.path.exists(os.path.join(self.root, file)):
                    values[key] = file
        return values


def _slurm_values(request: AttachRequest) -> dict[str, Any]:
    options = {"partition": request.partition, "account": request.account}
    given = {key: value for key, value in options.items() if value}
    values: dict[str, Any] = {"pythonLocation": request.python or REMOTE_PYTHON, "runRoot": request.run_root}
    return values | ({"slurm": given} if given else {})


def _forget(host: SshHost) -> None:
    """Close the connection if its login has a secret. Otherwise keep it, because another project may use it too."""
    if host.login.password or host.login.passphrase:
        host.disconnect()


def _check(root: str, request: AttachRequest) -> None:
    if request.type not in TYPES:
        raise UsageError(f"unknown target type {request.type!r}", remedy=f"Choose one of: {', '.join(TYPES)}.")
    check_name(request.name)
    if request.has_login:
        _check_address(request)
    if request.type == SLURM:
        typed_values(fields.COMPUTE, _slurm_values(request))
    if request.image:
        require_image(request.image)
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


def _check_address(request: AttachRequest) -> None:
    if not request.address:
        raise UsageError(
            f"a {request.type} target needs the address of its machine",
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
