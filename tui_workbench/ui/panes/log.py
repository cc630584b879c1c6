"""The Log pane: what the selected run has written, as it writes it; its end, and its last traceback when it failed.

The view reads and draws; the pane says whose log it is, how it stands, and offers to search in it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.content import Content
from textual.message import Message

from tui_workbench.model import RunState
from tui_workbench.runs.progress import PREPARATION_LOG
from tui_workbench.runs.rundir import WORKING_COPY
from tui_workbench.ui.command import shown_key
from tui_workbench.ui.commands import LOG, bindings
from tui_workbench.ui.messages import EditorWanted, FileChosen
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.log_session import NO_LINE
from tui_workbench.ui.widgets.log_view import LogView
from tui_workbench.ui.widgets.progress_line import RunProgressLine
from tui_workbench.ui.widgets.reason_lines import ReasonLines
from tui_workbench.ui.widgets.traceback_line import TracebackLine
from tui_workbench.ui.words import is_before_script, reason_of, run_state, run_title

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run
    from tui_workbench.runs.ranks import Ranks
    from tui_workbench.ui.remembered import Values
    from tui_workbench.ui.widgets.log_search_row import LogSearchRow
    from tui_workbench.ui.widgets.log_session import LogState

LOCAL = "local"

ALL_RANKS = -1
"""In place of a rank: the lines of all of them."""

NO_RUN = f"{shown_key('run.start', 'ctrl+r')} runs the script of the run bar."


class LogPane(Pane):
    """Posts `FileChosen` when the place of an error is chosen."""

    number = 4
    title = "Log"
    about = (
        "Everything that the selected run has written to its output and error streams. The end is followed until one "
        "scrolls up; G goes back to it. The file keeps every byte: here, control characters are shown and not obeyed."
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(LOG)

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._view = LogView()
        self._progress = RunProgressLine()
        self._run: Run | None = None
        self._hint = ""
        self._ranks: Ranks | None = None  # of a run under torchrun, once they are known
        self._rank = ALL_RANKS
        self._wants_preparation: bool | None = None  # what the person wants to see; None for what matters now
        self._search_row: LogSearchRow | None = None
        self._seeking = False  # something was given to search for, whether or not the view has come to it yet
        self._above: TracebackLine | ReasonLines | None = None
        self._status = ""
        self._show_run_words()

    def compose(self) -> ComposeResult:
        """The view; the search and the reason of a failure bring their own rows."""
        yield self._view
        yield self._progress

    @property
    def view(self) -> LogView:
        """The view in the pane."""
        return self._view

    def take_focus(self) -> None:
        """To the log, or to the search that is being typed."""
        self.screen.set_focus(self._view)

    @property
    def memory(self) -> dict[str, object]:
        """What is to be as it was when the program is started again."""
        return {"run": self._run.run_id if self._run is not None else "", **self._view.memory}

    def recall(self, memory: Values) -> None:
        """Have the log of the run that is shown where it was, if it is the same run."""
        if self._run is not None and self._run.run_id == memory.text("run"):
            self._view.recall(memory)

    # --- Whose log

    def show_run(self, run: Run | None, *, hint: str = "") -> None:
        """Show the log of this run; None while there is none, and `hint`, safe text, then says how to get one."""
        before = self._run
        changed = run is None or before is None or run.run_id != before.run_id
        self._run, self._hint = run, hint
        self._progress.show_run(run)
        if changed:
            self._end_search()
            self._wants_preparation = None
            self._ranks, self._rank = None, ALL_RANKS
        grown = before is None or (run is not None and run.state != before.state)
        if run is not None and (changed or grown or (run.is_active and self._ranks is None)):
            self.run_worker(lambda: self._look_at_ranks(run), thread=True, exclusive=True, group="ranks")
        self._show_log()
        self._show_run_words()
        if not changed:
            self._show_status(self._words())
        self._show_failure()

    def _show_log(self) -> None:
        run = self._run
        if run is None:
            self._view.set_log(None, False)
        elif self._shows_preparation:
            self._view.set_log(os.path.join(run.directory, PREPARATION_LOG), run.is_active)
        elif self._ranks is None:
            self._view.set_log(run.log_path, run.is_active)
        else:
            self._show_log_of(run, self._ranks)

    def _show_log_of(self, run: Run, ranks: Ranks) -> None:
        """The log of a run under torchrun: of one rank, or of all."""
        from tui_workbench.runs.ranks import mark_of, rank_log

        if self._rank != ALL_RANKS:
            self._view.set_log(rank_log(run.directory, self._rank), run.is_active)
            return
        self._view.set_log(run.log_path, run.is_active)
        if ranks.failed >= 0:
            # Behind its traceback come those of torchrun, and of ranks that lost their connection to it.
            self._view.set_traceback_mark(mark_of(ranks.failed))

    @property
    def _shows_preparation(self) -> bool:
        """Whether what came before the script is shown: by itself until the script has started, then on demand."""
        if self._wants_preparation is not None:
            return self._wants_preparation
        return self._run is not None and is_before_script(self._run)

    def action_change_log(self) -> None:
        """Show what the script wrote in place of what its preparation did, or the other way around."""
        self._wants_preparation = not self._shows_preparation
        self._end_search()
        self._show_log()
        self._show_run_words()

    # --- Ranks

    class _RanksSeen(Message):
        """The ranks of a run, as its files tell them."""

        def __init__(self, run_id: str, ranks: Ranks) -> None:
            super().__init__()
            self.run_id = run_id
            self.ranks = ranks

    def _look_at_ranks(self, run: Run) -> None:
        """In a thread: files are read."""
        from tui_workbench.runs.ranks import look_at

        ranks = look_at(run.directory)
        if ranks.numbers:
            self.post_message(self._RanksSeen(run.run_id, ranks))

    def on_log_pane__ranks_seen(self, event: _RanksSeen) -> None:
        """Offer them."""
        event.stop()
        if self._run is not None and event.run_id == self._run.run_id and event.ranks != self._ranks:
            self._ranks = event.ranks
            self._show_log()
            self._show_run_words()
            self._show_failure()
            self.refresh_bindings()

    def action_step_rank(self, direction: int) -> None:
        """From all ranks together to the first one, and on; what is searched for is searched for there."""
        assert self._ranks is not None, "not offered without"
        order = (ALL_RANKS, *self._ranks.numbers)
        self._rank = order[(order.index(self._rank) + direction) % len(order)]
        self._wants_preparation = False
        search = self._view.state.search
        self._show_log()
        self._show_run_words()
        if search is not None and self._seeking:
            self._view.search(search.pattern)

    @property
    def _rank_words(self) -> str:
        """Which rank's log it is."""
        if self._ranks is None:
            return ""
        count = len(self._ranks.numbers)
        return f", {count} ranks" if self._rank == ALL_RANKS else f", rank {self._rank} of {count}"

    def _show_run_words(self) -> None:
        run = self._run
        if run is None:
            self.set_title()
            self._view.set_placeholder(("No run yet.", self._hint or NO_RUN))
            return
        what = ", its preparation" if self._shows_preparation else self._rank_words
        self.set_title(safe_text(f"{run_title(run)} on {run.target}{what}"))
        if run.state == RunState.QUEUED and run.reason:
            self._view.set_placeholder(("Its turn has not come.", safe_text(f"It {run.reason}.")))
        elif run.is_active:
            self._view.set_placeholder(("Nothing written yet.",))
        elif self._rank != ALL_RANKS:
            self._view.set_placeholder((f"Rank {self._rank} wrote nothing.",))
        elif self._shows_preparation:
            self._view.set_placeholder(("Nothing was prepared.",))
        else:
            self._view.set_placeholder(("The run wrote nothing.",))

    # --- How it stands

    def on_log_view_state_changed(self, event: LogView.StateChanged) -> None:
        """Tell what is new about the log."""
        event.stop()
        self._show_status(self._words())
        if self._search_row is not None:
            self._search_row.show_search(self._view.state.search)
        self._show_failure()

    def _show_status(self, text: str) -> None:
        if text != self._status:
            self._status = text
            self.set_subtitle(Content(text))

    def _words(self) -> str:
        """How the log stands."""
        run, state = self._run, self._view.state
        if run is None:
            return ""
        if state.problem is not None:
            return safe_text(state.problem.message)
        count = _size(state) if state.line_count is None else _lines(state.line_count)
        if state.pinned:
            return f"following, {count}" if run.is_active else count
        if run.is_active and state.new_lines:
            return f"paused, {_lines(state.new_lines, 'new ')}"
        number = state.top_number
        place = count if number is None else f"line {number + 1:,} of {count.removesuffix(' lines')}"
        return f"paused, {place}" if run.is_active else place

    @on(LogView.Copied)
    def _copied(self, event: LogView.Copied) -> None:
        event.stop()
        self._show_status(f"copied {_lines(event.lines)}")

    # --- The reason of a failure

    def _show_failure(self) -> None:
        run, traceback = self._run, self._view.state.traceback
        raised = run is not None and run.state == RunState.FAILED and not self._shows_preparation
        if raised and traceback is not None and traceback.exception:
            self._show_above(TracebackLine)
            assert isinstance(self._above, TracebackLine)
            frame = traceback.frame
            if self._ranks is not None:
                rank = self._ranks.failed if self._rank == ALL_RANKS else self._rank
                traceback = (
                    traceback._replace(exception=f"rank {rank}: {traceback.exception}") if rank >= 0 else traceback
                )
            self._above.show_traceback(traceback, self._in_project(frame.file)[1] if frame is not None else "")
        elif run is not None and (reason := reason_of(run)):
            self._show_above(ReasonLines)
            assert isinstance(self._above, ReasonLines)
            self._above.show_reason(run_state(run), reason)
        else:
            self._show_above(None)

    def _show_above(self, kind: type[TracebackLine] | type[ReasonLines] | None) -> None:
        """Have a row of this kind above the log, or none."""
        if self._above is not None and type(self._above) is kind:
            return
        if self._above is not None:
            self._above.remove()
        self._above = kind() if kind is not None else None
        if self._above is not None:
            self.mount(self._above, before=0)

    def _in_project(self, path: str) -> tuple[str, str]:
        """The project's directory, and in it the file that a run names: it may have run in a copy of the project."""
        assert self._run is not None
        directory = self._run.directory
        root = os.path.dirname(os.path.dirname(os.path.dirname(directory)))
        for base in (os.path.join(directory, WORKING_COPY), root):
            if path.startswith(base + os.sep):
                return root, path[len(base) + 1 :]
        return root, path

    def on_traceback_line_chosen(self, event: TracebackLine.Chosen) -> None:
        """To the traceback."""
        event.stop()
        self.action_show_traceback()

    def on_traceback_line_place_chosen(self, event: TracebackLine.PlaceChosen) -> None:
        """To the line that raised it."""
        event.stop()
        root, inside = self._in_project(event.frame.file)
        path = os.path.join(root, inside)
        self.post_message(FileChosen(path if os.path.exists(path) else event.frame.file, event.frame.line))

    # --- Commands

    def why_not(self, action: str) -> str:
        """Why the action would do nothing now."""
        state = self._view.state
        if action in ("search", "change_log", "step_rank") and self._run is None:
            return "There is no log yet."
        if action == "edit" and self._view.path is None:
            return "There is no log yet."
        if action == "step_rank" and self._ranks is None:
            return "It is one process: ProcessesPerNode in the run configuration starts several."
        if action == "change_log" and self._run is not None and self._run.target_type == LOCAL:
            return "A run on this machine is not prepared." if self._run.state != RunState.PREPARING else ""
        if action == "search" and self._search_row is not None and self._search_row.has_focus_within:
            return "What to search for is being typed."
        if action == "step" and not self._seeking:
            return "Nothing is searched for."
        if action == "clear_search" and not self._seeking and state.mark == NO_LINE and self._search_row is None:
            return "Nothing is searched for."
        if action == "show_traceback" and state.traceback is None:
            return "There is no Python traceback in this log."
        return ""

    def action_edit(self) -> None:
        """Show a copy of the log in the user's own editor."""
        if self._view.path is not None:
            self.post_message(EditorWanted(self._view.path, self._view.line_in_view, read_only=True))

    def action_show_traceback(self) -> None:
        """To the last traceback."""
        self._view.show_traceback()
        self.take_focus()

    def action_step(self, direction: int) -> None:
        """To the next match, or the one before."""
        self._view.step(direction)

    async def action_search(self) -> None:
        """Begin to type what to search for."""
        from tui_workbench.ui.widgets.log_search_row import LogSearchRow

        if self._search_row is None:
            self._search_row = LogSearchRow(self._view)
            await self.mount(self._search_row)
        self._view.begin_search()
        self._search_row.take_focus()

    def action_clear_search(self) -> None:
        """Forget what was searched for; stay."""
        self._end_search()

    def _end_search(self) -> None:
        self._seeking = False
        self._view.end_search(keep=False)
        if self._search_row is not None:
            had_focus = self._search_row.has_focus_within
            self._search_row.remove()
            self._search_row = None
            if had_focus:
                self.take_focus()

    def on_log_search_row_sought(self, event: LogSearchRow.Sought) -> None:
        """Every letter searches."""
        event.stop()
        self._seeking = event.pattern is not None
        self._view.search(event.pattern)

    def on_log_search_row_stepped(self, event: LogSearchRow.Stepped) -> None:
        """Another match, while typing."""
        event.stop()
        self._view.step(event.direction)

    def on_log_search_row_kept(self, event: LogSearchRow.Kept) -> None:
        """The place is right: on with the log."""
        event.stop()
        self._view.end_search(keep=True)

    def on_log_search_row_canceled(self, event: LogSearchRow.Canceled) -> None:
        """The place is wrong: back."""
        event.stop()
        self._end_search()


def _lines(count: int, what: str = "") -> str:
    return f"{count:,} {what}line{'' if count == 1 else 's'}"


def _size(state: LogState) -> str:
    return f"{state.size / 1e6:,.0f} MB"
