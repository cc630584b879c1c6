"""The paths in `DataReferences` of a run configuration."""

from __future__ import annotations

import os

IGNORE_FILE = ".amlignore"
"""Lists files that no run gets."""

RESERVED = frozenset(("outputs", ".workbench", ".git", "aml_config"))
"""Folders of a project that cannot be data."""


def reference_problem(root: str, reference: str) -> str:
    """The mistake in a path of `DataReferences`, "" when there is none."""
    if not reference or "\0" in reference:
        return "DataReferences: an item is empty"
    inside = inside_project(root, reference)
    if os.path.isabs(reference) and not inside:
        return ""
    if inside == os.curdir:
        return f"DataReferences: {reference!r} is the project itself"
    if not inside:
        return f"DataReferences: {reference!r} leads out of the project"
    first = inside.split(os.sep)[0]
    if first in RESERVED:
        return f"DataReferences: {first}/ cannot be data"
    return ""


def inside_project(root: str, reference: str) -> str:
    """The path relative to the folder `root`, "" when it lies elsewhere. Links are not resolved."""
    relative = os.path.relpath(os.path.join(root, reference), root)
    return "" if relative == os.pardir or relative.startswith(os.pardir + os.sep) else relative


def data_in_project(root: str, references: tuple[str, ...]) -> tuple[str, ...]:
    """The data inside the project: paths relative to it."""
    found = (inside_project(root, each) for each in references if not reference_problem(root, each))
    return tuple(dict.fromkeys(path for path in found if path))


def data_elsewhere(root: str, references: tuple[str, ...]) -> tuple[str, ...]:
    """The data outside of the project: absolute paths."""
    found = (os.path.normpath(each) for each in references if os.path.isabs(each) and not inside_project(root, each))
    return tuple(dict.fromkeys(found))
