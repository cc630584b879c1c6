"""Printing results: `-o json|table|tsv`, `--plain` and `--query`, the same for every command that has a result.

`--plain` is for ears, and for whoever reads line by line: a `name: value` a line, in the same order every time, what is
empty left out; nothing is told by colour, by boxes or by where it stands.
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
from tui_workbench.core.files import json_text
from tui_workbench.core.model import Problem
from tui_workbench.core.plaintext import visible

FORMATS = ("json", "table", "tsv")
PLAIN = "plain"
"""The output that `--plain` stands for."""

TEXT = "text"
"""The output for people, of commands whose results are no records in the first place."""

LONGEST_NUMBER = 10
_ARGUMENT_VECTORS = ("arguments", "argument_vector", "command")


HISTORY_COLUMNS = ("run_number", "run_id", "script_name", "target", "status", "start_time_utc", "duration", "reason")
"""The columns of a table of runs."""


def output(
    default: str = "json",
    note: str = "default: %(default)s",
    example: str = "[?status=='Completed']",
    *,
    is_of_project: bool = True,
) -> Part:
    """`--project`, and `-o`, `--plain` and `--query`, whose help shows an example.

    With `TEXT` as the default, `-o text` is offered too: see `is_text`.
    """

    def declare(parser: argparse._ActionsContainer) -> None:
        if is_of_project:
            PROJECT(parser)
        formats = (TEXT, *FORMATS) if default == TEXT else FORMATS
        parser.add_argument("-o", "--output", choices=formats, default=default, help=note)
        # `cli.parse` makes `--plain` an output like those of `-o`.
        parser.add_argument("--plain", action="store_true", help="for screen readers: a `name: value` a line")
        parser.add_argument("--query", metavar="JMESPATH", help=f'pick from the result, as in "{example}"')

    return declare


def is_text(arguments: argparse.Namespace) -> bool:
    """True if the result is asked for as text for people."""
    return arguments.output == TEXT and not arguments.query


def write_lines(lines: Iterable[str]) -> None:
    """Write lines of any origin to stdout, at once."""
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))
    sys.stdout.flush()


def tell(*texts: str) -> None:
    """Write messages of the program to stderr, a line each."""
    sys.stdout.flush()
    sys.stderr.write("".join(f"workbench-tui: {visible(text)}\n" for text in texts))


def emit(
    result: Any, arguments: argparse.Namespace, columns: Sequence[str] = (), *, text: Iterable[str] | None = None
) -> int:
    """Print a result as asked. Returns the exit code of a command that has nothing more to say, 0.

    `columns` are a table's columns when the result is a list of records and no query changed it; `text` are the lines
    for people of a command whose results are no records in the first place.
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
        header = [visible(column[:1].upper() + column[1:]) for column in columns]
        # `accuracy` and `Accuracy` are two metrics.
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


def problem_text(problem: Problem | None) -> str | None:
    """A problem in one line, with its place in the file."""
    if problem is None:
        return None
    place = f"line {problem.line}: " if problem.line else ""
    return f"{place}{problem.message}. {problem.remedy}".strip()
