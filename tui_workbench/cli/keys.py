"""`keys`: every command of the screens with its keys, and what is wrong with the user's keymap."""

from __future__ import annotations

import argparse
from typing import Any

from tui_workbench.cli.shared.output import emit, output, tell
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.ui.commands.command import all_key_labels, use_keys
from tui_workbench.ui.commands.keymap import load_keymap
from tui_workbench.ui.commands.registry import SCOPES

COLUMNS = ("scope", "id", "keys", "name", "help")

configure_keys = options(
    option("--json", dest="output", action="store_const", const="json", help="the same as -o json"),
    output(default="table", example="[?scope=='log']", is_of_project=False),
)


def run_keys(arguments: argparse.Namespace) -> int:
    """List the commands as they are with the user's keymap; 3 when something is wrong with it."""
    keymap = load_keymap()
    use_keys(keymap.keys)
    emit(records(), arguments, COLUMNS)
    tell(*map(str, keymap.errors))
    return ConfigurationError.exit_code if keymap.errors else 0


def records() -> list[dict[str, Any]]:
    """Every command as data; `keys` as people know them, `key_names` as the keymap may name them."""
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
