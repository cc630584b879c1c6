"""Run commands: start, plan, prepare, rerun, reconnect, cancel, and a shell in the project.

Each request of the run bar is checked when it changes, so that errors are shown before the run is started.
"""

from __future__ import annotations

import asyncio
from functools import partial

from textual.timer import Timer

from tui_workbench.core import target_types
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Plan, RunRequest
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.shell import project_shell
from tui_workbench.targets.base.interpreter import version_without_project
from tui_workbench.ui import messages, run_messages
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.main.project_state import ProjectState
from tui_workbench.ui.main.starting import Starting
from tui_workbench.ui.starting.shell import enter_shell

RETRY_SECONDS = 2.0  # seconds between checks of a request that cannot be run


class RunCommands:
    """An executor of the run commands that keys and panes request."""

    def __init__(self, context: MainContext, state: ProjectState, starting: Starting) -> None:
        self._context = context
        self._bar = context.panes.run_bar
        self._state = state
        self._starting = starting
        self._retry: Timer | None = None

    def start(self) -> None:
        """Save the edited files and start a run of the current request. If a question is open, focus it instead."""
        if self._state.wait_until_read(self.start):
            return
        with self._context.errors_shown():
            request = self._bar.request()
            if self._context.questions.is_open:
                self._context.questions.take_focus()
                return
            self._bar.show_gpu_check()
            _, target = self._bar.chosen
            # A run on an invalid target fails immediately; a local run without an environment build starts immediately.
            starts_at_once = (
                target is None or target.problem or (target.kind.runs_here and not target.builds_environment)
            )
            is_quick = starts_at_once and not self._context.panes.editor.dirty_paths()
            self._context.run("starting", self._starting.submit if is_quick else self._starting.run, request)

    def sweep(self) -> None:
        """Ask for the values of a sweep of the current request, and start its runs."""
        with self._context.errors_shown():
            self._context.run("starting", self._starting.sweep, self._bar.request())

    def plan(self) -> None:
        with self._context.errors_shown():
            self._context.run("starting", self._starting.show_plan, self._bar.request())

    def prepare(self) -> None:
        self._context.run("starting", self._starting.prepare)

    async def open_shell(self) -> None:
        configuration, _ = self._bar.chosen
        name = configuration.name if configuration is not None else ""
        with self._context.errors_shown():
            enter_shell(self._context.app, await in_thread(lambda: project_shell(self._context.project, name)))

    def dispatch(self, request: messages.Request) -> None:
        match request:
            case run_messages.RunRequested():
                self.start()
            case run_messages.RunBarRequested():
                self._bar.focus_arguments()
            case run_messages.RequestChanged():
                self._check(request.request)
            case run_messages.RunSelected():
                self._state.select(request.run_id)
                if request.opened:
                    self._context.panes.log.take_focus()
            case run_messages.StacksRequested():
                self._state.select(request.run_id)
                self._context.panes.log.action_show_stacks()
            case run_messages.RunRequestReused():
                if (run := self._state.run(request.run_id)) is not None:
                    self._bar.choose_run(run)
                    self._bar.focus_arguments()
            case run_messages.RerunRequested():
                self._context.run("starting", self._starting.again, request.run, request.request)
            case run_messages.StartAgainRequested():
                self._context.run("starting", self._starting.start_again, request.run)
            case run_messages.ReconnectRequested():
                if (run := self._state.run(request.run_id)) is not None:
                    self._context.run("starting", self._starting.reconnect, run)
            case run_messages.CancelConfirmed():
                self._context.run("cancel", self._cancel, request.run_id)

    async def _cancel(self, run_id: str) -> None:
        try:
            # `asyncio.to_thread` is used, because the program waits a moment for these threads when it exits.
            await asyncio.to_thread(Runs(self._context.project).cancel, run_id)
        except WorkbenchError:
            self._context.panes.jobs.cancel_failed(run_id)
            raise

    def _check(self, request: RunRequest | None) -> None:
        if request is not None:
            self._context.run("plan", self._plan, request, exclusive=True)
        self._state.show_how_to_run()

    async def _plan(self, request: RunRequest) -> None:
        """Plan the request. Retry after an error, because the user may fix its cause outside the workbench."""
        try:
            plan, version = await in_thread(lambda: self._plan_of(request))
        except WorkbenchError as error:
            if self._bar.holds(request):
                self._bar.show_refusal(error, self._context.project.root)
                if self._retry is not None:
                    self._retry.stop()
                self._retry = self._context.screen.set_timer(RETRY_SECONDS, partial(self._check_again, request))
            return
        if self._bar.holds(request):
            self._bar.show_plan(plan, version)

    def _plan_of(self, request: RunRequest) -> tuple[Plan, str]:
        plan = Runs(self._context.project).plan(request)
        is_local = target_types.find(plan.target_type).runs_here
        return plan, version_without_project(plan.interpreter, self._context.project.root) if is_local else ""

    def _check_again(self, request: RunRequest) -> None:
        if self._bar.holds(request) and self._bar.is_refused:
            self._check(request)
