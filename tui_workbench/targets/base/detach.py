"""Taking a target and its secrets away again, and moving secrets that stand in its file to the keyring.

Files go to the trash of `config.lifecycle`, in one step; a secret is removed from the keyring and from the memory of
the process that holds the connection, unless another target refers to it too. Nothing on the machine is touched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import NamedTuple

from tui_workbench.config.changes import lifecycle
from tui_workbench.config.changes.change_set import ChangeSet, FileChange
from tui_workbench.config.document import Document
from tui_workbench.config.schema import fields
from tui_workbench.config.yaml_edit.syntax import parse
from tui_workbench.config.yaml_edit.values import read_fields
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import Project
from tui_workbench.targets.base.secrets import KeyringResult, SecretStore, is_reference, new_reference
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import Login, login_of

SECRET_KEYS = ("password", "privateKeyPassphrase")


class Detachment(NamedTuple):
    """What is to go: files, by a change set that puts them into the trash, and secrets by their references."""

    change_set: ChangeSet
    target: ComputeTarget | None  # None when its file cannot be read
    references: tuple[str, ...] = ()


def plan_detaching(project: Project, name: str) -> Detachment:
    """What detaching the target would do: its file, and the run configuration of its name if that runs on it.

    Raises ConfigurationError when there is no such target.
    """
    path = os.path.join(project.config_directory, f"{name}{lifecycle.COMPUTE}")
    if not os.path.lexists(path) or "/" in name:
        project.target(name)  # says which there are
    target = _readable(project, name)
    sets = [lifecycle.delete(path)]
    configuration = next((one for one in project.run_configurations() if one.name == name), None)
    if configuration is not None and configuration.target == name:
        sets.append(lifecycle.delete(configuration.path))
    changes: dict[str, FileChange] = {}
    for change_set in sets:
        for change in change_set.changes:
            changes.setdefault(change.path, change)
    left = [one.name for one in project.run_configurations() if one.target == name and one.name != name]
    notes = (f"Run configurations that now name nothing: {', '.join(left)}.",) if left else ()
    references = _references(login_of(target)) if target is not None else ()
    elsewhere = _targets_in(project.config_directory, without=path)
    references = tuple(reference for reference in references if reference.encode() not in elsewhere)
    return Detachment(ChangeSet(f"detach {name}", tuple(changes.values()), notes), target, references)


def detach(detachment: Detachment) -> None:
    """Put the files into the trash and remove the secrets. Raises as `ChangeSet.apply` does."""
    detachment.change_set.apply()
    forget_secrets(detachment)


def forget_secrets(detachment: Detachment) -> dict[str, str]:
    """Remove the secrets of a detached target, by reference; gives those that were there."""
    store = SecretStore()
    found = {reference: store.get(reference) for reference in detachment.references}
    for reference in detachment.references:
        store.forget(reference)
    if detachment.references and detachment.target is not None:
        SshHost(login_of(detachment.target)).disconnect()
    return {reference: secret for reference, secret in found.items() if secret is not None}


def forget_orphans(change_set: ChangeSet) -> None:
    """After a change of files: forget the secrets that a `.compute` file referred to and that none refers to now.

    Undoing an attachment leaves such a secret. Targets that were moved, or put into the trash, keep theirs.
    """
    for change in change_set.changes:
        if change.before is None or not change.path.endswith(lifecycle.COMPUTE):
            continue
        login = _login_in(change.path, change.before)
        left = _targets_in(os.path.dirname(change.path)) + b"".join(each.after or b"" for each in change_set.changes)
        orphans = [reference for reference in _references(login) if reference.encode() not in left]
        for reference in orphans:
            SecretStore().forget(reference)
        if orphans:
            SshHost(login).disconnect()


def secrets_in_file(target: ComputeTarget) -> dict[str, str]:
    """The secrets that stand in the target's file themselves, by key."""
    found = dict(zip(SECRET_KEYS, (target.password, target.private_key_passphrase), strict=True))
    return {key: value for key, value in found.items() if value and not is_reference(value)}


def move_secrets(target: ComputeTarget) -> tuple[ChangeSet, tuple[KeyringResult, ...]]:
    """Put the secrets of the target's file into the keyring, and references into the file in one step.

    Raises ConfigurationError when no keyring takes them: then the file is as it was, because it is their only place.
    """
    secrets = secrets_in_file(target)
    references = {key: new_reference(target.name, target.username) for key in secrets}
    kept = tuple(SecretStore().put(references[key], secret) for key, secret in secrets.items())
    refused = next((one for one in kept if not one.in_keyring), None)
    with contextlib.ExitStack() as undo:
        for reference in references.values():
            undo.callback(SecretStore().forget, reference)
        if refused is not None:
            raise ConfigurationError(
                f"the secrets stay in the file: {refused.reason}",
                remedy="Without a keyring, remove the line and attach the target again: it is then asked for.",
                file=target.path,
            )
        change_set = _with_references(target, references)
        change_set.apply()
        undo.pop_all()
    return change_set, kept


def _references(login: Login) -> tuple[str, ...]:
    return tuple(secret for secret in (login.password, login.passphrase) if is_reference(secret))


def _login_in(path: str, data: bytes) -> Login:
    """The login that a `.compute` file of these bytes describes; an empty one when it cannot be understood."""
    name = os.path.basename(path).removesuffix(lifecycle.COMPUTE)
    try:
        values = read_fields(parse(data.decode("utf-8", "replace")), fields.COMPUTE).values
    except WorkbenchError:
        values = {}
    keys = ("address", "username", "privateKey", "privateKeyPassphrase", "password")
    return Login(name, *(values.get(key, "") for key in keys))


def _targets_in(folder: str, without: str = "") -> bytes:
    """The bytes of all `.compute` files of a folder, but for one."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(lifecycle.COMPUTE) and entry.path != without:
                with contextlib.suppress(OSError), open(entry.path, "rb") as file:
                    found.append(file.read())
    return b"\n".join(found)


def _with_references(target: ComputeTarget, references: Mapping[str, str]) -> ChangeSet:
    document = Document.open(target.path)
    before = document.file.encode(document.text)
    for key, reference in references.items():
        document.set((key,), reference)
    change = FileChange(target.path, before, document.file.encode(document.text))
    return ChangeSet(f"move the secrets of {target.name} to the keyring", (change,))


def _readable(project: Project, name: str) -> ComputeTarget | None:
    try:
        return project.target(name)
    except WorkbenchError:
        return None
