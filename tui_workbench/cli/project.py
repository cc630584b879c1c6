"""`project ...`: create, clone and list projects, and restore the files of a run."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

from tui_workbench.cli.shared.output import emit, output, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.masking import mask_text
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.cloning import clone_project
from tui_workbench.projects.project import Project
from tui_workbench.projects.templates import DEFAULT_TEMPLATE, add_folder, create_project, list_templates
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.session_state import recent_projects

configure_create = options(
    option("name", metavar="NAME", nargs="?", default="", help="2 to 32 letters, digits and hyphens"),
    option("-n", "--name", dest="name_option", metavar="NAME", default="", help="the same as NAME"),
    option("--path", metavar="DIR", default=".", help="the parent of the new folder (default: the current folder)"),
    option("--template", "--from", metavar="NAME|DIR|URL", default=DEFAULT_TEMPLATE,
           help="a template, folder or repository (default: %(default)s)"),
    option("-u", "--template-url", metavar="URL", default="", help="a git repository to copy"),
    output(),
    epilog="""\
A folder or repository without aml_config/ gets a configuration for this
machine and for Docker. Runs, outputs/ and, if git is installed, files that git
ignores are not copied from a folder.

examples:
  workbench-tui project create my-digits --template digits
  workbench-tui project create mine --template ../other-project
  workbench-tui project create mine --template-url https://example.org/project.git""",
)  # fmt: skip
configure_clone = options(
    option("url", metavar="URL", help="the repository"),
    option("folder", metavar="DIR", nargs="?", default="",
           help="the new folder (default: the name of the repository, in the current folder)"),
    output(),
    epilog="""\
URL begins with https://, http://, ssh://, git:// or file:///, or has the form
USER@HOST:PATH. Git asks for no password here: use SSH or a credential helper
of git for private repositories. Submodules are not cloned. Nothing in the
repository is executed.

`workbench-tui project add DIR` turns a repository without aml_config/ into a
project.

examples:
  workbench-tui project clone https://example.org/project.git
  workbench-tui project clone git@example.org:team/project.git mine""",
)  # fmt: skip
configure_add = options(
    option("folder", metavar="DIR", help="the folder to turn into a project"),
    output(),
    epilog="""\
Adds aml_config/ with a configuration for this machine and for Docker, unless
the folder has one already. No other file is changed. Projects of Azure ML
Workbench need no changes.""",
)
configure_restore = options(
    option("-r", "--run-id", dest="run", metavar="ID", default="", help="the ID or number of the run"),
    option("--undo", action="store_true", help="undo the last restore"),
    option("--dry-run", action="store_true", help="print the changes without making them"),
    output(default="", note="output format; without -o, the output is text"),
    epilog="""\
The current files, including uncommitted changes, are saved first; --undo
restores them. Ignored files and outputs/ are not changed.

examples:
  workbench-tui project restore --run-id 7 --dry-run
  workbench-tui project restore --run-id 7
  workbench-tui project restore --undo""",
)
configure_list = options(output())
configure_recent = options(
    output(),
    epilog="""\
Lists the projects whose screens were used last, at most 40, the most recent
first. Projects whose folders are gone are included.""",
)


def run_create(arguments: argparse.Namespace) -> int:
    name, template = arguments.name or arguments.name_option, arguments.template_url or arguments.template
    with _cleaning_up():
        folder = create_project(name, arguments.path, template)
    return emit({"name": name, "path": folder, "template": mask_text(template)}, arguments)


def run_clone(arguments: argparse.Namespace) -> int:
    with _cleaning_up():
        project = Project(clone_project(arguments.url, arguments.folder))
    is_project = os.path.isdir(project.config_directory)
    return emit({"name": project.name, "path": project.root, "url": arguments.url, "is_project": is_project}, arguments)


@contextlib.contextmanager
def _cleaning_up() -> Iterator[None]:
    """Raise SystemExit at SIGHUP and SIGTERM, so that git is killed and the unfinished folder is removed."""
    # With `nohup`, SIGHUP is ignored.
    signals = [number for number in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(number) == signal.SIG_DFL]

    def handle_all(action: signal.Handlers | Callable[[int, object], None]) -> None:
        for number in signals:
            signal.signal(number, action)

    def end(number: int, _frame: object) -> None:
        handle_all(signal.SIG_IGN)  # another signal must not interrupt the removal
        raise SystemExit(128 + number)

    handle_all(end)
    try:
        yield
    finally:
        handle_all(signal.SIG_DFL)


def run_add(arguments: argparse.Namespace) -> int:
    added = add_folder(arguments.folder)
    project = Project(arguments.folder)
    record = {
        "name": project.name,
        "path": project.root,
        "added": list(added),
        "targets": [target.name for target in project.targets()],
        "run_configurations": [configuration.name for configuration in project.run_configurations()],
    }
    return emit(record, arguments)


def run_restore(arguments: argparse.Namespace) -> int:
    if bool(arguments.run) == arguments.undo:
        raise UsageError(
            "expected either --run-id or --undo",
            remedy="Use `--run-id ID` to restore a snapshot (`workbench-tui history list` lists the runs), or `--undo` "
            "to undo the last restore.",
        )
    runs = Runs(Project.find(arguments.project))
    if arguments.undo:
        restoration = runs.undo_restore(dry_run=arguments.dry_run)
    else:
        restoration = runs.restore(arguments.run, dry_run=arguments.dry_run)
    if arguments.output or arguments.query:
        changes = [change._asdict() for change in restoration.changes]
        return emit(
            {"restored": restoration.restored, "saved": restoration.saved or None, "changes": changes}, arguments
        )
    for kind, path in restoration.changes:
        note = "  (ignored, or not part of the project: not changed)" if kind == "left" else ""
        write_lines([f"{kind:8}{path}{note}"])
    changed = sum(kind != "left" for kind, _ in restoration.changes)
    if not restoration.changes:
        write_lines([f"The project is identical to {restoration.restored}."])
    elif not changed:
        write_lines(["No file would change." if arguments.dry_run else "No file was changed."])
    elif arguments.dry_run:
        write_lines([f"{counted(changed, 'file')} would change."])
    else:
        write_lines([f"{counted(changed, 'file')} changed. Undo: workbench-tui project restore --undo"])
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    return emit([template._asdict() for template in list_templates()], arguments)


def run_recent(arguments: argparse.Namespace) -> int:
    records = [
        {
            "name": os.path.basename(root),
            "path": root,
            "used": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(used)),
        }
        for root, used in recent_projects()
    ]
    return emit(records, arguments)
