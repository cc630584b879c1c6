"""`asset list|download`: promoted artifacts."""

from __future__ import annotations

import os

from tui_workbench.cli.history import folder_of
from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

COLUMNS = ("name", "version", "link")


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `asset list`."""
    add_output_options(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """The assets of the project whose content is here."""
    from tui_workbench.runs.promotion import assets

    project = Project.find(arguments.project)
    records = [
        {"name": asset.name, "version": str(asset.version), "link": os.path.relpath(asset.link, project.root)}
        for asset in assets(project)
    ]
    emit(records, arguments, COLUMNS)
    return 0


def configure_download(parser: argparse.ArgumentParser) -> None:
    """Options of `asset download`."""
    parser.add_argument("-l", "--link-file", metavar="FILE", required=True, help="as in assets/model.pkl.link")
    parser.add_argument("-d", "--directory", metavar="DIR", required=True, help="where to; it is made when missing")
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    add_output_options(parser)


def run_download(arguments: argparse.Namespace) -> int:
    """Copy the content of an asset, and print the paths."""
    from tui_workbench.runs.promotion import asset_of, download_asset

    project = Project.find(arguments.project)
    asset = asset_of(project, folder_of(arguments.link_file))
    emit(download_asset(asset, folder_of(arguments.directory), overwrite=arguments.overwrite), arguments)
    return 0
