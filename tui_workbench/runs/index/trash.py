"""The trash of a project: run directories that are renamed within the folder of runs.

In this folder, a name that begins with a period is not the name of a run. A rename is atomic, needs no disk space, and
does not depend on the content of the directory, which is not trusted. `runs.deleting` changes the trash.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from tui_workbench.core.errors import RunNotFound
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.index import unreadable_run
from tui_workbench.runs.store.ownership import DELETED_PREFIX, PURGED_PREFIX
from tui_workbench.runs.store.rundir import RunDirectory


def find_deleted(project: Project, run_ids: Sequence[str]) -> list[Run]:
    """Return the runs in the trash with these IDs or numbers; without IDs, all of them, newest first.

    Raises RunNotFound.
    """
    names = names_with(project, DELETED_PREFIX)
    if not run_ids:
        return _read(project, names)
    requested = {DELETED_PREFIX + run_id for run_id in run_ids}
    trash = _read(project, requested if requested <= set(names) else names)  # only a number needs the records of all
    runs = []
    for run_id in run_ids:
        run = next((run for run in trash if run_id in (run.run_id, str(run.run_number))), None)
        if run is None:
            remedy = "`workbench-tui history list --deleted` lists the runs in the trash."
            raise RunNotFound(f"no run {run_id!r} in the trash", remedy=remedy)
        runs.append(run)
    return runs


def unfinished_purge(project: Project) -> list[str]:
    """Return the IDs of runs whose purge was interrupted."""
    return [name.removeprefix(PURGED_PREFIX) for name in names_with(project, PURGED_PREFIX)]


def names_with(project: Project, prefix: str) -> list[str]:
    """Return the names with this prefix in the folder of runs, sorted."""
    try:
        return sorted(name for name in os.listdir(project.runs_directory) if name.startswith(prefix))
    except OSError:
        return []


def _read(project: Project, names: Iterable[str]) -> list[Run]:
    """Return the runs of these directories in the trash, newest first."""
    runs = []
    for name in names:
        directory = RunDirectory(os.path.join(project.runs_directory, name))
        try:
            run = directory.run()
        except RunNotFound as error:
            run = unreadable_run(directory.path, str(error))
        runs.append(run._replace(run_id=directory.run_id))
    return sorted(runs, key=lambda run: (run.created, run.run_id), reverse=True)
