"""The screen that restores the project's files from the snapshot of a run.

A restore shows the changes first, saves the current files, and can be undone.
"""

from __future__ import annotations

from functools import partial

from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.snapshots.restore import Restoration
from tui_workbench.ui.blocking import CallQueue, in_thread
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import HISTORY, RESTORE
from tui_workbench.ui.formatting import run_title
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.undo import undo_steps
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import Line, TextView

LOOKS = {
    "added": ("+", "success", "is added"),
    "changed": ("~", "warning", "is changed"),
    "removed": ("-", "error", "is removed"),
    "left": ("!", "muted", "is not restored: an excluded file is in its place"),
}

UNDO_TITLE = "restore project files"


class RestoreScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the changes that a restore would make. Enter restores the files."""

    BINDINGS = RESTORE.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*RESTORE, *HISTORY)
    AUTO_FOCUS = "TextView"
    heading = "Restore"
    about = (
        "Restores the project's files to the snapshot of the run. The current files are saved first; ignored files are "
        "not changed."
    )

    def __init__(self, project: Project, run: Run) -> None:
        super().__init__(project)
        self.view = TextView()
        self.content = (self.view,)
        self._run = run
        self._changes = 0
        self._undo = ""
        self._calls = CallQueue(self)

    @property
    def subject(self) -> str:
        return f"the project to {run_title(self._run)}"

    def on_mount(self) -> None:
        self._steps = undo_steps(self.app)  # as in `RunCommands`
        self._read_changes()

    def _read_changes(self) -> None:
        self.ask("changes", partial(_read_changes, self.project, self._run), self._show)

    def _show(self, result: tuple[Restoration, str]) -> None:
        restoration, self._undo = result
        self._changes = _changed(restoration)
        self.view.show(change_lines(restoration))
        self.refresh_bindings()

    def why_not(self, action: str) -> str:
        if action == "restore" and not self._changes:
            return "No files to restore."
        if action == "undo" and not self._undo:
            return "No restore to undo."
        return super().why_not(action)

    def action_restore(self) -> None:
        if not self.why_not("restore"):
            self._calls.add(partial(Runs(self.project).restore, self._run.run_id), self._restored)

    def action_undo(self) -> None:
        if not self.why_not("undo"):
            self._calls.add(Runs(self.project).undo_restore, self._undone)

    def _restored(self, done: Restoration) -> None:
        self._steps.add(UNDO_TITLE, partial(in_thread, Runs(self.project).undo_restore))
        key = shown_key("restore.undo", "ctrl+z")
        self._show_done(f"Restored {counted(_changed(done), 'file')}. {key} undoes the restore.")

    def _undone(self, done: Restoration) -> None:
        self._steps.forget(UNDO_TITLE)
        self._show_done(f"Undone: {counted(_changed(done), 'file')} changed back.")

    def _show_done(self, text: str) -> None:
        if self.is_attached:
            self._read_changes()
            self.say(text)


def _changed(restoration: Restoration) -> int:
    """Return the number of files that a restore changes."""
    return sum(change.kind != "left" for change in restoration.changes)


def change_lines(restoration: Restoration) -> list[Line]:
    """Return a line for each file that a restore changes or cannot restore."""
    if not restoration.changes:
        return [(Piece("No changes: the project's files match the run.", "muted"),)]
    lines: list[Line] = [
        (Piece(f"{counted(_changed(restoration), 'file')} to restore. Current versions are saved first.", "muted"),),
        (),
    ]
    for change in restoration.changes:
        sign, role, word = LOOKS.get(change.kind, ("?", "text", change.kind))
        lines.append((Piece(f"{sign} ", role, bold=True), Piece(safe_text(change.path)), Piece(f"  {word}", "muted")))
    return lines


def _read_changes(project: Project, run: Run) -> tuple[Restoration, str]:
    runs = Runs(project)
    return runs.restore(run.run_id, dry_run=True), runs.undoable_restore()
