"""Values that a field of a configuration file could have: names of targets, images, files of the project.

The invariant: it only looks, reads no more than a bounded number of folder entries, and never fails.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tui_workbench.config.images import DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE, ORIGINAL_GPU_IMAGES

if TYPE_CHECKING:
    from tui_workbench.config.schema import Field
    from tui_workbench.config.surroundings import Surroundings

MOST_FILES = 2_000
"""Files of a project that are offered; who has more types the path."""

_SKIPPED = frozenset({"__pycache__", "node_modules", "outputs"})


def suggestions(field: Field, around: Surroundings) -> list[str]:
    """The values to offer for a field, the likeliest first."""
    find = {
        "target": _targets,
        "image": _images,
        "python": _pythons,
        "file": _files,
        "folder": _folders,
        "conda-file": _dependency_files,
        "spark-file": _dependency_files,
    }.get(field.completion)
    return find(around) if find is not None else []


def _targets(around: Surroundings) -> list[str]:
    return around.names(".compute")


def _images(around: Surroundings) -> list[str]:
    used = [target.image for target in around.targets() if target.image]
    return list(dict.fromkeys([*used, DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE, *ORIGINAL_GPU_IMAGES]))


def _pythons(around: Surroundings) -> list[str]:
    found = ["python", "python3"]
    for folder in (".venv", "venv", "env"):
        path = os.path.join(around.root, folder, "bin", "python")
        if os.path.exists(path):
            found.append(path)
    return found


def _dependency_files(around: Surroundings) -> list[str]:
    return [name for name in _files(around) if name.endswith((".yml", ".yaml"))]


def _files(around: Surroundings) -> list[str]:
    return _walk(around.root)[1]


def _folders(around: Surroundings) -> list[str]:
    return ["~/.azureml/share/", *(f"{name}/" for name in _walk(around.root)[0])]


def _walk(root: str) -> tuple[list[str], list[str]]:
    """Folders and files below the project, relative to it, hidden ones left out."""
    folders: list[str] = []
    files: list[str] = []
    for directory, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in _SKIPPED)
        relative = os.path.relpath(directory, root)
        prefix = "" if relative == os.curdir else f"{relative}/"
        folders += [f"{prefix}{name}" for name in below]
        files += [f"{prefix}{name}" for name in sorted(names) if not name.startswith(".")]
        if len(files) + len(folders) > MOST_FILES:
            break
    return folders, files
