"""Check a run configuration against the other files of its project, if there is a project context."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from difflib import get_close_matches

from tui_workbench.config.checks.findings import WARNING, Finding, Fix, SetValue, Unset, remove_field, set_field
from tui_workbench.config.checks.project_context import ProjectContext, Subject
from tui_workbench.config.checks.scripts import script_problem
from tui_workbench.config.schema import fields, retry
from tui_workbench.config.schema.slurm_options import NODES, OVERRIDE
from tui_workbench.config.sdk_conflicts import conflicts
from tui_workbench.core import target_types


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about a run configuration and the files that it refers to."""
    context = subject.context
    if context is None or subject.kind is fields.COMPUTE:
        return
    yield from _target(subject, context)
    if subject.kind is fields.SDK_RUNCONFIG:
        yield from _conflicts(subject, context)
    yield from _without_effect(subject)
    yield from _nodes(subject)
    yield from _dependency_files(subject, context)
    yield from _script(subject, context)


def _target(subject: Subject, context: ProjectContext) -> Iterator[Finding]:
    target_name, key = subject.configuration.target, subject.configuration.key("Target")
    names = context.names(".compute")
    if target_name and target_name not in names:
        near = get_close_matches(target_name, names, 1, 0.4) or (names if len(names) == 1 else [])
        remedy = f"Choose one of: {', '.join(names)}."
        if not names:
            command = "workbench-tui computetarget attach localdocker -n NAME"
            remedy = f"Attach a target with this name, for example: `{command}`."
        message = f"unknown compute target {target_name!r}: aml_config/{target_name}.compute does not exist"
        yield subject.finding("unknown-target", message, remedy, key, set_field(key, near[0]) if near else None)


def _conflicts(subject: Subject, context: ProjectContext) -> Iterator[Finding]:
    target = context.target(subject.configuration.target)
    for conflict in conflicts(subject.values, target, context.exists) if target is not None else ():
        path = tuple(conflict.key.split("."))
        title = f"match {conflict.key} to the target"
        edit = Unset(path) if conflict.fitting is None else SetValue(path, conflict.fitting)
        # Only the user knows which of the two files is correct.
        fix = Fix(title, (edit,), is_choice=True)
        yield subject.finding("target-conflict", conflict.message, conflict.remedy, conflict.key, fix)


def _without_effect(subject: Subject) -> Iterator[Finding]:
    """Report options that the target refuses or ignores, and options without effect in this combination."""
    used = [field for field in subject.kind.fields if field.key in subject.nodes]
    useless = [field for field in used if not field.applies_to(subject.used_type)]
    if any(field.path[0] == retry.SECTION for field in useless):
        message = f"`{retry.SECTION}` cannot start a run again on a {subject.used_type} target, so runs are refused"
        yield subject.finding(
            "cannot-retry", message, f"Remove `{retry.SECTION}`.", retry.SECTION, remove_field(retry.SECTION)
        )
    nodes = subject.configuration.nodes
    if nodes > 1 and any(field.key == NODES for field in useless):
        message = f"`{NODES}` is {nodes}, but {subject.used_type} targets do not support it, so runs are refused"
        yield subject.finding("one-node", message, f"Remove `{NODES}`.", NODES, remove_field(NODES))
        useless = [field for field in useless if field.key != NODES]
    for field in useless:
        if field.path[0] != retry.SECTION:
            message = f"`{field.key}` has no effect on a {subject.used_type} target"
            yield subject.finding("no-effect", message, f"Remove `{field.key}`.", field.key, remove_field(field.key))
    signal, limit, on = "SignalBeforeEndMinutes", "MaxDurationMinutes", f"{retry.SECTION}.on"
    # A scheduler has its own time limit.
    is_limited = limit in subject.nodes or target_types.find(subject.used_type).has_scheduler
    if signal in subject.nodes and not is_limited:
        message = f"`{signal}` has no effect without `{limit}`"
        yield subject.finding(
            "no-effect", message, f"Add `{limit}`, or remove `{signal}`.", signal, remove_field(signal)
        )
    minutes, last = subject.values.get(signal), subject.values.get(limit)
    if minutes and last and minutes >= last:
        message = f"`{signal}` is {minutes}, but `{limit}` is {last}, so the script gets the signal at its start"
        yield subject.finding("early-signal", message, f"Reduce `{signal}`, or increase `{limit}`.", signal)
    causes = subject.values.get(on) or ()
    if retry.TIMEOUT in causes and not is_limited:
        message = f"`{retry.TIMEOUT}` in `{on}` has no effect without `{limit}`"
        yield subject.finding("no-effect", message, f"Add `{limit}`, or remove `{retry.TIMEOUT}`.", on)
    if retry.PREEMPTED in causes and not target_types.find(subject.used_type).has_scheduler:
        message = f"`{retry.PREEMPTED}` in `{on}` has no effect: only Slurm preempts runs"
        yield subject.finding("no-effect", message, f"Remove `{retry.PREEMPTED}`.", on)


def _nodes(subject: Subject) -> Iterator[Finding]:
    """Check that `Nodes` and `Slurm.nodes`, which have the same meaning, have the same value."""
    key = f"{OVERRIDE}.nodes"
    nodes, other = subject.configuration.nodes, subject.values.get(key, subject.configuration.nodes)
    if nodes and other != nodes:
        message = f"`{NODES}` is {nodes}, but `{key}` is {other}, so runs are refused"
        yield subject.finding("nodes-conflict", message, f"Remove `{key}`.", key, remove_field(key))


def _dependency_files(subject: Subject, context: ProjectContext) -> Iterator[Finding]:
    configuration = subject.configuration
    target = context.target(configuration.target)
    uses_conda = target is not None and (context.always_builds(target) or not target.user_managed_environment)
    uses_spark = configuration.framework == "PySpark"
    keys = (configuration.key("CondaDependenciesFile"), "CondaFile")
    conda_key = next((key for key in keys if key in subject.values), "")
    named = (
        (conda_key, configuration.conda_file, "conda", uses_conda),
        ("SparkDependenciesFile", configuration.spark_file, "spark", uses_spark),
    )
    for key, file, word, is_used in named:
        if key in subject.values and not context.exists(file):
            yield _missing_file(subject, context, key, file, word, "" if is_used else WARNING)


def _missing_file(subject: Subject, context: ProjectContext, key: str, file: str, word: str, severity: str) -> Finding:
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(context.directory))
    present = [name for name in names if name.lower().endswith((".yml", ".yaml"))]
    same = [f"aml_config/{name}" for name in present if name.lower() == os.path.basename(file).lower()]
    candidates = same or [f"aml_config/{name}" for name in present if word in name.lower()]
    fix, remedy = None, "Create the file, or correct its name."
    if candidates:
        # The user must confirm a file that has another name.
        fix = set_field(key, candidates[0], is_choice=not same)
        remedy = f"Did you mean {' or '.join(map(repr, candidates[:3]))}?"
    message = f"the project has no file {file!r}"
    return subject.finding("missing-file", message, remedy, key, fix, severity=severity)


def _script(subject: Subject, context: ProjectContext) -> Iterator[Finding]:
    script, key = subject.configuration.script, subject.configuration.key("ArgumentVector")
    if not script or script.startswith(("-", "$")):
        return
    node = subject.nodes.get(key)
    at = node.items[0] if node is not None and node.items else node
    if not context.exists(script):
        message = f"the project has no script {script!r}"
        remedy = "Correct the name, or write $file to choose a script for each run."
        yield subject.finding("missing-file", message, remedy, key, at=at)
    elif (problem := script_problem(context.absolute(script), script)) is not None:
        yield subject.finding("wrong-script", problem.message, problem.remedy, key, at=at)
