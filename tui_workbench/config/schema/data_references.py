"""Check and resolve the paths in `DataReferences` of a run configuration."""

from __future__ import annotations

import os

IGNORE_FILE = ".amlignore"
"""Name of the file with patterns of files to exclude from runs."""

RESERVED = frozenset(("outputs", ".workbench", ".git", "aml_config"))
"""Folders of a project that `DataReferences` must not contain."""


def reference_problem(root: str, reference: str) -> str:
    """Return an error message for an invalid path in `DataReferences`, or ""."""
    if not reference:
        return "DataReferences: an item is empty"
    if "\0" in reference:
        return "DataReferences: an item contains a NUL character"
    inside = inside_project(root, reference)
    if os.path.isabs(reference) and not inside:
        return ""
    if inside == os.curdir:
        return f"DataReferences: {reference!r} is the project folder"
    if not inside:
        return f"DataReferences: {reference!r} is outside the project"
    first = inside.split(os.sep)[0]
    if first in RESERVED:
        return f"DataReferences: {reference!r} refers to the reserved folder {first}/"
    return ""


def inside_project(root: str, reference: str) -> str:
    """Return `reference` relative to `root`, or "" if it is outside `root`. Symbolic links are not resolved."""
    relative = os.path.relpath(os.path.join(root, reference), root)
    return "" if relative == os.pardir or relative.startswith(os.pardir + os.sep) else relative


def data_in_project(root: str, references: tuple[str, ...]) -> tuple[str, ...]:
    """Return the valid paths inside the project, relative to it and without duplicates."""
    found = (inside_project(root, each) for each in references if not reference_problem(root, each))
    return tuple(dict.fromkeys(path for path in found if path))


def data_elsewhere(root: str, references: tuple[str, ...]) -> tuple[str, ...]:
    """Return the absolute paths outside the project, normalized and without duplicates."""
    found = (os.path.normpath(each) for each in references if os.path.isabs(each) and not inside_project(root, each))
    return tuple(dict.fromkeys(found))
