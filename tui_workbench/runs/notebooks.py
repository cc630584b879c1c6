"""Jupyter on the files of a project: in the project folder if the target is this machine, otherwise in a run.

The run uses a run configuration, so it gets its snapshot, environment and GPUs as any other run. Instead of a script,
it starts Jupyter when a port for it is opened (`ports.OpenPort`), and ends with Jupyter. Then the files that the user
changed are in the run directory, and `history download --into-project` copies them into the project.
"""

from __future__ import annotations

import os
import time

from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run, RunConfiguration, RunRequest, RunState
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project, line_of_key
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.ports import PortOwner, project_owner, run_owner
from tui_workbench.runs.snapshots.project_files import is_never_taken
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.transfer.downloads import files_outside_outputs
from tui_workbench.runs.transfer.into_project import in_project

POLL_SECONDS = 0.2
"""Seconds between two looks whether a run is running."""

MOST_NAMES = 5
"""Maximum number of names of changed files in a message."""


def notebook_request(project: Project, target: str = "", configuration: str = "") -> RunRequest | None:
    """Return the request of the run that starts Jupyter; None if Jupyter starts in the project folder, without a run.

    The default is the target `local`. If only a target is given, its only run configuration is used. Raises
    ConfigurationError, or UsageError if runs on the target cannot start Jupyter.
    """
    chosen = project.run_configuration(configuration) if configuration else None
    compute = project.target_of(chosen, target) if chosen is not None else project.target(target or "local")
    if compute.kind.runs_here:
        return None
    if not compute.kind.can_start_jupyter:
        raise UsageError(
            f"Jupyter cannot be started on targets of type {compute.type}, such as {compute.name}",
            remedy="Use a target of type local, localdocker, remote or remotedocker. Notebooks can also be run as "
            "scripts: `workbench-tui experiment submit -c NAME train.ipynb`.",
        )
    if chosen is None:
        chosen = _only_configuration(project, compute)
    if chosen.uses_spark:
        key = chosen.key("Framework")
        raise ConfigurationError(
            f"`{key}` of {chosen.name} is {chosen.framework}, but spark-submit cannot start Jupyter",
            remedy=f"Set `{key}: Python`, or name another run configuration.",
            file=chosen.path,
            line=line_of_key(chosen.path, key),
        )
    return RunRequest(chosen.name, target=target, starts_jupyter=True)


def notebook_owner(project: Project, configuration: str = "") -> PortOwner:
    """Return the port owner for Jupyter on the files of a project. Submit its run, if it needs one, and wait for it.

    Raises WorkbenchError, for example if the run ends before Jupyter could start.
    """
    request = notebook_request(project, configuration=configuration)
    if request is None:
        return project_owner(project, configuration=configuration)
    run = Runs(project).submit(request)
    directory = RunDirectory(run.directory)
    while (status := directory.status()).state != RunState.RUNNING:
        if status.end:
            raise WorkbenchError(
                f"run {run.run_number}, which starts Jupyter, has ended: {status.reason or status.state}",
                remedy=f"`workbench-tui logs {run.run_number}` shows its output.",
            )
        time.sleep(POLL_SECONDS)
    return run_owner(directory)


def _only_configuration(project: Project, compute: ComputeTarget) -> RunConfiguration:
    """Return the run configuration of a target. Raises UsageError if there are several, or none."""
    valid = (configuration for configuration in project.run_configurations() if configuration.problem is None)
    usable = [configuration for configuration in valid if configuration.target == compute.name]
    if len(usable) == 1:
        return usable[0]
    raise UsageError(
        f"Jupyter on {compute.name} needs a run configuration, and {len(usable) or 'no'} run configurations have this "
        "target",
        remedy=f"Name one: `workbench-tui notebook -t {compute.name} -c NAME`.",
    )


def changes_of(run: Run, root: str) -> list[str]:
    """Return lines about the files that the user changed in an ended run, and how to copy them into the project."""
    written = (in_project(path) for path in files_outside_outputs(run.directory))
    changed = sorted(path for path in written if not is_never_taken(path))  # without the checkpoints of Jupyter
    if not changed:
        return []
    times = {path: modified for path in changed if (modified := _modified(root, path))}
    both = [path for path, modified in times.items() if modified > run.created]
    command = f"workbench-tui history download -r {run.run_number} --into-project"
    return [
        f"changed in run {run.run_number}: {_names(changed)}",
        *([f"meanwhile also changed in the project: {_names(both)}"] if both else []),
        f"Copy the files into the project, and save those that are replaced: {command} --overwrite"
        if times
        else f"Copy the files into the project: {command}",
    ]


def _modified(root: str, path: str) -> float:
    """Return the modification time of a file of the project in seconds since the epoch; 0 if it does not exist."""
    try:
        return os.lstat(os.path.join(root, path)).st_mtime
    except OSError:
        return 0.0


def _names(paths: list[str]) -> str:
    rest = f" and {counted(len(paths) - MOST_NAMES, 'other')}" if len(paths) > MOST_NAMES else ""
    return f"{', '.join(paths[:MOST_NAMES])}{rest}"
