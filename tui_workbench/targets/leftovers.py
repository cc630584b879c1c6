"""What runs have left on a Docker engine and its host, found by our labels and in our folder, and nothing else.

A container that runs is never among it, nor an environment that some container uses, nor what belongs to a run that
another machine may still want to bring home.
"""

from __future__ import annotations

import json
import posixpath

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.building import BUILD_KIND, CACHE_VOLUME, ENVIRONMENT_KIND, MACHINE_LABEL
from tui_workbench.targets.container import KIND_LABEL, PROJECT_LABEL, RUN_KIND, RUN_LABEL
from tui_workbench.targets.layout import HostLayout, project_key
from tui_workbench.targets.probe import PROBE_KIND
from tui_workbench.targets.staged import Leftover

if TYPE_CHECKING:
    from collections.abc import Collection

    from tui_workbench.targets.engine import Engine
    from tui_workbench.targets.host import Host
    from tui_workbench.targets.staged import ProjectNames

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


class HostRunFolder:
    """A run's folder on a host, as the host tells."""

    def __init__(self, run_id: str, size: int, record: bytes) -> None:
        self.run_id = run_id
        self.size = size
        self.record = record
        try:
            self.project = str(json.loads(record)["project"])
        except (ValueError, KeyError, TypeError):
            self.project = ""  # a submit was killed before the record was there


def run_folders(host: Host) -> list[HostRunFolder]:
    """The folders of all runs on another machine; none here, where they are the history."""
    if host.is_local:
        return []
    parts = host.check(["sh", "-c", _RUNS, "sh", host.home()], timeout=LIST_SECONDS).stdout.split(b"\0")
    return [
        HostRunFolder(name.decode("utf-8", "surrogateescape"), int(size or 0) * 1024, record)
        for name, size, record in zip(parts[0::3], parts[1::3], parts[2::3], strict=False)
    ]


def find(host: Host, engine: Engine, project: ProjectNames, active: Collection[str]) -> list[Leftover]:
    """What is left of a project's runs; `active` are the ids of those that go on."""
    containers, busy = _containers(engine, project, active)
    found = containers + _environments(engine, project)
    if engine.has_volume(CACHE_VOLUME):
        found.append(Leftover("cache", CACHE_VOLUME, note="what the package installer keeps, on the engine"))
    return found + find_folders(host, project, {*active, *busy})


def find_folders(host: Host, project: ProjectNames, busy: Collection[str]) -> list[Leftover]:
    """The folders that a project's runs left on another machine, without those of runs that are `busy`.

    A run of plain Python that goes on there is busy, whoever submitted it.
    """
    if host.is_local:
        return []
    living = _living_runs(host)
    found = [
        Leftover("run", folder.run_id, folder.size)
        for folder in run_folders(host)
        if folder.run_id not in busy and folder.run_id not in living and folder.project in ("", project.name)
    ]
    return found + _folders(host, project)


def _living_runs(host: Host) -> set[str]:
    """The ids of the runs there whose supervising shell is alive."""
    from tui_workbench.targets.remote_scripts import LIVING

    names = host.check(["sh", "-c", LIVING, "sh", host.home()]).stdout.split(b"\0")
    return {name.decode("utf-8", "surrogateescape") for name in names if name}


def _containers(engine: Engine, project: ProjectNames, active: Collection[str]) -> tuple[list[Leftover], set[str]]:
    """Containers that nobody needs, and the ids of runs whose container is needed."""
    found, busy = [], set()
    for kind in (RUN_KIND, BUILD_KIND, PROBE_KIND):
        for container in engine.containers(f"{KIND_LABEL}={kind}"):
            run_id = container.labels.get(RUN_LABEL, "")
            if kind == RUN_KIND:
                if container.labels.get(PROJECT_LABEL) != project.name:
                    continue
                if run_id in active or not (container.has_ended or container.state == "created"):
                    busy.add(run_id)
                    continue
            elif kind == BUILD_KIND and container.labels.get(MACHINE_LABEL) != project_key(""):
                continue  # another machine is building
            found.append(Leftover("container", container.name, note=f"{kind}, {container.state}"))
    return found, busy


def _environments(engine: Engine, project: ProjectNames) -> list[Leftover]:
    used = {container.image for container in engine.containers(KIND_LABEL)}
    found: list[Leftover] = []
    for image in engine.images(f"{KIND_LABEL}={ENVIRONMENT_KIND}"):
        if image.labels.get(PROJECT_LABEL, project.name) == project.name and image.id not in used:
            # Its layers are shared with the base image, which stays.
            found.extend(Leftover("environment", tag, image.own_size) for tag in image.tags)
    return found


def _folders(host: Host, project: ProjectNames) -> list[Leftover]:
    layout = HostLayout(host.home())
    tree = posixpath.dirname(layout.project_tree(project.root, project.name))
    folders = {tree: "project", layout.supplies: "cache"}
    sizes = host.check(["sh", "-c", _SIZES, "sh", *folders], timeout=LIST_SECONDS).text.split("\n")
    return [
        Leftover(kind, path, int(size) * 1024)
        for (path, kind), size in zip(folders.items(), sizes, strict=True)
        if size.isdigit()
    ]


def remove(host: Host, engine: Engine, leftover: Leftover) -> None:
    """Remove something that `find` named; fine when it is gone. Raises WorkbenchError."""
    if leftover.kind == "container":
        engine.remove(leftover.name)
    elif leftover.kind == "environment":
        engine.remove_image(leftover.name)
    elif leftover.name == CACHE_VOLUME:
        engine.remove_volume(leftover.name)
    else:
        remove_folder(host, leftover)


def remove_folder(host: Host, leftover: Leftover) -> None:
    """Remove something that `find_folders` named; fine when it is gone. Raises WorkbenchError."""
    path = HostLayout(host.home()).run(leftover.name) if leftover.kind == "run" else leftover.name
    host.check(["rm", "-rf", "--", path], timeout=LIST_SECONDS)
