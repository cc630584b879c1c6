"""Generate docs/reference/json.md, and JSON Schemas for tests, from json_types.txt and `json_outputs`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from docs.json_outputs import OUTPUTS, WITHOUT_JSON
from tui_workbench import __version__
from tui_workbench.cli import COMMANDS, JSON_SCHEMA, build_parser

_PLAIN = ("string", "integer", "number", "boolean", "null")
_LINES = "lines "


class Field(NamedTuple):
    """A field of a type. `name` is `*` for all other names."""

    name: str
    type: str
    meaning: str
    is_optional: bool = False


class Type(NamedTuple):
    """A type of the output."""

    name: str
    meaning: str
    fields: tuple[Field, ...]


class Output(NamedTuple):
    """The JSON output of a command. With `in_lines`, each line is a value of this type."""

    command: str
    type: str
    note: str
    in_lines: bool


def types() -> tuple[Type, ...]:
    """Return all types in the order of the page."""
    text = Path(__file__).with_name("json_types.txt").read_text(encoding="utf-8")
    return tuple(map(_type, text.strip().split("\n\n")))


def _type(text: str) -> Type:
    head, *lines = text.split("\n")
    name, _, meaning = head.partition(": ")
    return Type(name, meaning, tuple(map(_field, lines)))


def _field(line: str) -> Field:
    start, _, meaning = line.partition("  ")
    name, kind = start.split(" ")
    return Field(name.removesuffix("?"), kind, meaning, is_optional=name.endswith("?"))


def outputs() -> tuple[Output, ...]:
    """Return the outputs of all commands with JSON."""
    found = []
    for line in OUTPUTS.strip().split("\n"):
        command, _, rest = line.partition(": ")
        kind, _, note = rest.partition("  ")
        found.append(Output(command, kind.removeprefix(_LINES), note, kind.startswith(_LINES)))
    return tuple(found)


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a type. An unknown field is an error, so that tests find undocumented fields."""
    return {**_schema(kind), "$defs": {each.name: _object(each) for each in types()}}


def _schema(kind: str) -> dict[str, Any]:
    parts = re.findall(r"(?:\[+[^\]]*\]+|\{[^}]*\}|[^|\[{])+", kind)
    if len(parts) > 1:
        return {"anyOf": list(map(_schema, parts))}
    if kind[0] == "[":
        return {"type": "array", "items": _schema(kind[1:-1])}
    if kind[0] == "{":
        return {"type": "object", "additionalProperties": _schema(kind[1:-1])}
    if kind == "any":
        return {}
    return {"type": kind} if kind in _PLAIN else {"$ref": f"#/$defs/{kind}"}


def _object(described: Type) -> dict[str, Any]:
    named = [field for field in described.fields if field.name != "*"]
    rest = [_schema(field.type) for field in described.fields if field.name == "*"]
    return {
        "type": "object",
        "properties": {field.name: _schema(field.type) for field in named},
        "required": [field.name for field in named if not field.is_optional],
        "additionalProperties": rest[0] if rest else False,
    }


HEAD = f"""\
# JSON output

`python -m docs.make_pages` generates this page. Tests compare it with the output of the commands.

With `-o json`, a command prints one JSON value to stdout. For the commands marked with *json* in
the first table, this is the default. `--query` filters the value with
[JMESPath](https://jmespath.org) before it is printed. Progress and notices are written to stderr.

The version of the output is {JSON_SCHEMA}. `workbench-tui --version -o json` prints it:

    {{"version": "{__version__}", "json_schema": {JSON_SCHEMA}}}

Later versions of the workbench with the same `json_schema` may add fields, values of `status` and
similar words, and elements of lists that name checks or steps. They remove and rename no field and
change no type. Ignore fields that you do not know.

JSON has no NaN and no infinity: NaN is written as `null`, and infinity as `1e999`, which most JSON
parsers read as infinity.

## Errors

Errors are text. If a command fails, it prints no JSON value, or in a list of lines no further
value, and writes a message to stderr that begins with `workbench-tui: ` and includes the fix. If
there are several fixes, each is on a separate line, which begins with two spaces. The
[exit code](command-line.md) gives the kind of error, and [Errors](errors.md) lists all messages.
The commands `config check`, `config fix`, `config gpu-ready`, `computetarget attach` and `check`,
`gpu check`, `doctor`, `keys`, `notify test`, `experiment clean`, `history delete`, `purge`,
`import` and `download --into-project`, and `gpu list` and `top` print their JSON value and may
then exit with 1, 3 or 4, because a part of the result is a problem.

## Coding agents

`workbench-tui agent-guide` prints instructions for coding agents. An agent gives its name in the
environment variable `WORKBENCH_AGENT`, which its runs and calls then have
([runs of coding agents](../history.md#runs-of-coding-agents)).

## Commands

`[T]` is a list of T, and `{{T}}` an object that maps any names to T. The section [Types](#types)
describes the types. Only `history` commands, except `history sync`, print the metrics, the
annotations and the GPU verdict of a run. In a Run from another command, `tags` is empty,
`description` is null, and `pinned` and `hidden` are false.

| command | output | |
|---|---|---|"""


def json_page() -> str:
    """Return the page of the JSON output."""
    defaults = {command.name: build_parser(command).get_default("output") for command in COMMANDS}
    lines = [HEAD]
    for each in outputs():
        default = " *json*" if defaults[each.command] == "json" else ""
        lines.append(f"| `{each.command}`{default} | {_linked(each.type)} | {each.note} |")
    lines += ["", "These commands have no JSON output:", "", "| command | |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in WITHOUT_JSON.items()]
    lines += ["", "`workbench-tui [PROJECT]` opens the screens and has no JSON output either.", "", "## Types"]
    for described in types():
        lines += ["", f"### {described.name}", "", f"{described.meaning[0].upper()}{described.meaning[1:]}.", ""]
        lines += ["| field | type | meaning |", "|---|---|---|", *map(_row, described.fields)]
    return "\n".join([*lines, ""])


def _row(field: Field) -> str:
    name = "other names" if field.name == "*" else f"`{field.name}`"
    optional = ", not always present" if field.is_optional else ""
    return f"| {name} | {_linked(field.type)}{optional} | {field.meaning.replace('|', chr(92) + '|')} |"


def _linked(kind: str) -> str:
    """Return a type expression in Markdown, with links to the types."""
    text = kind.replace("|", " or ")
    return re.sub(r"\b[A-Z]\w+", lambda found: f"[{found[0]}](#{found[0].lower()})", text).replace("[[", "\\[[")
