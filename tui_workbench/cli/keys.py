"""`keys`: every command of the screens with its keys, and what is wrong with the user's keymap."""

from __future__ import annotations

import sys

from tui_workbench.cli.output import FORMATS, add_plain_option, emit
from tui_workbench.errors import ConfigurationError
from tui_workbench.plaintext import visible
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.ui.command import use_keys
from tui_workbench.ui.key_names import all_key_labels
from tui_workbench.ui.keymap import load_keymap
from tui_workbench.ui.registry import SCOPES

if TYPE_CHECKING:
    import argparse
    from typing import Any

COLUMNS = ("scope", "id", "keys", "name", "help")


def configure_keys(parser: argparse.ArgumentParser) -> None:
    """Options of `keys`."""
    parser.add_argument("-o", "--output", choices=FORMATS, default="table", help="default: %(default)s")
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="the same as -o json")
    add_plain_option(parser)
    parser.add_argument("--query", metavar="JMESPATH", help="pick from the result, as in \"[?scope=='log']\"")


def run_keys(arguments: argparse.Namespace) -> int:
    """List the commands as they are with the user's keymap; 3 when something is wrong with it."""
    keymap = load_keymap()
    use_keys(keymap.keys)
    emit(records(), arguments, COLUMNS)
    sys.stdout.flush()
    for error in keymap.errors:
        sys.stderr.write(f"workbench-tui: {visible(str(error))}\n")
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
