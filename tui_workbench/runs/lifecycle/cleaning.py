"""What runs of a project have left on its targets, and removing it. The history here is never part of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.base.values import CleanupItem, ProjectNames


class Found(NamedTuple):
    """Something that is left on a target, or, with `problem`, why the target could not be asked or freed of it."""

    target: str
    item: CleanupItem | None = None
    problem: str = ""


class Cleaning:
    """Looks through the targets of a project, those of the names given or all of them."""

    def __init__(self, runs: Runs, names: Sequence[str] = ()) -> None:
        project: Project = runs.project
        self._names = ProjectNames(project.name, project.root)
        # What a run made and could not be brought here yet is nowhere else.
        self._active = {run.run_id for run in runs.list() if run.is_active or run.lacks_outputs}
        targets = [project.target(name) for name in names] if names else project.targets()
        self._targets = {target.name: found for target in targets if (found := _implementation(target)) is not None}

    def find(self) -> list[Found]:
        """What is left, target by target; two targets on one engine name the same things once."""
        found: list[Found] = []
        seen: set[tuple[str, str, str]] = set()
        for name, target in self._targets.items():
            try:
                with contextlib.closing(target):
                    items = target.cleanup_items(self._names, self._active)
            except WorkbenchError as error:
                found.append(Found(name, problem=str(error)))
                continue
            for item in items:
                key = (target.host.label, item.kind, item.name)
                if key not in seen:
                    seen.add(key)
                    found.append(Found(name, item))
        return found

    def remove(self, found: Found) -> Found:
        """Remove something that `find` named; gives it back, with `problem` when it is still there."""
        if found.item is None:
            return found
        try:
            with contextlib.closing(self._targets[found.target]) as target:
                target.remove(found.item)
        except WorkbenchError as error:
            return found._replace(problem=str(error))
        return found


def _implementation(target: ComputeTarget) -> Target | None:
    if target.problem is not None:
        return None
    try:
        return target_for(target)
    except WorkbenchError:
        return None  # nothing here runs on such a target, so nothing was left by a run
