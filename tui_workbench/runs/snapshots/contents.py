"""Count the files that a run would get from its project, to enforce limits and to describe the plan.

Ignored files are copied for each run. Their number is limited. Their total size is limited too, unless the file system
can share blocks between copies. The user must declare files above the limit as data, or exclude them.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.config.schema.data_references import IGNORE_FILE, NO_DATA, data_in_project
from tui_workbench.core.errors import LargeFiles, StorageError, storage_errors
from tui_workbench.core.model import Plan, RunSpec, Step
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import size_text
from tui_workbench.projects.project import COMPUTE_SUFFIX, Project, state_of_run
from tui_workbench.runs.snapshots.file_copy import can_clone
from tui_workbench.runs.snapshots.ignore import pattern_of
from tui_workbench.runs.snapshots.project_files import Item, Kind, project_files
from tui_workbench.runs.store.rundir import NOTE, RunDirectory

COPY_BYTES = 2 << 30  # maximum total size of ignored files that are copied without sharing blocks
COPY_FILES = 50_000  # maximum number of ignored files that are copied
SNAPSHOT_FILE_BYTES = 1 << 30  # maximum size of a file in a snapshot; all versions are kept
MANY_FILES, MANY_BYTES = 20_000, 500_000_000  # a note advises the user about a larger snapshot
NEARLY_ALL = 0.9  # share of a large snapshot; a folder with this share is the one to exclude
ATTRIBUTES_FILE = ".gitattributes"
SHOWN_PARTS, SHOWN_IN_PLAN = 3, 6  # maximum number of paths in a message and in a plan


class Part(NamedTuple):
    """A file or folder of the project, with its number of files and their total size in bytes."""

    path: str
    files: int = 0
    size: int = 0


class Contents(NamedTuple):
    """The files that a run of the project would get now."""

    snapshot: Part = Part("")
    largest_folder: Part = Part("")  # set for a snapshot that is larger than recommended
    too_large: tuple[Part, ...] = ()  # files larger than SNAPSHOT_FILE_BYTES
    copied: tuple[Part, ...] = ()
    uncloned: tuple[Part, ...] = ()  # the parts of `copied` that cannot share blocks
    linked: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # unreadable files, and files whose paths are too long
    secret: tuple[str, ...] = ()  # configuration files with a password
    files: tuple[str, ...] = ()  # the files of the snapshot
    items: tuple[Item, ...] = ()  # the items for `working_copy.fill`

    def without_snapshot(self) -> Contents:
        """Return the contents for a run that already has a snapshot."""
        return self._replace(snapshot=Part(""), largest_folder=Part(""), too_large=(), secret=())

    def add_to_plan(self, plan: Plan) -> Plan:
        # Use the first step, because targets on other machines have another step of the same name.
        steps = list(plan.steps)
        for index, step in enumerate(steps):
            if step.name == "copy":
                steps[index] = step._replace(title=f"create the working copy: {describe(self)}")
                break
        return plan._replace(steps=tuple(steps))

    def append_notes(self, directory: RunDirectory) -> None:
        """Record notes for the submitter of the run; see `RunDirectory.notes`."""
        for text in notes_on(self):
            directory.append_event(NOTE, text=text)


def contents_of(root: str, state_directory: str, data: Mapping[str, str] = NO_DATA, *, old_root: str = "") -> Contents:
    """Count the files that a run of the project would get now. Arguments and errors: see `project_files`."""
    paths: dict[Kind, list[str]] = defaultdict(list)
    files: list[str] = []
    too_large: list[Part] = []
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    ignored: list[Item] = []
    needed: list[Item] = []
    for item in project_files(root, data, old_root=old_root, room=room_of(state_directory)):
        path, kind, status = item[:3]
        if kind is Kind.SNAPSHOT and status and not item.is_folder:
            size = status.st_size  # the apparent size, because git also reads holes
            files.append(path)
            folder = path.rpartition(os.sep)[0] or path
            counts[folder] += 1
            sizes[folder] += size
            if size > SNAPSHOT_FILE_BYTES and not item.is_link:
                too_large.append(Part(path, 1, size))
            continue
        if kind in (Kind.SNAPSHOT, Kind.COPIED, Kind.LINKED):
            needed.append(item)
        if kind is Kind.COPIED:
            ignored.append(item)
        elif kind is not Kind.SNAPSHOT:
            paths[kind].append(path)
    whole = Part("", counts.total(), sizes.total())
    copied, uncloned = _copied(ignored, root, state_directory)
    return Contents(
        snapshot=whole,
        largest_folder=_largest_folder(whole, [Part(path, counts[path], sizes[path]) for path in counts]),
        too_large=tuple(too_large),
        copied=copied,
        uncloned=uncloned,
        linked=tuple(paths[Kind.LINKED]),
        left_out=(*paths[Kind.LEFT_OUT], *paths[Kind.ENVIRONMENT]),
        skipped=(*paths[Kind.UNREADABLE], *paths[Kind.TOO_LONG]),
        secret=tuple(paths[Kind.SECRET]),
        files=tuple(files),
        items=tuple(needed),
    )


def _copied(items: Iterable[Item], root: str, state_directory: str) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return the topmost ignored paths, and those of them that cannot share blocks."""
    parts = _Parts()
    samples: dict[int, tuple[int, str]] = {}  # by device: size and path of its largest file
    devices: dict[str, int] = {}  # by part
    part = ""
    for item in items:
        if item.is_top:
            part = item.path
            parts[part] = Part(part)
        if item.status is not None and not item.is_folder:
            size, device = min(item.status.st_size, item.status.st_blocks * 512), item.status.st_dev
            parts.add(part, size)
            devices.setdefault(part, device)
            samples[device] = max(samples.get(device, (0, "")), (size, item.path))
    folder = state_directory
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    cloning = {
        device for device, (size, path) in samples.items() if size and can_clone(os.path.join(root, path), folder)
    }
    copied = tuple(parts.values())
    return copied, tuple(part for part in copied if part.size and devices.get(part.path) not in cloning)


class _Parts(dict[str, Part]):
    def add(self, path: str, size: int, files: int = 1) -> None:
        part = self.get(path, Part(path))
        self[path] = Part(path, part.files + files, part.size + size)


def _largest_folder(whole: Part, folders: Iterable[Part]) -> Part:
    """Return the folder to exclude if the snapshot is larger than recommended, or else an empty Part.

    This is the deepest folder with nearly everything, or else the largest at the top level. `folders` are the folders
    with files, without those of their subfolders, and the files at the top level.
    """
    if whole.files <= MANY_FILES and whole.size <= MANY_BYTES:
        return Part("")

    def amount(part: Part) -> int:
        return part.files if whole.files > MANY_FILES else part.size

    totals = _Parts()
    for folder in folders:
        path = folder.path
        while path:
            totals.add(path, folder.size, folder.files)
            path = os.path.dirname(path)
    most = [part for part in totals.values() if amount(part) >= NEARLY_ALL * amount(whole)]
    if most:
        return max(most, key=lambda part: len(part.path))
    return max((part for part in totals.values() if os.sep not in part.path), key=amount)


def room_of(state_directory: str) -> int:
    """Return the maximum length of the path of a run's working copy, in bytes."""
    return len(os.fsencode(state_directory)) + len("/runs/.new-/work/") + 120


def describe(contents: Contents) -> str:
    """Return a one-line description of the files, for the plan."""
    count, size = contents.snapshot.files, contents.snapshot.size
    texts = [f"the snapshot, {counted(count, 'file')} ({size_text(size)})" if count else "the snapshot"]
    for title, paths in (
        ("ignored files copied", [_with_size(part) for part in contents.copied]),
        ("data linked", list(contents.linked)),
        ("left out", list(contents.left_out)),
        ("cannot be copied", list(contents.skipped)),
        ("left out because of a password", list(contents.secret)),
    ):
        if paths:
            texts.append(f"{title}: {_first(paths, SHOWN_IN_PLAN)}")
    return "; ".join(texts)


def notes_on(contents: Contents) -> list[str]:
    """Return notes for the submitter of the run, about passwords, files that cannot be copied, and large folders."""
    notes = []
    for path in contents.secret:
        target = os.path.basename(path).removesuffix(COMPUTE_SUFFIX)
        notes.append(
            f"{path} contains a password and is not in the snapshot; move the password to the keyring with "
            f"`workbench-tui computetarget login {target} --move-secrets`"
            if path.endswith(COMPUTE_SUFFIX)
            else f"{path} may contain a secret and is not in the snapshot, because the secret cannot be replaced in it"
        )
    if contents.skipped:
        notes.append(f"not copied (unreadable, or the path is too long): {_first(contents.skipped, 3)}")
    if contents.largest_folder.path:
        folder, whole = contents.largest_folder, contents.snapshot
        notes.append(
            f"the snapshot has {whole.files:,} files ({size_text(whole.size)}), including {_with_size(folder)}; "
            f"to exclude {folder.path}, add `{pattern_of(folder.path)}` to {IGNORE_FILE}; to link it instead, add "
            f"`DataReferences: [{folder.path}]` to the run configuration"
        )
    return notes


def _with_size(part: Part) -> str:
    files = "" if part.files == 1 else f"{part.files:,} files, "
    return f"{part.path} ({files}{size_text(part.size)})"


def _first(paths: Sequence[str], count: int) -> str:
    more = f" and {len(paths) - count:,} more" if len(paths) > count else ""
    return ", ".join(paths[:count]) + more


def refuse_large(contents: Contents, configuration_path: str = "") -> None:
    """Raise LargeFiles if a file is too large for a snapshot, or the ignored files are too many or too large."""
    if contents.too_large:
        message = f"files larger than {size_text(SNAPSHOT_FILE_BYTES)} are not copied into snapshots"
        raise _large_files(message, contents.too_large, configuration_path)
    size, files = sum(part.size for part in contents.uncloned), sum(part.files for part in contents.copied)
    if size > COPY_BYTES:
        message = f"each run would copy {size_text(size)} of ignored files (limit: {size_text(COPY_BYTES)})"
        raise _large_files(message, _largest(contents.uncloned, 2, size - COPY_BYTES), configuration_path)
    if files > COPY_FILES:
        message = f"each run would copy {files:,} ignored files (limit: {COPY_FILES:,})"
        raise _large_files(message, _largest(contents.copied, 1, files - COPY_FILES), configuration_path)


def refuse_special_attributes(root: str, files: Iterable[str]) -> None:
    """Raise StorageError for a pipe or device that git would read as attributes of the files, and never finish."""
    folders = {""}
    for path in files:
        while (path := os.path.dirname(path)) not in folders:
            folders.add(path)
    for folder in sorted(folders):
        path = os.path.join(root, folder, ATTRIBUTES_FILE)
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                message = f"{os.path.join(folder, ATTRIBUTES_FILE)} is not a regular file, so git cannot read it"
                raise StorageError(message, remedy="Remove it, or replace it by a text file.", file=path)


def _largest(parts: Iterable[Part], field: int, excess: int) -> tuple[Part, ...]:
    """Return the largest parts with a total of at least `excess`, or their folders if there are many parts."""
    chosen: list[Part] = []
    for part in sorted(parts, key=lambda part: part[field], reverse=True):
        chosen.append(part)
        excess -= int(part[field])
        if excess <= 0:
            break
    if len(chosen) <= SHOWN_PARTS:
        return tuple(chosen)
    folders = _Parts()
    for part in chosen:
        folders.add(os.path.dirname(part.path) or part.path, part.size, part.files)
    return tuple(folders.values())


def _large_files(message: str, parts: tuple[Part, ...], configuration_path: str) -> LargeFiles:
    named = _first([f"{part.path} ({size_text(part.size)})" for part in parts], SHOWN_PARTS)
    line = f"DataReferences: {json.dumps([part.path for part in parts[:SHOWN_PARTS]], ensure_ascii=False)}"
    return LargeFiles(
        f"{message}: {named}",
        paths=tuple((part.path, part.size) for part in parts),
        remedy=f"To link them instead of copying them, add `{line}` to "
        f"{configuration_path or 'the run configuration'}; on another machine, write the absolute path of the data "
        f"there: `DataReferences: {{{parts[0].path}: PATH}}`. "
        f"To exclude them from runs, add patterns such as `/{parts[0].path}` to {IGNORE_FILE}.",
        configuration=configuration_path,
    )


def check_files(project: Project, spec: RunSpec, origin: str) -> Contents:
    """Count the files that a run would get now. A run with an `origin` already has a snapshot.

    Raises LargeFiles or StorageError.
    """
    contents = _contents_of(spec, project.state_directory, is_again=bool(origin))
    refuse_large(contents, spec.run_configuration.path)
    return contents


def plan_files(spec: RunSpec, plan: Plan, *, is_again: bool) -> Plan:
    """Return the plan with the files that the run would get, and with an error if they prevent the start of the run.

    Raises StorageError.
    """
    contents = _contents_of(spec, state_of_run(spec.run_directory), is_again=is_again)
    texts = [f"note: {text}" for text in notes_on(contents)]
    try:
        refuse_large(contents, spec.run_configuration.path)
    except LargeFiles as error:
        texts.insert(0, f"the run would not start, because {error.message}. {error.remedy}")
    plan = contents.add_to_plan(plan)
    return plan._replace(steps=(*(Step("files", text) for text in texts), *plan.steps))


def _contents_of(spec: RunSpec, state_directory: str, *, is_again: bool) -> Contents:
    data = data_in_project(spec.project_root, spec.run_configuration.data_references)
    with storage_errors("read", spec.project_root, exact=True):
        contents = contents_of(spec.project_root, state_directory, data)
    return contents.without_snapshot() if is_again else contents
