"""Where our things lie on a host, below one folder of the user's there; nothing of ours is ever anywhere else.

And the folders that runs and projects have left there: found, read and removed.

```
<home>/projects/<name>-<key>/tree   the project as it was sent last; `key` tells this machine's project from others
<home>/runs/<run id>/               a run's directory, as the host knows it
<home>/sdk/<version>/               what scripts may import to log to the workbench
<home>/supplies/                    what environments are built with; can be removed at any time
```
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
from collections.abc import Collection
from typing import NamedTuple

from tui_workbench.targets.base.values import CleanupItem, ProjectNames
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.remote_scripts import LIVING

_MACHINE_ID = "/etc/machine-id"


LIST_SECONDS = 120.0
"""Adding up the sizes of many files on a slow disk."""

# $1 our folder. For each run: its name, its size in kB and its record, each ended by a NUL.
_RUNS = """\
cd -- "$1/runs" 2>/dev/null || exit 0
for run in *; do
    [ -d "$run" ] || continue
    printf '%s\\0%s\\0' "$run" "$(du -sk -- "$run" | cut -f1)"
    cat -- "$run/run.json" 2>/dev/null
    printf '\\0'
done
"""
_SIZES = 'for path; do [ -e "$path" ] && du -sk -- "$path" | cut -f1 || echo -; done'


class HostLayout(NamedTuple):
    """The paths on one host; `home` is the user's folder of ours there."""

    home: str

    def run(self, run_id: str) -> str:
        """The run's directory."""
        return posixpath.join(self.home, "runs", run_id)

    def project_tree(self, project_root: str, project_name: str) -> str:
        """Where the project at `project_root` of this machine is kept as it was sent last."""
        return posixpath.join(self.home, "projects", f"{_slug(project_name)}-{project_key(project_root)}", "tree")

    def sdk(self, version: str) -> str:
        """What scripts may import, in this version."""
        return posixpath.join(self.home, "sdk", version)

    @property
    def offline_packages(self) -> str:
        """What environments are built with, each thing in a folder that is named by its content."""
        return posixpath.join(self.home, "supplies")


def project_key(project_root: str) -> str:
    """Tells a project folder of this machine from every other folder of every machine."""
    try:
        with open(_MACHINE_ID, "rb") as file:
            machine = file.read().strip()
    except OSError:
        machine = os.uname().nodename.encode()
    return hashlib.sha256(machine + b"\0" + os.fsencode(project_root)).hexdigest()[:12]


def _slug(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name).strip("-.") or "project"


class RunFolder(NamedTuple):
    """A run's folder on a host, as the host tells."""

    run_id: str
    size: int
    record: bytes

    @property
    def project(self) -> str:
        """The project's name; "" where a submit was killed before the record was there."""
        try:
            return str(json.loads(self.record)["project"])
        except (ValueError, KeyError, TypeError):
            return ""


def run_folders(host: Host) -> list[RunFolder]:
    """The folders of all runs on another machine; none here, where they are the history."""
    if host.is_local:
        return []
    parts = host.check(["sh", "-c", _RUNS, "sh", host.home()], timeout=LIST_SECONDS).stdout.split(b"\0")
    return [
        RunFolder(name.decode("utf-8", "surrogateescape"), int(size or 0) * 1024, record)
        for name, size, record in zip(parts[0::3], parts[1::3], parts[2::3], strict=False)
    ]


def run_records(host: Host, project: ProjectNames) -> list[tuple[str, bytes]]:
    """The id and run.json of each run of a project that has a folder on another machine."""
    return [(folder.run_id, folder.record) for folder in run_folders(host) if folder.project == project.name]


def find_cleanup_items(host: Host, project: ProjectNames, busy: Collection[str]) -> list[CleanupItem]:
    """The folders that a project's runs left on another machine, without those of runs that are `busy`.

    A run of plain Python that goes on there is busy, whoever submitted it.
    """
    if host.is_local:
        return []
    living = _living_runs(host)
    found = [
        CleanupItem("run", folder.run_id, folder.size)
        for folder in run_folders(host)
        if folder.run_id not in busy and folder.run_id not in living and folder.project in ("", project.name)
    ]
    return found + _folders(host, project)


def _living_runs(host: Host) -> set[str]:
    names = host.check(["sh", "-c", LIVING, "sh", host.home()]).stdout.split(b"\0")
    return {name.decode("utf-8", "surrogateescape") for name in names if name}


def _folders(host: Host, project: ProjectNames) -> list[CleanupItem]:
    layout = HostLayout(host.home())
    tree = posixpath.dirname(layout.project_tree(project.root, project.name))
    folders = {tree: "project", layout.offline_packages: "cache"}
    sizes = host.check(["sh", "-c", _SIZES, "sh", *folders], timeout=LIST_SECONDS).text.split("\n")
    return [
        CleanupItem(kind, path, int(size) * 1024)
        for (path, kind), size in zip(folders.items(), sizes, strict=True)
        if size.isdigit()
    ]


def remove_cleanup_item(host: Host, item: CleanupItem) -> None:
    """Remove something that `find_cleanup_items` named; fine when it is gone. Raises WorkbenchError."""
    path = HostLayout(host.home()).run(item.name) if item.kind == "run" else item.name
    host.check(["rm", "-rf", "--", path], timeout=LIST_SECONDS)
