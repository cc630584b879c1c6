"""Plan to create, rename and delete targets and run configurations, and to declare or ignore data.

Each function returns a change set and changes nothing itself. Deleted files are kept in the trash. If a target is
renamed, the run configurations that use it are changed too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from tui_workbench.config.changes.change_set import ChangeSet, FileChange, bytes_at, edited
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document, new_text
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.data_references import IGNORE_FILE, KEY, with_data
from tui_workbench.config.yaml_edit.syntax import find, plain_value
from tui_workbench.core import target_types
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError
from tui_workbench.core.files import read_file

COMPUTE = ".compute"
RUNCONFIG = ".runconfig"
SHOWN_PATHS = 3  # maximum number of paths in a message


def create_target(root: str, name: str, target_type: str) -> ChangeSet:
    """Plan to create a `.compute` file with initial values.

    Raises UsageError for an invalid name or type, and ConfigurationError if the name is taken.
    """
    if not target_types.is_known(target_type):
        remedy = f"Choose one of: {', '.join(target_types.names())}."
        raise UsageError(f"unknown target type {target_type!r}", remedy=remedy)
    path = _free_path(root, name, COMPUTE)
    chosen = {"type": target_type, **_initial_values(root, target_type)}
    return ChangeSet(f"create target {name}", (FileChange(path, None, new_text(path, chosen).encode()),))


def create_run_configuration(root: str, name: str, target: str) -> ChangeSet:
    """Plan to create a `.runconfig` file for `target`, which need not exist. Raises the errors of `create_target`."""
    path = _free_path(root, name, RUNCONFIG)
    chosen: dict[str, Any] = {"ArgumentVector": ["$file"], "Target": target, "Framework": "Python", "TrackedRun": True}
    context = ProjectContext(root)
    existing = context.target(target)
    if existing is not None and context.always_builds(existing):
        chosen |= {"CondaDependenciesFile": f"{CONFIG_DIRECTORY}/conda_dependencies.yml", "PrepareEnvironment": True}
    notes = () if existing is not None else (f"Target {target!r} does not exist yet.",)
    change = FileChange(path, None, new_text(path, chosen).encode())
    return ChangeSet(f"create run configuration {name}", (change,), notes)


def duplicate(path: str, new_name: str) -> ChangeSet:
    """Plan to copy a configuration file to another name.

    Raises UsageError for an invalid name, and ConfigurationError if the name is taken or the file cannot be read.
    """
    root, suffix = _root_and_suffix(path)
    copy = _free_path(root, new_name, suffix)
    return ChangeSet(f"duplicate {_name(path)} as {new_name}", (FileChange(copy, None, _read(path)),))


def rename(path: str, new_name: str) -> ChangeSet:
    """Plan to rename a configuration file. The run configurations that use a renamed target are changed too.

    Raises the errors of `duplicate`.
    """
    root, suffix = _root_and_suffix(path)
    moved = _free_path(root, new_name, suffix)
    data = _read(path)
    changes = [FileChange(moved, None, data)]
    notes: list[str] = []
    if suffix == COMPUTE:
        for other in ProjectContext(root).names(RUNCONFIG):
            other_path = os.path.join(root, CONFIG_DIRECTORY, other + RUNCONFIG)
            change, note = _renamed_target(other_path, _name(path), new_name)
            changes += [change] if change is not None else []
            notes += [note] if note else []
    # The old file is removed last: until then, every run configuration names an existing target.
    changes.append(FileChange(path, data, None))
    return ChangeSet(f"rename {_name(path)} to {new_name}", tuple(changes), tuple(notes))


def delete(path: str, trash: str = "") -> ChangeSet:
    """Plan to move a target or run configuration to the folder `trash` (default: `trash_directory`).

    Raises UsageError for another kind of file, and ConfigurationError if the file cannot be read or the trash folder is
    a link.
    """
    root, suffix = _root_and_suffix(path)
    data = _read(path)
    directory = trash or trash_directory(root)
    link = next((folder for folder in (os.path.dirname(directory), directory) if os.path.islink(folder)), "")
    if link:
        message = "the trash folder is a symbolic link, which is not followed"
        raise ConfigurationError(message, remedy="Replace the link with a folder.", file=link)
    kept = os.path.join(directory, f"{time.time_ns() // 1_000_000}-{os.path.basename(path)}")
    changes = [FileChange(kept, None, data), FileChange(path, data, None)]
    ignore = os.path.join(root, ".workbench", ".gitignore")
    if not trash and not os.path.exists(ignore):
        changes.insert(0, FileChange(ignore, None, b"*\n"))
    users = ProjectContext(root).configurations_of(_name(path)) if suffix == COMPUTE else []
    names = ", ".join(configuration.name for configuration in users)
    notes = (f"Run configurations left without a target: {names}.",) if names else ()
    return ChangeSet(f"delete {os.path.basename(path)}", tuple(changes), notes)


def trash_directory(root: str) -> str:
    """Return the folder of deleted configuration files, `.workbench/trash` in the project."""
    return os.path.join(root, ".workbench", "trash")


def declare_data(configuration: str, paths: Sequence[str]) -> ChangeSet:
    """Plan to add paths to `DataReferences` of a run configuration. Raises ConfigurationError or StorageError."""
    document = Document.open(configuration)
    if document.kind is fields.SDK_RUNCONFIG:
        files = ", ".join(paths[:SHOWN_PATHS]) + (", ..." if len(paths) > SHOWN_PATHS else "")
        message = f"cannot link {files} as data, because a run configuration in the SDK form has no DataReferences"
        remedy = f"Exclude these files in {IGNORE_FILE}, or use a run configuration with the key `Target`."
        raise ConfigurationError(message, remedy=remedy, file=configuration)
    document.set((KEY,), with_data(plain_value(find(document.tree, (KEY,))), {path: path for path in paths}))
    return ChangeSet(f"declare data in {os.path.basename(configuration)}", (edited(document),))


def ignore_paths(root: str, lines: Sequence[str]) -> ChangeSet:
    """Plan to append lines to the project's `.amlignore`. Raises StorageError."""
    path = os.path.join(root, IGNORE_FILE)
    before = bytes_at(path)
    text = before or b""
    end = b"\r\n" if b"\r\n" in text else b"\n"
    if text and not text.endswith(b"\n"):
        text += end
    text += b"".join(line.encode("utf-8", "surrogateescape") + end for line in lines)
    return ChangeSet(f"exclude files in {IGNORE_FILE}", (FileChange(path, before, text),))


def check_name(name: str) -> None:
    """Raise UsageError if `name` is not a valid name of a target or run configuration."""
    if not name:
        raise UsageError("the name is empty", remedy="Enter a name that starts with a letter or digit.")
    if name != name.strip() or name.startswith((".", "-")) or len(name.encode()) > 100:
        remedy = "Start with a letter or digit, use at most 100 bytes, and remove spaces before and after the name."
        raise UsageError(f"{name!r} is not a valid name", remedy=remedy)
    if "/" in name or not name.isprintable():
        raise UsageError(f"{name!r} is not a valid name", remedy="Remove slashes and control characters.")


def _initial_values(root: str, target_type: str) -> dict[str, Any]:
    """Return the initial values of a new `.compute` file, without its type."""
    kind = target_types.find(target_type)
    values: dict[str, Any] = {"address": "HOST"} if kind.is_remote and kind.reads("address") else {}
    if kind.runs_in_container:
        values |= {"baseDockerImage": DEFAULT_GPU_IMAGE, "nvidiaDocker": True}
    if kind.reads("members"):
        values["members"] = [target.name for target in ProjectContext(root).targets() if target.kind.can_join]
    if kind.uses_interpreter:
        values["pythonLocation"] = "python"
    return values


def _free_path(root: str, name: str, suffix: str) -> str:
    check_name(name)
    path = os.path.join(root, CONFIG_DIRECTORY, name + suffix)
    if os.path.lexists(path):
        remedy = "Choose another name, or delete the file."
        raise ConfigurationError("the file already exists", remedy=remedy, file=path)
    return path


def _root_and_suffix(path: str) -> tuple[str, str]:
    suffix = os.path.splitext(path)[1]
    if suffix not in (COMPUTE, RUNCONFIG):
        remedy = "Give the path of a .compute or .runconfig file."
        raise UsageError(f"{path!r} is not a target or run configuration", remedy=remedy)
    return os.path.dirname(os.path.dirname(os.path.abspath(path))), suffix


def _name(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the file: {error.strerror}", remedy="Check that the file exists and is readable.", file=path
        ) from error


def _renamed_target(path: str, old: str, new: str) -> tuple[FileChange | None, str]:
    """Return the change of the run configuration at `path` (or None), and a note if the file is invalid (or "")."""
    try:
        document = Document.open(path)
        key = "target" if document.kind is fields.SDK_RUNCONFIG else "Target"
        if document.get((key,)) != old:
            return None, ""
        document.set((key,), new)
        return edited(document), ""
    except WorkbenchError as error:
        return None, f"{os.path.basename(path)} was not changed: {error.message}."
