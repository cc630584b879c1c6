"""What one does with the runs of a project: start, plan, prepare, cancel, look at all of them, open a shell.

What is shown of them is below, in `ProjectScreen`. The invariants: what has to be asked for is asked before anything
starts (`Starting`); a run is submitted and canceled in a thread.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from textual import work

from tui_workbench.errors import NoGpu, UsageError, WorkbenchError
from tui_workbench.ui import messages
from tui_workbench.ui.screens.project_screen import ProjectScreen

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget, Run, RunRequest
    from tui_workbench.project import Project
    from tui_workbench.runs.table import RunQuery
    from tui_workbench.ui.file_tree import FileTree
    from tui_workbench.ui.remembered import Values
    from tui_workbench.ui.screens.dashboard import DashboardScreen
    from tui_workbench.ui.screens.starting import Starting


class ProjectRuns(ProjectScreen, inherit_bindings=False):
    """A screen of a project from which one runs things."""

    def __init__(self, project: Project, tree: FileTree) -> None:
        super().__init__(project, tree)
        self._starting: Starting | None = None
        self._recalled_query: Values | None = None
        self._dashboard: DashboardScreen | None = None

    def recall_runs(self, remembered: Values) -> None:
        """Select what was selected, go where one was in its log, and know which of all runs were looked at."""
        super().recall_runs(remembered)
        self._recalled_query = remembered.part("runs")

    def on_run_repeated(self, event: messages.RunRepeated) -> None:
        """What was asked for once is asked for again, after a look at it."""
        run = next((run for run in self._runs if run.run_id == event.run_id), None)
        if run is not None:
            self.parts.run_bar.choose_run(run)
            self.parts.run_bar.focus_arguments()

    def on_run_again_wanted(self, event: messages.RunAgainWanted) -> None:
        """A run is to be run again, as it was or changed."""
        if self.is_complete:
            self.run_worker(self.starting.again(event.run, event.request), group="starting")

    def on_run_details_wanted(self, event: messages.RunDetailsWanted) -> None:
        """Everything about a run is to be shown."""
        from tui_workbench.ui.screens.run_details import RunDetailsScreen

        run = next((run for run in self._runs if run.run_id == event.run_id), None)
        if run is not None:
            self.app.push_screen(RunDetailsScreen(self.project, run))

    @work
    async def action_shell(self) -> None:
        """Open a shell in the project, with the interpreter of the chosen run configuration."""
        from tui_workbench.runs import Runs
        from tui_workbench.ui.blocking import in_thread
        from tui_workbench.ui.screens.shell import enter_shell

        if not self.is_complete:
            return
        configuration, _ = self.parts.run_bar.chosen
        name = configuration.name if configuration is not None else ""
        try:
            enter_shell(self.app, await in_thread(lambda: Runs(self.project).shell(name)))
        except WorkbenchError as error:
            self.show_error(error)

    def action_history(self) -> None:
        """Show every run of the project."""
        from tui_workbench.ui.screens.dashboard import DashboardScreen

        request = None
        if self.is_complete:
            with contextlib.suppress(UsageError):
                request = self.parts.run_bar.request()
        self._dashboard = DashboardScreen(self.project, request, self.runs_query)
        self.app.push_screen(self._dashboard)

    @property
    def runs_query(self) -> RunQuery | None:
        """Which of all runs were shown last; None while nobody has looked at them."""
        if self._dashboard is not None:
            return self._dashboard.runs_query
        if not self._recalled_query:
            return None
        from tui_workbench.ui.screens.dashboard_state import query_of

        return query_of(self._recalled_query)

    def action_gpu_monitor(self) -> None:
        """Show the GPUs of all targets."""
        from tui_workbench.ui.screens.monitor import MonitorScreen

        self.app.push_screen(MonitorScreen(self.project, self._selected))

    def action_trace(self) -> None:
        """Show what was called, with how it went."""
        from tui_workbench.ui.screens.trace import TraceScreen

        selected = next((run for run in self._runs if run.run_id == self._selected), None)
        self.app.push_screen(TraceScreen(self.project, selected))

    def on_editor_wanted(self, event: messages.EditorWanted) -> None:
        """A file is to be opened in the user's own editor."""
        from tui_workbench.ui.blocking import Unbegun
        from tui_workbench.ui.screens.own_editor import open_in_editor

        self.run_worker(Unbegun(open_in_editor, self, event), group="editor", exclusive=True)

    def on_run_bar_wanted(self) -> None:
        """What is run is to be changed."""
        if self.is_complete:
            self.parts.run_bar.focus_arguments()

    def on_request_changed(self, event: messages.RequestChanged) -> None:
        """The run bar asks for something else: look whether it would work."""
        if event.request is not None:
            self._plan(event.request)
        if not self._runs:
            self._show_runs(self._runs)

    @work(thread=True, group="plan", exclusive=True)
    def _plan(self, request: RunRequest) -> None:
        from tui_workbench.runs import Runs
        from tui_workbench.targets.interpreter import python_version

        try:
            plan = Runs(self.project).plan(request)
            version = python_version(plan.interpreter) if plan.target_type == "local" else ""
            self.post_message(messages.RunPlanned(request, plan, version))
        except WorkbenchError as error:
            self.post_message(messages.RunRefused(request, error))

    def on_run_planned(self, event: messages.RunPlanned) -> None:
        """The request would work."""
        if self.parts.run_bar.holds(event.request):
            self.parts.run_bar.show_plan(event.plan, event.version)

    def on_run_refused(self, event: messages.RunRefused) -> None:
        """The request does not work."""
        if isinstance(event.error, NoGpu):
            self.say("")
            self.run_worker(self.starting.on_cpu(event.request, event.error), group="starting")
        elif self.parts.run_bar.holds(event.request):
            self.show_error(event.error)

    def on_run_requested(self) -> None:
        """The button was pressed."""
        self.action_run()

    def action_run(self) -> None:
        """Start a run of what the run bar holds; edits are saved first."""
        # A key that comes before the project has been read counts as soon as that is done.
        self._run_wanted = bool(self._unread)
        if self._run_wanted:
            return
        try:
            request = self.parts.run_bar.request()
        except UsageError as error:
            self.show_error(error)
            return
        _, target = self.parts.run_bar.chosen
        if self.asking.is_open:
            self.asking.take_focus()
            return
        self.parts.run_bar.say_what_is_looked_for()
        if _is_here(target) and not self.parts.editor.dirty_paths():
            self.submit(request)
        else:
            self.run_worker(self.starting.run(request), group="starting")

    def action_prepare(self) -> None:
        """Make the environment of the chosen run configuration."""
        if self.is_complete:
            self.run_worker(self.starting.prepare(), group="starting")

    def action_plan(self) -> None:
        """Show what the run would do."""
        if self.is_complete:
            try:
                self.run_worker(self.starting.show_plan(self.parts.run_bar.request()), group="starting")
            except UsageError as error:
                self.show_error(error)

    @property
    def starting(self) -> Starting:
        """Does what comes before a run."""
        if self._starting is None:
            from tui_workbench.ui.screens.starting import Starting

            self._starting = Starting(self)
        return self._starting

    @work(thread=True, group="submit")
    def submit(self, request: RunRequest) -> None:
        """Start a run, in a thread; what it needs was asked for."""
        from tui_workbench.progress import listening
        from tui_workbench.runs import Runs

        told: list[str] = []

        def tell(run: Run) -> None:
            told.append(run.run_id)
            self.post_message(messages.RunSubmitted(run))

        try:
            with listening(lambda progress: self.post_message(messages.WorkTold(progress))):
                run = Runs(self.project).submit(request, on_started=tell)
            if not told:
                tell(run)
        except WorkbenchError as error:
            self.post_message(messages.RunRefused(request, error))

    def on_run_submitted(self, event: messages.RunSubmitted) -> None:
        """A run of ours has started: show it."""
        self.say("")
        others = [run for run in self._runs if run.run_id != event.run.run_id]
        self._show_runs([event.run, *others], select=event.run.run_id)

    def on_reconnect_wanted(self, event: messages.ReconnectWanted) -> None:
        """A target is to be tried at once."""
        run = next((run for run in self._runs if run.run_id == event.run_id), None)
        if run is not None:
            target = next((target for target in self._targets if target.name == run.target), None)
            self.run_worker(self.starting.reconnect(run, target), group="starting")

    def on_cancel_confirmed(self, event: messages.CancelConfirmed) -> None:
        """A run is to end."""
        self._cancel(event.run_id)

    @work(thread=True, group="cancel")
    def _cancel(self, run_id: str) -> None:
        from tui_workbench.runs import Runs

        try:
            Runs(self.project).cancel(run_id)
        except WorkbenchError as error:
            self.post_message(messages.CancelFailed(run_id, error))

    def on_cancel_failed(self, event: messages.CancelFailed) -> None:
        """The run goes on."""
        self.parts.jobs.cancel_failed(event.run_id)
        self.show_error(event.error)

    def on_backend_failed(self, event: messages.BackendFailed) -> None:
        """Something in the background failed that a person should know of."""
        self.show_error(event.error)


def _is_here(target: ComputeTarget | None) -> bool:
    """Whether runs there start at once: on this machine, in the Python that there is, or with an error."""
    return target is None or target.problem is not None or (target.type == "local" and target.user_managed_environment)
