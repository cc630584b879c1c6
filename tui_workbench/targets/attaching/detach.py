"""Detach a target and remove its secrets, or move secrets from its file to the keyring.

Detaching moves the files to the trash in one step. It removes secrets from the keyring and from the process that holds
the SSH connection, unless another target refers to them. Nothing changes on the target's machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import NamedTuple

from tui_workbench.config.changes import lifecycle
from tui_workbench.config.changes.change_set import ChangeSet, FileChange
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document
from tui_workbench.config.schema import fields
from tui_workbench.config.yaml_edit.syntax import parse
from tui_workbench.config.yaml_edit.values import read_fields
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.files import read_file
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import Project
from tui_workbench.targets.hosts.secrets import (
    KeyringResult,
    SecretStore,
    is_reference,
    new_reference,
    plain_text_secrets,
)
from tui_workbench.targets.ssh.login_secrets import store_secret
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import Login, login_of


class Detachment(NamedTuple):
    """The change set that moves the files of a target to the trash, and the references to the secrets to remove."""

    change_set: ChangeSet
    target: ComputeTarget | None  # None if its file cannot be read
    references: tuple[str, ...] = ()


def plan_detaching(project: Project, name: str) -> Detachment:
    """Plan to detach a target, together with the run configuration of the same name if it uses the target.

    Raises ConfigurationError if there is no such target.
    """
    path = os.path.join(project.config_directory, f"{name}{lifecycle.COMPUTE}")
    if not os.path.lexists(path) or "/" in name:
        project.target(name)  # raises an error with the names of all targets
    try:
        target: ComputeTarget | None = project.target(name)
    except WorkbenchError:
        target = None
    changes = {change.path: change for change in lifecycle.delete(path).changes}
    left = []
    # `project.run_configurations` does not tell the target of a file with an error.
    for configuration in ProjectContext(project.root).configurations_of(name):
        if configuration.name == name:
            for change in lifecycle.delete(configuration.path).changes:
                changes.setdefault(change.path, change)
        else:
            left.append(configuration.name)
    notes = (f"Run configurations left without a target: {', '.join(left)}.",) if left else ()
    others = _targets_in(project.config_directory, without=path)
    references = _references(login_of(target)) if target is not None else ()
    references = tuple(reference for reference in references if reference.encode() not in others)
    return Detachment(ChangeSet(f"detach {name}", tuple(changes.values()), notes), target, references)


class RemovedSecrets(NamedTuple):
    """The secrets of a detached target that an undo restores: entries of the keyring, and secrets in memory.

    `in_memory` is the login whose secrets only the process with the SSH connection has, or None.
    """

    in_keyring: Mapping[str, str] = {}
    in_memory: Login | None = None

    def restore(self) -> None:
        """Store the entries in the keyring again. Secrets in memory are still there."""
        for reference, entry in self.in_keyring.items():
            SecretStore().put(reference, entry)

    def forget(self) -> None:
        """Remove the secrets in memory too, because the change cannot be undone any more."""
        if self.in_memory is not None:
            SshHost(self.in_memory).disconnect()


def detach(detachment: Detachment) -> None:
    """Move the files to the trash and remove the secrets. Raises the errors of `ChangeSet.apply`."""
    detachment.change_set.apply()
    remove_secrets(detachment).forget()


def remove_secrets(detachment: Detachment) -> RemovedSecrets:
    """Remove the secrets of a detached target from the keyring, and close its connections.

    Secrets that are not in the keyring remain in memory, so that `restore` is possible, until `forget` is called.
    """
    if not detachment.references or detachment.target is None:
        return RemovedSecrets()
    store, login = SecretStore(), login_of(detachment.target)
    entries = {reference: store.get(reference) for reference in detachment.references}
    for reference in detachment.references:
        store.forget(reference)
    in_keyring = {reference: entry for reference, entry in entries.items() if entry is not None}
    in_memory = login if len(in_keyring) < len(entries) else None
    SshHost(login).disconnect(keep_secrets=in_memory is not None)
    return RemovedSecrets(in_keyring, in_memory)


def forget_orphans(change_set: ChangeSet) -> None:
    """Remove the secrets that no `.compute` file refers to after a change, for example after an attachment was undone.

    The secrets of a target that was renamed or moved to the trash are kept.
    """
    for change in change_set.changes:
        if change.before is None or not change.path.endswith(lifecycle.COMPUTE):
            continue
        login = _login_in(change.path, change.before)
        left = _targets_in(os.path.dirname(change.path)) + b"".join(other.after or b"" for other in change_set.changes)
        orphans = [reference for reference in _references(login) if reference.encode() not in left]
        for reference in orphans:
            SecretStore().forget(reference)
        if orphans:
            SshHost(login).disconnect()


def move_secrets(target: ComputeTarget) -> tuple[ChangeSet, tuple[KeyringResult, ...]]:
    """Move the plain-text secrets of a target's file to the keyring, and write references into the file.

    If the keyring refuses, raises ConfigurationError and leaves the file unchanged.
    """
    secrets = plain_text_secrets(target)
    references = {key: new_reference(target.name, target.username) for key in secrets}
    moved = login_of(target)._replace(
        password=references.get("password", target.password),
        passphrase=references.get("privateKeyPassphrase", target.private_key_passphrase),
    )
    kept = tuple(store_secret(moved, references[key], secret) for key, secret in secrets.items())
    refused = next((result for result in kept if not result.in_keyring), None)
    with contextlib.ExitStack() as undo:
        for reference in references.values():
            undo.callback(SecretStore().forget, reference)
        if refused is not None:
            raise ConfigurationError(
                f"cannot store the secrets in the keyring: {refused.reason}",
                remedy="Unlock or install a keyring and try again.\n"
                "Or detach the target and attach it again: without a keyring, the workbench keeps secrets in memory.",
                file=target.path,
            )
        change_set = _with_references(target, references)
        change_set.apply()
        undo.pop_all()
    return change_set, kept


def _references(login: Login) -> tuple[str, ...]:
    return tuple(secret for secret in (login.password, login.passphrase) if is_reference(secret))


def _login_in(path: str, data: bytes) -> Login:
    """Return the login in the content of a `.compute` file, with empty fields if the file is invalid."""
    name = os.path.basename(path).removesuffix(lifecycle.COMPUTE)
    try:
        values = read_fields(parse(data.decode("utf-8", "replace")), fields.COMPUTE).values
    except WorkbenchError:
        values = {}
    keys = ("address", "username", "privateKey", "privateKeyPassphrase", "password")
    return Login(name, *(values.get(key, "") for key in keys))


def _targets_in(folder: str, without: str = "") -> bytes:
    """Return the joined content of all `.compute` files in a folder, except for `without`."""
    contents = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(lifecycle.COMPUTE) and entry.path != without:
                with contextlib.suppress(OSError):
                    contents.append(read_file(entry.path))
    return b"\n".join(contents)


def _with_references(target: ComputeTarget, references: Mapping[str, str]) -> ChangeSet:
    document = Document.open(target.path)
    before = document.file.encode(document.text)
    for key, reference in references.items():
        document.set((key,), reference)
    change = FileChange(target.path, before, document.file.encode(document.text))
    return ChangeSet(f"move the secrets of {target.name} to the keyring", (change,))
