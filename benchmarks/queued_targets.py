"""A target with a watcher for all runs, which execute nothing and never end.

Runs of the script ACTIVE are running; all others are queued.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tui_workbench.core import target_types
from tui_workbench.core.model import Plan, RunSpec
from tui_workbench.core.target_types import TargetType
from tui_workbench.core.waiting import Interrupted, wait_ready
from tui_workbench.targets.base.group import RunGroup, SharedGroup
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.values import Outcome, Report

TOGETHER = "together"
ACTIVE = "active.py"
SUBMITTED = "submitted"
METADATA = {
    "queued-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: queued\nVersion: 1.0\n",
    "queued-1.0.dist-info/entry_points.txt": (
        f"[{target_types.ENTRY_POINT_GROUP}]\n{TOGETHER} = benchmarks.queued_targets:Together\n"
    ),
}


class Together(Target):
    """A target with one watcher for all runs."""

    type = TargetType(TOGETHER, uses_interpreter=True)
    drives_together = True

    def plan(self, spec: RunSpec) -> Plan:
        return Plan(self.target.name, self.target.type, "python", ())

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        with open(f"{spec.run_directory}/{SUBMITTED}", "wb"):
            pass

    def started(self, spec: RunSpec) -> bool:
        return os.path.exists(f"{spec.run_directory}/{SUBMITTED}")

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        wait_ready([interrupted])
        raise Interrupted

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        return False

    def shared_group(self, run_directory: str) -> SharedGroup:
        return SharedGroup(TOGETHER, Queue)


class Queue(RunGroup):
    """A group of runs that never end."""

    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}

    def add(self, spec: RunSpec, report: Report) -> None:
        self._reports[spec.run_id] = report
        if spec.script == ACTIVE:
            report.running()
        else:
            report.queued("Priority")

    def remove(self, run_id: str) -> None:
        self._reports.pop(run_id, None)

    def wait(self, interrupted: int, timeout: float | None = None) -> Mapping[str, Outcome]:
        wait_ready([interrupted], timeout=timeout)
        return {}

    def close(self) -> None:
        self._reports.clear()
