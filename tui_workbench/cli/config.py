"""`config check|get|set|unset|fix|schema`: check and edit configuration files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import Any

from tui_workbench.cli.shared.output import TEXT, emit, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.config.changes import file_edits
from tui_workbench.config.checks.findings import ERROR, Finding
from tui_workbench.config.schema.field_types import written
from tui_workbench.config.schema.json_schema import json_schemas
from tui_workbench.core.errors import ConfigurationError, ProjectNotFound, UsageError
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project

FINDING_COLUMNS = ("file", "line", "column", "severity", "code", "message", "fix")

FILE = option("file", metavar="FILE", help="a path, or the name of a file in aml_config/")
KEY = option("key", metavar="KEY", help="for example EnvironmentVariables.LR or packages[0].version")
DRY_RUN = option("--dry-run", action="store_true", help="print the changes without making them")
RESULT = output(TEXT)

configure_check = options(
    option("files", metavar="FILE", nargs="*", help="a path, or the name of a file in aml_config/ (default: all)"),
    output(TEXT, example="[?severity=='error']"),
)
configure_get = options(FILE, KEY, RESULT)
configure_set = options(
    FILE,
    KEY,
    option("value", metavar="VALUE", help="write a list as '[a, b]', a mapping as '{A: 1}', and no value as null"),
    option("--any-key", action="store_true", help="allow an unknown key"),
    RESULT,
)
configure_unset = options(FILE, KEY, RESULT)
configure_fix = options(
    FILE,
    option(
        "--code",
        metavar="CODE",
        default="",
        help="fix only findings with this code, including those of severity info and those whose fix needs a decision",
    ),
    DRY_RUN,
    RESULT,
)
configure_schema = options(RESULT)


def run_check(arguments: argparse.Namespace) -> int:
    root = project_root(arguments, needed=not arguments.files)
    paths = [_existing(name, root) for name in arguments.files] or file_edits.configuration_files(root or "")
    findings = file_edits.check(paths)
    errors = sum(finding.severity == ERROR for finding in findings)
    advice = counted(len(findings) - errors, "piece")
    total = f"{counted(len(paths), 'file')}: {counted(errors, 'error')}, {advice} of advice"
    records = [finding_record(finding) for finding in findings]
    emit(records, arguments, FINDING_COLUMNS, text=[*map(finding_line, findings), total])
    return _exit_code(findings)


def run_get(arguments: argparse.Namespace) -> int:
    value = file_edits.get(_file(arguments), arguments.key)
    return emit(value, arguments, text=[written(value)])


def run_set(arguments: argparse.Namespace) -> int:
    result = file_edits.set_text(_file(arguments), arguments.key, arguments.value, any_key=arguments.any_key)
    return _edited(result, arguments)


def run_unset(arguments: argparse.Namespace) -> int:
    return _edited(file_edits.unset(_file(arguments), arguments.key), arguments)


def run_fix(arguments: argparse.Namespace) -> int:
    result = file_edits.fix(_file(arguments), code=arguments.code, dry_run=arguments.dry_run)
    text = result.diff.split("\n")[:-1] if arguments.dry_run else []
    text += [f"{'would fix' if arguments.dry_run else 'fixed'}: {title}" for title in result.fixed]
    text += [f"left: {finding_line(finding)}" for finding in result.left]
    if not result.fixed:
        text.append(_nothing_fixed(result.left))
    left = [finding_record(finding) for finding in result.left]
    record = {"file": result.file, "fixed": list(result.fixed), "left": left, "diff": result.diff}
    emit(record, arguments, text=text)
    return _exit_code(result.left)


def run_schema(arguments: argparse.Namespace) -> int:
    if arguments.output == TEXT:
        arguments.output = "json"
    return emit(json_schemas(), arguments)


def project_root(arguments: argparse.Namespace, *, needed: bool) -> str | None:
    """Return the project folder, or None outside a project. If `needed`, raise ProjectNotFound instead."""
    try:
        return Project.find(arguments.project).root
    except ProjectNotFound:
        if needed:
            raise
        return None


def _file(arguments: argparse.Namespace) -> str:
    if os.path.isfile(arguments.file):
        # Editing a file by its path needs no project, and finding the project takes time.
        return str(arguments.file)
    return _existing(arguments.file, project_root(arguments, needed=False))


def _existing(name: str, root: str | None) -> str:
    path = file_edits.find_file(name, root)
    if not os.path.exists(path):
        raise UsageError(f"no file {name!r}", remedy="Give the path of a file, or the name of a file in aml_config/.")
    return path


def _edited(result: file_edits.EditResult, arguments: argparse.Namespace) -> int:
    old, new = ("not set" if value is None else written(value) for value in (result.old, result.new))
    text = f"{old} -> {new}" if result.changed else "unchanged"
    return emit(result._asdict(), arguments, text=[f"{result.key}: {text}"])


def finding_record(finding: Finding) -> dict[str, Any]:
    """Return a finding as a dict for JSON and tables."""
    return {**finding.problem._asdict(), "fix": finding.fix.title if finding.fix is not None else None}


def finding_line(finding: Finding) -> str:
    """Format a finding in one line."""
    fix = f" [fix: {finding.fix.title}]" if finding.fix is not None else ""
    position = f"{finding.file}:{finding.line}:{finding.column}"
    return f"{position}: {finding.severity}: {finding.message}. {finding.remedy} ({finding.code}){fix}"


def _nothing_fixed(left: Sequence[Finding]) -> str:
    codes = sorted({finding.code for finding in left if finding.fix is not None})
    if codes:
        return f"nothing was fixed; apply the suggested fixes with --code {' or '.join(codes)}"
    return "nothing was fixed: these findings have no automatic fix" if left else "nothing to fix"


def _exit_code(findings: Iterable[Finding]) -> int:
    return ConfigurationError.exit_code if any(finding.severity == ERROR for finding in findings) else 0
