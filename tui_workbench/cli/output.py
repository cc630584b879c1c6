"""Printing results: `-o json|table|tsv`, `--plain` and `--query`, the same for every command that has a result.

`--plain` is for ears, and for whoever reads line by line: a `name: value` a line, in the same order every time, what is
empty left out; nothing is told by colour, by boxes or by where it stands.
"""

from __future__ import annotations

import json
import sys

from tui_workbench.cli.terminal import visible
from tui_workbench.errors import UsageError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from typing import Any

FORMATS = ("json", "table", "tsv")
PLAIN = "plain"
"""The output that `--plain` stands for."""

DEFAULT_FORMAT = "json"
LONGEST_NUMBER = 10
_ARGUMENT_VECTORS = ("arguments", "argument_vector", "command")


def add_project_option(parser: argparse.ArgumentParser) -> None:
    """`--project DIR`; without it the project is here or in the nearest folder above."""
    parser.add_argument("--project", metavar="DIR", default=".", help="the project folder (default: here or above)")


HISTORY_COLUMNS = ("run_number", "run_id", "script_name", "target", "status", "start_time_utc", "duration", "reason")
"""The columns of a table of runs."""


def add_output_options(
    parser: argparse.ArgumentParser, *, default: str = DEFAULT_FORMAT, note: str = "default: json"
) -> None:
    """`-o`, `--plain`, `--query` and `--project`."""
    add_project_option(parser)
    parser.add_argument("-o", "--output", choices=FORMATS, default=default, help=note)
    add_plain_option(parser)
    parser.add_argument("--query", metavar="JMESPATH", help="pick from the result, as in \"[?status=='Completed']\"")


def add_plain_option(parser: argparse.ArgumentParser) -> None:
    """`--plain`; `cli.parse` makes it an output like those of `-o`."""
    parser.add_argument("--plain", action="store_true", help="for screen readers: a `name: value` a line")


def emit(result: Any, arguments: argparse.Namespace, columns: Sequence[str] = ()) -> None:
    """Print a result as asked.

    `columns` are a table's columns when the result is a list of records and no query changed it.
    """
    if arguments.query:
        result, columns = query(result, arguments.query), ()
    if arguments.output in ("json", ""):
        sys.stdout.write(json_text(result) + "\n")
        return
    if arguments.output == PLAIN:
        sys.stdout.write(plain_text(result, columns))
        return
    rows = result if isinstance(result, list) else [] if result is None else [result]
    if arguments.output == "tsv":
        lines = ("\t".join(_tsv_cell(cell) for cell in _cells(row, columns)) for row in rows)
        sys.stdout.write("".join(line + "\n" for line in lines))
        return
    sys.stdout.write(_table(rows, columns))


def json_text(value: Any) -> str:
    """The value as JSON that every reader takes, whatever numbers it holds."""
    try:
        return json.dumps(value, indent=2, allow_nan=False)
    except ValueError:
        from tui_workbench.runs.history import json_text as with_any_number

        return with_any_number(value)


def query(result: Any, expression: str) -> Any:
    """Apply a JMESPath expression. Raises UsageError, with the place in the expression, when it is none."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.search(expression, result)
    except JMESPathError as error:
        said = str(error).replace("\n", " ")
        raise UsageError(
            f"--query is no JMESPath expression: {said}", remedy="Example: \"[?status=='Completed']\"."
        ) from error


def plain_text(result: Any, columns: Sequence[str] = ()) -> str:
    """A result in lines of `name: value`; of a list first how many there are, then each behind an empty line.

    `columns` are what is told of each record of a list; of a record alone, everything is.
    """
    if not isinstance(result, list):
        return "".join(f"{line}\n" for line in _plain_lines("", result))
    if not all(isinstance(row, dict) for row in result):
        return "".join(f"{line}\n" for row in result for line in _plain_lines("", row))
    parts = [[f"results: {len(result)}"]]
    for row in result:
        told = {column: row.get(column) for column in columns} if columns else row
        parts.append(list(_plain_lines("", told)))
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in parts)


def _plain_lines(name: str, value: Any) -> Iterator[str]:
    import shlex

    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _plain_lines(f"{name} {key}".lstrip(), inner)
    elif isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple) for item in value):
        for number, inner in enumerate(value, 1):
            yield from _plain_lines(f"{name.removesuffix('s')} {number}".lstrip(), inner)
    elif isinstance(value, list | tuple):
        words = [_short(item) for item in value]
        yield from _plain_lines(name, shlex.join(words) if name.endswith(_ARGUMENT_VECTORS) else ", ".join(words))
    elif value is not None and value != "":
        # Of a text of many lines, as a difference is, each stays a line, and none can pass for another value.
        first, *others = _short(value).rstrip("\n").split("\n")
        yield visible(f"{name}: {first}" if name else first)
        yield from (f"  {visible(line)}" for line in others)


def _table(rows: Sequence[Any], columns: Sequence[str]) -> str:
    if not rows:
        return ""
    if all(isinstance(row, dict) for row in rows):
        columns = columns or list(dict.fromkeys(key for row in rows for key in row))
        header = [column[:1].upper() + column[1:] for column in columns]
        # `accuracy` and `Accuracy` are two metrics.
        header = [name if header.count(shown) > 1 else shown for name, shown in zip(columns, header, strict=True)]
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
    """A cell of a table: of a number, the digits that a person compares; all of them are in the other forms."""
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


def _tsv_cell(cell: Any) -> str:
    return visible(_text(cell))
