"""New projects: from the templates that came with the program, from any folder, from a git repository.

A project appears whole or not at all: it is put together in a hidden folder beside its place and then renamed. Nothing
that exists is ever written over; a folder that becomes a project where it is only gets what it lacks.
"""

from __future__ import annotations

import errno
import os

from tui_workbench.errors import StorageError, UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_TEMPLATE = "blank"

SHORTEST_NAME, LONGEST_NAME = 2, 32
"""Characters of a project's name, as in the original: it becomes part of run ids, folders and container labels."""

_LEFT_OUT = frozenset({"__pycache__", "outputs", ".workbench", ".git", ".ipynb_checkpoints"})
"""What a sample that was run in place holds besides itself."""

_BLANK_README = """\
# {name}

Put your training script here and press Run in the workbench, or:

    workbench-tui experiment submit -c local train.py
"""

_BLANK_DEPENDENCIES = """\
# What the project needs, as an ordinary conda environment file. Docker targets build it into their image;
# `local` does not read it: there, install the same into your own Python.
name: project_environment
dependencies:
  - python=3.12
  - pip
  # Packages for pip go in a list of their own:
  # - pip:
  #     - torch==2.13.0
"""

_BLANK_COPIES = (
    ".gitignore",
    "aml_config/local.compute",
    "aml_config/local.runconfig",
    "aml_config/docker.compute",
    "aml_config/docker.runconfig",
)


_DDP = "digits-ddp"
_DDP_COPIES = (
    ".gitignore",
    "data/digits.csv.gz",
    "data/readme.md",
    "aml_config/conda_dependencies.yml",
    "aml_config/local.compute",
    "aml_config/docker.compute",
    "aml_config/gpu-box.compute",
)
"""What it has of the sample."""


class Template(NamedTuple):
    """What `project create --template NAME` starts from."""

    name: str
    description: str


_TEMPLATES = (
    Template("blank", "Configuration for this machine and for Docker, and nothing else."),
    Template("digits", "A small PyTorch network that reads handwritten digits; runs in seconds on a CPU."),
    Template("digits-ddp", "The same by several processes (DDP under torchrun): on each GPU, or on CPU cores."),
    Template("mnist-tensorflow", "A small TensorFlow network on MNIST, for a CPU and for a GPU."),
    Template(
        "mnist-cntk", "For old projects: the same with CNTK, whose development ended in 2019 (Python 3.6, CUDA 10)."
    ),
)

CONFIGURATION = "aml_config"
"""What makes a folder a project."""

_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates_data")


def list_templates() -> list[Template]:
    """The templates, in the order in which to offer them."""
    return list(_TEMPLATES)


def create_project(name: str, path: str = ".", template: str = DEFAULT_TEMPLATE) -> str:
    """Make the project `name` in the folder `path`, and return its absolute path.

    `template` is a name from `list_templates`, a folder, or the address of a git repository. Raises UsageError when the
    name breaks the rule, there is no such template, `path` is no folder, or something stands in the project's place;
    StorageError when the disk fails or may not be written. Nothing is left behind then.
    """
    _check_name(name)
    source = _source_of(template)
    parent = os.path.abspath(os.path.expanduser(path))
    if not os.path.isdir(parent):
        raise UsageError(f"{parent} is not a folder", remedy="Make it first, or name another one with --path.")
    place = os.path.join(parent, name)
    _check_free(place)
    building = os.path.join(parent, f".{name}-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        os.mkdir(building)
        if source:
            from tui_workbench.templatesource import fill

            fill(building, source, _LEFT_OUT)
            _add_missing(building, name)
        else:
            for relative, content in _files_of(template, name):
                _write(os.path.join(building, relative), content)
        os.rename(building, place)
    except OSError as error:
        _remove(building)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _taken(place) from error
        raise StorageError(
            f"the project cannot be made: {(error.strerror or str(error)).lower()}",
            remedy="Free some space or choose a folder that you may write with --path; nothing was left behind.",
            file=place,
        ) from error
    except BaseException:
        _remove(building)
        raise
    return place


def add_folder(folder: str) -> tuple[str, ...]:
    """Make a project of a folder where it is, and return the files that were added to it.

    A project of the original, which has its `aml_config/`, opens as it is: nothing is added to it. Raises UsageError
    when there is no such folder, StorageError when it cannot be written.
    """
    root = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a folder", remedy="Name a folder that is there.")
    added: list[str] = []
    try:
        _add_missing(root, os.path.basename(root), added)
    except OSError as error:
        for relative in added:
            try:
                os.unlink(os.path.join(root, relative))
            except OSError:
                continue
        raise StorageError(
            f"the folder cannot be made a project: {(error.strerror or str(error)).lower()}",
            remedy="Make it writable, or free some space; it is as it was.",
            file=root,
        ) from error
    return tuple(added)


def _source_of(template: str) -> str:
    """The folder or the address that a template is taken from; "" for one that came with the program."""
    known = [entry.name for entry in _TEMPLATES]
    if template in known:
        return ""
    if "://" in template or template.startswith("git@"):
        return template
    folder = os.path.abspath(os.path.expanduser(template))
    if os.path.isdir(folder):
        return folder
    raise UsageError(
        f"there is no template {template!r}",
        remedy=f"Take one of: {', '.join(known)}; or name a folder, or the address of a git repository.",
    )


def _add_missing(root: str, name: str, added: list[str] | None = None) -> None:
    """Give a folder that has no configuration that of `blank`; nothing else is touched."""
    if os.path.isdir(os.path.join(root, CONFIGURATION)):
        return
    for relative, content in _files_of(DEFAULT_TEMPLATE, name):
        if relative.startswith(f"{CONFIGURATION}/"):
            _write(os.path.join(root, relative), content)
            if added is not None:
                added.append(relative)


def _check_name(name: str) -> None:
    allowed = all((character.isascii() and character.isalnum()) or character == "-" for character in name)
    if allowed and SHORTEST_NAME <= len(name) <= LONGEST_NAME and not name.startswith("-"):
        return
    raise UsageError(
        f"{name!r} is no name for a project",
        remedy=f"A name has {SHORTEST_NAME} to {LONGEST_NAME} letters (a to z), digits or hyphens, no hyphen first.",
    )


def _check_free(place: str) -> None:
    try:
        free = not os.listdir(place)
    except FileNotFoundError:
        # A symbolic link that leads nowhere would be replaced without a word.
        free = not os.path.islink(place)
    except OSError:
        free = False
    if not free or os.path.islink(place):
        raise _taken(place)


def _taken(place: str) -> UsageError:
    return UsageError(
        f"{place} exists and is no empty folder",
        remedy="Choose another name or --path. A folder of yours becomes a project by an aml_config/ in it.",
    )


def _files_of(template: str, name: str) -> Iterator[tuple[str, bytes]]:
    """Every file of the new project: its path in it and its content."""
    from tui_workbench.resources import sample_project

    sample = sample_project()
    if template == "blank":
        for relative in _BLANK_COPIES:
            yield relative, _read(os.path.join(sample, relative))
        yield from _tree(os.path.join(_DATA, "blank-gpu"))
        yield "aml_config/conda_dependencies.yml", _BLANK_DEPENDENCIES.encode()
        yield "readme.md", _BLANK_README.format(name=name).encode()
    else:
        if template == _DDP:
            for relative in _DDP_COPIES:
                yield relative, _read(os.path.join(sample, relative))
        yield from _tree(sample if template == "digits" else os.path.join(_DATA, template))


def _tree(root: str) -> Iterator[tuple[str, bytes]]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        for file in sorted(files):
            source = os.path.join(folder, file)
            yield os.path.relpath(source, root), _read(source)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write(path: str, content: bytes) -> None:
    # The permissions of the installed files are not taken over: those may be read-only, a project may not.
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        file.write(content)


def _remove(folder: str) -> None:
    """Remove what was made so far. Best effort: the error that led here is the one to tell."""
    for place, folders, files in os.walk(folder, topdown=False):
        for remove, names in ((os.unlink, files), (os.rmdir, folders)):
            for name in names:
                try:
                    remove(os.path.join(place, name))
                except OSError:
                    pass
    try:
        os.rmdir(folder)
    except OSError:
        pass
