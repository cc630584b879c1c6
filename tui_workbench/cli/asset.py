"""`asset list|download`: list and download assets, the artifacts that `history promote` saved."""

from __future__ import annotations

import argparse
import os

from tui_workbench.cli.history.history import folder_of
from tui_workbench.cli.shared.output import emit, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.projects.project import Project
from tui_workbench.runs.transfer.assets import asset_of, assets, download_asset

COLUMNS = ("name", "version", "link")

configure_list = options(output())
configure_download = options(
    option(
        "-l",
        "--link-file",
        metavar="FILE",
        required=True,
        help="the link file of the asset, such as assets/model.pkl.link",
    ),
    option("-d", "--directory", metavar="DIR", required=True, help="destination folder; created if missing"),
    option("--overwrite", action="store_true", help="replace existing files"),
    output(),
)


def run_list(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    records = [
        {"name": asset.name, "version": str(asset.version), "link": os.path.relpath(asset.link, project.root)}
        for asset in assets(project)
    ]
    return emit(records, arguments, COLUMNS)


def run_download(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    asset = asset_of(project, folder_of(arguments.link_file))
    return emit(download_asset(asset, folder_of(arguments.directory), overwrite=arguments.overwrite), arguments)
