"""Print results with `-o json|table|tsv`, `--plain` and `--query`.

`--plain` is for screen readers: one `name: value` per line, always in the same order, without empty values, colors,
boxes or columns.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tui_workbench.cli.shared.parser import PROJECT, Part
from tui_workbench.core.errors import UsageError
from tui_workbench.core.json_values import json_text
from tui_workbench.core.model import Problem
from tui_workbench.core.plaintext import visible

FORMATS = ("json", "table", "tsv")
PLAIN = "plain"
"""The output format of `--plain`."""

TEXT = "text"
"""The output format of commands that print text by default."""

LONGEST_NUMBER = 10
_ARGUMENT_VECTORS = ("arguments", "argument_vector", "command")

HISTORY_COLUMNS = ("run_number", "run_id", "script_name", "target", "status", "start_time_utc", "duration", "reason")
"""The columns of a table of runs."""


def output(
    default: str = "json",
    note: str = "output format (default: %(default)s)",
    example: str = "",
    *,
    has_project: bool = True,
) -> Part:
    """Return a declaration of `-o`, `--plain`, `--query` and, if `has_project`, `--project`.

    `-o text` is a choice only if `default` is TEXT.
    """

    def declare(parser: argparse._ActionsContainer) -> None:
        if has_project:
            PROJECT(parser)
        formats = (TEXT, *FORMATS) if default == TEXT else FORMATS
        parser.add_argument("-o", "--output", choices=formats, default=default, help=note)
        # `cli.parse` turns `--plain` into an output format.
        parser.add_argument("--plain", action="store_true", help="for screen readers: one `name: value` per line")
        advice = f', for example "{example}"' if example else ""
        parser.add_argument("--query", metavar="JMESPATH", help=f"filter the result{advice}")

    return declare


def is_text(arguments: argparse.Namespace) -> bool:
    return arguments.output == TEXT and not arguments.query


def write_lines(lines: Iterable[str]) -> None:
    """Write untrusted lines to stdout and flush."""
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))
    sys.stdout.flush()


def notify(*texts: str) -> None:
    """Write messages to stderr, one per line."""
    sys.stdout.flush()  # so that the message follows the output that was printed before it
    sys.stderr.write("".join(f"workbench-tui: {visible(text)}\n" for text in texts))


def emit(
    result: Any, arguments: argparse.Namespace, columns: Sequence[str] = (), *, text: Iterable[str] | None = None
) -> int:
    """Print a result in the requested format. Return exit code 0.

    `columns` selects the values that formats other than JSON print; `--query` overrides it. `text` contains the lines
    of `-o text`.
    """
    if text is not None and is_text(arguments):
        write_lines(text)
        return 0
    if arguments.query:
        result, columns = query(result, arguments.query), ()
    rows = result if isinstance(result, list) else [] if result is None else [result]
    if arguments.output in ("json", ""):
        shown = json_text(result) + "\n"
    elif arguments.output == PLAIN:
        shown = plain_text(result, columns)
    elif arguments.output == "tsv":
        shown = "".join("\t".join(visible(_text(cell)) for cell in _cells(row, columns)) + "\n" for row in rows)
    else:
        shown = _table(rows, columns)
    sys.stdout.write(shown)
    return 0


def query(result: Any, expression: str) -> Any:
    """Return the result of a JMESPath expression. Raises UsageError for an invalid expression."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.search(expression, result)
    except JMESPathError as error:
        reason = str(error).replace("\n", " ")
        raise UsageError(
            f"invalid JMESPath expression in --query: {reason}",
            remedy="Correct the expression. Example: `--query \"[?status=='Completed']\"`.",
        ) from error


def plain_text(result: Any, columns: Sequence[str] = ()) -> str:
    """Format a result as lines of `name: value`.

    A list of records begins with its length, and an empty line precedes each record. `columns` selects the values
    of these records; a single record is printed in full.
    """
    if not isinstance(result, list):
        return "".join(f"{line}\n" for line in _plain_lines("", result))
    if not all(isinstance(row, dict) for row in result):
        return "".join(f"{line}\n" for row in result for line in _plain_lines("", row))
    parts = [[f"results: {len(result)}"]]
    for row in result:
        selected = {column: row.get(column) for column in columns} if columns else row
        parts.append(list(_plain_lines("", selected)))
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in parts)


def _plain_lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _plain_lines(f"{name} {key}".lstrip(), inner)
    elif isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple) for item in value):
        singular = name.removesuffix("es") if name.endswith("sses") else name.removesuffix("s")
        for number, inner in enumerate(value, 1):
            yield from _plain_lines(f"{singular} {number}".lstrip(), inner)
    elif isinstance(value, list | tuple):
        words = [_short(item) for item in value]
        yield from _plain_lines(name, shlex.join(words) if name.endswith(_ARGUMENT_VECTORS) else ", ".join(words))
    elif value is not None and value != "":
        # Further lines are indented, so that a line of a long text cannot be mistaken for another value.
        first, *others = _short(value).rstrip("\n").split("\n")
        yield visible(f"{name}: {first}" if name else first)
        yield from (f"  {visible(line)}" for line in others)


def _table(rows: Sequence[Any], columns: Sequence[str]) -> str:
    if not rows:
        return ""
    if all(isinstance(row, dict) for row in rows):
        columns = columns or list(dict.fromkeys(key for row in rows for key in row))
        # Names that users type, such as `sweep-1.2`, are not capitalized.
        header = [visible(column[:1].upper() + column[1:] if column.isidentifier() else column) for column in columns]
        # `accuracy` and `Accuracy` are different metrics.
        header = [
            visible(name) if header.count(shown) > 1 else shown for name, shown in zip(columns, header, strict=True)
        ]
    else:
        header = ["Result"]
    body = [[visible(_short(cell)) for cell in _cells(row, columns)] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    lines = [header, ["-" * width for width in widths], *body]
    return "".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def _cells(row: Any, columns: Sequence[str]) -> list[Any]:
    if isinstance(row, dict):
        return [row.get(column) for column in columns] if columns else list(row.values())
    return [row]


def _short(cell: Any) -> str:
    """Format a table cell. Long floats are rounded to six significant digits."""
    if isinstance(cell, float) and len(repr(cell)) > LONGEST_NUMBER:
        return f"{cell:.6g}"
    return _text(cell)


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, list) and all(isinstance(item, str) for item in cell):
        return " ".join(cell)
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict | list) else str(cell)


def problem_text(problem: Problem | None) -> str | None:
    """Format a problem in one line, with its line number. Return None without a problem."""
    if problem is None:
        return None
    prefix = f"line {problem.line}: " if problem.line else ""
    return f"{prefix}{problem.message}. {problem.remedy}".strip()
