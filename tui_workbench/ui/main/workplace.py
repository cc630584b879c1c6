"""Everything of the main screen that the first frame does not need: the panes, and the parts that work for them.

Each part has one job and is handed the others that it needs. Facts go to `ProjectState`, which shows them; wishes of
the panes go to the part that carries them out.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.ui import messages, screens
from tui_workbench.ui.changes.project_changes import ProjectChanges
from tui_workbench.ui.commands.available_commands import (
    CommandState,
    command_states,
    is_in_palette,
    is_ours,
    without_duplicates,
)
from tui_workbench.ui.commands.help import HelpScreen, sections
from tui_workbench.ui.editor.editor import EditorPane
from tui_workbench.ui.editor.external_editor import open_in_editor
from tui_workbench.ui.formatting import count
from tui_workbench.ui.logs.latest_line import LatestLine
from tui_workbench.ui.logs.log import LogPane
from tui_workbench.ui.machines.targets import TargetsPane
from tui_workbench.ui.main.desk import Desk
from tui_workbench.ui.main.main_layout import PANES
from tui_workbench.ui.main.project_state import ProjectState
from tui_workbench.ui.main.session import Session
from tui_workbench.ui.main.stage import Panes, Questions, Stage
from tui_workbench.ui.runs.jobs import JobsPane
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.starting.run_bar import RunBar
from tui_workbench.ui.starting.run_commands import RunCommands
from tui_workbench.ui.starting.starting import Starting
from tui_workbench.ui.themes.theme_choice import choose_theme, restore_theme
from tui_workbench.ui.undo import steps_of
from tui_workbench.ui.watcher import ProjectWatcher
from tui_workbench.ui.widgets.question_row import Choice

if TYPE_CHECKING:
    from tui_workbench.runs.store.table import RunQuery
    from tui_workbench.ui.dashboard.dashboard import DashboardScreen

SAVE, DISCARD = "save", "discard"


class Workplace:
    """Makes the parts, and hands them what a pane wants."""

    def __init__(self, screen: Screen[None], project: Project, desk: Desk, remembered: Values | None) -> None:
        """`remembered` is what the screen looked like when it was left; None for one that remembers nothing."""
        self._desk = desk
        self._remembered = remembered
        self.panes = Panes(
            desk.header,
            desk.files,
            RunBar(id="run-bar"),
            TargetsPane(id="targets"),
            EditorPane(id="editor"),
            LogPane(id="log"),
            JobsPane(id="jobs"),
            LatestLine(id="latest"),
        )
        self.questions = Questions(desk, id="question")
        watcher = ProjectWatcher(project, screen.call_later)
        self.stage = Stage(screen, project, self.panes, self.questions, watcher)
        self.state = ProjectState(self.stage)
        self.changes = ProjectChanges(self.stage)
        self.starting = Starting(self.stage, self.state, self.changes)
        self.runs = RunCommands(self.stage, self.state, self.starting)
        self._recalled_runs = Values()
        self._dashboard: DashboardScreen | None = None
        self._session: Session | None = None

    async def show(self) -> None:
        """Put the panes where they belong."""
        shown = [*self.panes[2:], self.questions]
        parts = {str(part.id): part for part in shown}
        await self._desk.fill({**parts, **(self.state.make_side() if self._desk.view.has_right else {})})

    async def widen(self) -> None:
        """There is room for the panes at the right now."""
        if not self.state.has_side:
            await self._desk.add_right(self.state.make_side())
            self.state.show_side()

    def begin(self, trouble: WorkbenchError | None) -> None:
        """Let the panes be as they were left, and look at the project from now on.

        `trouble` is what went wrong before the screen was there.
        """
        if self._remembered is not None:
            self.panes.run_bar.recall(self._remembered.part("bar"))
            self.recall_runs(self._remembered)
        self.state.begin(self._remembered)
        self._desk.focus_pane()
        # Below what is said of the run, which comes a moment later and would take its place.
        if standing := " ".join(filter(None, (self.stage.project.notice, str(trouble or "")))):
            self.panes.run_bar.notice.stand(standing)

    async def recall(self) -> None:
        """Open the files that were open, bring back what was not saved, and remember from now on."""
        if self._remembered is not None:
            await self.panes.files.recall(self._remembered.part("files"))
            self._session = Session(self.stage, self._memory_now, self.leave)
            await self._session.begin(self._remembered)

    def _memory_now(self) -> dict[str, object]:
        """What is to be as it is now when the program is started again."""
        view, query = self._desk.view, self.runs_query
        return {
            "screen": {"active": view.active, "zoomed": view.zoomed, **view.sizes._asdict()},
            "files": self.panes.files.memory,
            "editor": self.panes.editor.memory,
            "bar": self.panes.run_bar.memory,
            "log": self.panes.log.memory,
            "runs": query._asdict() if query is not None else {},
        }

    # --- What panes want

    def do(self, wish: messages.Wish) -> None:
        """Hand a wish to the part that carries it out."""
        match wish:
            case messages.FileChosen():
                self.stage.run("open", self.panes.editor.open_file, wish.path, wish.line)
            case messages.EditorWanted():
                self.stage.run("editor", open_in_editor, self.stage, wish, exclusive=True)
            case messages.ChangeWanted():
                self.stage.run("changes", self.changes.make, wish)
            case messages.ScriptChosen():
                self.panes.run_bar.choose_script(wish.script)
            case messages.TargetChosen():
                self.state.choose_target(wish.name)
            case messages.AttachWanted():
                self.stage.run("machine", self.state.attach_machine, self.changes.history)
            case messages.CheckWanted():
                self.stage.run("machine", self.state.check_machine, wish.name)
            case messages.RunDetailsWanted():
                self.show_details(self.state.run(wish.run_id))
            case _:
                self.runs.do(wish)

    def undo(self) -> None:
        """Take back what was done last: a change of configuration files, or something else."""
        is_step = steps_of(self.stage.app).is_newest
        self.stage.run("changes", self._undo_step if is_step else self.changes.undo)

    async def _undo_step(self) -> None:
        self.stage.say(f"Taken back: {await steps_of(self.stage.app).take_back()}.")

    def all_commands(self) -> list[CommandState]:
        """What can be done anywhere on the screen: in the active pane, everywhere, then in the other panes."""
        active = self._desk.view.active
        here, *others = (self._desk.get_child_by_id(name) for name in sorted(PANES, key=lambda name: name != active))
        nodes = [here, *here.walk_children(), self.stage.screen, self.stage.app]
        nodes += [node for pane in others for node in (pane, *pane.walk_children())]
        states = (state for node in nodes if is_ours(node) for state in command_states(node))
        return without_duplicates(state for state in states if is_in_palette(state.command))

    # --- The screens over the main one

    def recall_runs(self, remembered: Values) -> None:
        """Know which of all runs were looked at when the project was left."""
        self._recalled_runs = remembered.part("runs")

    def show_all_runs(self) -> None:
        """Show every run of the project."""
        request = None
        with contextlib.suppress(UsageError):
            request = self.stage.panes.run_bar.request()
        self._dashboard = screens.dashboard(self.stage.project, request, self.runs_query)
        self.stage.app.push_screen(self._dashboard)

    @property
    def runs_query(self) -> RunQuery | None:
        """Which of all runs were shown last; None while nobody has looked at them."""
        if self._dashboard is not None:
            return self._dashboard.runs_query
        return screens.recalled_query(self._recalled_runs) if self._recalled_runs else None

    def show_details(self, run: Run | None) -> None:
        """Show everything about a run."""
        if run is not None:
            self.stage.app.push_screen(screens.run_details(self.stage.project, run))

    def show_help(self) -> None:
        """Explain the pane with the focus."""
        self.stage.app.push_screen(HelpScreen(sections(self.stage.screen)))

    async def choose_theme(self) -> None:
        """Choose other colours."""
        app = self.stage.app
        before = app.theme
        with self.stage.errors_shown():
            await choose_theme(app)
        if app.theme != before:
            steps_of(app).add("the choice of a theme", partial(restore_theme, app, before))

    # --- Leaving

    async def quit(self) -> None:
        """Leave; runs go on. Unsaved edits are asked about once."""
        dirty = self.panes.editor.dirty_paths()
        if not dirty:
            self._exit()
        elif self.questions.is_open:
            self.questions.take_focus()
        else:
            self.stage.run("quit", self._ask_about_edits, len(dirty))

    async def _ask_about_edits(self, files: int) -> None:
        choices = (
            Choice("s", "save and leave", SAVE),
            Choice("d", "discard the edits", DISCARD),
            Choice("esc", "cancel", ""),
        )
        answer = await self.questions.choose(f"{count(files, 'file')} with unsaved edits.", *choices, is_awaited=True)
        if answer == DISCARD or (answer == SAVE and not await self.panes.editor.save_all()):
            self._exit()

    def _exit(self) -> None:
        if self._session is not None:
            self._session.end(keep_texts=False)
        self.stage.app.exit(self.state.active_runs)

    def keep_edits(self) -> None:
        """Keep unsaved edits for the next start, and write nothing afterwards."""
        if self._session is not None:
            self._session.end(keep_texts=True)

    def leave(self, return_code: int = 0) -> None:
        """End the program without a question; what is not saved comes back with the next start."""
        self.keep_edits()
        # Who sends a signal reads no farewell, and the terminal may be gone.
        self.stage.app.exit(None, return_code)
