"""Checks of one file against the others of its project; without a project around it there is nothing to say."""

from __future__ import annotations

import os

from tui_workbench.config import fields
from tui_workbench.config.checks.subject import Subject
from tui_workbench.config.findings import WARNING, Finding, Fix, SetValue
from tui_workbench.config.surroundings import Configuration, Surroundings, configuration_of
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(subject: Subject) -> Iterator[Finding]:
    """All findings about what a run configuration refers to."""
    around = subject.surroundings
    if around is None or subject.kind is fields.COMPUTE:
        return
    name = os.path.splitext(os.path.basename(subject.document.path))[0]
    configuration = configuration_of(name, subject.document.path, subject.values)
    is_sdk = subject.kind is fields.SDK_RUNCONFIG
    yield from _target(subject, around, configuration, "target" if is_sdk else "Target")
    yield from _dependency_files(subject, around, configuration)
    yield from _script(subject, around, configuration, "script" if is_sdk else "ArgumentVector")


def _target(subject: Subject, around: Surroundings, configuration: Configuration, key: str) -> Iterator[Finding]:
    wanted = configuration.target
    names = around.names(".compute")
    if not wanted or wanted in names:
        return
    from difflib import get_close_matches

    near = get_close_matches(wanted, names, 1, 0.4) or (names if len(names) == 1 else [])
    fix = Fix(f"set {key}: {near[0]}", (SetValue((key,), near[0]),)) if near else None
    known = f"Write one of: {', '.join(names)}." if names else "Create or attach a target first."
    message = f"there is no compute target {wanted!r} (aml_config/{wanted}.compute)"
    yield subject.finding("unknown-target", message, known, subject.nodes.get(key), key=key, fix=fix)


def _dependency_files(subject: Subject, around: Surroundings, configuration: Configuration) -> Iterator[Finding]:
    target = around.target(configuration.target)
    uses_conda = target is not None and (target.is_docker or not target.user_managed or target.type == "cluster")
    conda_key = next(
        (
            key
            for key in ("CondaDependenciesFile", "CondaFile", "environment.python.condaDependenciesFile")
            if key in subject.values
        ),
        "",
    )
    if conda_key and not around.exists(configuration.conda_file):
        severity = "" if uses_conda else WARNING
        yield _missing_file(subject, around, conda_key, configuration.conda_file, "conda", severity)
    if "SparkDependenciesFile" in subject.values and not around.exists(configuration.spark_file):
        severity = "" if configuration.framework == "PySpark" else WARNING
        yield _missing_file(subject, around, "SparkDependenciesFile", configuration.spark_file, "spark", severity)


def _missing_file(subject: Subject, around: Surroundings, key: str, file: str, word: str, severity: str) -> Finding:
    candidates = [
        f"aml_config/{name}" for name in _files(around.directory) if word in name and name.endswith((".yml", ".yaml"))
    ]
    path = tuple(key.split("."))
    fix = Fix(f"set {key}: {candidates[0]}", (SetValue(path, candidates[0]),)) if candidates else None
    remedy = f"Name one that exists, for example {candidates[0]}." if candidates else "Create it, or correct the name."
    return subject.finding(
        "missing-file",
        f"there is no file {file!r} in the project",
        remedy,
        subject.nodes[key],
        key=key,
        fix=fix,
        severity=severity,
    )


def _files(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _script(subject: Subject, around: Surroundings, configuration: Configuration, key: str) -> Iterator[Finding]:
    script = configuration.script
    if not script or script.startswith(("-", "$")) or around.exists(script):
        return
    node = subject.nodes[key]
    at = node.items[0] if node.items else node
    message = f"there is no script {script!r} in the project"
    yield subject.finding(
        "missing-file", message, "Correct the name, or write $file to choose at each run.", at, key=key
    )
