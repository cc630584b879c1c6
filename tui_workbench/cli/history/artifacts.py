"""`history download|promote|export|import`: copy the artifacts and the history of runs."""

from __future__ import annotations

import argparse
import os

from tui_workbench.cli.history.history import folder_of
from tui_workbench.cli.shared.output import emit, notify, output
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.runs.transfer.assets import promote
from tui_workbench.runs.transfer.downloads import download
from tui_workbench.runs.transfer.into_project import copy_artifacts
from tui_workbench.runs.transfer.mlflow_export import export_csv, export_mlflow
from tui_workbench.runs.transfer.mlflow_import import import_mlflow

EXPORT_FORMATS = ("mlflow", "csv")

configure_download = options(
    RUN,
    option("-d", "--directory", metavar="DIR", default="", help="destination folder; created if missing"),
    option("--into-project", action="store_true",
           help="copy to the same paths in the project; without -a, copy only files outside outputs/"),
    option("-a", "--artifact", metavar="NAME", action="append", default=[],
           help="copy only this file or folder; repeatable"),
    option("--overwrite", action="store_true", help="replace existing files"),
    output(),
    usage="%(prog)s -r ID (-d DIR | --into-project) [-a NAME]... [--overwrite]",
)  # fmt: skip
configure_promote = options(
    RUN,
    option("-ap", "--artifact-path", metavar="PATH", required=True, help="file or folder, such as outputs/model.pkl"),
    option(
        "-n", "--name", metavar="NAME", default="", help="the name of the asset (default: that of the file or folder)"
    ),
    output(),
)
configure_export = options(
    option("destination", metavar="PATH", help="the folder (mlflow) or the file (csv) to write"),
    option("--format", choices=EXPORT_FORMATS, required=True, help="an MLflow file store or a table"),
    option(
        "-r",
        "--run",
        metavar="ID",
        action="append",
        default=[],
        help="only this run; repeatable (default: all ended runs)",
    ),
    option("--all", action="store_true", help="include archived runs"),
    option(
        "--all-attempts",
        action="store_true",
        help="include the points of an attempt that a later attempt has logged again (mlflow)",
    ),
    output(),
)
configure_import = options(option("source", metavar="MLRUNS_DIR", help="the folder of an MLflow file store"), output())


def run_download(arguments: argparse.Namespace) -> int:
    if bool(arguments.directory) == arguments.into_project:
        raise UsageError(
            "expected either --directory or --into-project", remedy="Use one, for example `--directory results`."
        )
    project = Project.find(arguments.project)
    directory = History(project).directory(arguments.run).path
    if arguments.into_project:
        brought = copy_artifacts(
            directory, project.root, project.state_directory, arguments.artifact, overwrite=arguments.overwrite
        )
        emit([os.path.join(project.root, path) for path in brought.copied], arguments)
        notify(brought.text)
        return 1 if brought.refused else 0
    destination = folder_of(arguments.directory)
    return emit(download(directory, destination, arguments.artifact, overwrite=arguments.overwrite), arguments)


def run_promote(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    directory = History(project).directory(arguments.run).path
    asset = promote(project, directory, arguments.artifact_path, arguments.name)
    link = os.path.relpath(asset.link, project.root)
    return emit({"name": asset.name, "version": str(asset.version), "link": link}, arguments)


def run_export(arguments: argparse.Namespace) -> int:
    runs = History(Project.find(arguments.project))
    chosen = runs.exportable(arguments.run, hidden=arguments.all)
    destination = folder_of(arguments.destination)
    if arguments.format == "csv":
        export_csv(chosen, destination)
        return emit({"runs": len(chosen), "path": destination}, arguments)
    report = export_mlflow(runs.project.name, chosen, destination, all_attempts=arguments.all_attempts)
    return emit({"runs": len(chosen), "path": destination, **report._asdict()}, arguments)


def run_import(arguments: argparse.Namespace) -> int:
    report = import_mlflow(Project.find(arguments.project), folder_of(arguments.source))
    emit({"imported": report.imported, "known": report.known, "skipped": report.skipped}, arguments)
    notify(*report.notes, *report.elsewhere)
    return 1 if report.notes and not report.imported and not report.known else 0
