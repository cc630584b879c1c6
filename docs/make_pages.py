"""Generate docs/reference/command-line.md and docs/reference/errors.md from the code.

    python -m docs.make_pages

tests/test_docs.py checks that the pages are current.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.cli import COMMANDS, Command, build_parser

if TYPE_CHECKING:
    import argparse

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"

ANYTHING = "…"
"""Replaces formatted values in the text of an error."""

CLASSES = {
    "UsageError": "2",
    "ProjectNotFound": "2",
    "RunNotFound": "2",
    "ConfigurationError": "3",
    "NotPrepared": "3",
    "TargetUnreachable": "4",
    "ConnectionLost": "4",
    "LoginRefused": "4",
    "SecretNeeded": "4",
    "HostKeyRefused": "4",
    "EngineOutOfReach": "3",
    "StorageError": "1",
    "NeverStarted": "1",
    "EngineRefused": "1",
    "WorkbenchError": "1",
}
"""The exit codes of the errors that users see."""

FACTORIES = {
    "CheckFailed": ("1", 0),
    "UnsupportedTerminal": ("2", 0),
    "EditRefusedError": ("3", 0),
    "refused": ("3", 2),
    "wrong": ("3", 1),
    "_bad_line": ("3", 2),
}
"""Other classes and functions that create errors: the exit code, and the position of the message in the arguments.

The remedy is the keyword `remedy`, or the argument after the message.
"""

COMMANDS_HEAD = """\
# Commands

`python -m docs.make_pages` generates this page. `workbench-tui COMMAND --help` shows the same text.

`workbench-tui [PROJECT]` opens the screens. ID is the ID or number of a run. Commands use the project
in the current folder or its parents, or the one of `--project DIR`. Commands that print data have
`-o json`, `table` or `tsv`, `--query` to filter the result, and `--plain` for screen readers
([accessibility](../accessibility.md)).

Exit codes: the exit code of the script for a finished run, 130 for a canceled run; otherwise 0, 1 for
a failure of this machine, 2 for wrong usage, 3 for a configuration problem, 4 if the target is
unreachable.
"""

ERRORS_HEAD = """\
# Errors

`python -m docs.make_pages` generates this page. `…` replaces values. The last column is the exit code
of the command. [Troubleshooting](../troubleshooting.md) explains the most common errors.

| Message | Fix | Code |
|---|---|---|"""


def command_line() -> str:
    """Return the page of all commands."""
    parts = [COMMANDS_HEAD]
    parts += map(_command, COMMANDS)
    return "\n".join(parts)


def _command(command: Command) -> str:
    parser = build_parser(command)
    name = " ".join(command.words)
    lines = [f"## {name}", "", f"{command.help[0].upper()}{command.help[1:]}.", "", "| | |", "|---|---|"]
    lines += [f"| `{_cell(_called(action))}` | {_cell(_help(action))} |" for action in _shown(parser)]
    if parser.epilog:
        lines += ["", "```text", parser.epilog.replace("%(prog)s", parser.prog), "```"]
    return "\n".join([*lines, ""])


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments, then the options, without those that every command has."""
    actions = [action for action in parser._actions if action.dest not in ("help", "project")]
    return sorted(actions, key=lambda action: bool(action.option_strings))


def _called(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    values = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    value = str(action.metavar or values)
    several = {"*": f"[{value} ...]", "+": f"{value} [{value} ...]", "?": f"[{value}]", "...": f"[{value} ...]"}
    value = several.get(str(action.nargs), value)
    return f"{names} {value}".strip()


def _help(action: argparse.Action) -> str:
    values = {**vars(action), "prog": "workbench-tui"}
    text = (action.help or "") % values
    return f"{text} (required)" if action.required and action.option_strings else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


class Error(NamedTuple):
    """An error in the code."""

    text: str
    remedy: str
    exit_code: str
    module: str


def errors() -> Iterator[Error]:
    """Find all errors with a message in the package."""
    package = REPOSITORY / "tui_workbench"
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            name = node.func.id
            code, position = (CLASSES[name], 0) if name in CLASSES else FACTORIES.get(name, ("", 0))
            texts = [_text(argument) for argument in node.args[position:]]
            if code and texts and texts[0].strip(ANYTHING + " :(),."):
                remedies = [_text(word.value) for word in node.keywords if word.arg == "remedy"]
                module = str(path.relative_to(package).with_suffix(""))
                remedy = (*remedies, *texts[1:], "")[0]
                yield Error(texts[0], remedy.strip(), code, module)


def _text(node: ast.expr) -> str:
    """Return a string of the code with `ANYTHING` for each formatted value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return ANYTHING


def error_page() -> str:
    """Return the page of all errors in alphabetical order."""
    found = {(error.text, error.remedy, error.exit_code) for error in errors()}
    rows = sorted(found, key=lambda each: (each[0].strip(ANYTHING + " `:(").lower(), each))
    lines = [ERRORS_HEAD]
    lines += [f"| {_markdown(text)} | {_markdown(remedy)} | {code} |" for text, remedy, code in rows]
    return "\n".join([*lines, ""])


def _markdown(text: str) -> str:
    return "" if text == ANYTHING else _cell(text).replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").strip()


PAGES = {"command-line.md": command_line, "errors.md": error_page}


def main() -> None:
    """Write the pages."""
    for name, make in PAGES.items():
        (DOCS / "reference" / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
