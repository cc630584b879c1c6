"""Copy files of a run to its project: on request, and files that match `--keep-outputs` when the run completes.

Links are not followed. Files of the project are saved before they are replaced.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import UsageError
from tui_workbench.core.files import make_folders, open_below, open_regular, replacing_below
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import state_of_run
from tui_workbench.runs.snapshots.file_copy import copy_content
from tui_workbench.runs.snapshots.ignore import IgnoreFile, parse
from tui_workbench.runs.snapshots.project_files import NEVER_TAKEN, is_never_taken
from tui_workbench.runs.store.rundir import FOLLOWED, OUTPUTS, WORKING_COPY, Record, RunDirectory
from tui_workbench.runs.transfer.downloads import artifact_path, chosen_artifacts, files_below, written_files

REPLACED = "replaced"  # folder in `.workbench/` with a folder of replaced files for each run
FOLDER_MODE = 0o777  # before the umask is applied

_CHUNK = 1 << 20


class CopyResult(NamedTuple):
    """The paths in the project: copied files, files skipped because they are equal, and refused files with reasons."""

    copied: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    saved: str = ""  # the folder with the replaced files, or ""

    @property
    def text(self) -> str:
        """A summary such as `copied 2 files into the project; refused out/x: a link is in its place`."""
        texts = [f"copied {counted(len(self.copied), 'file')} into the project"]
        if self.same:
            texts.append(f"{len(self.same):,} unchanged")
        if self.saved:
            texts.append(f"the replaced files are in {self.saved}")
        texts += [f"refused {path}: {why}" for path, why in self.refused[:3]]
        if len(self.refused) > 3:
            texts.append(f"refused {len(self.refused) - 3} more")
        return "; ".join(texts)


def keep_outputs(directory: RunDirectory, record: Record) -> None:
    """Copy files that match `--keep-outputs` from a completed run to the project, if all files have been fetched.

    An event records the result. A file that cannot be copied does not affect the run. Raises StorageError if the event
    cannot be written.
    """
    status = directory.status()
    is_missing = "fetch" in status.begun - status.done
    if not record.spec.keep_outputs or is_missing or os.path.lexists(directory.file(FOLLOWED)):
        return
    state_directory = state_of_run(directory.path)
    try:
        text = kept_outputs(directory.path, record.spec.project_root, state_directory, record.spec.keep_outputs).text
    except (OSError, ValueError) as error:
        text = f"no file was copied into the project: {error}"
    directory.append_event("step", step="keep", status="done", text=text)


def kept_outputs(directory: str, project_root: str, state_directory: str, patterns: Sequence[str]) -> CopyResult:
    """Copy files that match `patterns` from a run to the project. Replaced files are saved first.

    Patterns have the syntax of `.gitignore`, and match paths in the project: `out/*.pt`, `data/`, `outputs/`. Raises
    OSError, and ValueError as `parse` does.
    """
    rules = parse("\n".join(patterns).encode("utf-8", "surrogateescape"))
    made = [*files_below(directory, OUTPUTS), *written_files(directory)]
    matching = [name for name in made if _is_named(in_project(name), rules)]
    return _copy(directory, project_root, state_directory, matching)


def copy_artifacts(
    directory: str, project_root: str, state_directory: str, names: Sequence[str], *, overwrite: bool = False
) -> CopyResult:
    """Copy artifacts (default: all files outside outputs/, except caches) to the project.

    Before any file is copied, raises UsageError for unknown names, for names outside `outputs/` and `work/`, and
    without `overwrite` for files that would be replaced.
    """
    written = (name for name in written_files(directory) if not is_never_taken(in_project(name)))
    chosen = chosen_artifacts(directory, names) if names else sorted(written)
    record = next((name for name in chosen if name.split(os.sep)[0] not in (OUTPUTS, WORKING_COPY)), "")
    if record:
        raise UsageError(
            f"{record} is not in {OUTPUTS}/ or {WORKING_COPY}/ and cannot be copied into the project",
            remedy="Copy it to another folder: `workbench-tui history download -r ID -a NAME -d DIR`.",
        )
    if not overwrite:
        for name in chosen:
            path = in_project(name)
            is_there = os.path.lexists(os.path.join(project_root, path))
            if is_there and not _is_same(artifact_path(directory, name), project_root, path):
                raise UsageError(
                    f"{path} already exists in the project with other contents",
                    remedy="Add `--overwrite` to replace the file; a copy of it is saved first.",
                )
    return _copy(directory, project_root, state_directory, chosen)


def in_project(name: str) -> str:
    """Return the path in the project to which an artifact is copied."""
    return os.path.relpath(name, WORKING_COPY) if name.split(os.sep)[0] == WORKING_COPY else name


def _copy(directory: str, project_root: str, state_directory: str, names: Iterable[str]) -> CopyResult:
    """Copy files of the run to their paths in the project. Files that cannot be copied are in `refused`."""
    copied, same, refused = [], [], []
    saved = f"{REPLACED}/{os.path.basename(directory)}"
    was_saved = False
    for name in names:
        path = in_project(name)
        try:
            if any(part in NEVER_TAKEN for part in path.split(os.sep)):
                message = "files of the workbench, of git and of caches cannot be copied into the project"
                raise UsageError(message, remedy="Copy the file to another folder with `--directory DIR`.")
            source = artifact_path(directory, name)
            if _is_same(source, project_root, path):
                same.append(path)
                continue
            make_folders(project_root, os.path.dirname(path), FOLDER_MODE)
            if os.path.lexists(os.path.join(project_root, path)):
                _save(project_root, path, state_directory, saved)
                was_saved = True
            _write(source, project_root, path)
            copied.append(path)
        except (OSError, UsageError) as error:
            refused.append((path, error.strerror or str(error) if isinstance(error, OSError) else error.message))
    saved_folder = os.path.join(state_directory, saved) if was_saved else ""
    return CopyResult(tuple(copied), tuple(same), tuple(refused), saved_folder)


def _is_same(source: str, root: str, path: str) -> bool:
    try:
        existing = open(open_below(root, path), "rb")  # noqa: SIM115 (closed below)
    except OSError:
        return False
    with existing, open_regular(source) as new:
        if os.fstat(existing.fileno()).st_size != os.fstat(new.fileno()).st_size:
            return False
        while data := new.read(_CHUNK):
            if existing.read(len(data)) != data:
                return False
    return True


def _save(root: str, path: str, state_directory: str, saved: str) -> None:
    """Save a file of the project before it is replaced. Raises OSError, also for special files."""
    name = f"{saved}/{path}"
    names = itertools.chain((name,), (f"{name}~{number}" for number in itertools.count(2)))
    with open(open_below(root, path), "rb") as file:
        make_folders(state_directory, os.path.dirname(name))
        free = next(candidate for candidate in names if not os.path.lexists(os.path.join(state_directory, candidate)))
        with replacing_below(state_directory, free, durable=True) as copy:
            copy_content(file, copy)


def _write(source: str, root: str, path: str) -> None:
    """Copy a file to the project. Raises OSError."""
    with open_regular(source) as file:
        mode = 0o777 if os.fstat(file.fileno()).st_mode & 0o100 else 0o666
        with replacing_below(root, path, mode, durable=True) as copy:
            copy_content(file, copy)


def _is_named(path: str, rules: IgnoreFile) -> bool:
    """Return True if a pattern matches the path or one of its folders."""
    parts = path.split(os.sep)
    folders = (os.sep.join(parts[:count]) for count in range(1, len(parts)))
    if rules.verdict(path, is_folder=False):
        return True
    return any(rules.verdict(folder, is_folder=True) for folder in folders)
