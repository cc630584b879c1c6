"""What restoring a run's files would change in the project, to look at before it is done.

The invariant: nothing is touched before it was shown; what is there is saved by the restore itself, and one key brings
it back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.content import Content

from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.command import shown_key
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import HISTORY, RESTORE
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.history_screen import HistoryScreen
from tui_workbench.ui.undo import steps_of
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import TextView
from tui_workbench.ui.words import count, run_title

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run
    from tui_workbench.project import Project
    from tui_workbench.runs.restore import Restoration
    from tui_workbench.ui.widgets.text_view import Line

LOOKS = {
    "added": ("+", "success", "comes back"),
    "changed": ("~", "warning", "changes"),
    "removed": ("-", "error", "goes"),
    "left": ("!", "muted", "differs and stays: something that no snapshot holds is in its place"),
}

STEP = "restoring files"
"""What undo calls it."""


class RestoreScreen(HistoryScreen, inherit_bindings=False):
    """Shows what would change; enter does it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(RESTORE, HISTORY)
    OFFERED = (*RESTORE, *HISTORY)
    AUTO_FOCUS = "TextView"
    heading = "Restore"
    about = (
        "Restoring makes the project's files what they were when the run was submitted. What is there is saved first; "
        "what the ignore files exclude is not touched."
    )
    DEFAULT_CSS = """
    RestoreScreen > TextView { border: round $border; border-title-color: $border; border-title-style: bold; }
    """

    def __init__(self, project: Project, run: Run) -> None:
        super().__init__(project)
        self.view = TextView()
        self._run = run
        self._changes = 0
        self._undo = ""

    def compose_content(self) -> ComposeResult:
        """The changes."""
        self.view.border_title = Content(f"Restore the project to {safe_text(run_title(self._run))}")
        yield self.view

    def on_mount(self) -> None:
        """Look what would change."""
        self._look()

    def _look(self) -> None:
        self.ask("look", partial(_look, self.project, self._run), self._show)

    def _show(self, found: tuple[Restoration, str]) -> None:
        restoration, self._undo = found
        self._changes = sum(change.kind != "left" for change in restoration.changes)
        self.view.show(change_lines(restoration))
        self.refresh_bindings()

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action == "restore" and not self._changes:
            return "The project is as it was in the run."
        if action == "undo" and not self._undo:
            return "Nothing was restored."
        return super().why_not(action)

    def action_restore(self) -> None:
        """Do it."""
        if not self.why_not("restore"):
            self.ask("restore", partial(_restore, self.project, self._run), self._restored)

    def action_undo(self) -> None:
        """Bring back what was there."""
        if not self.why_not("undo"):
            self.ask("restore", partial(_undo, self.project), self._undone)

    def _restored(self, words: str) -> None:
        steps_of(self.app).add(STEP, self._bring_back)
        self._done(words)

    def _undone(self, words: str) -> None:
        steps_of(self.app).forget(STEP)
        self._done(words)

    async def _bring_back(self) -> None:
        await in_thread(partial(_undo, self.project))

    def _done(self, words: str) -> None:
        self._look()
        self.say(words)


def change_lines(restoration: Restoration) -> list[Line]:
    """What changes, a line a file, with a sign and a word for what becomes of it."""
    if not restoration.changes:
        return [(Piece("Nothing: the project's files are as they were in the run.", "muted"),)]
    lines: list[Line] = [
        (Piece(f"{count(len(restoration.changes), 'file')}. What is there is saved first.", "muted"),),
        (),
    ]
    for change in restoration.changes:
        sign, role, word = LOOKS.get(change.kind, ("?", "text", change.kind))
        lines.append((Piece(f"{sign} ", role, bold=True), Piece(safe_text(change.path)), Piece(f"  {word}", "muted")))
    return lines


def _look(project: Project, run: Run) -> tuple[Restoration, str]:
    from tui_workbench.runs import Runs

    runs = Runs(project)
    return runs.restoration(run.run_id), runs.undoable_restore()


def _restore(project: Project, run: Run) -> str:
    from tui_workbench.runs import Runs

    done = Runs(project).restore(run.run_id)
    key = shown_key("restore.undo", "ctrl+z")
    return f"{count(len(done.changes), 'file')} restored. {key} brings back what was there."


def _undo(project: Project) -> str:
    from tui_workbench.runs import Runs

    done = Runs(project).undo_restore()
    return f"{count(len(done.changes), 'file')} brought back: {done.what}."
