"""`project create` and `project sample list`."""

from __future__ import annotations

from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.templates import DEFAULT_TEMPLATE, create_project, list_templates

if TYPE_CHECKING:
    import argparse


def configure_create(parser: argparse.ArgumentParser) -> None:
    """Options of `project create`."""
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="2 to 32 letters, digits and hyphens")
    parser.add_argument(
        "-n", "--name", dest="name_option", metavar="NAME", default="", help="the same, as the original had it"
    )
    parser.add_argument("--path", metavar="DIR", default=".", help="where the project folder is made (default: here)")
    parser.add_argument(
        "--template", default=DEFAULT_TEMPLATE, help="default: %(default)s; `project sample list` shows all"
    )
    add_output_options(parser)


def run_create(arguments: argparse.Namespace) -> int:
    """Make a project folder."""
    folder = create_project(arguments.name or arguments.name_option, arguments.path, arguments.template)
    emit({"name": arguments.name or arguments.name_option, "path": folder, "template": arguments.template}, arguments)
    return 0


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `project sample list`."""
    add_output_options(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Every template."""
    emit([template._asdict() for template in list_templates()], arguments)
    return 0
