"""Attaching a machine: a login that works, then `NAME.compute` and `NAME.runconfig`, then its secret in the keyring.

Nothing is written before the login has worked (or the person said not to try), both files come in one step that can be
taken back, and no file of that name is ever replaced. Secrets are in memory until then and in the keyring afterwards,
never in the files. A front end asks what `connect` needs to know and calls it again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from tui_workbench.config.changes.change_set import ChangeSet, FileChange
from tui_workbench.config.changes.lifecycle import COMPUTE, RUNCONFIG, check_name
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE, parse_image
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.targets.base.secrets import KeyringResult, SecretStore, new_reference
from tui_workbench.targets.gpu.gpus import OLDEST_DRIVER_OF_DEFAULT_IMAGE, gpus_of
from tui_workbench.targets.hosts.host import ConnectionLost, Host, LocalHost, LoginRefused, SecretNeeded
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.workbench_key import KeyPair, install, workbench_key

REMOTE_DOCKER, LOCAL_DOCKER, REMOTE = "remotedocker", "localdocker", "remote"
TYPES = (REMOTE_DOCKER, LOCAL_DOCKER, REMOTE)
"""What can be attached."""

SHARE = "~/.azureml/share/"
CPU_IMAGE = "python:3.12-slim"
"""For a machine without a GPU: small, and current."""

REMOTE_PYTHON = "python3"
_CONDA_FILE = f"{CONFIG_DIRECTORY}/conda_dependencies.yml"
_SPARK_FILE = f"{CONFIG_DIRECTORY}/spark_dependencies.yml"


class AttachRequest(NamedTuple):
    """What a person asked for. No secret is among it: those are given to `Attachment` when they are needed."""

    type: str
    name: str
    address: str = ""
    username: str = ""  # "" leaves it to ~/.ssh/config, else the local user's name
    has_password: bool = False  # log in with a password, which is then kept in the keyring
    private_key: str = ""
    workbench_key: bool = False  # log in with the workbench's own key
    image: str = ""  # "" for one that suits the machine
    gpu: bool | None = None  # None: as the machine has one
    python: str = ""  # the interpreter of a `remote` target


class Attached(NamedTuple):
    """What was written. `kept` says for each secret whether the keyring took it."""

    change_set: ChangeSet
    compute: str
    run_configuration: str
    kept: tuple[KeyringResult, ...] = ()


class Attachment:
    """One machine on its way to being attached to the project at `root`.

    `install_by_hand` is the key that the user has to install there, after `connect`; None when that is not needed.
    """

    def __init__(self, root: str, request: AttachRequest) -> None:
        """Raises UsageError or ConfigurationError for what can be seen to be wrong without asking the machine."""
        _check(root, request)
        self.root = root
        self.request = request
        self.install_by_hand: KeyPair | None = None
        self._gpu: tuple[bool, str] | None = None
        self._accepted: list[str] = []
        self._is_abandoned = False
        self._secrets: dict[str, str] = {}
        self._password = new_reference(request.name, request.username)
        self._passphrase = new_reference(request.name, request.username)
        self._key = workbench_key() if request.workbench_key else None

    @property
    def host(self) -> Host:
        """The machine, to be asked once `connect` has returned."""
        login = self._login()
        return LocalHost() if login is None else SshHost(login)

    def accept_host_key(self, fingerprint: str) -> None:
        """Accept the host key of this fingerprint (`SHA256:...`), here and for good, when the machine shows it."""
        self._accepted.append(fingerprint)

    def give_password(self, password: str) -> None:
        """The password of the user on the machine. With the workbench's key it serves to install that, and no more."""
        self._secrets[self._password] = password

    def give_passphrase(self, passphrase: str) -> None:
        """What opens the private key."""
        self._secrets[self._passphrase] = passphrase

    def give(self, needed: SecretNeeded, secret: str) -> None:
        """The answer to what `connect` raised."""
        if needed.reference == self._password:
            self.give_password(secret)
        else:
            self.give_passphrase(secret)

    def connect(self) -> None:
        """Log in, install the workbench's key where that is wanted, and look for a GPU.

        Raises HostKeyRefused (when `known` is empty, the key may be accepted) and SecretNeeded (give it), to be called
        again after; and every other TargetUnreachable.
        """
        login = self._login()
        if login is not None:
            try:
                self._reach(login)
            except SecretNeeded as error:
                # There is no target yet whose login could be mended.
                error.remedy = error.remedy if error.reference != self._password else "Try again with the right one."
                raise
            if self.install_by_hand is not None:
                return
        if self.request.gpu is None and self.request.type != REMOTE:
            gpus = gpus_of(self.host)
            self._gpu = bool(gpus.found), gpus.driver

    def write(self, apply: Callable[[ChangeSet], None] = ChangeSet.apply) -> Attached:
        """Write both files by `apply`, and keep the secrets.

        Raises ConfigurationError when a file of that name has come meanwhile, StorageError when one cannot be written.
        """
        store, login = SecretStore(), self._login()
        # Those that later logins need.
        references = (login.password, login.passphrase) if login is not None else ()
        lasting = {each: self._secrets[each] for each in references if each in self._secrets}
        kept = {reference: store.put(reference, secret) for reference, secret in lasting.items()}
        with contextlib.ExitStack() as undo:
            for reference in lasting:
                undo.callback(store.forget, reference)
            change_set = self.change_set()
            for reference, one in kept.items():
                if login is not None and not one.in_keyring:
                    # The link may have been told already, unless nobody connected.
                    SshHost(login).give_secret(reference, lasting[reference])
            apply(change_set)
            undo.pop_all()
        compute, run_configuration = (change.path for change in change_set.changes)
        return Attached(change_set, compute, run_configuration, tuple(kept.values()))

    def change_set(self) -> ChangeSet:
        """The two files that `write` makes."""
        values = ((COMPUTE, self._compute()), (RUNCONFIG, self._run_configuration()))
        changes = [FileChange(_path(self.root, self.request.name, end), None, _text(each)) for end, each in values]
        return ChangeSet(f"attach {self.request.name}", tuple(changes))

    def abandon(self) -> None:
        """Forget the secrets that were given, here and in the process that holds the connection."""
        login = self._login()
        self._is_abandoned = True
        if login is not None:
            _forget(SshHost(login))
        self._secrets.clear()

    # -- the login ---------------------------------------------------------------------------------------------------

    def _login(self, *, with_our_key: bool = True) -> wire.Login | None:
        """How later runs will log in, as the `.compute` file will say it.

        Without the workbench's key: by the key or password that was named, else by what OpenSSH would try.
        """
        request = self.request
        if request.type == LOCAL_DOCKER:
            return None
        login = wire.Login(request.name, request.address, request.username)
        if self._key is not None and with_our_key:
            return login._replace(private_key=_from_home(self._key.path))
        if request.private_key:
            # A key that the agent holds needs no passphrase, and then the file names none.
            passphrase = self._passphrase if self._passphrase in self._secrets else ""
            return login._replace(private_key=_from_home(request.private_key), passphrase=passphrase)
        return login._replace(password=self._password) if request.has_password else login

    def _reach(self, login: wire.Login) -> None:
        try:
            self._log_in(login)
        except LoginRefused:
            other = self._login(with_our_key=False)
            if self._key is None or other is None:
                raise
            self._install(self._key, other)
            if self.install_by_hand is None:
                self._log_in(login)

    def _log_in(self, login: wire.Login) -> SshHost:
        host = SshHost(login)
        for fingerprint in self._accepted:
            host.accept_host_key(fingerprint)
        # Handed over before it is asked for: a link that holds a wrong one would first try that again.
        for reference in (login.password, login.passphrase):
            if reference in self._secrets:
                host.give_secret(reference, self._secrets[reference])
        if self._is_abandoned:  # while the link was being started: nobody else would end it
            _forget(host)
            raise ConnectionLost(f"{host.label}: given up", remedy="Try again.")
        host.run(["true"])
        return host

    def _install(self, key: KeyPair, login: wire.Login) -> None:
        """Install the workbench's key by another login.

        When nothing was named to log in with, and nothing lets us in, it is left to the user.
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
        if request.type == REMOTE:
            values |= {"pythonLocation": request.python or REMOTE_PYTHON, "userManagedEnvironment": True}
        else:
            gpu, image = self._engine_values()
            values |= {"baseDockerImage": image, "nvidiaDocker": gpu}
            values |= {"sharedVolumes": True, "nativeSharedDirectory": SHARE}
        return {key: value for key, value in values.items() if value != ""}

    def _engine_values(self) -> tuple[bool, str]:
        """Whether containers get a GPU, and their image: as asked, else as the machine is, else as if it had one."""
        found, driver = self._gpu or (True, "")
        gpu = found if self.request.gpu is None else self.request.gpu
        if self.request.image:
            return gpu, self.request.image
        if not gpu:
            return gpu, CPU_IMAGE
        is_old = driver.partition(".")[0].isdigit() and int(driver.partition(".")[0]) < OLDEST_DRIVER_OF_DEFAULT_IMAGE
        return gpu, OLDER_DRIVER_GPU_IMAGE if is_old else DEFAULT_GPU_IMAGE

    def _run_configuration(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "ArgumentVector": ["$file"],
            "EnvironmentVariables": None,
            # The original wrote PySpark, and no environment: two of the hand edits that every GPU user then made.
            "Framework": "Python",
            "Target": self.request.name,
            "TrackedRun": True,
            "UseSampling": True,
        }
        if self.request.type != REMOTE:
            values["PrepareEnvironment"] = True
            for key, file in (("CondaDependenciesFile", _CONDA_FILE), ("SparkDependenciesFile", _SPARK_FILE)):
                if os.path.exists(os.path.join(self.root, file)):
                    values[key] = file
        return values


def _forget(host: SshHost) -> None:
    """End a link that holds a secret; one that holds none may be another target's too, and is left."""
    if host.login.password or host.login.passphrase:
        host.disconnect()


def _check(root: str, request: AttachRequest) -> None:
    if request.type not in TYPES:
        raise UsageError(
            f"{request.type!r} is nothing that can be attached", remedy=f"Choose one of: {', '.join(TYPES)}."
        )
    check_name(request.name)
    if request.type != LOCAL_DOCKER:
        _check_address(request)
    if request.image and parse_image(request.image) is None:
        raise UsageError(f"{request.image!r} is no image name", remedy="Write REPOSITORY:TAG in small letters.")
    if request.private_key and not os.path.isfile(os.path.expanduser(request.private_key)):
        raise UsageError(f"there is no private key {request.private_key}", remedy="Name the file of the private half.")
    for suffix in (COMPUTE, RUNCONFIG):
        path = _path(root, request.name, suffix)
        if os.path.lexists(path):
            raise ConfigurationError(
                f"there is a {'compute target' if suffix == COMPUTE else 'run configuration'} of this name already",
                remedy=f"Choose another name, or detach it: workbench-tui computetarget detach {request.name}",
                file=path,
            )


def _check_address(request: AttachRequest) -> None:
    for what, value in (("address", request.address), ("username", request.username)):
        # A word that begins with a dash would be an option to ssh, where a remedy is copied.
        if value.startswith("-") or any(c.isspace() or not c.isprintable() for c in value):
            raise UsageError(f"{value!r} cannot be {what}", remedy="Leave out blanks and leading dashes.")
    host, port = wire.Login("", request.address).host_and_port
    if not host:
        raise UsageError(
            f"a {request.type} target needs the address of its machine", remedy="Name it with --address HOST[:PORT]."
        )
    if port > 65535:
        raise UsageError(f"there is no port {port}", remedy="A port is a number up to 65535.")
    if "@" in host:
        user, _, place = host.rpartition("@")
        raise UsageError(f"{request.address!r} holds a user", remedy=f"Write --username {user} --address {place}.")


def _path(root: str, name: str, suffix: str) -> str:
    return os.path.join(root, CONFIG_DIRECTORY, name + suffix)


def _text(values: dict[str, Any]) -> bytes:
    """A file as the original wrote it: by PyYAML, with the keys sorted."""
    import yaml

    text: str = yaml.safe_dump(values, default_flow_style=False, allow_unicode=True, width=1 << 20)
    return text.encode()


def _from_home(path: str) -> str:
    """A path as it may be shared: below the home folder it begins with `~`; a relative one is made whole."""
    if path.startswith("~"):
        return path
    path, home = os.path.abspath(path), os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(f"{home}/") else path
