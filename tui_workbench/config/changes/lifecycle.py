"""Targets and run configurations come, get another name, and go; data of a project is declared or left out.

Invariants: every function only plans; the change set that it returns is shown and then applied. What is deleted lies in
the trash until someone empties it, and a renamed target takes the run configurations that name it along.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from tui_workbench.config.changes.change_set import ChangeSet, FileChange, bytes_at, edited
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.config.checks.project_context import Surroundings
from tui_workbench.config.document import Document, new_text
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.data_references import IGNORE_FILE
from tui_workbench.core import target_types
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError

COMPUTE = ".compute"
RUNCONFIG = ".runconfig"


def create_target(root: str, name: str, target_type: str) -> ChangeSet:
    """A new `.compute` file of this type in the project at `root`; its required fields get values to start from.

    Raises UsageError for a bad name or type, ConfigurationError when the name is taken.
    """
    if not target_types.is_known(target_type):
        remedy = f"Choose one of: {', '.join(target_types.names())}."
        raise UsageError(f"{target_type!r} is no type of target", remedy=remedy)
    path = _free_path(root, name, COMPUTE)
    chosen = {"type": target_type, **_starting_values(target_type)}
    return ChangeSet(f"create target {name}", (FileChange(path, None, new_text(path, chosen).encode()),))


def create_run_configuration(root: str, name: str, target: str) -> ChangeSet:
    """A new `.runconfig` file that runs on `target`. Raises UsageError (bad name), ConfigurationError (taken)."""
    path = _free_path(root, name, RUNCONFIG)
    chosen: dict[str, Any] = {"ArgumentVector": ["$file"], "Target": target, "Framework": "Python", "TrackedRun": True}
    found = Surroundings(root).target(target)
    if found is not None and found.kind.builds_environments:
        chosen |= {"CondaDependenciesFile": f"{CONFIG_DIRECTORY}/conda_dependencies.yml", "PrepareEnvironment": True}
    notes = () if found is not None else (f"There is no target {target!r} yet.",)
    change = FileChange(path, None, new_text(path, chosen).encode())
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
        for other in Surroundings(root).names(RUNCONFIG):
            place = os.path.join(root, CONFIG_DIRECTORY, other + RUNCONFIG)
            change, note = _renamed_target(place, _name(path), new_name)
            changes += [change] if change is not None else []
            notes += [note] if note else []
    changes.append(FileChange(path, data, None))
    return ChangeSet(f"rename {_name(path)} to {new_name}", tuple(changes), tuple(notes))


def delete(path: str, trash: str = "") -> ChangeSet:
    """Moves a file to the trash: `trash`, or `.workbench/trash/`. Raises UsageError, ConfigurationError."""
    root, suffix = _root_and_suffix(path)
    data = _read(path)
    directory = trash or trash_of(root)
    link = next((folder for folder in (os.path.dirname(directory), directory) if os.path.islink(folder)), "")
    if link:
        message = "this is a link, and deleted files are kept in folders only"
        raise ConfigurationError(message, remedy="Replace it by a folder.", file=link)
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


def declare_data(configuration: str, paths: Sequence[str]) -> ChangeSet:
    """Name the paths in `DataReferences` of a run configuration. Raises ConfigurationError or StorageError."""
    document = Document.open(configuration)
    if document.kind is fields.SDK_RUNCONFIG:
        message = "a run configuration in the form of the SDK has no DataReferences"
        remedy = f"Leave the files out in {IGNORE_FILE}, or create a run configuration of the usual form."
        raise ConfigurationError(message, remedy=remedy, file=configuration)
    known = list(document.get(("DataReferences",)) or ())
    document.set(("DataReferences",), [*known, *(path for path in paths if path not in known)])
    return ChangeSet(f"declare data in {os.path.basename(configuration)}", (edited(document),))


def leave_out(root: str, lines: Sequence[str]) -> ChangeSet:
    """Append lines to the project's `.amlignore`. Raises StorageError."""
    path = os.path.join(root, IGNORE_FILE)
    before = bytes_at(path)
    text = before or b""
    end = b"\r\n" if b"\r\n" in text else b"\n"
    if text and not text.endswith(b"\n"):
        text += end
    text += b"".join(line.encode("utf-8", "surrogateescape") + end for line in lines)
    return ChangeSet(f"leave files out in {IGNORE_FILE}", (FileChange(path, before, text),))


def check_name(name: str) -> None:
    """Raises UsageError when `name` cannot be the name of a target or run configuration."""
    if not name or name != name.strip() or name.startswith((".", "-")) or len(name.encode()) > 100:
        raise UsageError(f"{name!r} cannot be a name", remedy="Begin with a letter or digit; at most 100 bytes.")
    if "/" in name or not name.isprintable():
        raise UsageError(f"{name!r} cannot be a name", remedy="Leave out slashes and control characters.")


def _starting_values(target_type: str) -> dict[str, Any]:
    """The values without which a new file of this type would be an error; the person then edits them."""
    kind = target_types.find(target_type)
    values: dict[str, Any] = {"address": "HOST"} if kind.is_remote else {}
    if kind.runs_in_container:
        values |= {"baseDockerImage": DEFAULT_GPU_IMAGE, "nvidiaDocker": True}
    if kind.uses_interpreter:
        values["pythonLocation"] = "python"
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


def _renamed_target(path: str, old: str, new: str) -> tuple[FileChange | None, str]:
    """The change of a run configuration that names the target, and a note when it could not be looked at."""
    try:
        document = Document.open(path)
        key = "target" if document.kind is fields.SDK_RUNCONFIG else "Target"
        if document.get((key,)) != old:
            return None, ""
        document.set((key,), new)
        return edited(document), ""
    except WorkbenchError as error:
        return None, f"{os.path.basename(path)} was not changed: {error.message}."
