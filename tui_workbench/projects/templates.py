"""Create projects from built-in templates, folders and git repositories.

Existing files are never overwritten: `add_folder` only adds `aml_config/`, unless the folder has one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple

import tui_workbench
from tui_workbench.core.directories import CONFIG_DIRECTORY, packaged
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.core.files import open_new, open_regular, read_file
from tui_workbench.core.git import GitError
from tui_workbench.core.repository import files_not_ignored
from tui_workbench.projects.cloning import clone, is_url
from tui_workbench.projects.new_folder import built, new_folder

DEFAULT_TEMPLATE = "blank"

SHORTEST_NAME, LONGEST_NAME = 2, 32
"""Limits of the length of a project name, as in Azure ML Workbench. Run IDs and container labels contain the name."""

_EXCLUDED = frozenset({"__pycache__", "outputs", ".workbench", ".git", ".ipynb_checkpoints"})
"""Folders that are not part of a template."""

_FROM_SAMPLE = {
    "blank": (
        ".gitignore",
        "aml_config/local.compute",
        "aml_config/local.runconfig",
        "aml_config/docker.compute",
        "aml_config/docker.runconfig",
    ),
    "digits-ddp": (
        ".gitignore",
        "data/digits.csv.gz",
        "data/readme.md",
        "aml_config/conda_dependencies.yml",
        "aml_config/local.compute",
        "aml_config/docker.compute",
        "aml_config/gpu-box.compute",
    ),
    "digits-resume": (
        ".gitignore",
        "data/digits.csv.gz",
        "data/readme.md",
        "aml_config/conda_dependencies.yml",
        "aml_config/local.compute",
        "aml_config/docker.compute",
        "aml_config/gpu-box.compute",
    ),
    "spark-wordcount": (".gitignore",),
    "iris": (".gitignore",),
}
"""Files of the sample project that templates also contain, keyed by template."""


class Template(NamedTuple):
    """A built-in template."""

    name: str
    description: str


_TEMPLATES = (
    Template("blank", "Configuration for this machine and for Docker."),
    Template("digits", "A small PyTorch network for handwritten digits; trains in seconds on a CPU."),
    Template("digits-ddp", "The digits network in several processes (DDP with torchrun), on GPUs or CPU cores."),
    Template("digits-resume", "A digits network that continues from its last checkpoint after a failure."),
    Template("spark-wordcount", "A word count with Spark that takes seconds (PySpark)."),
    Template("iris", "Logistic regression with Spark ML on the iris data set (PySpark)."),
    Template("mnist-tensorflow", "A small TensorFlow network for MNIST, on a CPU or GPU."),
    Template("mnist-cntk", "A small CNTK network for MNIST, for old projects (Python 3.6, CUDA 10)."),
)

_DATA = os.path.join(os.path.dirname(tui_workbench.__file__), "templates_data")


def list_templates() -> list[Template]:
    """Return the built-in templates."""
    return list(_TEMPLATES)


def create_project(name: str, path: str = ".", template: str = DEFAULT_TEMPLATE) -> str:
    """Create the project `name` in the folder `path`, and return its absolute path.

    `template` is a name from `list_templates`, a folder, or the URL of a git repository. Raises UsageError for an
    invalid name, template or folder, or if the project exists, and StorageError if it cannot be written.
    """
    _check_name(name)
    source = _source_of(template)
    destination = os.path.join(os.path.abspath(os.path.expanduser(path)), name)
    with new_folder(destination) as building:
        if source:
            (_copy if os.path.isabs(source) else _clone)(source, building)
            _add_missing(building, name)
        else:
            for relative, content in _files_of(template, name):
                _write(os.path.join(building, relative), content)
    return destination


def add_folder(folder: str) -> tuple[str, ...]:
    """Turn a folder into a project, and return the added files: none if the folder has `aml_config/`.

    Raises UsageError if the folder does not exist, and StorageError if it cannot be written.
    """
    root = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a folder", remedy="Choose an existing folder.")
    try:
        return _add_missing(root, os.path.basename(root))
    except OSError as error:
        raise StorageError(
            f"cannot add the folder: {(error.strerror or str(error)).lower()}",
            remedy="Make the folder writable, or free some space. Nothing was changed.",
            file=root,
        ) from error


def _source_of(template: str) -> str:
    """Return the folder or URL of a template, or "" for a built-in template. Raises UsageError for an unknown one."""
    names = [entry.name for entry in _TEMPLATES]
    if template in names:
        return ""
    if is_url(template) or "://" in template:  # `clone` reports an invalid URL
        return template
    folder = os.path.abspath(os.path.expanduser(template))
    if os.path.isdir(folder):
        return folder
    raise UsageError(
        f"unknown template {template!r}",
        remedy=f"Use an existing folder, the URL of a git repository, or one of: {', '.join(names)}.",
    )


def _add_missing(root: str, name: str) -> tuple[str, ...]:
    """Add the configuration files of `blank` to a folder without configuration, and return their paths."""
    folder = os.path.join(root, CONFIG_DIRECTORY)
    if os.path.isdir(folder):
        return ()
    files = {path: data for path, data in _files_of(DEFAULT_TEMPLATE, name) if path.startswith(f"{CONFIG_DIRECTORY}/")}
    with built(folder) as building:
        for path, data in files.items():
            _write(os.path.join(building, os.path.relpath(path, CONFIG_DIRECTORY)), data)
    return tuple(files)


def _check_name(name: str) -> None:
    allowed = all((character.isascii() and character.isalnum()) or character == "-" for character in name)
    if allowed and SHORTEST_NAME <= len(name) <= LONGEST_NAME and not name.startswith("-"):
        return
    raise UsageError(
        f"{name!r} is not a valid project name",
        remedy=f"Use {SHORTEST_NAME} to {LONGEST_NAME} ASCII letters, digits and hyphens, but no hyphen at the start.",
    )


def _files_of(template: str, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the relative path and content of each file of a project from a built-in template."""
    sample = packaged("sample_project")
    for relative in _FROM_SAMPLE.get(template, ()):
        yield relative, read_file(os.path.join(sample, relative))
    for relative, content in _tree(sample if template == "digits" else os.path.join(_DATA, template)):
        is_named = (template, relative) == (DEFAULT_TEMPLATE, "readme.md")
        yield relative, content.replace(b"{name}", name.encode()) if is_named else content


def _tree(root: str) -> Iterator[tuple[str, bytes]]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _EXCLUDED)
        for file in sorted(files):
            source = os.path.join(folder, file)
            yield os.path.relpath(source, root), read_file(source)


def _write(path: str, content: bytes) -> None:
    # Do not copy permissions, because the installed files may be read-only.
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open_new(path, 0o666) as file:
        file.write(content)


def _clone(address: str, destination: str) -> None:
    """Clone the files of a template, without history and large files, into the empty folder `destination`."""
    clone(address, destination, "--depth=1", "--no-tags", variables={"GIT_LFS_SKIP_SMUDGE": "1"})
    shutil.rmtree(os.path.join(destination, ".git"))


def _copy(source: str, destination: str) -> None:
    """Copy a template from a folder, without ignored files, runs and git history. Raises OSError."""
    for relative in _template_files(source):
        if not _EXCLUDED.isdisjoint(relative.split(os.sep)):
            continue
        path, copy = os.path.join(source, relative), os.path.join(destination, relative)
        # The file may have been deleted, or may not be a regular file.
        if not os.path.islink(path) and not os.path.isfile(path):
            continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if os.path.islink(path):
            os.symlink(os.readlink(path), copy)
            continue
        with open_regular(path) as reading, open_new(copy, 0o666) as writing:
            shutil.copyfileobj(reading, writing)
        os.chmod(copy, 0o755 if os.access(path, os.X_OK) else 0o644)


def _template_files(source: str) -> list[str]:
    """Return the files of a folder that git does not ignore, or all files if git is missing or fails."""
    with contextlib.suppress(GitError):
        return _with_nested(source, files_not_ignored(source))
    return _with_nested(source, [""])


def _with_nested(source: str, names: list[str]) -> list[str]:
    """Return the names, with each folder replaced by its files. Git lists a nested repository as a folder."""
    paths = [name for name in names if name and not name.endswith("/")]
    for nested in (name for name in names if not name or name.endswith("/")):
        for folder, folders, files in os.walk(os.path.join(source, nested)):
            folders.sort()
            paths += [os.path.relpath(os.path.join(folder, file), source) for file in sorted(files)]
    return paths
