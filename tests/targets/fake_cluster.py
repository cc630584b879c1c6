"""A target that drives its runs together: local processes behind a queue, like a cluster.

It is loaded through an entry point, as the watcher is another process. The `address` in its `.compute` file is a folder
that stands for the cluster. The cluster does not answer while the file `down` is there, keeps new runs in its queue
while `hold` is there, and following runs fails while `broken` is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tui_workbench.core.causes import exit_causes
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.model import ComputeTarget, Plan, RunSpec
from tui_workbench.core.target_types import TargetType
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.base.group import RunGroup, SharedGroup
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.supervisor import read_exit_code
from tui_workbench.targets.local.local_target import LocalTarget
from tui_workbench.targets.values import Outcome, Report

NAME = "fakecluster"
HELD = "held"  # exists in the directory of a run that the cluster keeps in its queue
POLL_SECONDS = 0.02


class FakeCluster(LocalTarget):
    """The cluster in a folder."""

    type = TargetType(NAME, "Cluster", keys=("pythonLocation", "address"), uses_interpreter=True)
    drives_together = True

    def __init__(self, target: ComputeTarget) -> None:
        super().__init__(target)
        self.starts_at_once = False

    @property
    def folder(self) -> Path:
        return Path(self.target.address)

    def shared_group(self, run_directory: str) -> SharedGroup:
        return SharedGroup(f"{NAME} {self.folder}", partial(FakeGroup, self.folder))

    def reach(self) -> None:
        if (self.folder / "down").exists():
            raise TargetUnreachable("the cluster does not answer", remedy="Wait.")

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], FileList]) -> None:
        self.reach()

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        self.reach()
        if (self.folder / "hold").exists():
            Path(spec.run_directory, HELD).touch()
        else:
            super().start(spec, plan, environment)

    def started(self, spec: RunSpec) -> bool:
        return Path(spec.run_directory, HELD).exists() or super().started(spec)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        self.reach()
        return super().stop(spec, grace=grace)

    def collect(self, spec: RunSpec) -> None:
        self.reach()


class FakeGroup(RunGroup):
    """Looks for the exit codes of all runs that were started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, tuple[str, Report]] = {}

    def add(self, spec: RunSpec, report: Report) -> None:
        if os.path.exists(f"{spec.run_directory}/{HELD}"):
            report.queued("Priority")
        else:
            report.running()
            self._runs[spec.run_id] = (spec.run_directory, report)

    def remove(self, run_id: str) -> None:
        self._runs.pop(run_id, None)

    def wait(self, interrupted: int, timeout: float | None = None) -> Mapping[str, Outcome]:
        while True:
            ended = self._ended()
            pause = POLL_SECONDS if self._runs else timeout
            if ended or wait_ready([interrupted] if interrupted >= 0 else [], timeout=pause):
                return ended

    def _ended(self) -> dict[str, Outcome]:
        if (self._folder / "broken").exists():
            raise RuntimeError("the group is broken")
        if (self._folder / "down").exists():
            for _, report in self._runs.values():
                report.lost("the cluster does not answer")
            return {}
        found = {}
        for run_id, (directory, report) in list(self._runs.items()):
            report.regained()
            code = read_exit_code(directory)
            if code is not None:
                found[run_id] = Outcome(code, exit_causes(code))
                del self._runs[run_id]
        return found

    def close(self) -> None:
        self._runs.clear()
