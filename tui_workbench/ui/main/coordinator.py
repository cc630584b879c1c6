"""The parts of the main screen that the first frame does not need: most panes, and the logic behind all panes.

Updates go to `ProjectState`, which shows them; requests of panes go to the part that executes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.ui import messages, run_messages, screens
from tui_workbench.ui.commands.available_commands import (
    CommandState,
    command_states,
    is_in_palette,
    is_ours,
    without_duplicates,
)
from tui_workbench.ui.dialogs.help import HelpScreen, help_sections
from tui_workbench.ui.dialogs.theme_choice import choose_theme, restore_theme
from tui_workbench.ui.editor.editor import EditorPane
from tui_workbench.ui.logs.latest_line import LatestLine
from tui_workbench.ui.logs.log import LogPane
from tui_workbench.ui.machines.targets import TargetsPane
from tui_workbench.ui.main.autosave import Autosave
from tui_workbench.ui.main.external_editor import open_in_editor
from tui_workbench.ui.main.main_area import MainArea
from tui_workbench.ui.main.main_context import MainContext, Panes, Questions
from tui_workbench.ui.main.main_layout import PANES
from tui_workbench.ui.main.project_changes import ProjectChanges
from tui_workbench.ui.main.project_state import ProjectState
from tui_workbench.ui.main.run_commands import RunCommands
from tui_workbench.ui.main.starting import Starting
from tui_workbench.ui.runs.jobs import JobsPane
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.starting.run_bar import RunBar
from tui_workbench.ui.undo import undo_steps
from tui_workbench.ui.watcher import ProjectWatcher
from tui_workbench.ui.widgets.question_row import Choice

if TYPE_CHECKING:
    from tui_workbench.runs.index.table import RunQuery
    from tui_workbench.ui.dashboard.dashboard import DashboardScreen

SAVE, DISCARD = "save", "discard"


class MainCoordinator:
    """The parts of the main screen; `dispatch` passes requests to them."""

    def __init__(self, screen: Screen[None], project: Project, area: MainArea, saved: Values | None) -> None:
        self._area = area
        self._saved = saved
        self.panes = Panes(
            area.header,
            area.files,
            RunBar(id="run-bar"),
            TargetsPane(id="targets"),
            EditorPane(project.root, id="editor"),
            LogPane(id="log"),
            JobsPane(id="jobs"),
            LatestLine(id="latest"),
        )
        self.questions = Questions(area, id="question")
        watcher = ProjectWatcher(project, screen.call_later)
        self.context = MainContext(screen, project, self.panes, self.questions, watcher)
        self.state = ProjectState(self.context)
        self.changes = ProjectChanges(self.context)
        self.starting = Starting(self.context, self.state, self.changes)
        self.runs = RunCommands(self.context, self.state, self.starting)
        self._saved_query = Values()
        self._dashboard: DashboardScreen | None = None
        self._autosave: Autosave | None = None

    async def show(self) -> None:
        parts = {str(part.id): part for part in (*self.panes[2:], self.questions)}
        await self._area.fill({**parts, **(self.state.make_right() if self._area.view.has_right else {})})

    async def widen(self) -> None:
        if not self.state.has_right:
            await self._area.add_right(self.state.make_right())
            self.state.show_right()

    def begin(self, startup_error: WorkbenchError | None) -> None:
        """Restore the run bar and start watching the project."""
        if self._saved is not None:
            self.panes.run_bar.restore(self._saved.part("bar"))
            self.restore_runs(self._saved)
        self.state.begin(self._saved)
        self._area.focus_pane()
        # This notice is permanent, because the status of the run bar would soon replace a message.
        if standing := " ".join(filter(None, (self.context.project.notice, str(startup_error or "")))):
            self.panes.run_bar.notice.show_standing(standing)

    async def restore(self) -> None:
        """Restore open files and unsaved edits, and start to save the session."""
        if self._saved is not None:
            await self.panes.files.restore(self._saved.part("files"))
            self._autosave = Autosave(self.context, self._session_values)
            await self._autosave.begin(self._saved)
        self.panes.editor.empty.read()

    def _session_values(self) -> dict[str, object]:
        view, query = self._area.view, self.runs_query
        return {
            "screen": {"active": view.active, "zoomed": view.zoomed, **view.sizes._asdict()},
            "files": self.panes.files.saved_state,
            "editor": self.panes.editor.saved_state,
            "bar": self.panes.run_bar.saved_state,
            "log": self.panes.log.saved_state,
            "runs": query._asdict() if query is not None else {},
        }

    def dispatch(self, request: messages.Request) -> None:
        """Pass a request to the part that executes it."""
        match request:
            case messages.FileChosen():
                self.context.run("open", self.panes.editor.open_file, request.path, request.line)
            case messages.EditorRequested():
                self.context.run("editor", open_in_editor, self.context, request, exclusive=True)
            case messages.ChangeRequested():
                self.context.run("changes", self.changes.make, request)
            case messages.ScriptChosen():
                self.panes.run_bar.choose_script(request.script)
            case run_messages.TargetChosen():
                self.state.choose_target(request.name)
            case run_messages.AttachRequested():
                self.context.run("machine", self.state.attach_machine, self.changes.history)
            case run_messages.CheckRequested():
                self.context.run("machine", self.state.check_machine, request.name)
            case run_messages.PreparationRequested():
                self.context.run("machine", self.state.prepare_machine, request.name)
            case run_messages.RunDetailsRequested():
                self.show_details(self.state.run(request.run_id))
            case _:
                self.runs.dispatch(request)

    def undo(self) -> None:
        """Undo the newest undo step or the newest change to configuration files, whichever is newer."""
        steps = undo_steps(self.context.app)

        async def undo_step() -> None:
            self.context.say(f"Undone: {await steps.undo()}.")

        self.context.run("changes", undo_step if steps.is_newest else self.changes.undo)

    def all_commands(self) -> list[CommandState]:
        """Return the commands of the active pane, then those of the screen, then those of the other panes."""
        active = self._area.view.active
        current, *others = (self._area.get_child_by_id(name) for name in sorted(PANES, key=lambda name: name != active))
        nodes = [current, *current.walk_children(), self.context.screen, self.context.app]
        nodes += [node for pane in others for node in (pane, *pane.walk_children())]
        states = (state for node in nodes if is_ours(node) for state in command_states(node))
        return without_duplicates(state for state in states if is_in_palette(state.command))

    def restore_runs(self, saved: Values) -> None:
        self._saved_query = saved.part("runs")

    def show_all_runs(self) -> None:
        request = None
        with contextlib.suppress(UsageError):
            request = self.context.panes.run_bar.request()
        self._dashboard = screens.dashboard(self.context.project, request, self.runs_query)
        self.context.app.push_screen(self._dashboard)

    @property
    def runs_query(self) -> RunQuery | None:
        """The query that the dashboard showed last, or None."""
        if self._dashboard is not None:
            return self._dashboard.runs_query
        return screens.dashboard_query(self._saved_query) if self._saved_query else None

    def show_details(self, run: Run | None) -> None:
        if run is not None:
            self.context.app.push_screen(screens.run_details(self.context.project, run))

    def show_help(self) -> None:
        self.context.app.push_screen(HelpScreen(help_sections(self.context.screen)))

    async def choose_theme(self) -> None:
        app = self.context.app
        before = app.theme
        with self.context.errors_shown():
            await choose_theme(app)
        if app.theme != before:
            undo_steps(app).add("choose theme", partial(restore_theme, app, before))

    def quit(self) -> None:
        """Leave the program; ask first if there are unsaved edits."""
        self.close("quit", lambda: self.context.app.exit(self.state.active_runs))

    def close(self, verb: str, then: Callable[[], object]) -> None:
        """Save the session and call `then`; if there are unsaved edits, ask first. `verb` is `quit` or `switch`."""
        dirty = self.panes.editor.dirty_paths()
        if not dirty:
            self._close(then)
        elif self.questions.is_open:
            self.questions.take_focus()
        else:
            self.context.run("quit", self._ask_about_edits, len(dirty), verb, then)

    async def _ask_about_edits(self, files: int, verb: str, then: Callable[[], object]) -> None:
        save, discard = Choice("s", f"save and {verb}", SAVE), Choice("d", "discard edits", DISCARD)
        text = f"Unsaved edits in {counted(files, 'file')}."
        answer = await self.questions.choose(text, save, discard, Choice("esc", "cancel", ""), is_awaited=True)
        if answer == DISCARD or (answer == SAVE and not await self.panes.editor.save_all()):
            self._close(then)

    def _close(self, then: Callable[[], object]) -> None:
        if self._autosave is not None:
            self._autosave.end(keep_texts=False)
        self.starting.stop_preparations()
        self.state.end()
        then()

    def keep_edits(self) -> None:
        """Write unsaved edits for the next start, and stop saving."""
        if self._autosave is not None:
            self._autosave.end(keep_texts=True)
