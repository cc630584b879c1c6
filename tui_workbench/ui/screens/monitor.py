"""The GPU monitor as a screen: the GPUs of all targets of a project, from anywhere, and on to the runs on them.

The invariant: the project is read in threads, and of its runs only those that are on a GPU.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import HISTORY
from tui_workbench.ui.messages import CheckWanted
from tui_workbench.ui.panes.monitor import MonitorPane
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.screens.history_screen import HistoryScreen
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run
    from tui_workbench.project import Project

LOOK_SECONDS = 2.0
"""How often is looked whether targets have changed: what is on a GPU is told by itself."""


class MonitorHead(Line):
    """Whose GPUs, and what they do in sum."""

    def __init__(self, project: str) -> None:
        super().__init__()
        self._project = safe_text(project)
        self._text = ""

    def show(self, text: str) -> None:
        """Show this sum, which is safe text."""
        if text != self._text:
            self._text = text
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Left the project, right the sum."""
        name = truncate_middle(self._project, max(10, width // 3))
        return [Piece(" GPUs", bold=True), Piece(f"  of the targets of {name}", "muted")], [Piece(f"{self._text} ")]


class MonitorScreen(HistoryScreen, inherit_bindings=False):
    """Shows the GPUs. Its result is always ""."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(HISTORY)
    AUTO_FOCUS = "GpuView"
    heading = "GPUs"
    about = "The GPUs of all compute targets of the project."

    DEFAULT_CSS = "MonitorScreen > MonitorPane { height: 1fr; }"

    def __init__(self, project: Project, selected: str = "") -> None:
        """`selected` is the id of the run that one looks at."""
        super().__init__(project)
        self.head = MonitorHead(project.name)
        self.pane = MonitorPane(id="monitor")
        self._selected = selected
        self._runs: dict[str, Run] = {}
        self._asked_for: frozenset[str] = frozenset({selected} if selected else ())

    def compose_content(self) -> ComposeResult:
        """The sum, then the GPUs."""
        yield self.head
        yield self.pane

    def on_mount(self) -> None:
        """Read the targets."""
        self._look()
        self.set_interval(LOOK_SECONDS, self._look)

    def on_screen_resume(self) -> None:
        """Somebody comes back."""
        self._look()

    def _look(self) -> None:
        if self.is_current:
            self.ask("targets", self.project.targets, self.pane.show_targets)
            self._ask_runs()

    def _ask_runs(self) -> None:
        self.ask("runs", partial(_find, self.project, self._asked_for), self._show_runs)

    @on(MonitorPane.Seen)
    def _seen(self, event: MonitorPane.Seen) -> None:
        event.stop()
        self.head.show(event.text)
        if unknown := event.runs - self._asked_for:
            self._asked_for |= unknown
            self._ask_runs()

    def _show_runs(self, runs: list[Run]) -> None:
        self._runs = {run.run_id: run for run in runs}
        self.pane.show_runs(runs, self._selected)

    @on(MonitorPane.RunWanted)
    def _run_wanted(self, event: MonitorPane.RunWanted) -> None:
        event.stop()
        run = self._runs.get(event.run_id)
        if run is None:
            self.say(f"{safe_text(event.run_id)} is a run of another project.")
            return
        from tui_workbench.ui.screens.run_details import RunDetailsScreen

        self.app.push_screen(RunDetailsScreen(self.project, run))

    @on(CheckWanted)
    def _check_wanted(self, event: CheckWanted) -> None:
        event.stop()
        self.run_worker(self._check(event.name), group="check", exclusive=True)

    async def _check(self, name: str) -> None:
        from tui_workbench.ui.blocking import in_thread
        from tui_workbench.ui.screens.machine import CheckScreen

        targets = await in_thread(self.project.targets)
        target = next((target for target in targets if target.name == name), None)
        if target is not None:
            await self.app.push_screen_wait(CheckScreen(self.project, target))
            self.pane.action_retry()


def _find(project: Project, run_ids: frozenset[str]) -> list[Run]:
    """Those of the runs that are of this project, and all that go on. Blocks; raises WorkbenchError."""
    from tui_workbench.errors import RunNotFound
    from tui_workbench.runs import Runs
    from tui_workbench.runs.index import RunIndex

    with RunIndex(project) as index:
        active = index.active()
    runs, found = Runs(project), []
    for run_id in run_ids.union(active):
        with contextlib.suppress(RunNotFound):
            found.append(runs.get(run_id))
    return found
