"""`project create`, `project restore` and `project sample list`."""

from __future__ import annotations

import sys

from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import UsageError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.templates import DEFAULT_TEMPLATE, create_project, list_templates

if TYPE_CHECKING:
    import argparse

    from tui_workbench.runs.restore import Restoration


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


def configure_restore(parser: argparse.ArgumentParser) -> None:
    """Options of `project restore`."""
    parser.epilog = """\
What is there is saved first, with all that was not committed anywhere; --undo brings it back. What the ignore files
exclude, and outputs/, stay as they are.

examples:
  workbench-tui project restore --run-id 7 --dry-run
  workbench-tui project restore --run-id 7
  workbench-tui project restore --undo"""
    parser.add_argument("-r", "--run-id", dest="run", metavar="ID", default="", help="the run id, or the run's number")
    parser.add_argument("--undo", action="store_true", help="bring back what was there before the last restore")
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    add_output_options(parser, default="", note="default: text")


def run_restore(arguments: argparse.Namespace) -> int:
    """Restore a run's snapshot, or undo that."""
    from tui_workbench.project import Project
    from tui_workbench.runs import Runs

    if bool(arguments.run) == arguments.undo:
        raise UsageError("one of --run-id and --undo says what to restore", remedy="Name a run, or --undo.")
    runs = Runs(Project.find(arguments.project))
    if arguments.undo:
        restoration = runs.undo_restoration() if arguments.dry_run else runs.undo_restore()
    else:
        restoration = runs.restoration(arguments.run) if arguments.dry_run else runs.restore(arguments.run)
    if arguments.output or arguments.query:
        changes = [change._asdict() for change in restoration.changes]
        emit({"restored": restoration.what, "saved": restoration.saved or None, "changes": changes}, arguments)
    else:
        _print_restoration(restoration, is_dry=arguments.dry_run)
    return 0


def _print_restoration(restoration: Restoration, *, is_dry: bool) -> None:
    for kind, path in restoration.changes:
        note = "  (it is excluded, or none of the project's: not touched)" if kind == "left" else ""
        sys.stdout.write(f"{kind:8}{visible(path)}{note}\n")
    changed = sum(kind != "left" for kind, _ in restoration.changes)
    if not changed:
        sys.stdout.write(f"Nothing differs from {restoration.what}.\n")
    elif is_dry:
        sys.stdout.write(f"{changed} files would change.\n")
    else:
        sys.stdout.write(f"{changed} files changed. What was there: workbench-tui project restore --undo\n")


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `project sample list`."""
    add_output_options(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Every template."""
    emit([template._asdict() for template in list_templates()], arguments)
    return 0
