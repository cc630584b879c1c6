"""The runs of coding agents that wait for an approval, with the plan of the selected run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from textual import on

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents.approvals import WAITING, Approval, read_approvals
from tui_workbench.runs.agents.submitting import approve, deny
from tui_workbench.ui.blocking import CallQueue, OneAtATime, in_thread
from tui_workbench.ui.commands.screen_commands import APPROVALS, HISTORY
from tui_workbench.ui.formatting import moment
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.field_row import PromptRow
from tui_workbench.ui.widgets.pieces import Piece, Row, hanging
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import TextView

POLL_SECONDS = 1.0

NO_REQUESTS = (
    "No requests.",
    "Runs of coding agents wait here for your approval if they exceed your limits. Agents use `workbench-tui mcp`.",
)


class ApprovalsScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the requests of agents, with waiting requests first."""

    BINDINGS = APPROVALS.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*APPROVALS, *HISTORY)
    AUTO_FOCUS = "RowList"
    heading = "Approvals"
    about = "Runs of coding agents that exceed your limits. An approval starts exactly the run that you see."
    DEFAULT_CSS = """
    ApprovalsScreen > RowList { height: 1fr; min-height: 3; }
    ApprovalsScreen > TextView { height: 3fr; min-height: 4; border-top: solid $border-blurred; }
    ApprovalsScreen > TextView:focus { border-top: solid $border; }
    """

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._approvals: Sequence[Approval] = ()
        self._shown: Approval | None = None
        self._decisions = CallQueue(self)
        self._polling = OneAtATime(self, self._poll)
        self.requests = RowList()
        self.plan = TextView(wraps=True)
        self.prompt = PromptRow()
        self.content = (self.requests, self.plan, self.prompt)

    @property
    def subject(self) -> str:
        return "of all projects"

    def on_mount(self) -> None:
        self._polling.start()
        self.set_interval(POLL_SECONDS, lambda: self._polling.start() if self.is_current else None)

    async def _poll(self) -> None:
        try:
            approvals = await in_thread(read_approvals)
        except WorkbenchError as error:
            self.show_error(error)
            return
        self._approvals = sorted(approvals, key=lambda approval: approval.state != WAITING)
        waiting = sum(approval.state == WAITING for approval in approvals)
        self.head.show(self.subject, right=(Piece(f"{counted(waiting, 'request')} waiting", "muted"),))
        now = time.time()
        self.requests.show_rows([_row(approval, now) for approval in self._approvals], empty=NO_REQUESTS)
        self._show_plan()

    @property
    def _current(self) -> Approval | None:
        return next((approval for approval in self._approvals if str(approval.number) == self.requests.current), None)

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self._show_plan()

    def _show_plan(self) -> None:
        current = self._current
        if current != self._shown:
            self._shown = current
            self.plan.show(list(_details(current, self.size.width - 4)) if current is not None else ())
            self.refresh_bindings()

    def action_read(self) -> None:
        self.set_focus(self.requests if self.plan.has_focus else self.plan)

    def action_approve(self) -> None:
        if (current := self._current) is not None:
            self.say(f"Starting the run of request {current.number}...")
            self._decisions.add(partial(approve, current.number), self._approved, holds_exit=True)

    def _approved(self, run: Run) -> None:
        self.say(f"Started {run.run_id}.")
        self._polling.start()

    def action_deny(self) -> None:
        if (current := self._current) is not None:
            self.prompt.ask("Reason for the agent (optional)", "", partial(self._deny, current.number))

    def _deny(self, number: int, reason: str) -> None:
        def denied(_: object) -> None:
            self.say(f"Denied request {number}.")
            self._polling.start()

        self._decisions.add(partial(deny, number, reason.strip()), denied)

    def why_not(self, action: str) -> str:
        if action in ("approve", "deny", "read") and self._current is None:
            return "No request selected."
        if action in ("approve", "deny") and self._current is not None and self._current.state != WAITING:
            return "The request no longer waits for an approval."
        return super().why_not(action)


def _row(approval: Approval, now: float) -> Row:
    role = "warning" if approval.state == WAITING else "muted"
    before = (Piece(f"{approval.number:>4}  ", "muted"), Piece(f"{approval.state:<11}", role))
    agent = Piece(f"  {safe_text(approval.agent)}  {moment(approval.created, now)}", "muted")
    return Row(str(approval.number), Piece(safe_text(approval.summary)), before, (), (agent,), cut_at_end=True)


def _details(approval: Approval, width: int) -> Iterator[Sequence[Piece]]:
    """Yield the lines of the request, its reasons and its plan."""
    facts = [("Run", approval.summary), ("Project", approval.project), ("Agent", approval.agent)]
    facts += [("Reason", f"{reason}.") for reason in approval.reasons]
    facts += [("Started", approval.run_id)] if approval.run_id else []
    facts += [("Denied", approval.answer)] if approval.answer else []
    facts += [("Replaced by", f"request {approval.replaced_by}, with the new plan")] if approval.replaced_by else []
    for name, fact in facts:
        yield from hanging((Piece(f"{name:<12}", "muted"),), fact, width)
    yield ()
    for line in approval.plan.splitlines():
        yield (Piece(safe_text(line)),)
