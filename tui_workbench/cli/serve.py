"""`serve`: the screens in a browser, for this machine alone."""

from __future__ import annotations

from tui_workbench.cli.output import add_project_option
from tui_workbench.errors import UsageError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

PORT = 8347


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Options of `serve`."""
    parser.add_argument("folder", nargs="?", default="", metavar="PROJECT", help="the same as --project")
    add_project_option(parser)
    parser.add_argument(
        "--port",
        type=_port,
        default=PORT,
        metavar="N",
        help="where to listen; 0: any free port (default: %(default)s)",
    )


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until interrupted. Returns 0; raises UsageError when what it takes is not installed."""
    from tui_workbench.project import Project

    root = Project.find(arguments.folder or arguments.project).root
    try:
        from tui_workbench.ui.serving import serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the screens in a browser need a package that is not installed ({error.name})",
            remedy="Install it: pip install 'workbench-tui[serve]'",
        ) from error
    serve(root, arguments.port)
    return 0


def _port(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 0 to 65535")
    return int(text)
