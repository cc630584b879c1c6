"""The Jobs pane: every run of the project, newest first, with its state, start, duration, and whether it used a GPU.

It shows what it is handed and holds no run itself; of their directories it reads the verdict alone, in a thread, once
for those that have ended. Only durations and verdicts of runs that are going on change by themselves, and there is no
timer while nothing runs.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on

from tui_workbench.model import RunState
from tui_workbench.ui.blocking import Unbegun, in_thread
from tui_workbench.ui.commands import JOBS, bindings
from tui_workbench.ui.messages import CancelConfirmed, ReconnectWanted, RunDetailsWanted, RunRepeated, RunSelected
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.verdicts import read_verdicts, verdict_label, verdict_look
from tui_workbench.ui.widgets.filter_list import FilterList
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.question_row import Choice, Question, QuestionRow
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.words import elapsed, moment, run_state, run_title, step_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.timer import Timer

    from tui_workbench.model import Run

SHOWN_RUNS = 500
"""The newest runs, which are the ones that are listed: nobody scrolls further, and each costs at every change."""

MIN_NAME = 12
"""Cells that the name of a run keeps; the time of the start gives way before it."""


USUAL_NAME = 20
"""Cells of a name that a verdict leaves it, where the time of the start can give way."""

VERDICT_SECONDS = 3
"""How often a run that goes on is judged anew."""

_WITH_STEPS = (RunState.PREPARING, RunState.FINALIZING)
"""The states in which it matters which step a run is at."""


class JobsPane(Pane):
    """Posts `RunSelected` as the cursor moves, `CancelConfirmed`, `ReconnectWanted` and `RunRepeated`."""

    number = 5
    title = "Jobs"
    about = (
        "Every run of this project, also those that the command line started. The log shows the one under the cursor. "
        "A run goes on when the workbench is closed."
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(JOBS)

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._list = FilterList()
        self._runs: dict[str, Run] = {}
        self._steps: Mapping[str, str] = {}
        self._total = 0
        self._canceling: set[str] = set()
        self._empty: tuple[str, ...] = ()
        self._question: QuestionRow | None = None
        self._timer: Timer | None = None
        self._verdicts: dict[str, str] = {}  # by run id; empty words for those that no GPU was in reach of
        self._judged: set[str] = set()  # the runs whose verdict stays
        self._is_judging = self._is_asked_again = False
        self._ticks = 0

    def compose(self) -> ComposeResult:
        """The list; a question brings its own row."""
        yield self._list

    def take_focus(self) -> None:
        """To the list, or to the question that is open."""
        self.screen.set_focus(self._question or self._list)

    def why_not(self, action: str) -> str:
        """Commands are about the run under the cursor."""
        run = self._runs.get(self._list.current)
        if run is None:
            return "No run is under the cursor."
        if action == "reconnect" and not (run.state == RunState.UNKNOWN and run.is_active):
            return "The run's target is not out of reach."
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
        """Show the runs, in this order; `current` is the id of the run that gets the cursor, if it should move.

        `steps` tells by run id what a run that is not running does at the moment.
        """
        self._total = len(runs)
        self._steps = steps or {}
        listed = [run for place, run in enumerate(runs) if place < SHOWN_RUNS or run.is_active]
        self._runs = {run.run_id: run for run in listed}
        self._canceling.intersection_update(run_id for run_id, run in self._runs.items() if run.is_active)
        self._empty = empty
        self._show(current)
        if self._question is not None and not self._asked_is_active():
            self._end_question()
        self._keep_time(any(run.is_active for run in runs))
        self._judge()

    def _keep_time(self, needed: bool) -> None:
        if needed and self._timer is None:
            self._timer = self.set_interval(1, self._tick)
        elif not needed and self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks % VERDICT_SECONDS == 0:
            self._judge()
        self._show()

    def _judge(self) -> None:
        """Ask for the verdicts that are not known, or may be others by now."""
        self._is_asked_again = True
        if not self._is_judging and any(run_id not in self._judged for run_id in self._runs):
            self._is_judging = True
            self.run_worker(Unbegun(self._read_verdicts), group="verdicts")

    async def _read_verdicts(self) -> None:
        while self._is_asked_again:
            self._is_asked_again = False
            runs = [run for run in self._runs.values() if run.run_id not in self._judged]
            found = await in_thread(partial(read_verdicts, runs))
            self._judged.update(run.run_id for run in runs if not run.is_active)
            if any(self._verdicts.get(run_id, "") != word for run_id, word in found.items()):
                self._verdicts.update(found)
                self._show()
        self._is_judging = False

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
        words = [self._word(run) for run in runs]
        starts = [moment(run.start or run.created, now) for run in runs]
        times = [elapsed(run, now) for run in runs]
        columns = [max(map(len, column), default=0) for column in (words, starts, times)]
        # The glyph, the blanks between columns and at the edges take the other cells.
        room = self._list.scrollable_content_region.width - sum(columns) - 9 - MIN_NAME
        longest = max((len(run_title(run)) for run in runs), default=0)
        judged = [self._verdicts.get(run.run_id, "") for run in runs]
        short = room < max((len(verdict_label(word)) + 2 for word in judged if word), default=0)
        verdicts = [_verdict(word, short=short) for word in judged]
        wide = max((len(piece.text) for piece in verdicts), default=0)
        if room < wide + (min(longest, USUAL_NAME) - MIN_NAME if wide else 0):
            starts, columns[1] = [""] * len(starts), 0
        verdicts = [piece._replace(text=piece.text.ljust(wide)) for piece in verdicts]
        return [
            _row(run, columns, word, start, spent, verdict)
            for run, word, start, spent, verdict in zip(runs, words, starts, times, verdicts, strict=True)
        ]

    def _word(self, run: Run) -> str:
        if run.run_id in self._canceling:
            return "canceling"
        step = self._steps.get(run.run_id, "") if run.state in _WITH_STEPS else ""
        return step_words(step) or run_state(run).word

    def on_resize(self, event: events.Resize) -> None:
        """Columns come and go with the width."""
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
        """Go to the run's log."""
        if self._list.current:
            self.post_message(RunSelected(self._list.current, opened=True))

    def action_details(self) -> None:
        """Show everything about the run."""
        if self._list.current:
            self.post_message(RunDetailsWanted(self._list.current))

    def action_again(self) -> None:
        """Fill the run bar with what this run was asked for."""
        if self._list.current:
            self.post_message(RunRepeated(self._list.current))

    def action_reconnect(self) -> None:
        """Try to reach the run's target now."""
        if self._list.current:
            self.post_message(ReconnectWanted(self._list.current))

    async def action_cancel(self) -> None:
        """Ask once."""
        run = self._runs.get(self._list.current)
        if run is None or self.why_not("cancel") or self._question is not None:
            return
        question = Question(
            f"Cancel {safe_text(run_title(run))}?",
            (Choice("x", "yes", run.run_id), Choice("n", "no", "")),
        )
        self._question = QuestionRow(question)
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

    def _asked_is_active(self) -> bool:
        return self._question is not None and any(
            choice.answer in self._runs and self._runs[choice.answer].is_active
            for choice in self._question.question.choices
        )

    def _end_question(self) -> None:
        if self._question is None:
            return
        had_focus = self._question.has_focus
        self._question.remove()
        self._question = None
        if had_focus:
            self.screen.set_focus(self._list)

    def cancel_failed(self, run_id: str) -> None:
        """The run could not be canceled: it may be asked again."""
        self._canceling.discard(run_id)
        self._show()


def _verdict(word: str, *, short: bool) -> Piece:
    """Whether a run used a GPU; nothing for one that none was in reach of."""
    return Piece(f"  {verdict_label(word, short=short)}", verdict_look(word).role) if word else Piece("")


def _row(run: Run, columns: list[int], word: str, start: str, spent: str, verdict: Piece) -> Row:
    """A run's line: state, verdict, start and duration stand below those of the other runs."""
    look = run_state(run)
    right = [Piece(f"{word:<{columns[0]}}", look.role), verdict]
    if columns[1]:
        right.append(Piece(f"  {start:>{columns[1]}}", "muted"))
    right.append(Piece(f"  {spent:>{columns[2]}}", "text" if run.is_active else "muted"))
    return Row(
        run.run_id, Piece(safe_text(run_title(run))), before=(Piece(f"{look.glyph} ", look.role),), right=tuple(right)
    )
