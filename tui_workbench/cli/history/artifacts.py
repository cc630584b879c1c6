"""`history download|promote|export|import`: what runs made, and runs themselves, on their way in and out."""

from __future__ import annotations

import argparse
import os
import sys

from tui_workbench.cli.history.history import folder_of
from tui_workbench.cli.shared.output import emit, output
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.plaintext import visible
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.runs.transfer.assets import promote
from tui_workbench.runs.transfer.downloads import download
from tui_workbench.runs.transfer.into_project import bring_home
from tui_workbench.runs.transfer.mlflow_export import export_csv, export_mlflow
from tui_workbench.runs.transfer.mlflow_import import import_mlflow

EXPORT_FORMATS = ("mlflow", "csv")

configure_download = options(
    RUN,
    option("-d", "--directory", metavar="DIR", default="", help="where to; it is made when missing"),
    option(
        "--into-project", action="store_true", help="to their places in the project; default: files outside outputs/"
    ),
    option("-a", "--artifact", metavar="NAME", action="append", default=[], help="only this one, file or folder"),
    option("--overwrite", action="store_true", help="replace files that are there already"),
    output(),
    usage="%(prog)s -r ID (-d DIR | --into-project) [-a NAME]... [--overwrite]",
)
configure_promote = options(
    RUN,
    option("-ap", "--artifact-path", metavar="PATH", required=True, help="file or folder, as in outputs/model.pkl"),
    option("-n", "--name", metavar="NAME", default="", help="of the asset (default: that of the file)"),
    output(),
)
configure_export = options(
    option("destination", metavar="PATH", help="the folder (mlflow) or the file (csv) to write"),
    option("--format", choices=EXPORT_FORMATS, required=True, help="MLflow's file store, or one table"),
    option(
        "-r", "--run", metavar="ID", action="append", default=[], help="only this run (default: all that have ended)"
    ),
    option("--all", action="store_true", help="archived runs too"),
    output(),
)
configure_import = options(
    option("source", metavar="MLRUNS_DIR", help="a folder in the form of MLflow's file store"), output()
)


def run_download(arguments: argparse.Namespace) -> int:
    """Copy artifacts of a run, and print the paths."""
    if bool(arguments.directory) == arguments.into_project:
        raise UsageError("one of --directory and --into-project says where to", remedy="Give one of them.")
    project = Project.find(arguments.project)
    directory = History(project).directory(arguments.run).path
    if arguments.into_project:
        brought = bring_home(
            directory, project.root, project.state_directory, arguments.artifact, overwrite=arguments.overwrite
        )
        emit([os.path.join(project.root, path) for path in brought.copied], arguments)
        _tell(brought.text)
        return 1 if brought.refused else 0
    destination = folder_of(arguments.directory)
    return emit(download(directory, destination, arguments.artifact, overwrite=arguments.overwrite), arguments)


def run_promote(arguments: argparse.Namespace) -> int:
    """Make an artifact a version of an asset."""
    project = Project.find(arguments.project)
    directory = History(project).directory(arguments.run).path
    asset = promote(project, directory, arguments.artifact_path, arguments.name)
    link = os.path.relpath(asset.link, project.root)
    return emit({"name": asset.name, "version": str(asset.version), "link": link}, arguments)


def run_export(arguments: argparse.Namespace) -> int:
    """Write runs in a form that other programs read."""
    runs = History(Project.find(arguments.project))
    chosen = runs.exportable(arguments.run, hidden=arguments.all)
    destination = folder_of(arguments.destination)
    if arguments.format == "csv":
        export_csv(chosen, destination)
        return emit({"runs": len(chosen), "path": destination}, arguments)
    report = export_mlflow(runs.project.name, chosen, destination)
    return emit({"runs": len(chosen), "path": destination, "renamed": report.renamed, "cut": report.cut}, arguments)


def run_import(arguments: argparse.Namespace) -> int:
    """Make the runs of an MLflow folder runs of this project."""
    report = import_mlflow(Project.find(arguments.project), folder_of(arguments.source))
    emit({"imported": report.imported, "known": report.known, "skipped": report.skipped}, arguments)
    for note in (*report.notes, *report.elsewhere):
        _tell(note)
    return 1 if report.notes and not report.imported and not report.known else 0


def _tell(note: str) -> None:
    sys.stderr.write(f"{visible(note)}\n")
