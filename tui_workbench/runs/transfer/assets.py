"""Promoted artifacts: versioned assets of the project, each a link file in `assets/` and a content of its own.

The link file is what the original wrote, so it can be committed and old ones are understood. The content lies in
`.workbench/assets/<name>/<version>/`, is written once, whole, and never changed; a version number is never given twice,
also when its link is gone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.core.errors import UsageError, storage_errors
from tui_workbench.core.files import (
    make_folders,
    open_below,
    read_regular,
    remove_below,
    rename_below,
    write_atomically,
    write_below,
)
from tui_workbench.core.locks import held
from tui_workbench.projects.project import Project
from tui_workbench.runs.transfer.downloads import artifact_path, copy_file, copy_files, files_below, is_folder

LINKS = "assets"
LINK_SUFFIX = ".link"
STORE = "assets"
CONTENT = "content"
ABOUT = "asset.json"
SOURCE = "azureml"
"""What the original wrote; nobody else reads it."""

LONGEST_NAME = 200


class Asset(NamedTuple):
    """One version of an asset. `link` is the link file; `content` the file or folder that holds it."""

    name: str
    version: int
    link: str
    content: str


def promote(project: Project, directory: str, artifact: str, name: str = "") -> Asset:
    """Make an artifact of the run at `directory`, a file or a folder that it made, the next version of an asset.

    Without a `name` it has the artifact's own. Raises UsageError for an artifact or name that is none, StorageError
    when it cannot be written.
    """
    artifact = os.path.normpath(artifact)
    name = name or os.path.basename(artifact)
    if not name or name.startswith(".") or "/" in name or not name.isprintable() or len(name) > LONGEST_NAME:
        raise UsageError(f"{name!r} is no name for an asset", remedy="Take one like that of a file.")
    whole_folder = is_folder(directory, artifact)
    paths = files_below(directory, artifact) if whole_folder else [artifact]
    parent = os.path.dirname(artifact)
    sources = {os.path.relpath(path, parent or os.curdir): artifact_path(directory, path) for path in paths}
    store = os.path.join(project.state_directory, STORE, name)
    link = os.path.join(project.root, LINKS, name + LINK_SUFFIX)
    with _alone(project.state_directory, name):
        version = max((_read_link(link) or ("", 0))[1], *map(int, filter(str.isdecimal, os.listdir(store))), 0) + 1
        place = os.path.join(store, str(version))
        building = os.path.join(store, f".new-{version}")
        remove_below(store, f".new-{version}")
        try:
            with storage_errors("keep", place):
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
    return Asset(name, version, link, os.path.join(place, CONTENT, os.path.basename(artifact)))


def asset_of(project: Project, link: str) -> Asset:
    """The asset that a link file names. Raises UsageError when it is no such file or its content is not here."""
    if not os.path.lexists(link):
        raise UsageError(
            f"there is no file {link}", remedy="Name a link file; `asset list` shows those of the project."
        )
    if (found := _read_link(link)) is None:
        raise UsageError(
            f"{link} is no link file of an asset", remedy='It holds {"assetSource": ..., "name": ..., "version": ...}.'
        )
    name, version = found
    folder = os.path.join(project.state_directory, STORE, name, str(version), CONTENT)
    try:
        (content,) = os.listdir(folder)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the content of version {version} of the asset {name!r} is not in this project",
            remedy="It was promoted elsewhere (the original kept it in the cloud); promote it from a run that has it.",
        ) from error
    return Asset(name, version, link, os.path.join(folder, content))


def download_asset(asset: Asset, destination: str, *, overwrite: bool = False) -> list[str]:
    """Copy an asset's content into a folder; the paths that were written.

    Raises UsageError when something is there already and `overwrite` is not set, and StorageError.
    """
    parent, base = os.path.split(asset.content)
    names = sorted(files_below(parent, base)) if os.path.isdir(asset.content) else [base]
    return copy_files({name: os.path.join(parent, name) for name in names}, destination, overwrite=overwrite)


def assets(project: Project) -> list[Asset]:
    """The assets that have a link file in the project, by name; those whose content is here."""
    found = []
    folder = os.path.join(project.root, LINKS)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith(LINK_SUFFIX):
            with contextlib.suppress(UsageError):
                found.append(asset_of(project, os.path.join(folder, name)))
    return found


@contextlib.contextmanager
def _alone(state_directory: str, name: str) -> Iterator[None]:
    """Make the folder of an asset, and let nobody else give versions of it meanwhile."""
    store = f"{STORE}/{name}"
    with storage_errors("write", os.path.join(state_directory, store, "lock")):
        make_folders(state_directory, store)
        descriptor = open_below(state_directory, f"{store}/lock", os.O_RDWR | os.O_CREAT)
    with held(descriptor):
        yield


def _read_link(link: str) -> tuple[str, int] | None:
    """Name and version that a link file holds; None when it is none."""
    try:
        stored = json.loads(read_regular(link).decode("utf-8-sig"))
        name, version = str(stored["name"]), int(stored["version"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # It comes with a project that somebody else made: its name must not lead anywhere else.
    return None if "/" in name or name.startswith(".") or version < 1 else (name, version)


def _write_link(link: str, name: str, version: int) -> None:
    folder = os.path.dirname(link)
    with storage_errors("write", link):
        make_folders(os.path.realpath(os.path.dirname(folder)), os.path.basename(folder), 0o777)
        if os.path.islink(link):
            raise OSError(errno.ELOOP, "it is a link, which is not followed")
    text = json.dumps({"assetSource": SOURCE, "name": name, "version": str(version)})
    write_atomically(link, text.encode() + b"\n")
