"""The files of a run's working copy, as what a target on another machine is sent.

A file that git knows is told by git's name for its content, so it is never read again to see whether it changed, and a
fresh copy of an unchanged project is known to be unchanged. Paths that only link back into the project (data sets that
the ignore files exclude) stay here.
"""

from __future__ import annotations

import os

from tui_workbench.errors import StorageError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import OUTPUTS
from tui_workbench.targets.host import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.model import RunSpec
    from tui_workbench.runs.ignore import IgnoreFile
    from tui_workbench.runs.rundir import Record

_LINK, _EXECUTABLE = "120000", "100755"


def listing_of(record: Record) -> list[Entry]:
    """Every file and link of the run's working copy. Raises StorageError."""
    spec = record.spec
    if record.snapshot != "git":
        return _walk(spec)
    entries = []
    for mode, name, size, path in _files_of(spec, record.commit_id):
        if mode == _LINK:
            link = _link_of(spec, path)
            if link is not None:
                entries.append(Entry(path, f"{name}-{link}", link=link))
        else:
            entries.append(Entry(path, name, size, executable=mode == _EXECUTABLE))
    return entries


def listing_of_project(root: str) -> list[Entry]:
    """Every file and link of the project at `root` that a snapshot of this moment would hold."""
    from tui_workbench.runs.ignore import read_ignore_file
    from tui_workbench.runs.snapshot import IGNORE_FILE

    entries: list[Entry] = []
    _list_folder(root, "", (read_ignore_file(root, "", IGNORE_FILE), ()), entries)
    return entries


def _list_folder(root: str, folder: str, rules: tuple[IgnoreFile, tuple[IgnoreFile, ...]], found: list[Entry]) -> None:
    from tui_workbench.runs.ignore import is_excluded, read_ignore_file
    from tui_workbench.runs.plaincopy import IGNORE_FILE
    from tui_workbench.runs.snapshot import is_never_taken

    always, above = rules
    files = (read_ignore_file(root, folder, IGNORE_FILE), *above)
    with os.scandir(os.path.join(root, folder)) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_never_taken(path) or always.verdict(path, is_folder=is_folder):
                continue
            if is_excluded(path, is_folder=is_folder, files=files):
                continue
            if is_folder:
                _list_folder(root, path, (always, files), found)
            elif entry.is_symlink():
                found.append(Entry(path, f"link-{os.readlink(entry.path)}", link=os.readlink(entry.path)))
            elif entry.is_file() and os.access(entry.path, os.R_OK):
                status = entry.stat()
                executable = bool(status.st_mode & 0o100)
                found.append(Entry(path, _blob_name(entry.path, status.st_size), status.st_size, executable=executable))


def _blob_name(path: str, size: int) -> str:
    """Git's name for a file's content."""
    import hashlib

    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def _files_of(spec: RunSpec, commit: str) -> Iterator[tuple[str, str, int, str]]:
    """Mode, name of the content, size and path of every file of a snapshot."""
    import subprocess

    from tui_workbench import trace
    from tui_workbench.runs.snapshot import REPOSITORY

    repository = os.path.join(os.path.dirname(os.path.dirname(spec.run_directory)), REPOSITORY)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", f"--git-dir={repository}", "ls-tree", "-r", "-z", "--long", commit]
    with trace.Call(trace.GIT, command) as call:
        done = subprocess.run(
            command,
            env={**environment, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
            capture_output=True,
            check=False,
        )
        call.end(done.returncode, done.stderr)
    if done.returncode != 0:
        raise StorageError(
            f"the snapshot of {spec.run_id} cannot be read: {done.stderr.decode(errors='replace').strip()}",
            remedy="Submit it again.",
            file=repository,
        )
    for line in done.stdout.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, name, size = facts.decode("ascii").split()
        yield mode, name, int(size) if size.isdigit() else 0, os.fsdecode(path)


def _walk(spec: RunSpec) -> list[Entry]:
    root = spec.working_directory
    entries = []
    for folder, folders, files in os.walk(root):
        if folder == root and OUTPUTS in folders:
            folders.remove(OUTPUTS)
        for name in files + [each for each in folders if os.path.islink(os.path.join(folder, each))]:
            path = os.path.relpath(os.path.join(folder, name), root)
            status = os.lstat(os.path.join(folder, name))
            if os.path.islink(os.path.join(folder, name)):
                link = _link_of(spec, path)
                if link is not None:
                    entries.append(Entry(path, f"link-{link}", link=link))
            else:
                identity = f"{status.st_mtime_ns}-{status.st_size}"
                entries.append(Entry(path, identity, status.st_size, executable=bool(status.st_mode & 0o100)))
    return entries


def _link_of(spec: RunSpec, path: str) -> str | None:
    """Where a link of the copy leads; None when back into the project, which is not there on another machine."""
    try:
        link = os.readlink(os.path.join(spec.working_directory, path))
    except OSError:
        return None
    return None if os.path.isabs(link) and f"{link}/".startswith(f"{spec.project_root}/") else link
