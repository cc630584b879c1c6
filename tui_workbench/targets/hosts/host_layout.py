"""Folders on a host: those of the workbench with their sizes and removal, and a test that a folder is writable.

All folders of the workbench are below one folder of the user:

```
<home>/projects/<name>-<key>/tree   the project as last sent; `key` identifies the machine and folder of the project
<home>/projects/<name>-<key>/spare  the working copy of an ended run, for the next run; only for many files
<home>/runs/<run ID>/               the run's directory on the host
<home>/sdk/<version>/               the modules that scripts import to log metrics
<home>/tools/<name>                 programs that the workbench sends, such as py-spy
<home>/supplies/                    packages for building environments; can be removed at any time
```
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import secrets
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from tui_workbench.core.files import read_file
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import RunSpec
from tui_workbench.core.numbers import whole_number
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host, is_disk_full
from tui_workbench.targets.values import CleanupItem, ProjectNames

LIST_SECONDS = 120.0
"""Time limit in seconds for removing many files, or adding up their sizes, on a slow disk."""

_RUNS = shell_script("targets/hosts/scripts/list_runs.sh")
_LIVING = shell_script("targets/hosts/scripts/living.sh")
_TEST_WRITE = shell_script("targets/hosts/scripts/test_write.sh")
# $1: a folder. Renames it first, so that a run that starts meanwhile never finds a part of it.
_REMOVE = 'mv -- "$1" "$1.removed.$$" 2>/dev/null; rm -rf -- "$1" "$1".removed.*'
_SIZES = 'for path; do [ -e "$path" ] && du -sk -- "$path" | cut -f1 || echo -; done'


class HostLayout(NamedTuple):
    """The paths on one host."""

    home: str

    @property
    def runs(self) -> str:
        return posixpath.join(self.home, "runs")

    def run(self, run_id: str) -> str:
        return posixpath.join(self.runs, run_id)

    def project_tree(self, project_root: str, project_name: str) -> str:
        """Return the folder that contains the last sent files of a project."""
        return posixpath.join(self.home, "projects", f"{_slug(project_name)}-{project_key(project_root)}", "tree")

    def sdk(self, version: str) -> str:
        return posixpath.join(self.home, "sdk", version)

    def tool(self, name: str) -> str:
        return posixpath.join(self.home, "tools", name)

    @property
    def offline_packages(self) -> str:
        return posixpath.join(self.home, "supplies")


def run_directory(host: Host, spec: RunSpec) -> str:
    """Return the run's directory on the host that executes it. Raises TargetUnreachable."""
    return spec.run_directory if host.is_local else HostLayout(host.home()).run(spec.run_id)


def project_key(project_root: str) -> str:
    """Return an identifier of a project folder, unique across machines."""
    try:
        machine = read_file("/etc/machine-id").strip()
    except OSError:
        machine = os.uname().nodename.encode()
    return hashlib.sha256(machine + b"\0" + os.fsencode(project_root)).hexdigest()[:12]


def _slug(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name).strip("-.") or "project"


class RunFolder(NamedTuple):
    """A run's folder on a host."""

    run_id: str
    size: int  # bytes
    record: bytes  # the content of run.json

    @property
    def project(self) -> str:
        """The project's name; "" if a submit was killed before it wrote the record."""
        try:
            return str(parse_json(self.record)["project"])
        except (ValueError, KeyError, TypeError):
            return ""


def run_folders(host: Host) -> list[RunFolder]:
    """Return the folders of all runs on another machine; none for this machine."""
    if host.is_local:
        return []
    parts = host.check(["sh", "-c", _RUNS, "sh", host.home()], timeout=LIST_SECONDS).stdout.split(b"\0")
    return [
        RunFolder(name.decode("utf-8", "surrogateescape"), (whole_number(size) or 0) * 1024, record)
        for name, size, record in zip(parts[0::3], parts[1::3], parts[2::3], strict=False)
    ]


def find_cleanup_items(host: Host, project: ProjectNames, busy: Collection[str]) -> list[CleanupItem]:
    """Return the folders on another machine that can be removed for a project; none for this machine.

    They are the last sent files of the project, the packages for building environments, and the folders of runs. Runs
    in `busy` and runs with live processes are excluded.
    """
    if host.is_local:
        return []
    names = host.check(["sh", "-c", _LIVING, "sh", host.home()]).stdout.split(b"\0")
    living = {name.decode("utf-8", "surrogateescape") for name in names}
    layout = HostLayout(host.home())
    runs = [
        CleanupItem("run", folder.run_id, partial(_remove, host, layout.run(folder.run_id)), folder.size)
        for folder in run_folders(host)
        if folder.run_id not in busy and folder.run_id not in living and folder.project in ("", project.name)
    ]
    return runs + _project_folders(host, project)


def _project_folders(host: Host, project: ProjectNames) -> list[CleanupItem]:
    """Return the folders that the runs of a project share, if they exist."""
    layout = HostLayout(host.home())
    tree = posixpath.dirname(layout.project_tree(project.root, project.name))
    folders = {tree: "project", layout.offline_packages: "cache"}
    sizes = host.check(["sh", "-c", _SIZES, "sh", *folders], timeout=LIST_SECONDS).text.split("\n")
    return [
        CleanupItem(kind, path, partial(_remove, host, path), size * 1024)
        for (path, kind), line in zip(folders.items(), sizes, strict=False)
        if (size := whole_number(line)) is not None
    ]


def _remove(host: Host, path: str) -> None:
    host.check(["sh", "-c", _REMOVE, "sh", path], timeout=LIST_SECONDS)


class WriteTest(NamedTuple):
    """The folder in which a file was written, and the error of the system, such as `Permission denied`, or ""."""

    folder: str
    complaint: str

    @property
    def is_read_only(self) -> bool:
        return "Read-only file system" in self.complaint

    @property
    def is_full(self) -> bool:
        """True if the disk is full, or the user's quota on it is used up."""
        return is_disk_full(self.complaint)


def try_to_write(host: Host, folder: str) -> WriteTest:
    """Write a small file in a folder, or in its nearest parent that exists, and remove it. Raises TargetUnreachable.

    Nothing that exists is changed.
    """
    done = host.run(["sh", "-c", _TEST_WRITE, "sh", folder, f".workbench-tui-{secrets.token_hex(8)}"])
    return WriteTest(done.text.strip("\n") or folder, done.complaint.rpartition(": ")[2] if done.code else "")
