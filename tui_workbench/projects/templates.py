"""New projects: from the templates that came with the program, from any folder, from a git repository.

A project appears whole or not at all: it is put together in a hidden folder beside its place and then renamed. Nothing
that exists is ever written over; a folder that becomes a project where it is only gets what it lacks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import tui_workbench
from tui_workbench.core import trace
from tui_workbench.core.directories import CONFIG_DIRECTORY, sample_project
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.core.masking import mask_text
from tui_workbench.core.processes import clean_environment, has_program, run

DEFAULT_TEMPLATE = "blank"

SHORTEST_NAME, LONGEST_NAME = 2, 32
"""Characters of a project's name, as in the original: it becomes part of run ids, folders and container labels."""

_LEFT_OUT = frozenset({"__pycache__", "outputs", ".workbench", ".git", ".ipynb_checkpoints"})
"""What a sample that was run in place holds besides itself."""

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
}
"""What templates have of the sample."""


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

_DATA = os.path.join(os.path.dirname(tui_workbench.__file__), "templates_data")


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
    try:
        with _built(place) as building:
            if source:
                (_copy if os.path.isabs(source) else _clone)(source, building)
                _add_missing(building, name)
            else:
                for relative, content in _files_of(template, name):
                    _write(os.path.join(building, relative), content)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _taken(place) from error
        raise StorageError(
            f"the project cannot be made: {(error.strerror or str(error)).lower()}",
            remedy="Free some space or choose a folder that you may write with --path; nothing was left behind.",
            file=place,
        ) from error
    return place


def add_folder(folder: str) -> tuple[str, ...]:
    """Make a project of a folder where it is, and return the files that were added to it.

    A project of the original, which has its `aml_config/`, opens as it is: nothing is added to it. Raises UsageError
    when there is no such folder, StorageError when it cannot be written.
    """
    root = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(root):
        raise UsageError(f"{root} is not a folder", remedy="Name a folder that is there.")
    try:
        return _add_missing(root, os.path.basename(root))
    except OSError as error:
        raise StorageError(
            f"the folder cannot be made a project: {(error.strerror or str(error)).lower()}",
            remedy="Make it writable, or free some space; it is as it was.",
            file=root,
        ) from error


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


def _add_missing(root: str, name: str) -> tuple[str, ...]:
    """Give a folder that has no configuration that of `blank`, and return the files; nothing else is touched."""
    place = os.path.join(root, CONFIG_DIRECTORY)
    if os.path.isdir(place):
        return ()
    files = {path: data for path, data in _files_of(DEFAULT_TEMPLATE, name) if path.startswith(f"{CONFIG_DIRECTORY}/")}
    with _built(place) as building:
        for path, data in files.items():
            _write(os.path.join(building, os.path.relpath(path, CONFIG_DIRECTORY)), data)
    return tuple(files)


@contextlib.contextmanager
def _built(place: str) -> Iterator[str]:
    """A hidden folder beside `place`, which becomes it when the context ends well; nothing is left of it otherwise."""
    parent, name = os.path.split(place)
    building = os.path.join(parent, f".{name}-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        os.mkdir(building)
        yield building
        os.rename(building, place)
    finally:
        # After a success it is not there any more.
        shutil.rmtree(building, ignore_errors=True)


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
    sample = sample_project()
    for relative in _FROM_SAMPLE.get(template, ()):
        yield relative, _read(os.path.join(sample, relative))
    for relative, content in _tree(sample if template == "digits" else os.path.join(_DATA, template)):
        is_named = (template, relative) == (DEFAULT_TEMPLATE, "readme.md")
        yield relative, content.replace(b"{name}", name.encode()) if is_named else content


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


_QUIET = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _clone(address: str, place: str) -> None:
    """Take a template from a repository into the empty folder `place`. Raises UsageError, OSError."""
    shown = mask_text(address)
    command = ["git", "clone", "--quiet", "--depth=1", "--no-tags", "--template=", "--", address, place]
    environment = {**_environment(), "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = run(command, kind=trace.GIT, environment=environment, variables=_QUIET, log_start=True)
    except FileNotFoundError as error:
        raise UsageError(
            "a template from a repository needs git, which is not on the PATH", remedy="Install git."
        ) from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.decode("utf-8", "replace").split("\n") if line.strip()]
        said = (lines or [f"exit code {done.returncode}"])[-1].replace(address, shown).removeprefix("fatal: ")
        raise UsageError(
            f"the template {shown} cannot be had: {said.strip()}", remedy="Check the address, and your access to it."
        )
    shutil.rmtree(os.path.join(place, ".git"))


def _copy(source: str, place: str) -> None:
    """Take a template from a folder: what its owner keeps in it, but not its runs and its history. Raises OSError."""
    for relative in _wanted(source):
        if not _LEFT_OUT.isdisjoint(relative.split(os.sep)):
            continue
        path, copy = os.path.join(source, relative), os.path.join(place, relative)
        # Of a folder that is being used something may be gone by now, or be no file at all.
        if not os.path.islink(path) and not os.path.isfile(path):
            continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copyfile(path, copy, follow_symlinks=False)
        if not os.path.islink(path):
            os.chmod(copy, 0o755 if os.access(path, os.X_OK) else 0o644)


def _wanted(source: str) -> list[str]:
    """The files of a folder that its ignore files do not exclude; all files where there is no git to read those."""
    if has_program("git"):
        with tempfile.TemporaryDirectory() as repository:
            git = ("git", f"--git-dir={repository}", f"--work-tree={source}")
            for words in (("init", "--quiet", "--template="), ("ls-files", "--others", "--exclude-standard", "-z")):
                done = run([*git, *words], kind=trace.GIT, folder=source, environment=_environment())
                if done.returncode:
                    break
            else:
                return _with_nested(source, [os.fsdecode(name) for name in done.stdout.split(b"\0") if name])
    return _with_nested(source, [""])


def _with_nested(source: str, names: list[str]) -> list[str]:
    """The names, with the files of folders that git lists as one: repositories of their own."""
    found = [name for name in names if name and not name.endswith("/")]
    for nested in (name for name in names if not name or name.endswith("/")):
        for folder, folders, files in os.walk(os.path.join(source, nested)):
            folders.sort()
            found += [os.path.relpath(os.path.join(folder, file), source) for file in sorted(files)]
    return found


def _environment() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name == "GIT_SSH_COMMAND"
    }
    return {**clean_environment(kept), **_QUIET}
