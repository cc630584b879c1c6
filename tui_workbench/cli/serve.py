"""`serve`: show the screens in a browser, on this machine only."""

from __future__ import annotations

import argparse

from tui_workbench.cli.shared.parser import PROJECT, option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.installation import extra_command
from tui_workbench.projects.project import Project

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
