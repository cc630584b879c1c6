"""Check the data of a run configuration: its references, paths out of the project, and old data sources."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tui_workbench.config.checks.findings import DATA_SOURCE_FILE, WARNING, Finding, Fix, SetValue
from tui_workbench.config.checks.project_context import ProjectContext, Subject
from tui_workbench.config.checks.scripts import INSTEAD
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.data_references import KEY, data_beside, data_problems, with_data
from tui_workbench.config.yaml_edit.syntax import MAP, Node, plain_value
from tui_workbench.core.plaintext import counted

_OUTSIDE = re.compile(rb"""["'](\.\./[^"'/\s{}*]+)""")
_OUTSIDE_ARGUMENT = re.compile(r"(?:^|=)(\.\./[^/\s]+)")
_NAMED_FILES = 5  # number of files that a message names
_OLD_KEYS = ("DataSourceSettings", "DataSourceSubstitutions")
_Scripts: TypeAlias = Sequence[tuple[str, bytes]]


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about data in a run configuration."""
    context = subject.context
    if context is None or subject.kind not in (fields.RUNCONFIG, fields.SDK_RUNCONFIG):
        return
    if subject.kind is fields.RUNCONFIG:
        yield from _references(subject, context)
        yield from _outside(subject, context, list(context.scripts(subject.configuration.script)))


def old_sources(subject: Subject) -> Iterator[Finding]:
    """Yield advice about data sources of Azure ML Workbench; this searches the files of the project."""
    context = subject.context
    if context is not None and subject.kind in (fields.RUNCONFIG, fields.SDK_RUNCONFIG):
        yield from _old_sources(subject, context)


def _references(subject: Subject, context: ProjectContext) -> Iterator[Finding]:
    configuration, node = subject.configuration, subject.nodes.get(KEY)
    target = context.target(configuration.target)
    is_remote = target is not None and target.kind.is_remote
    problems = data_problems(
        context.root,
        configuration.data_references,
        tracked=configuration.tracked_run or is_remote,
        other_machine=configuration.target if is_remote else "",
    )
    for opened, path in configuration.data_references.items():
        at, problem = _node_of(node, opened), problems.get(opened)
        if problem is not None:
            yield subject.finding("data-reference", problem.message, problem.remedy, KEY, at=at)
        elif not is_remote and not os.path.exists(os.path.join(context.root, path)):
            message, remedy = f"{KEY}: {path!r} does not exist on this machine", "Correct the path, or create the data."
            yield subject.finding(
                "missing-file", message, remedy, KEY, at=at, severity="" if target is not None else WARNING
            )


def _node_of(node: Node | None, opened: str) -> Node | None:
    """Return the key or item of a reference in `node`, a map or list; without such a key or item, return `node`."""
    if node is None:
        return None
    if node.kind == MAP:
        entry = node.entry(opened)
        return entry[0] if entry is not None else node
    return next((item for item in node.items if item.text == opened), node)


def _outside(subject: Subject, context: ProjectContext, scripts: _Scripts) -> Iterator[Finding]:
    """Report existing paths `../NAME` that scripts or arguments name, and that a tracked run does not have."""
    configuration = subject.configuration
    target = context.target(configuration.target)
    is_here = target is not None and not target.kind.is_remote
    if is_here and not configuration.tracked_run:
        return
    declared = data_beside(context.root, configuration.data_references)
    for opened, source in _opened_outside(configuration.argument_vector, scripts).items():
        exists = os.path.exists(os.path.join(context.root, opened))
        if not exists or opened[3:] in declared or data_problems(context.root, {opened: opened}):
            continue
        message = f"{source} names {opened!r}, which tracked runs do not have, because it is outside the project"
        if not is_here:
            remedy = f"Add `{opened}: PATH` to `{KEY}`, where PATH is the absolute path of the data on the target."
            yield subject.finding("data-outside", message, remedy, KEY)
            continue
        value = with_data(plain_value(subject.nodes.get(KEY)), {opened: opened})
        fix = Fix(f"add {opened} to {KEY}", (SetValue((KEY,), value),))
        remedy = f"Add `{opened}` to `{KEY}`."
        yield subject.finding("data-outside", message, remedy, KEY, fix)


def _opened_outside(arguments: Sequence[str], scripts: _Scripts) -> dict[str, str]:
    """Return the paths `../NAME`, each with "an argument" or the name of the first script that contains the path."""
    sources: dict[str, str] = {}
    for word in arguments:
        for opened in _OUTSIDE_ARGUMENT.findall(word):
            sources.setdefault(opened, "an argument")
    for name, text in scripts:
        for written in _OUTSIDE.findall(text):
            sources.setdefault(os.fsdecode(written), name)
    return sources


def _old_sources(subject: Subject, context: ProjectContext) -> Iterator[Finding]:
    for key in _OLD_KEYS:
        if key in subject.nodes:
            message = f"`{key}` is ignored: the workbench cannot read data sources of Azure ML Workbench"
            yield subject.finding("data-source", message, INSTEAD, key)
    files = context.old_data_files()
    if files:
        more = len(files) - _NAMED_FILES
        names = ", ".join(files[:_NAMED_FILES]) + (f" and {counted(more, 'other file')}" if more > 0 else "")
        message = (
            "the workbench cannot read data sources of Azure ML Workbench (`azureml.dataprep`, `.dsource`, `.dprep`), "
            f"which these files of the project contain or use: {names}"
        )
        yield subject.finding(DATA_SOURCE_FILE, message, INSTEAD, subject.configuration.key("ArgumentVector"))
