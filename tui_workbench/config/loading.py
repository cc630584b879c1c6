"""Configuration files as the typed values that a run is planned from.

Invariant: what loads has no error that the same file's check would report about the file alone; the first such error,
in the order of the file, is raised with its place and remedy. Old forms are understood and never rewritten.
"""

from __future__ import annotations

import os

from tui_workbench.config import fields, schema
from tui_workbench.config.schema import FileKind, kind_of
from tui_workbench.config.source import read
from tui_workbench.config.syntax import MAP, Tree, parse, plain_value
from tui_workbench.config.values import Fault, Reading, read_fields
from tui_workbench.errors import ConfigurationError
from tui_workbench.model import ComputeTarget, RunConfiguration
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def load_compute(path: str) -> ComputeTarget:
    """The compute target that the `.compute` file at `path` describes.

    Raises ConfigurationError with file, line, column and remedy: not readable, not YAML, a value of the wrong type, no
    `type`, or a field missing that the type cannot do without.
    """
    tree, reading = _read(path, fields.COMPUTE)
    values = reading.values
    target_type = type_of(values)
    _raise_first(reading.faults + missing_fields(tree, fields.COMPUTE, reading, target_type), tree, path)
    return ComputeTarget(
        name=_name(path),
        path=path,
        type=target_type,
        python_location=values.get("pythonLocation", "python"),
        address=values.get("address", ""),
        username=values.get("username", ""),
        password=values.get("password", ""),
        base_docker_image=values.get("baseDockerImage", ""),
        shared_volumes=values.get("sharedVolumes"),
        native_shared_directory=values.get("nativeSharedDirectory", ""),
        nvidia_docker=values.get("nvidiaDocker", False),
        user_managed_environment=values.get("userManagedEnvironment", True),
        private_key=values.get("privateKey", ""),
        private_key_passphrase=values.get("privateKeyPassphrase", ""),
        max_concurrent_runs=values.get("maxConcurrentRuns", -1),
        gpus=values.get("gpus", ""),
        values=all_values(tree, reading),
    )


def load_run_configuration(path: str) -> RunConfiguration:
    """The run configuration that the `.runconfig` file at `path` describes, in its own or in the SDK's form.

    Raises ConfigurationError with file, line, column and remedy: not readable, not YAML, a value of the wrong type, or
    no `Target`.
    """
    tree, reading = _read(path, None)
    kind = kind_of(path, top_level_keys(tree)) or fields.RUNCONFIG
    _raise_first(reading.faults + missing_fields(tree, kind, reading, ""), tree, path)
    common: dict[str, Any] = {"name": _name(path), "path": path, "values": all_values(tree, reading)}
    if kind is fields.SDK_RUNCONFIG:
        return RunConfiguration(**common, **_from_sdk(reading.values))
    values = reading.values
    return RunConfiguration(
        **common,
        target=values["Target"],
        argument_vector=values.get("ArgumentVector", ("$file",)),
        environment_variables=values.get("EnvironmentVariables", {}),
        framework=values.get("Framework", "PySpark"),
        conda_dependencies_file=values.get("CondaDependenciesFile", values.get("CondaFile", "")),
        spark_dependencies_file=values.get("SparkDependenciesFile", ""),
        prepare_environment=values.get("PrepareEnvironment", False),
        tracked_run=values.get("TrackedRun", True),
        use_sampling=values.get("UseSampling", True),
        require_gpu=values.get("RequireGpu", False),
        stop_if_idle_minutes=values.get("StopIfIdleMinutes", 0),
        max_duration_minutes=values.get("MaxDurationMinutes", 0),
        processes_per_node=values.get("ProcessesPerNode", ""),
    )


def _from_sdk(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "target": values["target"],
        "argument_vector": (values.get("script", "$file"), *values.get("arguments", ())),
        "environment_variables": values.get("environment.environmentVariables", {}),
        "framework": values.get("framework", "PySpark"),
        "conda_dependencies_file": values.get("environment.python.condaDependenciesFile", ""),
        "prepare_environment": values.get("prepareEnvironment", False),
        "tracked_run": values.get("history.enabled", True),
    }


def type_of(values: dict[str, Any]) -> str:
    """The target type that the values of a `.compute` file mean, "" when none; `cluster: True` is an old form."""
    found: str = values.get("type", "")
    if not found and (values.get("cluster") or values.get("native")):
        return schema.CLUSTER
    return found


def missing_fields(tree: Tree, kind: FileKind, reading: Reading, target_type: str) -> list[Fault]:
    """A fault for each required field that is not there; one that is there and wrong has its own fault already."""
    wrong = {fault.field.key for fault in reading.faults if fault.field is not None and not fault.path[1:]}
    if not _is_map_or_empty(tree) or (kind is fields.COMPUTE and not target_type and "type" in wrong):
        return []
    missing = []
    for field in kind.fields:
        if field.key in reading.values or field.key in wrong or not field.is_required_by(target_type):
            continue
        if field.key == "type" and target_type:
            continue
        only = f" (a {target_type} target needs it)" if "*" not in field.required else ""
        example = "|".join(field.choices) or field.example or "..."
        missing.append(
            Fault(
                "missing-field",
                f"`{field.key}` is missing{only}",
                f"Add `{field.key}: {example}`.",
                0,
                0,
                field.path,
                field,
            )
        )
    return missing


def all_values(tree: Tree, reading: Reading) -> dict[str, Any]:
    """Every key of the file with the value as read: fields by their type, unknown keys by YAML's core rules."""
    if tree.root is None or tree.root.kind != MAP:
        return {}
    found: dict[str, Any] = {}
    for key, value in tree.root.entries:
        if key.text in reading.values:
            typed = reading.values[key.text]
            found[key.text] = list(typed) if isinstance(typed, tuple) else typed
        else:
            found[key.text] = plain_value(value)
    return found


def top_level_keys(tree: Tree) -> tuple[str, ...]:
    """The keys of the file in their order."""
    return tuple(key.text for key, _ in tree.root.entries) if tree.root is not None else ()


def _read(path: str, kind: FileKind | None) -> tuple[Tree, Reading]:
    text = read(path).text
    tree = parse(text, path)
    kind = kind or kind_of(path, top_level_keys(tree)) or fields.RUNCONFIG
    reading = read_fields(tree, kind)
    return tree, reading


def _is_map_or_empty(tree: Tree) -> bool:
    return tree.root is None or tree.root.kind == MAP


def _raise_first(faults: list[Fault], tree: Tree, path: str) -> None:
    if not faults:
        return
    # A missing field has no place of its own; what stands wrongly in the file is said first.
    first = min(faults, key=lambda fault: (fault.code == "missing-field" and not fault.end, fault.start))
    line, column = tree.place(first.start)
    raise ConfigurationError(first.message, remedy=first.remedy, file=path, line=line, column=column)


def _name(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]
