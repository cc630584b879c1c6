"""Promote artifacts to assets of the project. An asset has versions, a link file in `assets/`, and content.

Link files have the format of Azure ML Workbench, and can be committed. The content is in
`.workbench/assets/<name>/<version>/`. It is written atomically and never changed. Version numbers are never reused,
even if a link file was removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.core.errors import StorageError, UsageError, storage_errors
from tui_workbench.core.files import (
    make_folders,
    open_below,
    read_regular,
    remove_below,
    rename_below,
    write_atomically,
    write_below,
)
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.locks import held
from tui_workbench.projects.project import Project
from tui_workbench.runs.transfer.downloads import artifact_path, copy_file, copy_files, files_below, is_folder

LINKS = "assets"
LINK_SUFFIX = ".link"
STORE = "assets"
CONTENT = "content"
ABOUT = "asset.json"
SOURCE = "azureml"  # the format requires this value, which has no other use

LONGEST_NAME = 200


class Asset(NamedTuple):
    """A version of an asset, with the paths of its link file and of its content, a file or folder."""

    name: str
    version: int
    link: str
    content: str


def promote(project: Project, directory: str, artifact: str, name: str = "") -> Asset:
    """Store a file or folder of the run at `directory` as the next version of an asset.

    The default `name` is the name of the artifact. Raises UsageError for unknown artifacts and invalid names, and
    StorageError if the asset cannot be written.
    """
    artifact = os.path.normpath(artifact)
    name = name or os.path.basename(artifact)
    if not name or name.startswith(".") or "/" in name or not name.isprintable() or len(name) > LONGEST_NAME:
        raise UsageError(
            f"invalid asset name {name!r}",
            remedy=f"Use 1 to {LONGEST_NAME} printable characters without `/`, and do not begin with a period.",
        )
    whole_folder = is_folder(directory, artifact)
    paths = files_below(directory, artifact) if whole_folder else [artifact]
    parent = os.path.dirname(artifact)
    sources = {os.path.relpath(path, parent or os.curdir): artifact_path(directory, path) for path in paths}
    store = os.path.join(project.state_directory, STORE, name)
    link = os.path.join(project.root, LINKS, name + LINK_SUFFIX)
    with _locked(project.state_directory, name):
        # Count the folders too: the link file may have been removed, or be that of an older commit.
        version = max((_read_link(link) or ("", 0))[1], *map(int, filter(str.isdecimal, os.listdir(store))), 0) + 1
        version_folder = os.path.join(store, str(version))
        building = os.path.join(store, f".new-{version}")
        remove_below(store, f".new-{version}")
        try:
            with storage_errors("store", version_folder):
                os.makedirs(os.path.join(building, CONTENT, os.path.basename(artifact) if whole_folder else ""))
                for path, source in sources.items():
                    copy_file(source, os.path.join(building, CONTENT, path))
                about = {"name": name, "version": version, "run_id": os.path.basename(directory), "path": artifact,
                         "promoted": round(time.time(), 3)}  # fmt: skip
                write_below(building, ABOUT, json.dumps(about, indent=1).encode())
                rename_below(store, f".new-{version}", str(version))
        finally:
            remove_below(store, f".new-{version}")
        _write_link(link, name, version)
    return Asset(name, version, link, os.path.join(version_folder, CONTENT, os.path.basename(artifact)))


def asset_of(project: Project, link: str) -> Asset:
    """Return the asset of a link file. Raises UsageError if the file or the content is missing or invalid."""
    if not os.path.lexists(link):
        raise UsageError(
            f"link file not found: {link}",
            remedy="Choose another file. `workbench-tui asset list` lists the assets of the project with their link "
            "files.",
        )
    if (name_and_version := _read_link(link)) is None:
        raise UsageError(
            f"{link} is not a link file",
            remedy='Choose a file with the format {"assetSource": ..., "name": ..., "version": ...}. '
            "`workbench-tui asset list` lists the assets of the project with their link files.",
        )
    name, version = name_and_version
    folder = os.path.join(project.state_directory, STORE, name, str(version), CONTENT)
    try:
        (content,) = os.listdir(folder)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the content of version {version} of the asset {name!r} is not in this project",
            remedy="The asset was promoted in another copy of the project, or by Azure ML, which kept it in the cloud. "
            "Promote it again from a run that has the file: `workbench-tui history promote -r ID -ap PATH`.",
        ) from error
    return Asset(name, version, link, os.path.join(folder, content))


def download_asset(asset: Asset, destination: str, *, overwrite: bool = False) -> list[str]:
    """Copy the content of an asset to a folder, and return the written paths.

    Raises StorageError, and UsageError if a file exists and `overwrite` is not set.
    """
    parent, base = os.path.split(asset.content)
    names = sorted(files_below(parent, base)) if os.path.isdir(asset.content) else [base]
    return copy_files({name: os.path.join(parent, name) for name in names}, destination, overwrite=overwrite)


def assets(project: Project) -> list[Asset]:
    """Return the assets with a link file in the project and existing content, sorted by name."""
    complete = []
    folder = os.path.join(project.root, LINKS)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith(LINK_SUFFIX):
            with contextlib.suppress(UsageError):
                complete.append(asset_of(project, os.path.join(folder, name)))
    return complete


@contextlib.contextmanager
def _locked(state_directory: str, name: str) -> Iterator[None]:
    """Create the folder of an asset, and lock it. Raises StorageError."""
    store = f"{STORE}/{name}"
    with storage_errors("write", os.path.join(state_directory, store, "lock")):
        make_folders(state_directory, store)
        descriptor = open_below(state_directory, f"{store}/lock", os.O_RDWR | os.O_CREAT)
    with held(descriptor):
        yield


def _read_link(link: str) -> tuple[str, int] | None:
    """Return name and version in a link file, or None if it is invalid."""
    try:
        stored = parse_json(read_regular(link).decode("utf-8-sig"))
        name, version = str(stored["name"]), int(stored["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Another user may have written the file, so the name must not contain a path.
    return None if "/" in name or name.startswith(".") or version < 1 else (name, version)


def _write_link(link: str, name: str, version: int) -> None:
    folder = os.path.dirname(link)
    with storage_errors("write", link):
        make_folders(os.path.realpath(os.path.dirname(folder)), os.path.basename(folder), 0o777)
        if os.path.islink(link):
            raise StorageError("cannot write: the link file is a symbolic link", remedy="Remove the link.", file=link)
    text = json.dumps({"assetSource": SOURCE, "name": name, "version": str(version)})
    write_atomically(link, text.encode() + b"\n")
