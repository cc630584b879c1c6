"""`keys`: list the commands of the screens with their keys, and check the user's keymap."""

from __future__ import annotations

import argparse
from typing import Any

from tui_workbench.cli.shared.output import emit, notify, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.ui.commands.command import all_key_labels, use_keys
from tui_workbench.ui.commands.keymap import load_keymap
from tui_workbench.ui.commands.registry import SCOPES

COLUMNS = ("scope", "id", "keys", "name", "help")

configure_keys = options(
    option("--json", dest="output", action="store_const", const="json", help="the same as -o json"),
    output(default="table", example="[?scope=='log']", has_project=False),
)


def run_keys(arguments: argparse.Namespace) -> int:
    """List the commands with the user's keymap applied. Return 3 if the keymap has an error."""
    keymap = load_keymap()
    use_keys(keymap.keys)
    emit(records(), arguments, COLUMNS)
    notify(*map(str, keymap.errors))
    return ConfigurationError.exit_code if keymap.errors else 0


def records() -> list[dict[str, Any]]:
    """Return a record for each command, with the key labels of the screens (`keys`) and of a keymap (`key_names`)."""
    return [
        {
            "scope": scope,
            "id": command.id,
            "keys": all_key_labels(command.keys) if command.keys else "",
            "key_names": command.keys.split(",") if command.keys else [],
            "default_keys": command.default_keys.split(",") if command.default_keys else [],
            "name": command.name,
            "help": command.help,
        }
        for scope, commands in SCOPES.items()
        for command in commands
    ]
