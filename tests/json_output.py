"""Compare the JSON output of commands with docs/reference/json.md.

`Workbench.run` calls `check_output` for every command, so each test of a command is also a test of the page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from docs.json_page import outputs, schema_of
from tui_workbench.cli import build_parser, find_command
from tui_workbench.core.errors import UsageError

MOST_CHECKED = 100
"""Maximum number of elements of a list that are checked, because some tests list thousands of runs."""

checked: set[str] = set()
"""The names of the commands whose output was checked in this process."""

OUTPUTS = {each.command: each for each in outputs()}


def check_output(words: Sequence[str], out: str) -> None:
    """Check the stdout of a command if it is JSON. Raises AssertionError for a difference from the page."""
    command, rest = find_command(words)
    if command is None or command.name not in OUTPUTS or not out or {"-h", "--help"} & set(rest):
        return
    try:
        options = build_parser(command).parse(rest)
    except UsageError:
        return
    if options.output != "json" or options.plain or getattr(options, "query", None) or getattr(options, "artifact", ""):
        return
    expected = OUTPUTS[command.name]
    in_lines = expected.in_lines or getattr(options, "follow", False)
    values = [json.loads(line) for line in out.splitlines()] if in_lines else [json.loads(out)]
    kind = expected.type[1:-1] if in_lines and expected.type[0] == "[" else expected.type
    for value in values[:MOST_CHECKED]:
        check_value(kind, value[:MOST_CHECKED] if isinstance(value, list) else value)
    checked.add(command.name)


def check_value(kind: str, value: Any) -> None:
    """Check a value of a type of the page. Raises AssertionError."""
    error = next(_validator(kind).iter_errors(value), None)
    assert error is None, f"not {kind} of docs/json_types.txt: {error.json_path}: {error.message}" if error else ""


@cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(kind))
