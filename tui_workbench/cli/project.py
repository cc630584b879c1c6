"""`project create`, `project add`, `project restore` and `project sample list`."""

from __future__ import annotations

import sys

from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import UsageError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.templates import DEFAULT_TEMPLATE, add_folder, create_project, list_templates

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
    parser.epilog = """\
A folder or repository without aml_config/ gets a configuration for this machine and for Docker. What the ignore files
of a folder exclude is not taken, nor its runs and outputs.

examples:
  workbench-tui project create my-digits --template digits
  workbench-tui project create mine --template ../other-project
  workbench-tui project create mine --template-url https://example.org/project.git"""
    parser.add_argument(
        "--template", "--from", metavar="NAME|DIR|URL", default=DEFAULT_TEMPLATE,
        help="default: %(default)s; `project sample list` shows all",
    )  # fmt: skip
    parser.add_argument("-u", "--template-url", metavar="URL", default="", help="a git repository to start from")
    add_output_options(parser)


def run_create(arguments: argparse.Namespace) -> int:
    """Make a project folder."""
    from tui_workbench.urls import without_secrets

    name, template = arguments.name or arguments.name_option, arguments.template_url or arguments.template
    folder = create_project(name, arguments.path, template)
    emit({"name": name, "path": folder, "template": without_secrets(template)}, arguments)
    return 0


def configure_add(parser: argparse.ArgumentParser) -> None:
    """Options of `project add`."""
    parser.epilog = """\
A project of the original opens as it is and stays as it is. A folder without aml_config/ gets one, for this machine and
for Docker; nothing else in it is touched."""
    parser.add_argument("folder", metavar="DIR", help="the folder")
    add_output_options(parser)


def run_add(arguments: argparse.Namespace) -> int:
    """Make a project of a folder where it is."""
    from tui_workbench.project import Project

    added = add_folder(arguments.folder)
    project = Project(arguments.folder)
    record = {
        "name": project.name,
        "path": project.root,
        "added": list(added),
        "targets": [target.name for target in project.targets()],
        "run_configurations": [configuration.name for configuration in project.run_configurations()],
    }
    emit(record, arguments)
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
