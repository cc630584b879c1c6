"""The main screen: the keys that work everywhere, each passed to the part that executes the command.

`MainArea` is the visible part: panes, borders, focus. `MainCoordinator` holds the parts behind it: project state, runs,
changes, saved state. The coordinator is created after the first frame; keys are held until then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.ui import messages, screens
from tui_workbench.ui.commands.available_commands import CommandState, ExplainsUnavailable
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.main_commands import EVERYWHERE
from tui_workbench.ui.files.file_tree import FileTree
from tui_workbench.ui.main.main_area import MainArea
from tui_workbench.ui.main.main_layout import View, view_of
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.textual_internals import install_compositor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui_workbench.ui.dashboard.recent import RecentPane

    # These modules are loaded after the first frame.
    from tui_workbench.ui.gpu.monitor_pane import MonitorPane
    from tui_workbench.ui.main.coordinator import MainCoordinator
    from tui_workbench.ui.main.main_context import Panes

FIRST_FRAME_SECONDS = 0.05  # wait before importing the other parts, because the import would delay the first frame


class MainScreen(ExplainsUnavailable, Screen[None], inherit_bindings=False):
    """The main screen of a project."""

    DECLARED_COMMANDS = EVERYWHERE
    BINDINGS = EVERYWHERE.bindings
    AUTO_FOCUS = ""

    class Completed(Message):
        """Posted when all parts are mounted and restored, so that keys can be handled."""

    def __init__(
        self, project: Project, tree: FileTree, startup_error: WorkbenchError | None = None, saved: Values | None = None
    ) -> None:
        """`saved` is the saved session. If it is None, no session is restored or saved."""
        super().__init__()
        install_compositor(self)
        self.project = project
        self._startup_error = startup_error
        self._saved = saved
        self._coordinator: MainCoordinator | None = None
        self.area = MainArea(project.name, tree, view_of(saved) if saved else View())

    @property
    def coordinator(self) -> MainCoordinator:
        """The parts behind the screen. Raises RuntimeError before the screen is complete."""
        if self._coordinator is None:
            raise RuntimeError("the screen is not complete yet")
        return self._coordinator

    @property
    def is_complete(self) -> bool:
        """True if all parts are mounted."""
        return self._coordinator is not None

    @property
    def panes(self) -> Panes:
        return self.coordinator.panes

    def compose(self) -> ComposeResult:
        yield self.area

    def on_mount(self) -> None:
        self.call_after_refresh(self.set_timer, FIRST_FRAME_SECONDS, self.complete)

    async def complete(self) -> None:
        """Import and mount the other parts of the screen."""
        make = await asyncio.to_thread(_load_coordinator)  # in a thread, because the first frame is written meanwhile
        coordinator = make(self, self.project, self.area, self._saved)
        await coordinator.show()
        self._coordinator = coordinator
        coordinator.begin(self._startup_error)
        self._restore(coordinator)

    @work
    async def _restore(self, coordinator: MainCoordinator) -> None:
        await coordinator.restore()
        self.post_message(self.Completed())

    def on_unmount(self) -> None:
        if self.is_complete:
            self.coordinator.state.end()
            self.coordinator.changes.end()

    # --- Messages

    @on(messages.Update)
    def _show_update(self, update: messages.Update) -> None:
        if self.is_complete:
            self.coordinator.state.show_update(update)

    @on(messages.Request)
    def _dispatch(self, request: messages.Request) -> None:
        if self.is_complete:
            self.coordinator.dispatch(request)

    def on_main_area_pane_changed(self) -> None:
        if self.is_complete:
            self.panes.run_bar.forget_error()

    @work(exclusive=True, group="right")
    async def on_main_area_widened(self) -> None:
        await self.coordinator.widen()

    def on_recent_pane_chosen(self, event: RecentPane.Chosen) -> None:
        self.coordinator.show_details(event.run)

    def on_monitor_pane_run_opened(self, event: MonitorPane.RunOpened) -> None:
        self.coordinator.state.show_runs(self.coordinator.state.runs, select=event.run_id)
        self.area.focus_pane("log")

    def on_monitor_pane_updated(self, event: MonitorPane.Updated) -> None:
        self.coordinator.state.see_machines(event.states)

    # --- Commands

    def why_not(self, action: str) -> str:
        if action == "prepare":
            return self.coordinator.starting.why_not_prepare() if self.is_complete else ""
        return self.area.borders.why_not() if action == "move_border" else ""

    def all_commands(self) -> list[CommandState]:
        return self.coordinator.all_commands()

    def action_run(self) -> None:
        if self.is_complete:
            self.coordinator.runs.start()

    def action_sweep(self) -> None:
        if self.is_complete:
            self.coordinator.runs.sweep()

    def action_plan(self) -> None:
        if self.is_complete:
            self.coordinator.runs.plan()

    def action_prepare(self) -> None:
        if self.is_complete:
            self.coordinator.runs.prepare()

    @work
    async def action_shell(self) -> None:
        if self.is_complete:
            await self.coordinator.runs.open_shell()

    def action_undo_change(self) -> None:
        if self.is_complete:
            self.coordinator.undo()

    def action_history(self) -> None:
        if self.is_complete:
            self.coordinator.show_all_runs()

    def action_gpu_monitor(self) -> None:
        if self.is_complete:
            self.app.push_screen(screens.gpu_monitor(self.project, self.coordinator.state.selected))

    def action_trace(self) -> None:
        if self.is_complete:
            state = self.coordinator.state
            self.app.push_screen(screens.calls(self.project, state.run(state.selected)))

    def action_ports(self) -> None:
        self._open_ports()

    def action_approvals(self) -> None:
        if self.is_complete:
            self.app.push_screen(screens.project_screen("approvals", self.project))

    def action_trash(self) -> None:
        if self.is_complete:
            self.app.push_screen(screens.project_screen("trash", self.project))

    def action_notifications(self) -> None:
        if self.is_complete:
            self.app.push_screen(screens.project_screen("notifications", self.project))

    def action_notebook(self) -> None:
        self._open_ports(opens_notebook=True)

    def _open_ports(self, *, opens_notebook: bool = False) -> None:
        if self.is_complete:
            state, (configuration, _) = self.coordinator.state, self.panes.run_bar.chosen
            name = configuration.name if configuration is not None else ""
            run = state.run(state.selected)
            self.app.push_screen(screens.ports(self.project, run, name, opens_notebook=opens_notebook))

    def action_cloud_init(self) -> None:
        if self.is_complete:
            self.app.push_screen(screens.project_screen("cloud_init", self.project))

    def action_projects(self) -> None:
        if self.is_complete:
            self.app.push_screen(screens.start(self.project))

    def action_help(self) -> None:
        if self.is_complete:
            self.coordinator.show_help()

    async def action_palette(self) -> None:
        if self.is_complete:
            await screens.command_palette(self.app, self.all_commands(), self.coordinator.context.say)

    @work
    async def action_change_theme(self) -> None:
        if self.is_complete:
            await self.coordinator.choose_theme()

    def action_focus_pane(self, name: str) -> None:
        self.area.focus_pane(name)

    def action_focus_arguments(self) -> None:
        if self.is_complete:
            self.panes.run_bar.focus_arguments()

    def action_zoom(self) -> None:
        # Each pane in the right column has its own full screen.
        match self.area.focused_pane:
            case "history":
                self.action_history()
            case "gpus":
                self.action_gpu_monitor()
            case _:
                self.area.zoom()

    def action_move_border(self, axis: str, direction: int) -> None:
        self.area.borders.step(self.area.focused_pane, axis, direction)

    def action_borders_back(self) -> None:
        self.area.reset_borders()

    def action_interrupt(self) -> None:
        if text := self.get_selected_text():
            self.app.copy_to_clipboard(text)
        elif self.is_complete:
            quit_key, cancel_key = shown_key("quit.anywhere", "ctrl+q"), shown_key("jobs.cancel", "x")
            self.coordinator.context.say(f"{quit_key} quits the workbench; {cancel_key} in Jobs cancels a run.")

    async def action_quit(self) -> None:
        if self.is_complete:
            self.coordinator.quit()
        else:
            self.app.exit([])

    def close(self, then: Callable[[], object]) -> None:
        """Save the session, and call `then` to show another project. If there are unsaved edits, ask first."""
        if self.is_complete:
            self.coordinator.close("switch", then)

    def keep_edits(self) -> None:
        """Write unsaved edits for the next start, and stop saving."""
        if self.is_complete:
            self.coordinator.keep_edits()


def _load_coordinator() -> type[MainCoordinator]:
    """Import all other parts of the screen, after the first frame."""
    from tui_workbench.ui.main.coordinator import MainCoordinator

    return MainCoordinator
