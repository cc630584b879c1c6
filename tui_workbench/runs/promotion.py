"""Promoted artifacts: versioned assets of the project, each a link file in `assets/` and a content of its own.

The link file is what the original wrote, so it can be committed and old ones are understood. The content lies in
`.workbench/assets/<name>/<version>/`, is written once, whole, and never changed; a version number is never given twice,
also when its link is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time

from tui_workbench.errors import StorageError, UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.downloads import artifact_path, copy_file, files_below
from tui_workbench.runs.rundir import OUTPUTS, storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tui_workbench.project import Project

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
    """Make an artifact of the run at `directory`, a file or a folder of its outputs, the next version of an asset.

    Without a `name` it has the artifact's own. Raises UsageError for an artifact or name that is none, StorageError
    when it cannot be written.
    """
    artifact = os.path.normpath(artifact)
    name = _checked(name or os.path.basename(artifact))
    is_folder = _is_folder(directory, artifact)
    if not is_folder:
        artifact_path(directory, artifact)
    store = os.path.join(project.state_directory, STORE, name)
    link = os.path.join(project.root, LINKS, name + LINK_SUFFIX)
    with _alone(store):
        version = max([_linked_version(link), *_versions(store)], default=0) + 1
        place = os.path.join(store, str(version))
        building = os.path.join(store, f".new-{version}")
        shutil.rmtree(building, ignore_errors=True)
        try:
            _copy(directory, artifact, os.path.join(building, CONTENT), is_folder=is_folder)
            about = {"name": name, "version": version, "run_id": os.path.basename(directory), "path": artifact,
                     "promoted": round(time.time(), 3)}  # fmt: skip
            with open(os.path.join(building, ABOUT), "w", encoding="utf-8") as file:
                json.dump(about, file, indent=1)
            os.rename(building, place)
        except OSError as error:
            shutil.rmtree(building, ignore_errors=True)
            raise storage_error("keep", place, error) from error
        except StorageError:
            shutil.rmtree(building, ignore_errors=True)
            raise
        _write_link(link, name, version)
    return Asset(name, version, link, os.path.join(place, CONTENT, os.path.basename(artifact)))


def asset_of(project: Project, link: str) -> Asset:
    """The asset that a link file names. Raises UsageError when it is no such file or its content is not here."""
    found = _read_link(link)
    if found is None:
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
    targets = [os.path.join(destination, name) for name in names]
    if not overwrite:
        for path in targets:
            if os.path.lexists(path):
                raise UsageError(f"{path} is there already", remedy="Give --overwrite to replace it.")
    for name, path in zip(names, targets, strict=True):
        copy_file(os.path.join(parent, name), path)
    return targets


def assets(project: Project) -> list[Asset]:
    """The assets that have a link file in the project, by name; those whose content is here."""
    found = []
    try:
        names = sorted(name for name in os.listdir(os.path.join(project.root, LINKS)) if name.endswith(LINK_SUFFIX))
    except OSError:
        return []
    for name in names:
        with contextlib.suppress(UsageError):
            found.append(asset_of(project, os.path.join(project.root, LINKS, name)))
    return found


def _checked(name: str) -> str:
    if not name or name.startswith(".") or "/" in name or not name.isprintable() or len(name) > LONGEST_NAME:
        raise UsageError(f"{name!r} is no name for an asset", remedy="Take one like that of a file.")
    return name


def _is_folder(directory: str, artifact: str) -> bool:
    path = os.path.join(directory, artifact)
    inside = artifact.split(os.sep)[0] == OUTPUTS and os.path.realpath(path) == os.path.join(
        os.path.realpath(directory), artifact
    )
    return inside and os.path.isdir(path)


def _copy(directory: str, artifact: str, content: str, *, is_folder: bool) -> None:
    base = os.path.basename(artifact)
    os.makedirs(content)
    if not is_folder:
        copy_file(artifact_path(directory, artifact), os.path.join(content, base))
        return
    os.mkdir(os.path.join(content, base))
    for path in files_below(directory, artifact):
        copy_file(os.path.join(directory, path), os.path.join(content, base, os.path.relpath(path, artifact)))


@contextlib.contextmanager
def _alone(store: str) -> Iterator[None]:
    """Let nobody else give versions of this asset meanwhile."""
    path = os.path.join(store, "lock")
    try:
        os.makedirs(store, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise storage_error("write", path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _versions(store: str) -> list[int]:
    return [int(name) for name in os.listdir(store) if name.isdecimal()]


def _linked_version(link: str) -> int:
    found = _read_link(link)
    return found[1] if found else 0


def _read_link(link: str) -> tuple[str, int] | None:
    """Name and version that a link file holds; None when it is none."""
    try:
        with open(link, encoding="utf-8-sig") as file:
            stored: Any = json.load(file)
        name, version = str(stored["name"]), int(stored["version"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # It comes with a project that somebody else made: its name must not lead anywhere else.
    return None if "/" in name or name.startswith(".") or version < 1 else (name, version)


def _write_link(link: str, name: str, version: int) -> None:
    from tui_workbench.files import write_atomically

    try:
        os.makedirs(os.path.dirname(link), exist_ok=True)
    except OSError as error:
        raise storage_error("make", os.path.dirname(link), error) from error
    text = json.dumps({"assetSource": SOURCE, "name": name, "version": str(version)})
    write_atomically(link, text.encode() + b"\n")
