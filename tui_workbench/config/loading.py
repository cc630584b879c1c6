"""Load compute targets and run configurations.

A file is loaded only if it has no fault; otherwise, the first fault is raised as an error with position and remedy. Old
forms are read, but never rewritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.config.schema import fields, retry
from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.schema.fields import kind_of
from tui_workbench.config.schema.slurm_options import OVERRIDE, SECTION
from tui_workbench.config.yaml_edit.syntax import MAP, Tree, parse, plain_value, read
from tui_workbench.config.yaml_edit.values import Fault, Reading, raise_first, read_fields
from tui_workbench.core import target_types
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import SDK_KEYS, ComputeTarget, RunConfiguration


def load_compute(path: str) -> ComputeTarget:
    """Load a `.compute` file. Raises ConfigurationError with file, line, column and remedy."""
    tree, _, reading = _read(path)
    target = compute_target_of(path, reading.values, all_values(tree, reading))
    if "members" not in reading.nodes or not target.kind.reads("members"):
        return target
    folder = os.path.dirname(path)
    line, column = tree.position(reading.nodes["members"].start)
    problem = members_problem(
        target.members, target.name, lambda name: _type_in(os.path.join(folder, f"{name}.compute"))
    )
    if problem:
        raise ConfigurationError(problem, remedy=MEMBERS_REMEDY, file=path, line=line, column=column)
    parts = tuple(load_compute(os.path.join(folder, f"{name}.compute")) for name in target.members)
    accounts: dict[tuple[str, str], str] = {}
    for part in parts:
        other = accounts.setdefault((part.address, part.username), part.name)
        if other != part.name:
            message = f"{other} and {part.name} are the same account on the same machine"
            remedy = "Remove one of them from `members`."
            raise ConfigurationError(message, remedy=remedy, file=path, line=line, column=column)
    return target._replace(parts=parts)


MEMBERS_REMEDY = "List two or more different targets of type remote or remotedocker."


def members_problem(members: Sequence[str], own: str, type_named: Callable[[str], str]) -> str:
    """Return the first problem of the members of the group `own` as a clause, or "".

    `type_named` returns the type of the target with a name, or "" for an unknown name.
    """
    if len(members) < 2:
        return f"`members` names {'one target' if members else 'no targets'}, but a group has two or more members"
    for number, name in enumerate(members):
        member_type = type_named(name) if "/" not in name and name not in ("", ".", "..", own) else ""
        if name in members[:number]:
            return f"`members` names {name!r} twice"
        if not member_type:
            return f"`members` names {name!r}, which is not another target of the project"
        if not target_types.find(member_type).can_join:
            return f"`members` names {name!r}, which is a target of type {member_type}"
    return ""


def _type_in(path: str) -> str:
    """Return the type of the target in a file; "" if there is no such file. Raises ConfigurationError."""
    return type_of(_read(path)[2].values) if os.path.isfile(path) else ""


def compute_target_of(path: str, values: dict[str, Any], as_read: dict[str, Any]) -> ComputeTarget:
    """Return the compute target with these typed values; `as_read` contains all keys and values of the file."""
    attributes = _attributes({**values, SECTION: values_below(values, SECTION)}, ComputeTarget._fields)
    return ComputeTarget(**{**attributes, "type": type_of(values)}, name=_name(path), path=path, values=as_read)


def load_run_configuration(path: str) -> RunConfiguration:
    """Load a `.runconfig` file of either form. Raises ConfigurationError with file, line, column and remedy."""
    tree, kind, reading = _read(path)
    return run_configuration_of(path, kind, reading.values, all_values(tree, reading))


def run_configuration_of(
    path: str, kind: FileKind, values: dict[str, Any], as_read: dict[str, Any]
) -> RunConfiguration:
    """Return the run configuration with these typed values; `as_read` contains all keys and values of the file."""
    settings = values
    is_sdk = kind is fields.SDK_RUNCONFIG
    if is_sdk:
        settings = {usual: values[key] for usual, key in SDK_KEYS.items() if key in values}
        settings["ArgumentVector"] = (values.get("script", "$file"), *values.get("arguments", ()))
    else:
        old = {"CondaDependenciesFile": values["CondaFile"]} if "CondaFile" in values else {}
        settings = {**old, **values, **{name: values_below(values, name) for name in (OVERRIDE, retry.SECTION)}}
    attributes = {"target": "", **_attributes(settings, RunConfiguration._fields)}
    return RunConfiguration(**attributes, name=_name(path), path=path, values=as_read, is_sdk_form=is_sdk)


def values_below(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the values of a section: `{"slurm.gpus": 1}` becomes `{"gpus": 1}`."""
    return {key.removeprefix(f"{name}."): value for key, value in values.items() if key.startswith(f"{name}.")}


def _attributes(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values by attribute name: `prepare_environment` for `PrepareEnvironment`."""
    by_attribute = {re.sub(r"(?<=.)(?=[A-Z])", "_", key).lower(): value for key, value in values.items()}
    return {name: by_attribute[name] for name in names if name in by_attribute}


def type_of(values: dict[str, Any]) -> str:
    """Return the target type in the values of a `.compute` file, or "". Old files use `cluster` or `native`."""
    target_type: str = values.get("type", "")
    if not target_type and (values.get("cluster") or values.get("native")):
        return target_types.CLUSTER.name
    return target_type


def missing_fields(tree: Tree, kind: FileKind, reading: Reading, target_type: str) -> list[Fault]:
    """Return a fault for each missing required field."""
    wrong = {fault.field.key for fault in reading.faults if fault.field is not None and not fault.path[1:]}
    is_map = tree.root is None or tree.root.kind == MAP
    if not is_map or (kind is fields.COMPUTE and not target_type and "type" in wrong):
        return []
    present = {*reading.values, *wrong, *(("type",) if target_type else ())}
    missing = []
    for field in kind.fields:
        if field.key not in present and field.is_required_by(target_type):
            only = "" if field.required else f" (required for a {target_type} target)"
            remedy = f"Add `{field.key}: {field.example or 'VALUE'}`."
            if field.choices:
                remedy = f"Add `{field.key}: VALUE` with one of these values: {', '.join(field.choices)}."
            message = f"`{field.key}` is missing{only}"
            missing.append(Fault("missing-field", message, remedy, 0, 0, field.path, field))
    container = reading.values.get("container", "none")
    is_used = kind is fields.COMPUTE and target_types.find(target_type).reads("container")
    if is_used and container != "none" and "baseDockerImage" not in present:
        reason = f"`container: {container}` needs `baseDockerImage`"
        advice = "Add `baseDockerImage: IMAGE`, or remove `container`."
        missing.append(Fault("missing-field", reason, advice, 0, 0, ("baseDockerImage",)))
    return missing


def all_values(tree: Tree, reading: Reading) -> dict[str, Any]:
    """Return the values of all keys. Values of unknown keys have the types of the YAML core schema."""
    if tree.root is None or tree.root.kind != MAP:
        return {}
    values: dict[str, Any] = {}
    for key, value in tree.root.entries:
        if key.text in reading.values:
            typed = reading.values[key.text]
            values[key.text] = list(typed) if isinstance(typed, tuple) else typed
        else:
            values[key.text] = _section(plain_value(value), key.text + ".", reading)
    return values


def _section(plain: Any, prefix: str, reading: Reading) -> Any:
    """Return a nested map with typed fields. Passwords are omitted, because loaded values may be cached."""
    if not isinstance(plain, dict):
        return plain
    values = {}
    for key, value in plain.items():
        name = prefix + key
        if name not in reading.nodes:
            values[key] = _section(value, name + ".", reading)
        elif not name.endswith(".password"):
            values[key] = reading.values.get(name)
    return values


def top_level_keys(tree: Tree) -> tuple[str, ...]:
    """Return the top-level keys in file order."""
    return tuple(key.text for key, _ in tree.root.entries) if tree.root is not None else ()


def _read(path: str) -> tuple[Tree, FileKind, Reading]:
    """Return the tree, kind and values of a file. Raises its first fault as a ConfigurationError."""
    tree = parse(read(path).text, path)
    kind = kind_of(path, top_level_keys(tree)) or fields.RUNCONFIG
    reading = read_fields(tree, kind)
    target_type = type_of(reading.values) if kind is fields.COMPUTE else ""
    raise_first(reading.faults + missing_fields(tree, kind, reading, target_type), tree, path)
    return tree, kind, reading


def _name(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]
