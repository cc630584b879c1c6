"""The commands about runs: start, plan, prepare, repeat, reconnect, cancel, and a shell in the project.

What has to be asked for before a run starts is asked by `Starting`. While the run bar asks for something, it is looked
whether that would work, so that a run is refused before it is asked for.
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
from tui_workbench.ui import messages
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.main.project_state import ProjectState
from tui_workbench.ui.starting.shell import enter_shell
from tui_workbench.ui.starting.starting import Starting

LOOK_AGAIN_SECONDS = 2.0
"""After this long a request that would not work is looked at again."""


class RunCommands:
    """Does what a key or a pane wants of runs."""

    def __init__(self, context: MainContext, state: ProjectState, starting: Starting) -> None:
        self._context = context
        self._bar = context.panes.run_bar
        self._state = state
        self._starting = starting
        self._look_again: Timer | None = None

    def start(self) -> None:
        """Start a run of what the run bar holds; edits are saved first."""
        # A key that comes before the project has been read counts as soon as that is done.
        if self._state.wait_until_read(self.start):
            return
        with self._context.errors_shown():
            request = self._bar.request()
            if self._context.questions.is_open:
                self._context.questions.take_focus()
                return
            self._bar.say_what_is_looked_for()
            _, target = self._bar.chosen
            # On this machine, in the Python that there is, or with an error.
            starts_at_once = (
                target is None or target.problem or (target.kind.runs_here and not target.builds_environment)
            )
            is_quick = starts_at_once and not self._context.panes.editor.dirty_paths()
            self._context.run("starting", self._starting.submit if is_quick else self._starting.run, request)

    def plan(self) -> None:
        """Show what the run would do."""
        with self._context.errors_shown():
            self._context.run("starting", self._starting.show_plan, self._bar.request())

    def prepare(self) -> None:
        """Make the environment of the chosen run configuration."""
        self._context.run("starting", self._starting.prepare)

    async def open_shell(self) -> None:
        """Open a shell in the project, with the interpreter of the chosen run configuration."""
        configuration, _ = self._bar.chosen
        name = configuration.name if configuration is not None else ""
        with self._context.errors_shown():
            enter_shell(self._context.app, await in_thread(lambda: project_shell(self._context.project, name)))

    # --- What panes want

    def do(self, request: messages.Request) -> None:
        """Do what a pane wants of runs."""
        match request:
            case messages.RunRequested():
                self.start()
            case messages.RunBarRequested():
                self._bar.focus_arguments()
            case messages.RequestChanged():
                self._look_at(request.request)
            case messages.RunSelected():
                self._state.select(request.run_id)
                if request.opened:
                    self._context.panes.log.take_focus()
            case messages.RunRequestReused():
                if (run := self._state.run(request.run_id)) is not None:
                    self._bar.choose_run(run)
                    self._bar.focus_arguments()
            case messages.RerunRequested():
                self._context.run("starting", self._starting.again, request.run, request.request)
            case messages.ReconnectRequested():
                if (run := self._state.run(request.run_id)) is not None:
                    self._context.run("starting", self._starting.reconnect, run)
            case messages.CancelConfirmed():
                self._context.run("cancel", self._cancel, request.run_id)

    async def _cancel(self, run_id: str) -> None:
        try:
            # Leaving the program waits for this a moment.
            await asyncio.to_thread(Runs(self._context.project).cancel, run_id)
        except WorkbenchError:
            self._context.panes.jobs.cancel_failed(run_id)
            raise

    # --- Whether the request would work

    def _look_at(self, request: RunRequest | None) -> None:
        """The run bar asks for something else: look whether it would work."""
        if request is not None:
            self._context.run("plan", self._try, request, exclusive=True)
        self._state.show_how_to_run()

    async def _try(self, request: RunRequest) -> None:
        """Plan the request; look again until it would work, because the cause may lie anywhere."""
        try:
            plan, version = await in_thread(lambda: self._plan_of(request))
        except WorkbenchError as error:
            if self._bar.holds(request):
                self._bar.show_refusal(error, self._context.project.root)
                if self._look_again is not None:
                    self._look_again.stop()
                self._look_again = self._context.screen.set_timer(LOOK_AGAIN_SECONDS, partial(self._try_again, request))
            return
        if self._bar.holds(request):
            self._bar.show_plan(plan, version)

    def _plan_of(self, request: RunRequest) -> tuple[Plan, str]:
        """The plan, and the version of a local interpreter. Blocks; raises WorkbenchError."""
        plan = Runs(self._context.project).plan(request)
        is_local = target_types.find(plan.target_type).runs_here
        return plan, version_without_project(plan.interpreter, self._context.project.root) if is_local else ""

    def _try_again(self, request: RunRequest) -> None:
        if self._bar.holds(request) and self._bar.is_refused:
            self._look_at(request)
