"""The GPU monitor as a full screen, from which runs on GPUs can be opened.

The project is read in threads, and only runs that are active or on a GPU are read.
"""

from __future__ import annotations

import contextlib
from functools import partial

from textual import on

from tui_workbench.core.errors import RunNotFound
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.gpu.monitor_pane import MonitorPane
from tui_workbench.ui.machines.machine import CheckScreen
from tui_workbench.ui.run_messages import CheckRequested
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece

POLL_SECONDS = 2.0  # interval between reads of targets and active runs


class MonitorScreen(HistoryScreen):
    """The screen with the GPUs of all targets."""

    AUTO_FOCUS = "GpuView"
    heading = "GPUs"
    about = "The GPUs of all compute targets of the project."

    DEFAULT_CSS = "MonitorScreen > MonitorPane { height: 1fr; }"

    def __init__(self, project: Project, selected: str = "") -> None:
        super().__init__(project)
        self.pane = MonitorPane(id="monitor")
        self.content = (self.pane,)
        self._selected = selected
        self._runs: dict[str, Run] = {}
        self._asked_for: frozenset[str] = frozenset({selected} if selected else ())

    @property
    def subject(self) -> str:
        return f"of the targets of {self.project.name}"

    def on_mount(self) -> None:
        self.set_interval(POLL_SECONDS, self._poll)

    def on_screen_resume(self) -> None:
        self._poll()

    def _poll(self) -> None:
        if self.is_current:
            self.ask("targets", self.project.targets, self.pane.show_targets)
            self._ask_runs()

    def _ask_runs(self) -> None:
        self.ask("runs", partial(_read_runs, self.project, self._asked_for), self._show_runs)

    @on(MonitorPane.Updated)
    def _updated(self, event: MonitorPane.Updated) -> None:
        event.stop()
        self.head.show(self.subject, right=(Piece(event.text),))
        if unknown := event.runs - self._asked_for:
            self._asked_for |= unknown
            self._ask_runs()

    def _show_runs(self, runs: list[Run]) -> None:
        self._runs = {run.run_id: run for run in runs}
        self.pane.show_runs(runs, self._selected)

    @on(MonitorPane.RunOpened)
    def _run_opened(self, event: MonitorPane.RunOpened) -> None:
        event.stop()
        if run := self._runs.get(event.run_id):
            self.app.push_screen(RunDetailsScreen(self.project, run))
        else:
            self.say(f"{safe_text(event.run_id)} is not a run of this project.")

    @on(CheckRequested)
    def _check_requested(self, event: CheckRequested) -> None:
        event.stop()
        self.run_worker(self._check(event.name), group="check", exclusive=True)

    async def _check(self, name: str) -> None:
        targets = await in_thread(self.project.targets)
        target = next((target for target in targets if target.name == name), None)
        if target is not None:
            await self.app.push_screen_wait(CheckScreen(target))
            self.pane.action_retry()


def _read_runs(project: Project, run_ids: frozenset[str]) -> list[Run]:
    """Return the runs with these IDs that belong to the project, and all active runs. Blocks; raises WorkbenchError."""
    with RunIndex(project) as index:
        active = index.active()
    history, runs = Runs(project), []
    for run_id in run_ids.union(active):
        with contextlib.suppress(RunNotFound):
            runs.append(history.get(run_id))
    return runs
