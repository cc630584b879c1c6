"""Actions on one or several runs of a project. All functions block; call them in threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import RunNotFound, UsageError, WorkbenchError
from tui_workbench.core.files import folder_size
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import metered
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.dependencies import dependents_of
from tui_workbench.runs.store.annotations import Annotations, read_annotations
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.transfer.downloads import download
from tui_workbench.runs.transfer.mlflow_export import export_csv, export_mlflow

CSV = ".csv"


class Deletable(NamedTuple):
    """Runs that can be deleted, their disk space in bytes, and the numbers of pinned and active runs, which stay."""

    runs: tuple[Run, ...]
    size: int
    pinned: int
    active: int

    @property
    def staying(self) -> str:
        """A text such as `1 pinned run and 2 active runs`, or ""."""
        kinds = ((self.pinned, "pinned run"), (self.active, "active run"))
        return " and ".join(counted(number, kind) for number, kind in kinds if number)


class Deletion(NamedTuple):
    """The IDs of the runs that were moved to the trash, and the errors of the other runs."""

    run_ids: tuple[str, ...]
    problems: tuple[WorkbenchError, ...]


class Annotated(NamedTuple):
    """The previous annotations of the changed runs, keyed by run ID, and the errors of the other runs."""

    before: Mapping[str, Annotations]
    problems: tuple[WorkbenchError, ...]


def annotate(project: Project, run_ids: Sequence[str], change: Callable[[Annotations], Annotations]) -> Annotated:
    """Change the annotations of each run. The result has the errors of runs that cannot be changed."""
    before: dict[str, Annotations] = {}
    problems = []
    for run_id in run_ids:

        def save_and_change(old: Annotations, run_id: str = run_id) -> Annotations:
            before[run_id] = old
            return change(old)

        try:
            Runs(project).annotate(run_id, save_and_change)
        except WorkbenchError as error:
            before.pop(run_id, None)
            problems.append(error)
    return Annotated(before, tuple(problems))


def set_annotations(project: Project, replacements: Mapping[str, Annotations]) -> list[WorkbenchError]:
    """Replace the annotations of runs, keyed by run ID. Return an error for each missing run; raise other errors."""
    problems: list[WorkbenchError] = []
    for run_id, replacement in replacements.items():
        try:
            Runs(project).annotate(run_id, lambda _, new=replacement: new)  # type: ignore[misc]
        except RunNotFound as error:
            problems.append(error)
    return problems


def toggle_pinned(project: Project, runs: Sequence[Run]) -> Annotated:
    """Pin all runs, or unpin them if all are pinned. See `annotate`."""
    is_set = all(read_annotations(run.directory).pinned for run in runs)
    return annotate(project, [run.run_id for run in runs], lambda old: old._replace(pinned=not is_set))


def toggle_archived(project: Project, runs: Sequence[Run]) -> Annotated:
    """Archive all runs, or unarchive them if all are archived. See `annotate`."""
    is_set = all(read_annotations(run.directory).archived for run in runs)
    return annotate(project, [run.run_id for run in runs], lambda old: old._replace(archived=not is_set))


def tags_of(text: str) -> dict[str, str]:
    """Parse tags as the user types them: `best, lr=0.1`. Raises UsageError for a tag without a name."""
    tags: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if not name.strip() and value:
            raise UsageError(
                f"the tag {part.strip()!r} has no name",
                remedy="Write each tag as NAME or NAME=VALUE, and separate tags with commas.",
            )
        if name.strip():
            tags[name.strip()] = value.strip()
    return tags


def deletable(runs: Sequence[Run]) -> Deletable:
    """Find the runs that are neither active nor pinned, and measure the disk space that their directories use."""
    ended = [run for run in runs if not run.is_active]
    unpinned = tuple(run for run in ended if not read_annotations(run.directory).pinned)
    size = sum(folder_size(run.directory) for run in metered("measuring", "runs", unpinned))
    return Deletable(unpinned, size, len(ended) - len(unpinned), len(runs) - len(ended))


def delete(project: Project, runs: Sequence[Run]) -> Deletion:
    """Move each run to the trash. The result has the errors of runs that cannot be deleted."""
    done, problems = [], []
    for run in metered("deleting", "runs", runs):
        try:
            done.append(Runs(project).delete(run.run_id))
        except WorkbenchError as error:
            problems.append(error)
    return Deletion(tuple(done), tuple(problems))


def undelete(project: Project, run_ids: Sequence[str]) -> list[WorkbenchError]:
    """Move runs from the trash back to the history. Return the errors of the runs that cannot be moved."""
    problems: list[WorkbenchError] = []
    purged = 0
    for run_id in metered("restoring", "runs", run_ids):
        try:
            Runs(project).undelete(run_id)
        except RunNotFound:
            purged += not os.path.isdir(os.path.join(project.runs_directory, run_id))  # else it was restored already
        except WorkbenchError as error:
            problems.append(error)
    if purged:
        problems.insert(0, RunNotFound(f"cannot restore {counted(purged, 'run')}: deleted permanently"))
    return problems


def dependents(runs: Sequence[Run]) -> list[Run]:
    """Return other runs that would be canceled with these runs."""
    ids = {run.run_id for run in runs}
    others = {other.run_id: other for run in runs for other in dependents_of(RunDirectory(run.directory))}
    return [other for run_id, other in others.items() if run_id not in ids]


def download_all(runs: Sequence[Run], folder: str) -> str:
    """Copy the files of each run to a folder in `folder`, named after the ID of the run.

    Return a sentence about the result. Raises WorkbenchError.
    """
    files = sum(len(download(run.directory, os.path.join(folder, run.run_id), [])) for run in runs)
    return f"Copied {counted(files, 'file')} of {counted(len(runs), 'run')} to {folder}"


def export(project: Project, runs: Sequence[Run], path: str) -> str:
    """Export runs to `path`: to a CSV file if it ends with `.csv`, else to a folder for MLflow.

    Return a sentence about the result. Raises WorkbenchError.
    """
    chosen = Runs(project).exportable([run.run_id for run in runs])
    if path.endswith(CSV):
        export_csv(chosen, path)
    else:
        export_mlflow(project.name, chosen, path)
    return f"Exported {counted(len(chosen), 'run')} to {path}"
