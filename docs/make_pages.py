"""Generate docs/reference/command-line.md and docs/reference/errors.md from the code.

    python -m docs.make_pages

tests/test_docs.py checks that the pages are current.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docs.error_texts import errors
from tui_workbench.cli import COMMANDS, Command, build_parser

if TYPE_CHECKING:
    import argparse

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"

COMMANDS_HEAD = """\
# Commands

`python -m docs.make_pages` generates this page. `workbench-tui COMMAND --help` shows the same text.

`workbench-tui [PROJECT]` opens the screens. ID is the ID or number of a run. Commands use the
project of `--project DIR`; the default is the current folder or the nearest parent folder that is a
project. Commands that print data have `-o json`, `table` or `tsv`, `--query` to filter the result,
and `--plain` for [screen readers](../accessibility.md).

A command that follows a run exits with the exit code of the run's script, or 130 if the run was
canceled. Other exit codes are 0 for success, 1 for an error on this machine, 2 for wrong usage, 3
for a configuration problem, and 4 if the target is unreachable.
"""

ERRORS_HEAD = """\
# Errors

`python -m docs.make_pages` generates this page. Capitalized words such as HOST stand for values,
and text in `[...]` is not always shown. If there are several fixes (`Or:`), the error shows the fix
that applies. The last column is the exit code of the command.
[Troubleshooting](../troubleshooting.md) explains the most common errors.

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


def error_page() -> str:
    """Return the page of all errors in alphabetical order."""
    found = {(error.text, error.remedy, error.exit_code) for error in errors()}
    rows = sorted(found, key=lambda each: (each[0].strip(" `'[:(").lower(), each))
    lines = [ERRORS_HEAD]
    lines += [f"| {_markdown(text)} | {_markdown(remedy)} | {code} |" for text, remedy, code in rows]
    return "\n".join([*lines, ""])


def _markdown(text: str) -> str:
    parts = _cell(text).split("`")
    # Markdown shows text between backquotes unchanged.
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") for part in parts[::2]]
    return "`".join(parts).strip()


PAGES = {"command-line.md": command_line, "errors.md": error_page}


def main() -> None:
    """Write the pages."""
    for name, make in PAGES.items():
        (DOCS / "reference" / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
