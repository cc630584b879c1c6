"""Targets and run configurations come, get another name, and go.

Invariants: every function only plans; the change set that it returns is shown and then applied. What is deleted lies in
the trash until someone empties it, and a renamed target takes the run configurations that name it along.
"""

from __future__ import annotations

import os
import time

from tui_workbench.config import fields, schema
from tui_workbench.config.changes import ChangeSet, FileChange
from tui_workbench.config.document import Document
from tui_workbench.config.images import DEFAULT_GPU_IMAGE
from tui_workbench.config.surroundings import CONFIG_DIRECTORY, Surroundings
from tui_workbench.errors import ConfigurationError, UsageError, WorkbenchError
from tui_workbench.files import Signature, TextFile
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

COMPUTE = ".compute"
RUNCONFIG = ".runconfig"


def create_target(root: str, name: str, target_type: str, values: Mapping[str, Any] | None = None) -> ChangeSet:
    """A new `.compute` file of this type in the project at `root`, with `values` by key.

    Required fields without a value get one to start from. Raises UsageError for a bad name or type, ConfigurationError
    when the name is taken.
    """
    if target_type not in schema.TARGET_TYPES:
        raise UsageError(
            f"{target_type!r} is no type of target", remedy=f"Choose one of: {', '.join(schema.TARGET_TYPES)}."
        )
    path = _free_path(root, name, COMPUTE)
    chosen = {"type": target_type, **_starting_values(target_type), **(values or {})}
    return ChangeSet(f"create target {name}", (FileChange(path, None, new_text(path, chosen).encode()),))


def create_run_configuration(root: str, name: str, target: str, values: Mapping[str, Any] | None = None) -> ChangeSet:
    """A new `.runconfig` file that runs on `target`. Raises UsageError (bad name), ConfigurationError (taken)."""
    path = _free_path(root, name, RUNCONFIG)
    chosen: dict[str, Any] = {"ArgumentVector": ["$file"], "Target": target, "Framework": "Python", "TrackedRun": True}
    found = Surroundings(root).target(target)
    if found is not None and (found.is_docker or found.type == schema.CLUSTER):
        chosen |= {"CondaDependenciesFile": f"{CONFIG_DIRECTORY}/conda_dependencies.yml", "PrepareEnvironment": True}
    notes = () if found is not None else (f"There is no target {target!r} yet.",)
    change = FileChange(path, None, new_text(path, chosen | dict(values or {})).encode())
    return ChangeSet(f"create run configuration {name}", (change,), notes)


def duplicate(path: str, new_name: str) -> ChangeSet:
    """A copy of a configuration file under another name, to the byte. Raises UsageError or ConfigurationError."""
    root, suffix = _root_and_suffix(path)
    copy = _free_path(root, new_name, suffix)
    return ChangeSet(f"duplicate {_name(path)} as {new_name}", (FileChange(copy, None, _read(path)),))


def rename(path: str, new_name: str) -> ChangeSet:
    """A configuration file under another name; run configurations that name a renamed target follow.

    Raises UsageError for a bad name, ConfigurationError when it is taken.
    """
    root, suffix = _root_and_suffix(path)
    moved = _free_path(root, new_name, suffix)
    data = _read(path)
    changes = [FileChange(moved, None, data)]
    notes: list[str] = []
    if suffix == COMPUTE:
        for other in _run_configuration_paths(root):
            change, note = _renamed_target(other, _name(path), new_name)
            changes += [change] if change is not None else []
            notes += [note] if note else []
    changes.append(FileChange(path, data, None))
    return ChangeSet(f"rename {_name(path)} to {new_name}", tuple(changes), tuple(notes))


def delete(path: str, trash: str = "") -> ChangeSet:
    """Moves a file to the trash: `trash`, or `.workbench/trash/`. Raises UsageError, ConfigurationError."""
    root, suffix = _root_and_suffix(path)
    data = _read(path)
    directory = trash or trash_of(root)
    kept = os.path.join(directory, f"{time.time_ns() // 1_000_000}-{os.path.basename(path)}")
    changes = [FileChange(kept, None, data), FileChange(path, data, None)]
    ignore = os.path.join(root, ".workbench", ".gitignore")
    if not trash and not os.path.exists(ignore):
        changes.insert(0, FileChange(ignore, None, b"*\n"))
    users = [one.name for one in Surroundings(root).configurations_of(_name(path))] if suffix == COMPUTE else []
    notes = (f"Run configurations that name it and then name nothing: {', '.join(users)}.",) if users else ()
    return ChangeSet(f"delete {os.path.basename(path)}", tuple(changes), notes)


def trash_of(root: str) -> str:
    """Where deleted configuration files of the project at `root` lie."""
    return os.path.join(root, ".workbench", "trash")


def deleted(trash: str) -> list[tuple[str, str, float]]:
    """What lies in a trash folder, newest first: file name, path, and when it was deleted (seconds since the epoch)."""
    try:
        names = os.listdir(trash)
    except OSError:
        return []
    found = []
    for name in names:
        stamp, _, original = name.partition("-")
        if original and stamp.isdigit():
            found.append((original, os.path.join(trash, name), int(stamp) / 1000))
    return sorted(found, key=lambda one: one[2], reverse=True)


def restore(root: str, path: str) -> ChangeSet:
    """Brings a file back from the trash, see `deleted`. Raises ConfigurationError when its name is taken meanwhile."""
    original = os.path.basename(path).partition("-")[2]
    data = _read(path)
    place = os.path.join(root, CONFIG_DIRECTORY, original)
    if os.path.lexists(place):
        raise ConfigurationError("there is a file of this name again", remedy="Rename that one first.", file=place)
    return ChangeSet(f"restore {original}", (FileChange(place, None, data), FileChange(path, data, None)))


def new_text(path: str, values: Mapping[str, Any]) -> str:
    """The text of a new configuration file at `path` with `values` by key, in the order of the schema."""
    document = Document(TextFile(path, "", Signature(0, 0, 0)))
    for field in document.kind.fields:
        if field.key in values:
            document.set(field.path, values[field.key])
    for key, value in values.items():
        if document.kind.field(key) is None:
            document.set((key,), value)
    return document.text


def check_name(name: str) -> None:
    """Raises UsageError when `name` cannot be the name of a target or run configuration."""
    if not name or name != name.strip() or name.startswith((".", "-")) or len(name.encode()) > 100:
        raise UsageError(f"{name!r} cannot be a name", remedy="Begin with a letter or digit; at most 100 bytes.")
    if "/" in name or not name.isprintable():
        raise UsageError(f"{name!r} cannot be a name", remedy="Leave out slashes and control characters.")


def _starting_values(target_type: str) -> dict[str, Any]:
    """The values without which a new file of this type would be an error; the person then edits them."""
    values: dict[str, Any] = {}
    if target_type in schema.SSH_TYPES:
        values["address"] = "HOST"
    if target_type in schema.DOCKER_TYPES:
        values["baseDockerImage"] = DEFAULT_GPU_IMAGE
        values["nvidiaDocker"] = True
    if target_type in (schema.LOCAL, schema.REMOTE):
        values["pythonLocation"] = fields.COMPUTE.field("pythonLocation").default  # type: ignore[union-attr]
    return values


def _free_path(root: str, name: str, suffix: str) -> str:
    check_name(name)
    path = os.path.join(root, CONFIG_DIRECTORY, name + suffix)
    if os.path.lexists(path):
        raise ConfigurationError("there is a file of this name already", remedy="Choose another name.", file=path)
    return path


def _root_and_suffix(path: str) -> tuple[str, str]:
    suffix = os.path.splitext(path)[1]
    if suffix not in (COMPUTE, RUNCONFIG):
        raise UsageError(f"{path} is no target and no run configuration", remedy="Name a .compute or .runconfig file.")
    return os.path.dirname(os.path.dirname(os.path.abspath(path))), suffix


def _name(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigurationError(f"cannot read it: {error.strerror}", remedy="Check the file.", file=path) from error


def _run_configuration_paths(root: str) -> list[str]:
    directory = os.path.join(root, CONFIG_DIRECTORY)
    return [os.path.join(directory, name + RUNCONFIG) for name in Surroundings(root).names(RUNCONFIG)]


def _renamed_target(path: str, old: str, new: str) -> tuple[FileChange | None, str]:
    """The change of a run configuration that names the target, and a note when it could not be looked at."""
    try:
        document = Document.open(path)
        key = "target" if document.kind is fields.SDK_RUNCONFIG else "Target"
        if document.get((key,)) != old:
            return None, ""
        before = document.file.encode(document.text)
        document.set((key,), new)
        return FileChange(path, before, document.file.encode(document.text)), ""
    except WorkbenchError as error:
        return None, f"{os.path.basename(path)} was not changed: {error.message}."
