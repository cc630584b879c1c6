"""`keys` and `serve`: list the keys of the screens and check the user's keymap, and show the screens in a browser."""

from __future__ import annotations

import argparse
from typing import Any

from tui_workbench.cli.shared.output import emit, notify, output
from tui_workbench.cli.shared.parser import PROJECT, option, options
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.installation import extra_command
from tui_workbench.projects.project import Project
from tui_workbench.ui.commands.command import all_key_labels, use_keys
from tui_workbench.ui.commands.keymap import load_keymap
from tui_workbench.ui.commands.registry import SCOPES

COLUMNS = ("scope", "id", "keys", "name", "help")
PORT = 8347


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 0 to 65535")
    return int(text)


configure_serve = options(
    option("folder", nargs="?", default="", metavar="PROJECT", help="the same as --project"),
    PROJECT,
    option("--port", type=_port, default=PORT, metavar="N", help="the port; 0 for a free port (default: %(default)s)"),
)
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


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until interrupted. Raises UsageError if the extra `serve` is not installed."""
    root = Project.find(arguments.folder or arguments.project).root
    try:
        from tui_workbench.ui.browser.serving import serve  # imports the libraries of the extra `serve`
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`serve` needs the package {error.name}, which is not installed",
            remedy=f"Install it: `{extra_command('serve')}`.",
        ) from error
    serve(root, arguments.port)
    return 0
