"""What could be meant: completion of values from the schema, the project, and this machine.

Invariant: a suggestion is a value that the field accepts as it stands; asking reads directories at most, never contents
of large files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE
from tui_workbench.config.checks.images import LAST_CPU_IMAGE, ORIGINAL_GPU_IMAGES
from tui_workbench.config.checks.project_context import Surroundings
from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.field_types import Field

MAX_ENTRIES = 1_000
"""Files of one folder that are looked at; nobody picks from more."""

_ENVIRONMENTS = (".venv", "venv", "env")
_CONDA_LIST = "~/.conda/environments.txt"


class Suggestion(NamedTuple):
    """One value to choose, and what it is."""

    value: str
    help: str = ""


def suggestions(
    field: Field, typed: str, surroundings: Surroundings | None, used_before: Iterable[str] = ()
) -> list[Suggestion]:
    """Values of `field` that begin with or contain what was `typed`, those that begin with it first.

    `used_before` are values known from elsewhere, such as the images of earlier runs.
    """
    found: dict[str, Suggestion] = {}
    for one in _all(field, typed, surroundings, used_before):
        if typed.lower() in one.value.lower():
            found.setdefault(one.value, one)
    return sorted(found.values(), key=lambda one: not one.value.lower().startswith(typed.lower()))


def _all(
    field: Field, typed: str, surroundings: Surroundings | None, used_before: Iterable[str]
) -> Iterator[Suggestion]:
    if field.choices:
        yield from (Suggestion(choice, "default" if choice == field.default else "") for choice in field.offered)
    elif field.type == field_types.BOOLEAN:
        yield from (Suggestion("true"), Suggestion("false"))
    elif field.type == field_types.GPUS:
        yield from (Suggestion("all"), Suggestion("free", "one that nobody uses"), Suggestion("0", "none"))
    elif field.type == field_types.PROCESSES:
        yield Suggestion("gpus", "one on each GPU that the run is given")
        yield from (Suggestion(count) for count in ("2", "4", "8"))
    elif field.completion == "image":
        yield from _images(surroundings, used_before)
    elif field.completion == "target" and surroundings is not None:
        yield from (Suggestion(target.name, target.type) for target in surroundings.targets())
    elif field.completion == "python":
        yield from _interpreters(surroundings)
    if field.completion in ("file", "folder", "python", "conda-file", "spark-file") and surroundings is not None:
        yield from _paths(field.completion, typed, surroundings.root)


def _images(surroundings: Surroundings | None, used_before: Iterable[str]) -> Iterator[Suggestion]:
    """Images of the project's targets, then those used before, then the ones worth knowing."""
    for target in surroundings.targets() if surroundings is not None else ():
        if target.base_docker_image:
            yield Suggestion(target.base_docker_image, f"in {target.name}")
    yield from (Suggestion(image, "used before") for image in used_before if image)
    yield Suggestion(DEFAULT_GPU_IMAGE, "PyTorch and CUDA 13")
    yield Suggestion(OLDER_DRIVER_GPU_IMAGE, "PyTorch and CUDA 12.6")
    yield from (Suggestion(image, "the original product's, with CUDA") for image in ORIGINAL_GPU_IMAGES)
    yield Suggestion(LAST_CPU_IMAGE, "the original product's, without CUDA")


def _interpreters(surroundings: Surroundings | None) -> Iterator[Suggestion]:
    yield Suggestion("python", "the first on the PATH")
    environments = []
    with contextlib.suppress(OSError, ValueError), open(os.path.expanduser(_CONDA_LIST), encoding="utf-8") as file:
        environments = file.read().splitlines()
    own = [os.path.join(surroundings.root, name) for name in _ENVIRONMENTS] if surroundings is not None else []
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    names = ("python3", *(f"python3.{minor}" for minor in range(8, 16)))
    candidates = [
        *((os.path.join(folder, "bin", "python"), "environment of the project") for folder in own),
        *((os.path.join(folder, name), "") for folder in folders for name in names),
        *((os.path.join(folder, "bin", "python"), "conda environment") for folder in environments),
    ]
    for path, what in candidates:
        if os.path.exists(path) if what else os.access(path, os.X_OK):
            yield Suggestion(path, what)


def _paths(kind: str, typed: str, root: str) -> Iterator[Suggestion]:
    """Entries of the folder that what was typed leads into; relative ones are relative to the project."""
    folder = typed.rpartition("/")[0] + "/" if "/" in typed else ""
    base = os.path.join(root, os.path.expanduser(folder))
    if kind in ("conda-file", "spark-file") and not folder:
        yield from _paths(kind, "aml_config/", root)
    try:
        with os.scandir(base) as entries:
            found = [(entry.name, entry.is_dir()) for entry, _ in zip(entries, range(MAX_ENTRIES), strict=False)]
    except OSError:
        return
    for name, is_folder in sorted(found):
        if name.startswith("."):
            continue
        if is_folder:
            yield Suggestion(f"{folder}{name}/", "folder")
        elif kind in ("file", "python") or (kind != "folder" and name.endswith((".yml", ".yaml")) and kind[:5] in name):
            yield Suggestion(folder + name)
