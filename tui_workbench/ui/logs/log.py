"""The Log pane: the output of the selected run, and its last traceback after a failure.

`LogView` reads and draws the log; the pane adds title, status, search, ranks and the reason for a failure.
"""

from __future__ import annotations

import os
import time
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.timer import Timer

from tui_workbench.core import target_types
from tui_workbench.core.causes import text_of
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import size_text
from tui_workbench.projects.project import root_of_state, state_of_run
from tui_workbench.runs.lifecycle.step_progress import PREPARATION_LOG
from tui_workbench.runs.logs.ranks import Ranks, read_ranks
from tui_workbench.runs.store.cluster_job import job_words, left_words, warning_words
from tui_workbench.runs.store.rundir import WORKING_COPY, Attempt, RunDirectory
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.main_commands import LOG
from tui_workbench.ui.formatting import WARNING, capitalized, is_before_script, reason_of, run_state, run_title
from tui_workbench.ui.logs.log_search_row import LogSearchRow
from tui_workbench.ui.logs.log_session import NO_LINE, LogSession, LogState
from tui_workbench.ui.logs.log_view import LogView
from tui_workbench.ui.logs.rank_choice import RankChoice
from tui_workbench.ui.logs.reason_lines import ReasonLines, TracebackLine
from tui_workbench.ui.logs.stacks_panel import StacksPanel, why_not_read
from tui_workbench.ui.messages import EditorRequested, FileChosen
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.progress_line import RunProgressLine

NO_RUN = f"{shown_key('run.start', 'ctrl+r')} runs the script in the run bar."


class LogPane(Pane):
    """The pane of the selected run's log. Posts `FileChosen` when the user clicks the location of an error."""

    number = 4
    title = "Log"
    about = (
        "The output and error streams of the selected run. The pane follows new output until you scroll up. Colors and "
        "progress bars are drawn, and other control characters are shown as text. The log file keeps every byte."
    )
    BINDINGS = LOG.bindings

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.view = LogView()
        self._progress = RunProgressLine()
        self._run: Run | None = None
        self._hint = ""
        self._choice = RankChoice()
        self._attempts: list[Attempt] = []
        self._setup_chosen: bool | None = None  # the user's choice; if None, the state of the run decides
        self._search_row: LogSearchRow | None = None
        self._traceback = TracebackLine()
        self._reason = ReasonLines()
        self._stacks = StacksPanel()
        self._status = ""
        self._timer: Timer | None = None
        self.set_title()

    def compose(self) -> ComposeResult:
        yield self._traceback
        yield self._reason
        yield self.view
        yield self._stacks
        yield self._progress

    def take_focus(self) -> None:
        self.screen.set_focus(self._stacks if self._stacks.display else self.view)

    @property
    def saved_state(self) -> dict[str, object]:
        return {"run": self._run.run_id if self._run is not None else "", **self.view.saved_state}

    def restore(self, saved: Values) -> None:
        """Restore the saved position, if the same run is shown."""
        if self._run is not None and self._run.run_id == saved.text("run"):
            self.view.restore(saved)

    def show_run(self, run: Run | None, *, hint: str = "") -> None:
        """Show the log of this run. Without a run, show `hint` (safe text), which explains how to start a run."""
        before = self._run
        is_other = run is None or before is None or run.run_id != before.run_id
        self._run, self._hint = run, hint
        self._progress.show_run(run)
        if is_other:
            self.action_clear_search()
            self._close_stacks()
            self._setup_chosen = None
            self._choice = RankChoice()
            self._attempts = []
        is_new_state = before is None or (run is not None and run.state != before.state)
        if run is not None and (is_other or is_new_state or run.is_active):  # ranks of other nodes appear later
            ask(self, "ranks", partial(read_ranks, run.directory), partial(self._show_ranks, run.run_id))
        if run is not None and (is_other or is_new_state or (before is not None and run.reason != before.reason)):
            ask(self, "attempts", RunDirectory(run.directory).attempts, partial(self._show_attempts, run.run_id))
        self._show_log()
        if run is not None and not is_other:
            self._stacks.update_run(run)
            self._show_status(status_text(self._run, self.view.state))
        self._show_failure()
        self._keep_time()

    def _keep_time(self) -> None:
        """Every second, update the time left of a job with a time limit."""
        is_needed = self._run is not None and bool(left_words(self._run, time.time()))
        if is_needed and self._timer is None:
            self._timer = self.set_interval(1, self._show_time)
        elif not is_needed and self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _show_time(self) -> None:
        self._show_status(status_text(self._run, self.view.state))
        self._show_failure()

    def _show_log(self) -> None:
        """Open the setup log, the log of the selected rank or node, or the log of the run."""
        run, choice = self._run, self._choice
        path = choice.log_of(run) if run is not None else None
        if run is not None and self._shows_setup:
            path = os.path.join(run.directory, PREPARATION_LOG)
        self.view.set_log(path, run is not None and run.is_active)
        shows_all = run is not None and path == run.log_path
        notes = {attempt.start: safe_text(text_of(attempt.note)) for attempt in self._attempts}
        self.view.set_notes(notes if shows_all else {})
        if shows_all and (prefix := choice.failed_prefix):
            # The last traceback may be that of torchrun, or of a rank that has lost the connection to the failed rank.
            self.view.post(lambda session: session.set_traceback_prefix(prefix))
        self._show_title()

    @property
    def _shows_setup(self) -> bool:
        if self._setup_chosen is not None:
            return self._setup_chosen
        return self._run is not None and is_before_script(self._run)

    def action_change_log(self) -> None:
        self._setup_chosen = not self._shows_setup
        self.action_clear_search()
        self._show_log()

    # --- Ranks

    def _show_ranks(self, run_id: str, ranks: Ranks) -> None:
        if ranks.numbers and self._run is not None and run_id == self._run.run_id and ranks != self._choice.ranks:
            self._choice.ranks = ranks
            self._show_log()
            self._show_failure()
            self.refresh_bindings()

    def _show_attempts(self, run_id: str, attempts: list[Attempt]) -> None:
        if self._run is not None and run_id == self._run.run_id and attempts != self._attempts:
            self._attempts = attempts
            self._show_log()

    def action_step_rank(self, direction: int) -> None:
        self._choice.step_rank(direction)
        self._show_part()

    def action_step_node(self, direction: int) -> None:
        self._choice.step_node(direction)
        self._show_part()

    def _show_part(self) -> None:
        """Show the log of the chosen ranks, and continue a search in it."""
        self._setup_chosen = False
        self._show_log()
        if self.view.pattern is not None:
            self.view.search(self.view.pattern)

    def _show_title(self) -> None:
        run = self._run
        if run is None:
            self.set_title()
            self.view.set_placeholder(("No runs yet.", self._hint or NO_RUN))
            return
        part = ": setup log" if self._shows_setup else self._choice.title
        self.set_title(safe_text(f"{run_title(run)} on {run.target}{part}"))
        if run.state == RunState.QUEUED and run.reason:
            texts = (run.reason, job_words(run, time.time()))
            words = [f"{text[0].upper()}{text[1:]}." for text in texts if text]
            self.view.set_placeholder(("Queued.", *map(safe_text, words)))
        elif run.is_active:
            self.view.set_placeholder(("No output yet.",))
        elif self._shows_setup:
            self.view.set_placeholder(("The setup log is empty.",))
        else:
            self.view.set_placeholder((safe_text(self._choice.no_output),))

    def on_log_view_state_changed(self, event: LogView.StateChanged) -> None:
        event.stop()
        self._show_status(status_text(self._run, self.view.state))
        if self._search_row is not None:
            self._search_row.show_search(self.view.state.search)
        self._show_failure()

    def _show_status(self, text: str) -> None:
        if text != self._status:
            self._status = text
            self.border_subtitle = Content(text)

    @on(LogView.Copied)
    def _copied(self, event: LogView.Copied) -> None:
        event.stop()
        self._show_status(f"copied {counted(event.lines, 'line')}")

    # --- The reason for a failure

    def _show_failure(self) -> None:
        run, traceback = self._run, self.view.state.traceback
        raised = run is not None and run.state == RunState.FAILED and not self._shows_setup
        shows_traceback = raised and traceback is not None and bool(traceback.exception)
        reason = reason_of(run) if run is not None and not shows_traceback else ""
        warning = warning_words(run, time.time()) if run is not None and not reason else ""
        self._traceback.display, self._reason.display = shows_traceback, bool(reason or warning)
        if traceback is not None and shows_traceback:
            traceback = traceback._replace(exception=self._choice.traceback_owner + traceback.exception)
            file = in_project(run, traceback.frame.file)[1] if traceback.frame is not None else ""
            self._traceback.show_traceback(traceback, file)
        elif run is not None and reason:
            self._reason.show_reason(run_state(run), reason)
        elif warning:
            self._reason.show_reason(WARNING, f"{capitalized(warning)}.")

    def on_traceback_line_chosen(self, event: TracebackLine.Chosen) -> None:
        event.stop()
        self.action_show_traceback()

    def on_traceback_line_location_chosen(self, event: TracebackLine.LocationChosen) -> None:
        event.stop()
        path = os.path.join(*in_project(self._run, event.frame.file))
        self.post_message(FileChosen(path if os.path.exists(path) else event.frame.file, event.frame.line))

    # --- Commands

    def why_not(self, action: str) -> str:
        state = self.view.state
        if action in ("search", "change_log", "step_rank", "step_node", "edit") and self._run is None:
            return "No log yet."
        if action == "step_rank" and self._choice.ranks is None:
            return "This run has no ranks. To start several processes, set ProcessesPerNode in the run configuration."
        if action == "step_node" and not self._choice.has_nodes:
            return "This run has no ranks on several nodes. Set Nodes and ProcessesPerNode in the run configuration."
        if action == "change_log" and self._run is not None and target_types.find(self._run.target_type).runs_here:
            return (
                "For a local run, the setup log is shown only during preparation."
                if self._run.state != RunState.PREPARING
                else ""
            )
        if action == "search" and self._search_row is not None and self._search_row.has_focus_within:
            return "The search field already has the focus."
        if action in ("step", "clear_search") and self.view.pattern is None:
            has_more = action == "clear_search" and (state.mark != NO_LINE or self._search_row is not None)
            return "" if has_more else "No search is active."
        if action == "show_stacks":
            # For an ended run, the last stacks are shown.
            return "No run selected." if self._run is None else why_not_read(self._run) if self._run.is_active else ""
        if action == "show_traceback" and state.traceback is None:
            return "No Python traceback in this log."
        return ""

    def action_edit(self) -> None:
        if self.view.path is not None:
            self.post_message(EditorRequested(self.view.path, self.view.state.line_in_view, read_only=True))

    def action_show_traceback(self) -> None:
        self.view.post(LogSession.show_traceback)
        self.take_focus()

    def action_show_stacks(self) -> None:
        if self._run is not None and not self.why_not("show_stacks"):
            self._stacks.show_run(self._run)
            self.view.post(LogSession.go_to_end)
            self.take_focus()

    @on(StacksPanel.Closed)
    def _close_stacks(self) -> None:
        had_focus = self._stacks.has_focus
        self._stacks.hide()
        if had_focus:
            self.take_focus()

    def action_step(self, direction: int) -> None:
        self.view.post(lambda session: session.step(direction))

    async def action_search(self) -> None:
        if self._search_row is None:
            self._search_row = LogSearchRow(self.view)
            await self.mount(self._search_row)
        self.view.post(LogSession.begin_search)
        self._search_row.take_focus()

    def action_clear_search(self) -> None:
        self.view.end_search(keep=False)
        if self._search_row is not None:
            had_focus = self._search_row.has_focus_within
            self._search_row.remove()
            self._search_row = None
            if had_focus:
                self.take_focus()

    def on_log_search_row_canceled(self, event: LogSearchRow.Canceled) -> None:
        event.stop()
        self.action_clear_search()


def status_text(run: Run | None, state: LogState) -> str:
    """Return the position in the log and the number of lines, followed by the time left of a job with a time limit.

    If the log cannot be read, return the error instead of the position. Return "" without a run.
    """
    if run is None:
        return ""
    return ", ".join(filter(None, (_position_text(run, state), left_words(run, time.time()))))


def _position_text(run: Run, state: LogState) -> str:
    if state.problem is not None:
        return safe_text(state.problem.message)
    lines = size_text(state.size) if state.line_count is None else counted(state.line_count, "line")
    number = state.top_number
    if state.pinned:
        position = f"following, {lines}" if run.is_active else lines
    elif run.is_active and state.new_lines:
        position = f"paused, {counted(state.new_lines, 'new line')}"
    else:
        position = lines if number is None else f"line {number + 1:,} of {lines.removesuffix(' lines')}"
        position = f"paused, {position}" if run.is_active else position
    return f"{position}, first {size_text(state.left_out)} left out" if state.left_out else position


def in_project(run: Run | None, path: str) -> tuple[str, str]:
    """Return the project's directory, and the path relative to the project or to the working copy of the run.

    The path of a file outside both is returned unchanged.
    """
    if run is None:
        return "", path
    root = root_of_state(state_of_run(run.directory))
    for base in (os.path.join(run.directory, WORKING_COPY), root):
        if path.startswith(base + os.sep):
            return root, path[len(base) + 1 :]
    return root, path
