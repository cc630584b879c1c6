"""`config check|get|set|unset|fix|gpu-ready|schema`: the configuration files from the command line."""

from __future__ import annotations

import os
import sys

from tui_workbench.cli.output import FORMATS, add_plain_option, add_project_option, emit
from tui_workbench.cli.terminal import visible
from tui_workbench.config import commands
from tui_workbench.errors import ProjectNotFound, UsageError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from tui_workbench.config.findings import Finding

TEXT = "text"

FINDING_COLUMNS = ("file", "line", "column", "severity", "code", "message", "fix")


def configure_check(parser: argparse.ArgumentParser) -> None:
    """Options of `config check`."""
    parser.add_argument("files", metavar="FILE", nargs="*", help="a file, or its name in aml_config/ (default: all)")
    _add_output_options(parser)


def run_check(arguments: argparse.Namespace) -> int:
    """Print what is wrong or unwise; 3 when there is an error."""
    root = _project_root(arguments, needed=not arguments.files)
    paths = [_existing(name, root) for name in arguments.files] or commands.configuration_files(root or "")
    result = commands.check(paths)
    if arguments.output == TEXT and not arguments.query:
        for finding in result.findings:
            _write(_line(finding))
        errors = sum(finding.severity == "error" for finding in result.findings)
        others = len(result.findings) - errors
        _write(f"{_count(len(paths), 'file')}: {_count(errors, 'error')}, {_count(others, 'piece')} of advice")
    else:
        emit([_record(finding) for finding in result.findings], arguments, FINDING_COLUMNS)
    return result.exit_code


def configure_get(parser: argparse.ArgumentParser) -> None:
    """Options of `config get`."""
    _add_file_and_key(parser)
    _add_output_options(parser)


def run_get(arguments: argparse.Namespace) -> int:
    """Print one value."""
    value = commands.get(_file(arguments), arguments.key)
    if arguments.output == TEXT and not arguments.query:
        _write(_written(value))
    else:
        emit(value, arguments)
    return 0


def configure_set(parser: argparse.ArgumentParser) -> None:
    """Options of `config set`."""
    _add_file_and_key(parser)
    parser.add_argument("value", metavar="VALUE", help="a list as '[a, b]', a map as '{A: 1}'")
    parser.add_argument("--any-key", action="store_true", help="allow a key that no field has")
    _add_output_options(parser)


def run_set(arguments: argparse.Namespace) -> int:
    """Change one value and nothing else."""
    result = commands.set_text(_file(arguments), arguments.key, arguments.value, any_key=arguments.any_key)
    return _edited(result, arguments)


def configure_unset(parser: argparse.ArgumentParser) -> None:
    """Options of `config unset`."""
    _add_file_and_key(parser)
    _add_output_options(parser)


def run_unset(arguments: argparse.Namespace) -> int:
    """Remove one key or list item and nothing else."""
    return _edited(commands.unset(_file(arguments), arguments.key), arguments)


def configure_fix(parser: argparse.ArgumentParser) -> None:
    """Options of `config fix`."""
    parser.add_argument("file", metavar="FILE", help="a file, or its name in aml_config/")
    parser.add_argument("--code", metavar="CODE", default="", help="fix findings of this code only, advice included")
    parser.add_argument("--dry-run", action="store_true", help="print the change and do not make it")
    _add_output_options(parser)


def run_fix(arguments: argparse.Namespace) -> int:
    """Apply the fixes of a file's findings; 3 when an error is left."""
    result = commands.fix(_file(arguments), code=arguments.code, dry_run=arguments.dry_run)
    if arguments.output == TEXT and not arguments.query:
        if arguments.dry_run:
            _write_lines(result.diff)
        for title in result.fixed:
            _write(f"{'would fix' if arguments.dry_run else 'fixed'}: {title}")
        if not result.fixed:
            _write("nothing to fix")
        for finding in result.left:
            _write(f"left: {_line(finding)}")
    else:
        left = [_record(finding) for finding in result.left]
        emit({"file": result.file, "fixed": list(result.fixed), "left": left, "diff": result.diff}, arguments)
    return result.exit_code


def configure_gpu_ready(parser: argparse.ArgumentParser) -> None:
    """Options of `config gpu-ready`."""
    parser.add_argument("name", metavar="NAME", help="a compute target or a run configuration")
    parser.add_argument("--image", default="", help="the Docker image to use (default: a current one with PyTorch)")
    parser.add_argument(
        "--without", metavar="CHANGE", action="append", default=[], help="leave a change out, by its id"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the change and do not make it")
    _add_output_options(parser)


def run_gpu_ready(arguments: argparse.Namespace) -> int:
    """Make every change that a GPU needs, in one step."""
    root = _project_root(arguments, needed=True) or ""
    result = commands.gpu_ready(
        root, arguments.name, image=arguments.image, without=arguments.without, dry_run=arguments.dry_run
    )
    plan = result.plan
    if arguments.output == TEXT and not arguments.query:
        _write_lines(result.diff)
        for hunk in plan.hunks:
            mark = "left out" if hunk.id in arguments.without else "change"
            _write(f"{mark} {hunk.title} [{hunk.id}]: {hunk.reason}")
        for note in plan.notes:
            _write(f"note: {note}")
        _write(_summary(plan.target, len(plan.hunks), applied=result.applied))
        return 0
    record = {
        "target": plan.target,
        "run_configurations": list(plan.configurations),
        "changes": [
            {"id": hunk.id, "file": hunk.path, "title": hunk.title, "reason": hunk.reason} for hunk in plan.hunks
        ],
        "images": [image._asdict() for image in plan.images],
        "notes": list(plan.notes),
        "diff": result.diff,
        "applied": result.applied,
    }
    emit(record, arguments)
    return 0


def configure_schema(parser: argparse.ArgumentParser) -> None:
    """Options of `config schema`."""
    _add_output_options(parser)


def run_schema(arguments: argparse.Namespace) -> int:
    """Print the JSON Schema of every kind of file."""
    from tui_workbench.config.json_schema import json_schemas

    if arguments.output == TEXT:
        arguments.output = "json"
    emit(json_schemas(), arguments)
    return 0


# -- options and files -----------------------------------------------------------------------------------------------


def _add_file_and_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file, or its name in aml_config/")
    parser.add_argument("key", metavar="KEY", help="as in EnvironmentVariables.LR or packages[0].version")


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    add_project_option(parser)
    parser.add_argument("-o", "--output", choices=(TEXT, *FORMATS), default=TEXT, help="default: %(default)s")
    add_plain_option(parser)
    parser.add_argument("--query", metavar="JMESPATH", help="pick from the result, as in \"[?severity=='error']\"")


def _project_root(arguments: argparse.Namespace, *, needed: bool) -> str | None:
    from tui_workbench.project import Project

    try:
        return Project.find(arguments.project).root
    except ProjectNotFound:
        if needed:
            raise
        return None


def _file(arguments: argparse.Namespace) -> str:
    if os.path.isfile(arguments.file):
        # No project is needed to edit a file by its path, and finding one takes time.
        return str(arguments.file)
    return _existing(arguments.file, _project_root(arguments, needed=False))


def _existing(name: str, root: str | None) -> str:
    path = commands.find_file(name, root)
    if not os.path.exists(path):
        raise UsageError(f"there is no file {name}", remedy="Name a file, or one of aml_config/.")
    return path


# -- printing --------------------------------------------------------------------------------------------------------


def _edited(result: commands.EditResult, arguments: argparse.Namespace) -> int:
    if arguments.output == TEXT and not arguments.query:
        change = f"{_written(result.old)} -> {_written(result.new)}" if result.changed else "as it was"
        _write(f"{result.key}: {change}")
    else:
        emit(result._asdict(), arguments)
    return 0


def _record(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "severity": finding.severity,
        "code": finding.code,
        "message": finding.message,
        "remedy": finding.remedy,
        "fix": finding.fix.title if finding.fix is not None else None,
    }


def _line(finding: Finding) -> str:
    fix = f" [fix: {finding.fix.title}]" if finding.fix is not None else ""
    place = f"{finding.file}:{finding.line}:{finding.column}"
    return f"{place}: {finding.severity}: {finding.message}. {finding.remedy} ({finding.code}){fix}"


def _summary(target: str, changes: int, *, applied: bool) -> str:
    if not changes:
        return f"{target} is GPU-ready: nothing to do"
    return f"{target} is GPU-ready now" if applied else f"{_count(changes, 'change')} to make; nothing was changed"


def _written(value: Any) -> str:
    """A value as it would stand in a file, on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        import json

        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _write(line: str) -> None:
    sys.stdout.write(visible(line) + "\n")


def _write_lines(text: str) -> None:
    lines: Sequence[str] = text.split("\n")
    for line in lines[:-1]:
        _write(line)
