"""`history download|promote|export|import`: what runs made, and runs themselves, on their way in and out."""

from __future__ import annotations

import os
import sys

from tui_workbench.cli.history import add_run_option, folder_of
from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse

EXPORT_FORMATS = ("mlflow", "csv")


def configure_download(parser: argparse.ArgumentParser) -> None:
    """Options of `history download`."""
    add_run_option(parser)
    parser.add_argument("-d", "--directory", metavar="DIR", required=True, help="where to; it is made when missing")
    parser.add_argument(
        "-a", "--artifact", metavar="NAME", action="append", default=[], help="only this one, file or folder"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    add_output_options(parser)


def run_download(arguments: argparse.Namespace) -> int:
    """Copy artifacts of a run, and print the paths."""
    from tui_workbench.runs.downloads import download

    directory = Runs(Project.find(arguments.project)).directory(arguments.run).path
    destination = folder_of(arguments.directory)
    emit(download(directory, destination, arguments.artifact, overwrite=arguments.overwrite), arguments)
    return 0


def configure_promote(parser: argparse.ArgumentParser) -> None:
    """Options of `history promote`."""
    add_run_option(parser)
    parser.add_argument(
        "-ap", "--artifact-path", metavar="PATH", required=True, help="file or folder, as in outputs/model.pkl"
    )
    parser.add_argument("-n", "--name", metavar="NAME", default="", help="of the asset (default: that of the file)")
    add_output_options(parser)


def run_promote(arguments: argparse.Namespace) -> int:
    """Make an artifact a version of an asset."""
    from tui_workbench.runs.promotion import promote

    project = Project.find(arguments.project)
    directory = Runs(project).directory(arguments.run).path
    asset = promote(project, directory, arguments.artifact_path, arguments.name)
    link = os.path.relpath(asset.link, project.root)
    emit({"name": asset.name, "version": str(asset.version), "link": link}, arguments)
    return 0


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Options of `history export`."""
    parser.add_argument("destination", metavar="PATH", help="the folder (mlflow) or the file (csv) to write")
    parser.add_argument("--format", choices=EXPORT_FORMATS, required=True, help="MLflow's file store, or one table")
    parser.add_argument(
        "-r", "--run", metavar="ID", action="append", default=[], help="only this run (default: all that have ended)"
    )
    parser.add_argument("--all", action="store_true", help="archived runs too")
    add_output_options(parser)


def run_export(arguments: argparse.Namespace) -> int:
    """Write runs in a form that other programs read."""
    from tui_workbench.runs.exchange import export_csv, export_mlflow

    runs = Runs(Project.find(arguments.project))
    chosen = runs.exportable(arguments.run, hidden=arguments.all)
    destination = folder_of(arguments.destination)
    if arguments.format == "csv":
        export_csv(chosen, destination)
        emit({"runs": len(chosen), "path": destination}, arguments)
        return 0
    report = export_mlflow(runs.project.name, chosen, destination)
    emit({"runs": len(chosen), "path": destination, "renamed": report.renamed, "cut": report.cut}, arguments)
    return 0


def configure_import(parser: argparse.ArgumentParser) -> None:
    """Options of `history import`."""
    parser.add_argument("source", metavar="MLRUNS_DIR", help="a folder in the form of MLflow's file store")
    add_output_options(parser)


def run_import(arguments: argparse.Namespace) -> int:
    """Make the runs of an MLflow folder runs of this project."""
    from tui_workbench.runs.importing import import_mlflow

    report = import_mlflow(Project.find(arguments.project), folder_of(arguments.source))
    emit({"imported": report.imported, "known": report.known, "skipped": report.skipped}, arguments)
    for note in (*report.notes, *report.elsewhere):
        _tell(note)
    return 1 if report.notes and not report.imported and not report.known else 0


def _tell(note: str) -> None:
    from tui_workbench.cli.terminal import visible

    sys.stderr.write(f"{visible(note)}\n")
