"""The Jobs pane: the runs of the project, newest first, with state, GPU verdict, start and duration.

The caller provides the runs. The pane reads only their GPU verdicts, in a thread, and only once after a run has ended.
The timer for durations and verdicts stops while no run is active.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message
from textual.timer import Timer

from tui_workbench.core.model import JUPYTER, Run, RunState
from tui_workbench.runs.gpu.run_verdict import brief_of
from tui_workbench.runs.gpu.verdict import STALLED
from tui_workbench.runs.lifecycle.dependencies import dependents_of
from tui_workbench.runs.store.cluster_job import left_words, queue_words
from tui_workbench.runs.store.rundir import GPU_SAMPLES, GPU_VERDICT, RunDirectory
from tui_workbench.ui.blocking import OneAtATime, in_thread
from tui_workbench.ui.commands.main_commands import JOBS
from tui_workbench.ui.formatting import (
    NO_RERUN_OF_JUPYTER,
    elapsed,
    moment,
    run_state,
    run_title,
    step_words,
    verdict_label,
    verdict_look,
)
from tui_workbench.ui.logs.stacks_panel import why_not_read
from tui_workbench.ui.run_messages import (
    CancelConfirmed,
    ReconnectRequested,
    RunDetailsRequested,
    RunRequestReused,
    RunSelected,
    RunStalled,
    StacksRequested,
)
from tui_workbench.ui.terminal.safetext import safe_text, truncate_end
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece, Row, width_of
from tui_workbench.ui.widgets.progress_line import WITH_STEPS
from tui_workbench.ui.widgets.question_row import Question, QuestionRow, yes_no
from tui_workbench.ui.widgets.row_list import RowList

SHOWN_RUNS = 500  # number of newest runs that are listed, besides older active runs; drawing a row takes time
MIN_NAME = 12  # minimum cells for the name of a run; the start time is dropped first
USUAL_NAME = 20  # cells for the name beside a verdict, while the start time can be dropped
MIN_NOTE = 12  # minimum cells for a note about a run
MARGINS = 5  # cells around the name, the note and the columns of a row
VERDICT_SECONDS = 3  # seconds between reads of the verdicts of active runs


class JobsPane(Pane):
    """The pane with the runs of the project.

    Posts `RunSelected` when the cursor moves, `RunStalled` when an active run stalls, and a request message for each
    command.
    """

    number = 5
    title = "Jobs"
    about = (
        "All runs of this project, including those started on the command line. The log shows the selected run. "
        "Runs continue when you quit the workbench."
    )
    BINDINGS = JOBS.bindings

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._list = RowList(has_filter=True)
        self._runs: dict[str, Run] = {}
        self._steps: Mapping[str, str] = {}
        self._total = 0
        self._canceling: set[str] = set()
        self._empty: tuple[str, ...] = ()
        self._question: QuestionRow | None = None
        self._asked = ""  # ID of the run in the question
        self.timer: Timer | None = None
        self._verdicts: dict[str, str] = {}  # verdicts by run ID; "" for a run without a GPU
        self._final: set[str] = set()  # IDs of runs whose verdict no longer changes
        self._verdict_reader = OneAtATime(self, self._read_verdicts)
        self._ticks = 0

    def compose(self) -> ComposeResult:
        yield self._list

    def take_focus(self) -> None:
        self.screen.set_focus(self._question or self._list)

    def why_not(self, action: str) -> str:
        run = self._runs.get(self._list.current)
        if run is None:
            return "No run selected."
        if action == "reconnect" and not (run.lacks_outputs or (run.state == RunState.UNKNOWN and run.is_active)):
            return "The state of the run is known, and no files are missing."
        if action == "again" and run.script_name == JUPYTER:
            return NO_RERUN_OF_JUPYTER
        if action == "show_stacks":
            return why_not_read(run) if run.is_active else ""
        if action == "cancel":
            if not run.is_active:
                return "The run has ended."
            if run.run_id in self._canceling:
                return "The run is being canceled."
        return ""

    def show_runs(
        self,
        runs: Sequence[Run],
        *,
        steps: Mapping[str, str] | None = None,
        empty: tuple[str, ...] = (),
        current: str | None = None,
    ) -> None:
        """Show the runs in this order.

        `steps` holds the current step of runs by run ID. `current` is the ID of the run to select, if not None.
        """
        self._total = len(runs)
        self._steps = steps or {}
        listed = [run for index, run in enumerate(runs) if index < SHOWN_RUNS or run.is_active]
        self._runs = {run.run_id: run for run in listed}
        active = {run.run_id for run in listed if run.is_active}
        self._canceling &= active
        self._final -= active  # an ended run may have been started again
        self._empty = empty
        self._show(current)
        if self._asked not in self._runs or not self._runs[self._asked].is_active:
            self._end_question()
        is_needed = bool(active)
        if is_needed and self.timer is None:
            self.timer = self.set_interval(1, self._tick)
        elif self.timer is not None and not is_needed:
            self.timer.stop()
            self.timer = None
        self._update_verdicts()

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks % VERDICT_SECONDS == 0:
            self._update_verdicts()
        self._show()

    def _update_verdicts(self) -> None:
        if any(run_id not in self._final for run_id in self._runs):
            self._verdict_reader.start()

    async def _read_verdicts(self) -> None:
        runs = [run for run in self._runs.values() if run.run_id not in self._final]
        # The set is updated before the verdicts are read, because `show_runs` may remove a run meanwhile.
        self._final.update(run.run_id for run in runs if not run.is_active)
        briefs = await in_thread(partial(read_verdicts, runs))
        words = {run_id: str(brief.get("verdict", "")) for run_id, brief in briefs.items()}
        if any(self._verdicts.get(run_id, "") != word for run_id, word in words.items()):
            # Only the runs that have stalled since the last reading are reported.
            for run in runs:
                before, brief = self._verdicts.get(run.run_id, STALLED), briefs[run.run_id]
                if run.is_active and before != STALLED and brief.get("verdict") == STALLED:
                    self.post_message(RunStalled(run, str(brief["text"])))
            self._verdicts.update(words)
            self._show()

    def _show(self, current: str | None = None) -> None:
        self._list.show_rows(self._rows(time.time()), empty=self._empty, current=current)
        active = sum(run.is_active for run in self._runs.values())
        words = [f"{active} active"] if active else []
        if self._total > len(self._runs):
            words.append(f"newest {len(self._runs)} of {self._total:,}")
        self.set_title(", ".join(words))
        self.refresh_bindings()

    def _rows(self, now: float) -> list[Row]:
        runs = self._runs.values()
        states = [self._state_text(run) for run in runs]
        starts = [moment(run.start or run.created, now) for run in runs]
        times = [elapsed(run, now) for run in runs]
        columns = [max(map(len, column), default=0) for column in (states, starts, times)]
        # The glyph and the blanks around columns take 9 cells.
        room = self._list.scrollable_content_region.width - sum(columns) - 9 - MIN_NAME
        longest = max((len(run_title(run)) for run in runs), default=0)
        words = [self._verdicts.get(run.run_id, "") for run in runs]
        short = room < max((len(verdict_label(word)) + 2 for word in words if word), default=0)
        labels = [f"  {verdict_label(word, short=short)}" if word else "" for word in words]
        wide = max(map(len, labels), default=0)
        if room < wide + (min(longest, USUAL_NAME) - MIN_NAME if wide else 0):
            starts, columns[1] = [""] * len(starts), 0
        verdicts = [
            Piece(f"{label:<{wide}}", verdict_look(word).role) for label, word in zip(labels, words, strict=True)
        ]
        rows = map(_row, runs, repeat(columns), states, starts, times, verdicts)
        width = self._list.scrollable_content_region.width
        return [_with_note(row, run, _note(run, now), width) for run, row in zip(runs, rows, strict=True)]

    def _state_text(self, run: Run) -> str:
        if run.run_id in self._canceling:
            return "canceling"
        step = self._steps.get(run.run_id, "") if run.state in WITH_STEPS else ""
        return step_words(step) or run_state(run).word

    def on_resize(self, event: events.Resize) -> None:
        self._show()

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self.post_message(RunSelected(event.key, opened=False))
        self.refresh_bindings()

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        self.post_message(RunSelected(event.key, opened=event.count > 1))

    def action_show_log(self) -> None:
        self._post(partial(RunSelected, opened=True))

    def action_details(self) -> None:
        self._post(RunDetailsRequested)

    def action_show_stacks(self) -> None:
        if not self.why_not("show_stacks"):
            self._post(StacksRequested)

    def action_again(self) -> None:
        self._post(RunRequestReused)

    def action_reconnect(self) -> None:
        self._post(ReconnectRequested)

    def _post(self, make_message: Callable[[str], Message]) -> None:
        if self._list.current:
            self.post_message(make_message(self._list.current))

    async def action_cancel(self) -> None:
        run = self._runs.get(self._list.current)
        if self._question is not None:
            self.take_focus()
            return
        if run is None or self.why_not("cancel"):
            return
        self._asked = run.run_id
        dependents = await in_thread(partial(dependents_of, RunDirectory(run.directory)))
        names = ", ".join(run_title(other) for other in dependents)
        also = f" Runs that wait for it are also canceled: {names}." if names else ""
        self._question = QuestionRow(Question(safe_text(f"Cancel {run_title(run)}?{also}"), yes_no(run.run_id)))
        await self.mount(self._question)
        self.screen.set_focus(self._question)

    @on(QuestionRow.Answered)
    def _answered(self, event: QuestionRow.Answered) -> None:
        event.stop()
        self._end_question()
        if event.answer:
            self._canceling.add(event.answer)
            self._show()
            self.post_message(CancelConfirmed(event.answer))

    def _end_question(self) -> None:
        if self._question is not None:
            question, self._question = self._question, None
            if question.has_focus:
                self.screen.set_focus(self._list)
            question.remove()

    def cancel_failed(self, run_id: str) -> None:
        self._canceling.discard(run_id)
        self._show()


def _row(run: Run, columns: list[int], state: str, start: str, spent: str, verdict: Piece) -> Row:
    """Return the row of a run, aligned with the other rows by the widths in `columns`."""
    look = run_state(run)
    right = [Piece(f"{state:<{columns[0]}}", look.role), verdict]
    if columns[1]:
        right.append(Piece(f"  {start:>{columns[1]}}", "muted"))
    right.append(Piece(f"  {spent:>{columns[2]}}", "text" if run.is_active else "muted"))
    return Row(
        run.run_id, Piece(safe_text(run_title(run))), before=(Piece(f"{look.glyph} ", look.role),), right=tuple(right)
    )


def _note(run: Run, now: float) -> str:
    """Return a note about a queued run or an active cluster job; "" for other runs. The note is untrusted text."""
    if run.state == RunState.QUEUED:
        return ", ".join(filter(None, (queue_words(run, now) if run.job.job_id else "", run.reason)))
    if not run.is_active or not run.job.job_id:
        return ""
    return ", ".join(filter(None, (left_words(run, now), run.job.nodes)))


def _with_note(row: Row, run: Run, note: str, width: int) -> Row:
    """Add the note after the name, shortened to the space before the columns. Omit it if the space is too small.

    If the note of a queued run is too long, it replaces the columns after the state, which are only about waiting.
    """
    note, state = safe_text(note), row.right[0]
    room = width - width_of((*row.before, row.name, *row.right)) - MARGINS
    if run.state == RunState.QUEUED and width_of((Piece(note),)) > room:
        room = width - width_of((*row.before, row.name, state)) - MARGINS
        if room >= MIN_NOTE:
            return row._replace(right=(state, Piece(f"  {truncate_end(note, room)}", "muted")))
    elif note and room >= MIN_NOTE:
        return row._replace(after=(Piece(f"  {truncate_end(note, room)}", "muted"),))
    return row


def read_verdicts(runs: Iterable[Run]) -> dict[str, Mapping[str, Any]]:
    """Return the result of `brief_of` for each run, keyed by run ID; an empty dict for a run without a GPU. Blocks."""
    briefs: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        has_gpu = any(os.path.exists(os.path.join(run.directory, name)) for name in (GPU_VERDICT, GPU_SAMPLES))
        briefs[run.run_id] = brief_of(run.directory) if has_gpu else {}
    return briefs
