"""The state of the project: its targets, its runs and the selected run, shown in the panes.

Updates come from the watcher's thread and from the panes; this module passes them to all panes that show them. The
watcher starts after the panes are mounted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from tui_workbench.config.changes.change_set import ChangeHistory
from tui_workbench.config.settings import load_settings
from tui_workbench.core import target_types
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run, RunConfiguration
from tui_workbench.core.progress import Progress
from tui_workbench.ui import messages, screens
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.editor.editor import EditorPane
from tui_workbench.ui.files.file_tree import scripts_among
from tui_workbench.ui.files.files import FilesPane
from tui_workbench.ui.machines.target_checks import Checked, TargetChecks
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.notifications import RunNotifier
from tui_workbench.ui.run_messages import RunStalled
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.safetext import truncate_middle

if TYPE_CHECKING:
    # These modules are loaded with the panes at the right.
    from tui_workbench.targets.gpu.fleet import MachineState
    from tui_workbench.ui.dashboard.recent import RecentPane
    from tui_workbench.ui.gpu.monitor_pane import MonitorPane

PROGRESS_SECONDS = 1.0  # shortest duration of a task whose progress is shown
LONGEST_NAME = 12  # length limit of a name in the sentence of the empty Jobs pane, which must fit into a line
RUNS_WITH_IMAGES = 200  # number of newest runs whose images are suggested


class ProjectState:
    """The targets and runs of the project. Its methods receive updates and show them in the panes."""

    def __init__(self, context: MainContext) -> None:
        self._context = context
        self._panes = context.panes
        self._recent: RecentPane | None = None
        self._monitor: MonitorPane | None = None
        self._notifier: RunNotifier | None = None
        self.runs: list[Run] = []
        self.targets: Sequence[ComputeTarget] = ()
        self.selected = ""  # ID of the selected run
        self._started = ""  # ID of a run that was started in these screens, until it is read from the project
        self._steps: Mapping[str, str] = {}
        self._saved: Values | None = None
        self._has_read_runs = False
        self._checks = TargetChecks()
        self._versions: Mapping[str, str] = {}
        self._interpreter_errors: Mapping[str, WorkbenchError] = {}
        self._awaited = ""  # name of a new target, which is chosen when it is listed
        self._shows_progress = False
        self._has_failed = False
        self._unread = {"files", "configuration"}  # needed to start a run, and not read yet
        self._when_read: Callable[[], None] | None = None

    def begin(self, saved: Values | None) -> None:
        """Start watching the project. The run that was selected last is selected again once the runs are read."""
        self._saved = saved
        watcher, files = self._context.watcher, self._panes.files
        watcher.watch_folders(files.file_tree.shown_folders())
        watcher.start(self)
        if files.all_files is not None:  # listed already by an early search
            self._show_files(files.all_files)
        files.walk_all()
        self._context.run("notifier", self._start_notifier)

    async def _start_notifier(self) -> None:
        settings = await in_thread(load_settings)
        if not self._context.screen.is_running:  # the project has been closed meanwhile
            return
        self._notifier = notifier = RunNotifier(self._context.app, self._context.project.name)
        notifier.begin(settings)
        notifier.update_runs(self.runs, self.selected)
        self._context.screen.watch(self._context.app, "app_focus", notifier.focus_changed, init=False)
        if settings.errors:
            self._context.show_error(settings.errors[0])

    def end(self) -> None:
        self._context.watcher.stop()
        if self._notifier is not None:
            self._notifier.end()

    def run(self, run_id: str) -> Run | None:
        return next((run for run in self.runs if run.run_id == run_id), None)

    def target(self, name: str) -> ComputeTarget | None:
        return next((target for target in self.targets if target.name == name), None)

    @property
    def active_runs(self) -> list[Run]:
        return [run for run in self.runs if run.is_active]

    # --- Updates from panes

    def show_update(self, update: messages.Update) -> None:
        match update:
            case FilesPane.FolderToggled():
                self._context.watcher.watch_folders(self._panes.files.file_tree.shown_folders())
            case FilesPane.FilesWalked():
                self._show_files(update.files)
            case EditorPane.DirtyChanged():
                self._panes.files.show_dirty(update.paths)
            case EditorPane.FileSaved():
                self._panes.editor.others_changed()
                self._context.watcher.poll_now()
            case messages.ProgressReported():
                self.show_progress(update.progress)
            case RunStalled():
                if self._notifier is not None:
                    self._notifier.report_stalled(update.run, update.text)
            case messages.BackendFailed():
                self.show_failure(update.error)

    # --- Updates from the watcher

    def show_folders(self, changed: list[str]) -> None:
        self._panes.files.reread(changed)
        if "" in changed and self._panes.editor.empty.display:
            self._panes.editor.empty.read()

    def show_branch(self, branch: str) -> None:
        self._panes.header.branch = branch

    def show_changes(self, number: int) -> None:
        self._panes.header.changes = number

    def show_approvals(self, waiting: int) -> None:
        self._panes.header.approvals = waiting

    def show_interpreters(self, versions: Mapping[str, str], errors: Mapping[str, WorkbenchError]) -> None:
        self._versions, self._interpreter_errors = versions, errors
        self._show_targets()

    def show_failure(self, error: WorkbenchError) -> None:
        self._has_failed = True
        self._context.show_error(error)

    def _forget_failure(self) -> None:
        if self._has_failed:
            self._has_failed = False
            self._panes.run_bar.forget_error()

    def _show_files(self, files: list[str]) -> None:
        self._panes.run_bar.show_scripts(scripts_among(files))
        self._was_read("files")

    def show_configuration(self, targets: list[ComputeTarget], configurations: list[RunConfiguration]) -> None:
        self._forget_failure()
        self.targets = targets
        self._show_targets()
        self._panes.run_bar.show_configurations(configurations, targets)
        self._choose_awaited()
        self._panes.editor.others_changed()
        self._was_read("configuration")

    def _was_read(self, part: str) -> None:
        self._unread.discard(part)
        if self._when_read is not None and not self._unread:
            self._context.screen.call_after_refresh(self._when_read)
            self._when_read = None

    def wait_until_read(self, call: Callable[[], None]) -> bool:
        """Return True if the project has not been read yet; in that case, call `call` as soon as it has been read."""
        self._when_read = call if self._unread else None
        return bool(self._unread)

    def show_progress(self, progress: Progress | None) -> None:
        if progress is not None and progress.seconds >= PROGRESS_SECONDS:
            self._shows_progress = True
            self._context.say(progress.summary)
        elif progress is None and self._shows_progress:
            self._shows_progress = False
            self._context.say("")

    # --- Targets

    def _show_targets(self) -> None:
        errors = {**self._interpreter_errors, **self._checks.errors(self.targets)}
        good = self._checks.good(self.targets)
        states = self._panes.targets.show_targets(self.targets, self._versions, errors, good, self._checks.gpus)
        self._panes.header.targets = states
        self.show_right()

    def see_machines(self, states: Sequence[MachineState]) -> None:
        """Update the other panes with the states of machines that the GPU pane has read."""
        if self._checks.see(states):
            self._show_targets()

    def was_checked(self, checked: Checked | None) -> None:
        """Show the result of a check. `checked` is None if the user left the screen before a check had ended."""
        if checked is not None:
            self._checks.add(checked)
            self._show_targets()
            self._context.watcher.poll_now()

    async def attach_machine(self, history: ChangeHistory) -> None:
        """Let the user attach a machine as a step of `history`, then choose the new target in the run bar."""
        screen = screens.attach_machine(self._context.project, history, self._context.watcher.poll_now)
        checked = await self._context.app.push_screen_wait(screen)
        if checked is not None:
            # The target is chosen as soon as its files are read.
            self._awaited = checked.target.name
            self._choose_awaited()
        self.was_checked(checked)

    async def check_machine(self, name: str) -> None:
        if (target := self.target(name)) is not None:
            screen = screens.check_machine(target)
            self.was_checked(await self._context.app.push_screen_wait(screen))

    async def prepare_machine(self, name: str) -> None:
        if (target := self.target(name)) is not None:
            await self._context.app.push_screen_wait(screens.prepare_machine(target))

    def choose_target(self, name: str) -> None:
        """Choose a run configuration of this target in the run bar. Show an error if none is valid."""
        if not self._panes.run_bar.choose_target(name):
            self._context.show_error(
                UsageError(
                    f"no valid run configuration uses the target {name!r}",
                    remedy="Correct the run configuration of the target, or create one with `New runconfig` in Compute "
                    "targets.",
                )
            )

    def _choose_awaited(self) -> None:
        if self._awaited and self._panes.targets.point_at(self._awaited):
            self._panes.run_bar.choose_target(self._awaited)
            self._awaited = ""

    # --- Runs

    def show_runs_read(self, runs: list[Run], steps: Mapping[str, str]) -> None:
        self._forget_failure()
        self._steps, self._has_read_runs = steps, True
        if any(run.run_id == self._started for run in runs):
            self._started = ""
        elif (started := self.run(self._started)) is not None:
            runs = [started, *runs]  # these runs were read before it was started
        saved, self._saved = self._saved, None
        if saved is None:
            self.show_runs(runs)
            return
        log = saved.part("log")
        selected = log.text("run")
        self.show_runs(runs, select=selected if any(run.run_id == selected for run in runs) else None)
        self._panes.log.restore(log)

    def show_started(self, run: Run) -> None:
        """Add a run that was started in these screens, and select it."""
        self._started = run.run_id
        self.show_runs([run, *(other for other in self.runs if other.run_id != run.run_id)], select=run.run_id)

    def show_runs(self, runs: list[Run], select: str | None = None) -> None:
        """Show the current runs; `select` is the ID of a run to select."""
        self.runs = runs
        if self._notifier is not None:
            self._notifier.update_runs(runs, self.selected if self._context.screen.is_current else "")
        self._panes.header.states = [run.state for run in runs if run.is_active]
        self._panes.run_bar.show_runs(runs)
        recent = runs[:RUNS_WITH_IMAGES]
        images = [run.interpreter for run in recent if target_types.find(run.target_type).runs_in_container]
        self._panes.editor.show_images_used(tuple(dict.fromkeys(filter(None, images))))
        empty = ("No runs yet.", self._how_to_run())
        self._panes.jobs.show_runs(runs, steps=self._steps, empty=empty, current=select)
        if select is not None or not self.selected:
            self.select(select or (runs[0].run_id if runs else ""))
        else:
            self._show_selected()

    def show_how_to_run(self) -> None:
        """Show in the empty panes how to run the request of the run bar."""
        if self._has_read_runs and not self.runs:
            self.show_runs(self.runs)

    def _how_to_run(self) -> str:
        bar = self._panes.run_bar
        key = shown_key("run.start", "ctrl+r")
        script = truncate_middle(bar.script, LONGEST_NAME) or "the script"
        environment = truncate_middle(bar.environment, LONGEST_NAME) or "this machine"
        return f"{key} runs {script} on {environment}."

    def select(self, run_id: str) -> None:
        self.selected = run_id
        self._show_selected()

    def _show_selected(self) -> None:
        run = self.run(self.selected)
        hint = self._how_to_run()
        self.show_right()
        self._panes.log.show_run(run, hint=hint)
        self._panes.latest.show_run(run, hint=hint)

    # --- The right column

    @property
    def has_right(self) -> bool:
        return self._monitor is not None

    def make_right(self) -> dict[str, Widget]:
        self._recent, self._monitor = (
            screens.recent_pane(self._context.project, "history"),
            screens.monitor_pane("gpus"),
        )
        return {"history": self._recent, "gpus": self._monitor}

    def show_right(self) -> None:
        """Update the right column, if it is mounted."""
        if self._monitor is not None and self._recent is not None and self._monitor.is_attached:
            self._monitor.show_targets(self.targets)
            self._monitor.show_runs(self.runs, self.selected)
            self._recent.reload()
