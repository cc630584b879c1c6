"""Screens before a run: its plan, and the preparation of its environment.

The plan from the configuration files is shown immediately; details from the target follow. Planning changes nothing.
The output of a preparation goes to a file that the view follows. A preparation continues when its screen is closed, but
not when the project is closed. A stopped preparation leaves no partial environment.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

from tui_workbench.core.errors import NotPrepared, WorkbenchError, storage_errors
from tui_workbench.core.files import open_below, write_below
from tui_workbench.core.model import Plan, RunRequest
from tui_workbench.core.progress import Progress, listening
from tui_workbench.core.waiting import Interrupted, waking_pipe
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.submission.planning import prepare_environment
from tui_workbench.targets.values import Report
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import PLAN, PREPARING
from tui_workbench.ui.formatting import STEP_WORDS, capitalized, duration
from tui_workbench.ui.logs.log_view import LogView
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.dialog import DialogScreen, box_of
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, hanging, width_of
from tui_workbench.ui.widgets.progress_line import SHOW_AFTER_SECONDS, progress_pieces
from tui_workbench.ui.widgets.text_view import TextView

AROUND = 3  # lines of the dialog around the plan: borders and keys


class PlanScreen(ExplainsUnavailable, DialogScreen[str], inherit_bindings=False):
    """The screen of a request's plan. Its result is RUN, PREPARE, LOG_IN, or "" if the user leaves.

    After LOG_IN, the caller logs in and shows the plan again.
    """

    RUN, PREPARE, LOG_IN = "run", "prepare", "log in"

    BINDINGS = PLAN.bindings
    DEFAULT_CSS = "PlanScreen > Vertical { width: 110; }"

    def __init__(
        self,
        project: Project,
        request: RunRequest,
        needs_login: Callable[[], Awaitable[bool]],
        why_not_prepare: str = "",
        unsaved: str = "",
    ) -> None:
        """`needs_login` returns True if the target needs a password or another answer from the user first.

        `why_not_prepare` is the reason why preparing is not available. `unsaved` (safe text) names files with unsaved
        edits, which the plan does not include.
        """
        self._lines = TextView(make=lambda width: list(self._draw(width)))
        super().__init__(box_of(f"Plan: {request.script}", self._lines))
        self._project = project
        self._request = request
        self._needs_login = needs_login
        self._why_not_prepare = why_not_prepare
        self._unsaved = unsaved
        self._plan: Plan | None = None
        self._status = ("Planning...", "muted")

    def on_mount(self) -> None:
        self.set_focus(self._lines)
        self.run_worker(self._read_plan(), group="plan")

    def on_resize(self) -> None:
        self._lines.styles.max_height = max(self.size.height * 9 // 10 - AROUND, 3)

    async def _read_plan(self) -> None:
        runs = Runs(self._project)
        try:
            self._plan = await in_thread(lambda: runs.plan(self._request))
            self._show_status(f"Checking {self._plan.target}...", "muted")
            if await self._needs_login():
                self.dismiss(self.LOG_IN)
                return
            self._plan, unknown = await in_thread(lambda: runs.plan_details(self._request))
        except NotPrepared as error:
            self._show_status(f"{error.message}. {shown_key('plan.prepare', 'P')} prepares the environment.", "warning")
        except WorkbenchError as error:
            self._show_status(str(error), "error")
        else:
            if unknown:
                self._show_status(f"The target could not be checked. {capitalized(unknown)}", "warning")
            else:
                self._show_status(f"The plan is ready. {shown_key('plan.run', 'enter')} starts the run.", "success")

    def _show_status(self, text: str, role: str) -> None:
        self._status = (capitalized(text), role)
        if self.is_mounted:
            self._lines.rebuild()

    def _draw(self, width: int) -> Iterator[Sequence[Piece]]:
        yield ()
        if self._plan is not None:
            plan, script = self._plan, shlex.join([self._request.script, *self._request.arguments])
            facts = {"Target": f"{plan.target} ({plan.target_type})", "Script": script, "Environment": plan.interpreter}
            for name, fact in facts.items():
                yield from hanging((Piece(f" {name:<12}", "muted"),), fact, width)
            yield ()
        text, role = self._status
        yield from hanging((Piece(" "),), text, width, role)
        if self._unsaved:
            unsaved = f"Unsaved edits in {self._unsaved} are saved when you run."
            yield from hanging((Piece(" "),), unsaved, width, "warning")
        yield ()
        if self._plan is not None:
            for number, step in enumerate(self._plan.steps, 1):
                before = (Piece(f" {number:>2}  ", "muted"), Piece(f"{step.name:<11} ", "function"))
                yield from hanging(before, step.title, width)
                if step.command:
                    indent = Piece(" " * width_of(before))
                    yield from hanging((indent,), shlex.join(step.command), width, "muted")
            yield ()

    def why_not(self, action: str) -> str:
        return self._why_not_prepare if action == "prepare" else ""

    def action_run(self) -> None:
        self.dismiss(self.RUN)

    def action_prepare(self) -> None:
        self.dismiss(self.PREPARE)

    def action_leave(self) -> None:
        self.dismiss("")

    def action_copy(self) -> None:
        lines = ["".join(piece.text for piece in line).rstrip() for line in self._draw(120)]
        if copy(self.app, "\n".join(lines).strip() + "\n"):
            self.app.notify("Plan copied.", timeout=3.0, markup=False)


TICK_SECONDS = 0.5

WORKING, DONE, FAILED, STOPPED = "working", "done", "failed", "stopped"

_LOOKS = {WORKING: ("◌", "running"), DONE: ("✓", "success"), FAILED: ("✗", "error"), STOPPED: ("⊘", "muted")}


class Preparation(Report):
    """The preparation of an environment in a thread. It receives the target's reports."""

    def __init__(self, project: Project, configuration: str) -> None:
        self.configuration = configuration
        self.path = os.path.join(project.state_directory, f"prepare-{configuration}.log")
        self.state = WORKING
        self.step = ""
        self.message = ""
        self.progress: Progress | None = None  # progress of the current step
        self.begun = time.monotonic()
        self.seconds = 0.0
        self._project = project
        self.interrupted, self._stop = waking_pipe()

    @property
    def has_ended(self) -> bool:
        return self.state != WORKING

    async def work(self, notify: Callable[..., None]) -> None:
        try:
            name = await in_thread(self._prepare)
            self._end(DONE, name)
        except Interrupted:
            self._end(STOPPED, "stopped")
        except WorkbenchError as error:
            # Log the error too, because it may not fit into the line below the log.
            self.line(str(error))
            self._end(FAILED, str(error))
        title = {DONE: "Prepared", STOPPED: "Stopped preparing"}.get(self.state, "Could not prepare")
        severity = "error" if self.state == FAILED else "information"
        notify(f"{title} {safe_text(self.configuration)}.", severity=severity, timeout=5.0, markup=False)

    def stop(self) -> None:
        """Stop the preparation, without waiting for its end."""
        if not self.has_ended:
            os.write(self._stop, b"x")

    def _prepare(self) -> str:
        self._project.prepare_state()
        with storage_errors("write", self.path):
            write_below(self._project.state_directory, os.path.basename(self.path), b"")
        with listening(self._set_progress):
            return prepare_environment(self._project, self.configuration, "", self)

    def _set_progress(self, progress: Progress | None) -> None:
        self.progress = progress

    def _end(self, state: str, message: str) -> None:
        self.state, self.message = state, message
        self.seconds = time.monotonic() - self.begun
        os.close(self.interrupted)
        os.close(self._stop)

    def begin(self, step: str, title: str) -> None:
        self.step = step
        self.line(title)

    def done(self, step: str, **facts: object) -> None:
        self.step = ""

    def line(self, text: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open(open_below(self._project.state_directory, os.path.basename(self.path), flags), "ab") as file:
            file.write(text.encode("utf-8", "surrogateescape") + b"\n")

    def lost(self, reason: str) -> None:
        self.line(f"connection lost: {reason}")

    def regained(self) -> None:
        self.line("connected again")


class PreparationLine(Line):
    """The state of a preparation: `◌ building  0:41`."""

    def __init__(self, preparation: Preparation) -> None:
        super().__init__()
        self._preparation = preparation

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        preparation = self._preparation
        glyph, role = _LOOKS[preparation.state]
        spent = preparation.seconds if preparation.has_ended else time.monotonic() - preparation.begun
        text = preparation.message or STEP_WORDS.get(preparation.step, "checking")
        progress = preparation.progress
        if not preparation.has_ended and progress is not None and progress.seconds >= SHOW_AFTER_SECONDS:
            return progress_pieces(progress, width)
        if preparation.state == DONE:
            text = f"prepared: {text}"
        status = Piece(f" {glyph} {truncate_middle(safe_text(text), width - 14)}", role)
        return [status], [Piece(f"{duration(spent)} ", "muted")]


class PrepareScreen(DialogScreen[bool], inherit_bindings=False):
    """The screen of a preparation. Its result is True if the environment is ready."""

    BINDINGS = PREPARING.bindings
    DEFAULT_CSS = """
    PrepareScreen > Vertical { width: 110; height: 80%; }
    PrepareScreen LogView { margin: 0 0 0 1; }
    """

    def __init__(self, preparation: Preparation, *, closes: bool = False) -> None:
        """With `closes`, the screen closes when the environment is ready, because a run waits for the environment."""
        self._view = LogView()
        self._line = PreparationLine(preparation)
        super().__init__(box_of(f"Prepare {preparation.configuration}", self._view, self._line))
        self._preparation = preparation
        self._closes = closes

    def on_mount(self) -> None:
        self._view.set_placeholder(("No output yet.",))
        self._view.set_log(self._preparation.path, True)
        self._view.action_toggle_wrap()
        self.set_focus(self._view)
        self._timer = self.set_interval(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._line.refresh()
        if self._preparation.has_ended:
            self._timer.stop()
            self._view.set_active(False)
            self.refresh_bindings()
            if self._preparation.state == DONE and self._closes:
                self.dismiss(True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "stop" or not self._preparation.has_ended

    def action_stop(self) -> None:
        self._preparation.stop()

    def action_leave(self) -> None:
        self.dismiss(self._preparation.state == DONE)
