"""Suggest values for fields, from the schema, the project and this machine. Folders of possible values are included."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tui_workbench.config.checks.image_names import DEFAULT_AMD_IMAGE, DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE
from tui_workbench.config.checks.images import LAST_CPU_IMAGE, ORIGINAL_GPU_IMAGES
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.field_types import COLLECTIONS, Field
from tui_workbench.config.schema.slurm_options import MEMORY, OVERRIDE, SECTION, TIME
from tui_workbench.core.files import read_file

MAX_ENTRIES = 1_000
"""Maximum number of entries that are read from a folder."""

_ENVIRONMENTS = (".venv", "venv", "env")
_CONDA_LIST = "~/.conda/environments.txt"


class Suggestion(NamedTuple):
    """A value, and a short description."""

    value: str
    help: str = ""


def suggestions(
    field: Field, typed: str, context: ProjectContext | None, used_before: Iterable[str] = ()
) -> list[Suggestion]:
    """Return values of `field` that contain the text `typed`. Values that begin with it are first.

    `used_before` are values that the caller knows, such as the images of earlier runs.
    """
    matching: dict[str, Suggestion] = {}
    for suggestion in _all(field, typed, context, used_before):
        if typed.lower() in suggestion.value.lower():
            matching.setdefault(suggestion.value, suggestion)
    return sorted(matching.values(), key=lambda suggestion: not suggestion.value.lower().startswith(typed.lower()))


def _all(field: Field, typed: str, context: ProjectContext | None, used_before: Iterable[str]) -> Iterator[Suggestion]:
    if field.choices:
        yield from (Suggestion(choice, "default" if choice == field.default else "") for choice in field.offered)
    elif field.type == field_types.BOOLEAN:
        yield from (Suggestion("true"), Suggestion("false"))
    elif field.type == field_types.GPUS:
        yield from (Suggestion("all"), Suggestion("free", "one unused GPU"), Suggestion("0", "no GPU"))
    elif field.type == field_types.PROCESSES:
        yield Suggestion("gpus", "one for each GPU of the run")
        yield from (Suggestion(count) for count in ("2", "4", "8"))
    elif _option(field):
        yield from _options(field, context)
    elif field.completion == "image":
        yield from _images(context, used_before)
    elif field.completion == "target" and context is not None:
        yield from (Suggestion(target.name, target.type) for target in context.targets())
    elif field.completion == "python":
        yield from _interpreters(context)
    if field.completion in ("file", "folder", "python", "conda-file", "spark-file") and context is not None:
        yield from _paths(field.completion, typed, context.root)


def _option(field: Field) -> str:
    """Return the name of an option of Slurm, or "" for other fields."""
    section, _, name = field.key.partition(".")
    return name if section in (SECTION, OVERRIDE) and field.type not in COLLECTIONS else ""


def _options(field: Field, context: ProjectContext | None) -> Iterator[Suggestion]:
    """Yield the values of an option in the project's targets, then an example of a time, size or number."""
    for target in context.targets() if context is not None else ():
        value = target.slurm.get(_option(field))
        if value is not None:
            yield Suggestion(str(value), f"in {target.name}")
    if field.pattern in (TIME, MEMORY) or field.type == field_types.INTEGER:
        yield Suggestion(field.example, "example")


def _images(context: ProjectContext | None, used_before: Iterable[str]) -> Iterator[Suggestion]:
    """Yield images of the project's targets, then images used before, then well-known images."""
    for target in context.targets() if context is not None else ():
        if target.base_docker_image:
            yield Suggestion(target.base_docker_image, f"in {target.name}")
    yield from (Suggestion(image, "used before") for image in used_before if image)
    yield Suggestion(DEFAULT_GPU_IMAGE, "PyTorch and CUDA 13")
    yield Suggestion(OLDER_DRIVER_GPU_IMAGE, "PyTorch and CUDA 12.6")
    yield Suggestion(DEFAULT_AMD_IMAGE, "PyTorch and ROCm, for AMD GPUs")
    yield from (Suggestion(image, "Azure ML Workbench, with CUDA") for image in ORIGINAL_GPU_IMAGES)
    yield Suggestion(LAST_CPU_IMAGE, "Azure ML Workbench, without CUDA")


def _interpreters(context: ProjectContext | None) -> Iterator[Suggestion]:
    yield Suggestion("python", "the first on the PATH")
    environments = []
    with contextlib.suppress(OSError, ValueError):
        environments = read_file(os.path.expanduser(_CONDA_LIST)).decode().splitlines()
    own = [os.path.join(context.root, name) for name in _ENVIRONMENTS] if context is not None else []
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    names = ("python3", *(f"python3.{minor}" for minor in range(8, 16)))
    candidates = [
        *((os.path.join(folder, "bin", "python"), "project environment") for folder in own),
        *((os.path.join(folder, name), "") for folder in folders for name in names),
        *((os.path.join(folder, "bin", "python"), "conda environment") for folder in environments),
    ]
    for path, help_text in candidates:
        if os.path.exists(path) if help_text else os.access(path, os.X_OK):
            yield Suggestion(path, help_text)


def _paths(kind: str, typed: str, root: str) -> Iterator[Suggestion]:
    """Yield the subfolders and suitable files of the folder in `typed`, the beginning of a path."""
    folder = typed.rpartition("/")[0] + "/" if "/" in typed else ""
    base = os.path.join(root, os.path.expanduser(folder))
    if kind in ("conda-file", "spark-file") and not folder:
        yield from _paths(kind, "aml_config/", root)
    try:
        with os.scandir(base) as entries:
            items = [(entry.name, entry.is_dir()) for entry, _ in zip(entries, range(MAX_ENTRIES), strict=False)]
    except OSError:
        return
    for name, is_folder in sorted(items):
        if name.startswith("."):
            continue
        if is_folder:
            yield Suggestion(f"{folder}{name}/", "folder")
        elif kind in ("file", "python") or (kind != "folder" and name.endswith((".yml", ".yaml")) and kind[:5] in name):
            yield Suggestion(folder + name)
