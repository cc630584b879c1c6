"""What could be meant: completion of values from the schema, the project, and this machine.

Invariant: a suggestion is a value that the field accepts as it stands; asking reads directories at most, never contents
of large files.
"""

from __future__ import annotations

import os

from tui_workbench.config import schema
from tui_workbench.config.images import DEFAULT_GPU_IMAGE, LAST_CPU_IMAGE, OLDER_DRIVER_GPU_IMAGE, ORIGINAL_GPU_IMAGES
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tui_workbench.config.schema import Field
    from tui_workbench.config.surroundings import Surroundings

MAX_ENTRIES = 1_000
"""Files of one folder that are looked at; nobody picks from more."""

_ENVIRONMENTS = ("", ".venv", "venv", "env")


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
    found = list(_all(field, typed, surroundings, used_before))
    lowered = typed.lower()
    matching = [one for one in dict.fromkeys(found) if lowered in one.value.lower()]
    return sorted(matching, key=lambda one: not one.value.lower().startswith(lowered))


def _all(
    field: Field, typed: str, surroundings: Surroundings | None, used_before: Iterable[str]
) -> Iterator[Suggestion]:
    if field.choices:
        yield from (Suggestion(choice, "default" if choice == field.default else "") for choice in field.choices)
    elif field.type == schema.BOOLEAN:
        yield from (Suggestion("true"), Suggestion("false"))
    elif field.type == schema.GPUS:
        yield from (Suggestion("all"), Suggestion("free", "one that nobody uses"), Suggestion("0", "none"))
    elif field.type == schema.PROCESSES:
        yield Suggestion("gpus", "one on each GPU that the run is given")
        yield from (Suggestion(count) for count in ("2", "4", "8"))
    elif field.completion == "image":
        yield from known_images(surroundings, used_before)
    elif field.completion == "target" and surroundings is not None:
        yield from (Suggestion(target.name, target.type) for target in surroundings.targets())
    elif field.completion == "python":
        yield from _interpreters(surroundings)
    if field.completion in ("file", "folder", "python", "conda-file", "spark-file") and surroundings is not None:
        yield from _paths(field.completion, typed, surroundings.root)


def known_images(surroundings: Surroundings | None, used_before: Iterable[str] = ()) -> Iterator[Suggestion]:
    """Images of the project's targets, then those used before, then the ones worth knowing."""
    seen: set[str] = set()
    own = [(target.image, f"in {target.name}") for target in surroundings.targets()] if surroundings is not None else []
    worth_knowing = [
        (DEFAULT_GPU_IMAGE, "PyTorch and CUDA 13"),
        (OLDER_DRIVER_GPU_IMAGE, "PyTorch and CUDA 12.6"),
        *((reference, "the original product's, with CUDA") for reference in ORIGINAL_GPU_IMAGES),
        (LAST_CPU_IMAGE, "the original product's, without CUDA"),
    ]
    for reference, help_text in [*own, *((image, "used before") for image in used_before), *worth_knowing]:
        if reference and reference not in seen:
            seen.add(reference)
            yield Suggestion(reference, help_text)


def _interpreters(surroundings: Surroundings | None) -> Iterator[Suggestion]:
    yield Suggestion("python", "the first on the PATH")
    for name in _ENVIRONMENTS[1:]:
        if surroundings is not None and os.path.exists(os.path.join(surroundings.root, name, "bin", "python")):
            yield Suggestion(os.path.join(surroundings.root, name, "bin", "python"), "environment of the project")
    for folder in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        for name in ("python3", *(f"python3.{minor}" for minor in range(8, 16))):
            path = os.path.join(folder, name)
            if folder and os.access(path, os.X_OK):
                yield Suggestion(path)
    try:
        with open(os.path.expanduser("~/.conda/environments.txt"), encoding="utf-8") as file:
            environments = file.read().splitlines()
    except (OSError, ValueError):
        environments = []
    for environment in environments:
        path = os.path.join(environment, "bin", "python")
        if os.path.exists(path):
            yield Suggestion(path, "conda environment")


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
