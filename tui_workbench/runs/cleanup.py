"""Find and remove unused files and containers of a project's runs on its targets. The run history is kept."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.hosts.contacts import NotContacted
from tui_workbench.targets.registry import target_for, target_to_look_at
from tui_workbench.targets.values import CleanupItem, ProjectNames


class CleanupResult(NamedTuple):
    """An unused item on a target. `problem` is the error if the target did not answer or the item was not removed.

    `note` is the reason why the target was not searched.
    """

    target: str
    item: CleanupItem | None = None
    problem: str = ""
    note: str = ""


class Cleanup:
    """Cleanup of the named targets of a project, or of all targets whose machines the user has contacted.

    Raises ConfigurationError for an unknown name.
    """

    def __init__(self, runs: History, names: Sequence[str] = ()) -> None:
        project: Project = runs.project
        self._names = ProjectNames(project.name, project.root)
        # Outputs that have not been fetched exist only on the target.
        all_runs = [*runs.list(), *runs.deleted()]
        self._active = {run.run_id for run in all_runs if run.is_active or run.lacks_outputs}
        targets = [project.target(name) for name in names] if names else project.targets()
        self._not_contacted: list[CleanupResult] = []
        self._targets: dict[str, Target] = {}
        for target in targets:
            if target.problem is not None:
                continue
            try:
                self._targets[target.name] = target_for(target) if names else target_to_look_at(target)
            except NotContacted as error:
                self._not_contacted.append(CleanupResult(target.name, note=str(error)))
            except WorkbenchError:
                continue  # no run can start on such a target

    def find(self) -> list[CleanupResult]:
        """Return the unused files and containers of all targets, and the targets that did not answer.

        An item that targets share is returned once.
        """
        results = list(self._not_contacted)
        seen: set[tuple[str, str, str]] = set()
        for name, target in self._targets.items():
            try:
                with contextlib.closing(target):
                    items = target.cleanup_items(self._names, self._active)
            except WorkbenchError as error:
                results.append(CleanupResult(name, problem=str(error)))
                continue
            for item in items:
                key = (target.host.label, item.kind, item.name)
                if key not in seen:
                    seen.add(key)
                    results.append(CleanupResult(name, item))
        return results

    def remove_runs(self, run_ids: Collection[str]) -> list[CleanupResult]:
        """Remove the folders of these runs on the targets. Return the results, also for targets that did not answer."""
        return [
            self.remove(result)
            for result in self.find()
            if result.item is None or (result.item.kind == "run" and result.item.name in run_ids)
        ]

    def remove(self, result: CleanupResult) -> CleanupResult:
        """Remove an item, and return the result. `problem` is set if the item could not be removed."""
        if result.item is None:
            return result
        try:
            with contextlib.closing(self._targets[result.target]):
                result.item.remove()
        except WorkbenchError as error:
            return result._replace(problem=str(error))
        return result
