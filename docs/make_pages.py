"""Generate the pages of commands, JSON output and errors in docs/reference, and the man page, from the code.

    python -m docs.make_pages

tests/test_docs.py checks that the pages are current.
"""

from __future__ import annotations

from pathlib import Path

from docs.command_options import options_of
from docs.error_texts import errors
from docs.json_page import json_page
from docs.man_page import man_page
from tui_workbench.cli import COMMANDS, Command, build_parser

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"

COMMANDS_HEAD = """\
# Commands

`python -m docs.make_pages` generates this page. `workbench-tui COMMAND --help` shows the same text.

`workbench-tui [PROJECT]` opens the screens. ID is the ID or number of a run. Commands use the
project of `--project DIR`; the default is the current folder or the nearest parent folder that is a
project. Commands that print data have `-o json`, `table` or `tsv`, `--query` to filter the result,
and `--plain` for [screen readers](../accessibility.md). [JSON output](json.md) describes the fields.

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
    lines += [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in options_of(parser)]
    if parser.epilog:
        lines += ["", "```text", parser.epilog.replace("%(prog)s", parser.prog), "```"]
    return "\n".join([*lines, ""])


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


PAGES = {"command-line.md": command_line, "errors.md": error_page, "json.md": json_page, "workbench-tui.1": man_page}


def main() -> None:
    """Write the pages."""
    for name, make in PAGES.items():
        (DOCS / "reference" / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
