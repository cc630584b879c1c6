"""The options of commands as text, for the pages and the man page."""

from __future__ import annotations

import argparse


def options_of(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Return the arguments and then the options with their help, without those that every command has."""
    actions = [action for action in parser._actions if action.dest not in ("help", "project")]
    actions.sort(key=lambda action: bool(action.option_strings))
    return [(_called(action), _help(action)) for action in actions]


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
