"""The deleted runs of a project. Keys restore them, or delete them permanently."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from tui_workbench.core.files import folder_size
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import metered, size_text
from tui_workbench.projects.project import Project
from tui_workbench.runs.deleting import Purged
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.blocking import CallQueue
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import HISTORY, TRASH
from tui_workbench.ui.formatting import moment, run_state, run_title
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.undo import undo_steps
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList

EMPTY = (
    "The trash is empty.",
    f"{shown_key('one_run.delete', 'D')} in All runs moves runs to the trash.",
)


class TrashScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the runs in the trash, the newest first."""

    BINDINGS = TRASH.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*TRASH, *HISTORY)
    AUTO_FOCUS = "RowList"
    heading = "Trash"
    about = "Deleted runs. They use disk space until you purge them. Copies on compute targets are not purged."
    DEFAULT_CSS = "TrashScreen > RowList { height: 1fr; }"

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._deleted: Sequence[Run] = ()
        self._calls = CallQueue(self)
        self.runs = RowList(has_filter=True)
        self.content = (self.runs,)

    def on_mount(self) -> None:
        self._steps = undo_steps(self.app)  # not those of the next project, if a purge ends after the user has switched
        self._read()

    def _read(self) -> None:
        self.ask("trash", Runs(self.project).deleted, self._show)

    def _show(self, runs: Sequence[Run]) -> None:
        self._deleted = runs
        now = time.time()
        self.head.show(self.subject, right=(Piece(counted(len(runs), "run"), "muted"),))
        self.runs.show_rows([_row(run, now) for run in runs], empty=EMPTY)
        self.refresh_bindings()

    @property
    def _current(self) -> Run | None:
        return next((run for run in self._deleted if run.run_id == self.runs.current), None)

    def why_not(self, action: str) -> str:
        if action in ("restore", "purge", "purge_all"):
            if self.question is not None:
                return "Answer the question first."
            if not self._deleted:
                return "The trash is empty."
        if action in ("restore", "purge") and self._current is None:
            return "No run selected."
        return super().why_not(action)

    def action_restore(self) -> None:
        if (run := self._current) is None:
            return

        def restored(_: object) -> None:
            if self.is_attached:
                self.say(f"Restored {run_title(run)}.")
                self._read()

        self._calls.add(partial(Runs(self.project).undelete, run.run_id), restored)

    # --- Purge

    def action_purge(self) -> None:
        if (run := self._current) is not None:
            self._measure([run])

    def action_purge_all(self) -> None:
        self._measure(self._deleted)

    def _measure(self, runs: Sequence[Run]) -> None:
        self.say("Measuring the size of the files...")
        folders = [run.directory for run in runs]

        def confirm(size: int) -> None:
            title = safe_text(run_title(runs[0])[:40]) if len(runs) == 1 else counted(len(runs), "run")
            text = f"Permanently delete {title} ({size_text(size)})? This cannot be undone."
            self.confirm(text, partial(self._purge, [run.run_id for run in runs]))

        self.ask("size", lambda: sum(map(folder_size, metered("measuring", "runs", folders))), confirm)

    def _purge(self, run_ids: Sequence[str]) -> None:
        self.say("Deleting...")
        call = partial(Runs(self.project).purge, run_ids)
        self._calls.add(call, self._purged, self.show_progress, holds_exit=True)

    def _purged(self, purged: Purged) -> None:
        self._steps.forget_runs(purged.run_ids)
        text = f"Deleted {counted(len(purged.run_ids), 'run')} permanently. "
        text += f"Freed {size_text(purged.size)} and {size_text(purged.snapshot_size)} of snapshots."
        if self.is_attached:
            self.notice.say(" ".join((text, *purged.problems)), wrong=bool(purged.problems))
            self._read()


def _row(run: Run, now: float) -> Row:
    look = run_state(run)
    before = (Piece(f"{run.run_number:>5}  ", "muted"), Piece(f"{look.glyph} {look.word:<12}", look.role))
    arguments = Piece(f"  {safe_text(' '.join(run.words)[:200])}", "muted")
    started = Piece(moment(run.start or run.created, now), "muted")
    return Row(run.run_id, Piece(safe_text(run.script_name)), before, (arguments,), (started,), cut_at_end=True)
