"""What happens to a project, handled once for all panes: facts come up as messages, and state goes down to the parts.

`ProjectScreen` holds the runs, the targets and which run is selected, and nothing of where things stand on the
screen: that is `MainScreen`'s. Every call that blocks is made in a thread, the watcher's or a worker's. The watcher
starts when all parts are there, so every fact finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import work

from tui_workbench.errors import UsageError, WorkbenchError
from tui_workbench.ui import messages
from tui_workbench.ui.command import shown_key
from tui_workbench.ui.file_tree import scripts_among
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.target_checks import TargetChecks
from tui_workbench.ui.screens.thrifty import ThriftyScreen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui_workbench.model import ComputeTarget, Run
    from tui_workbench.project import Project
    from tui_workbench.ui.file_tree import FileTree
    from tui_workbench.ui.notifications import Attention
    from tui_workbench.ui.panes.editor import EditorPane
    from tui_workbench.ui.panes.files import FilesPane
    from tui_workbench.ui.remembered import Values
    from tui_workbench.ui.screens.asking import Asking
    from tui_workbench.ui.screens.main_parts import Parts
    from tui_workbench.ui.screens.project_changes import ProjectChanges
    from tui_workbench.ui.screens.target_checks import Checked
    from tui_workbench.ui.watcher import ProjectWatcher
    from tui_workbench.ui.widgets.header import Header

WORK_SECONDS = 1.0
"""What takes less is not worth a word."""

RUNS_WITH_IMAGES = 200
"""The newest runs, whose images are suggested."""


class ProjectScreen(ThriftyScreen[None], inherit_bindings=False):
    """A screen with a project behind it. Subclasses mount `header`, `files` and, later, `parts`, and ask questions."""

    header: Header
    files: FilesPane
    asking: Asking

    def __init__(self, project: Project, tree: FileTree) -> None:
        super().__init__()
        self.project = project
        self.file_tree = tree
        self._parts: Parts | None = None
        self._watcher: ProjectWatcher | None = None
        self._runs: list[Run] = []
        self._attention: Attention | None = None
        self._tells_work = False
        self._steps: Mapping[str, str] = {}
        self._changes: ProjectChanges | None = None
        self._checks = TargetChecks()
        self._attached = ""  # a new target that the run bar is to choose as soon as it knows it
        self._unread = {"files", "configuration"}  # what has not been read yet, and a run needs
        self._run_wanted = False
        self._selected = ""
        self._recalled: Values | None = None
        self._targets: Sequence[ComputeTarget] = ()
        self._versions: dict[str, str] = {}
        self._interpreter_errors: dict[str, WorkbenchError] = {}

    @property
    def parts(self) -> Parts:
        """The parts that are there from just after the first frame on."""
        assert self._parts is not None, "asked for before the first frame"
        return self._parts

    @property
    def is_complete(self) -> bool:
        """True when all parts are there."""
        return self._parts is not None

    def begin(self, parts: Parts) -> None:
        """All parts are mounted: look at the project from now on, and hand them what there is."""
        from tui_workbench.ui.watcher import ProjectWatcher

        self._parts = parts
        self._watcher = ProjectWatcher(self.project, self.post_message)
        self._watcher.watch_folders(self.file_tree.shown_folders())
        self._watcher.start()
        if self.files.all_files is not None:  # a search that was faster than the parts has listed them already
            parts.run_bar.show_scripts(scripts_among(self.files.all_files))
        self.files.walk_all()
        if self.project.notice:
            parts.run_bar.notice.stand(self.project.notice)
        self.run_worker(self._pay_attention(), group="attention")

    async def _pay_attention(self) -> None:
        """Tell the ends of runs from now on, as the user has chosen."""
        from tui_workbench.settings import load_settings
        from tui_workbench.ui.blocking import in_thread
        from tui_workbench.ui.notifications import Attention

        settings = await in_thread(load_settings)
        self._attention = Attention(self.app, self.project.name)
        self._attention.begin(settings)
        self._attention.runs_are(self._runs, self._selected)
        self.watch(self.app, "app_focus", self._attention.focus_changed, init=False)
        if settings.errors:
            self.show_error(settings.errors[0])

    def on_unmount(self) -> None:
        """Nobody is told any more."""
        if self._watcher is not None:
            self._watcher.stop()
        if self._attention is not None:
            self._attention.end()

    def recall_runs(self, remembered: Values) -> None:
        """Once the runs are known, select the one that was selected, and go where one was in its log."""
        self._recalled = remembered

    def show_at_the_side(self) -> None:
        """Targets, runs or the selection are others: tell what only wide screens have."""

    def active_runs(self) -> list[Run]:
        """The runs that go on."""
        return [run for run in self._runs if run.is_active]

    def look_now(self) -> None:
        """Do not wait a second to see what an action changed."""
        if self._watcher is not None:
            self._watcher.look_now()

    def show_error(self, error: WorkbenchError) -> None:
        """Say what is wrong, under the run bar."""
        self.parts.run_bar.show_error(error, self.project.root)

    def say(self, text: str) -> None:
        """Say something in passing, under the run bar."""
        self.parts.run_bar.show_use(text)

    # --- Files

    def on_files_pane_folder_toggled(self) -> None:
        """Other folders than before are open."""
        if self._watcher is not None:
            self._watcher.watch_folders(self.file_tree.shown_folders())

    def on_folders_changed(self, event: messages.FoldersChanged) -> None:
        """Names came or went."""
        self.files.reread(event.folders)

    def on_files_pane_files_walked(self, event: FilesPane.FilesWalked) -> None:
        """The project holds other files than before."""
        if self.is_complete:
            self.parts.run_bar.show_scripts(scripts_among(event.files))
        self._was_read("files")

    def on_branch_read(self, event: messages.BranchRead) -> None:
        """Another branch is checked out."""
        self.header.show_branch(event.branch)

    def on_changes_counted(self, event: messages.ChangesCounted) -> None:
        """Other files differ from the last commit."""
        self.header.show_changes(event.number)

    def on_script_chosen(self, event: messages.ScriptChosen) -> None:
        """A file is to be run."""
        if self.is_complete:
            self.parts.run_bar.choose_script(event.script)

    # --- Configuration

    def on_configuration_read(self, event: messages.ConfigurationRead) -> None:
        """A configuration file came, changed or went."""
        self._targets = event.targets
        self._show_targets()
        self.parts.run_bar.show_configurations(event.configurations, event.targets)
        self._choose_attached()
        self.parts.editor.others_changed()
        self._was_read("configuration")

    def _was_read(self, what: str) -> None:
        self._unread.discard(what)
        if self._run_wanted and not self._unread:
            self.call_after_refresh(self.action_run)

    def on_interpreters_found(self, event: messages.InterpretersFound) -> None:
        """It is known what local targets run with."""
        self._versions, self._interpreter_errors = event.versions, event.errors
        self._show_targets()

    def _show_targets(self) -> None:
        errors = {**self._interpreter_errors, **self._checks.errors(self._targets)}
        good = self._checks.good(self._targets)
        states = self.parts.targets.show_targets(self._targets, self._versions, errors, good)
        self.header.show_targets(states)
        self.show_at_the_side()

    def on_target_chosen(self, event: messages.TargetChosen) -> None:
        """A compute target is to be run on."""
        if not self.parts.run_bar.choose_target(event.name):
            self.show_error(
                UsageError(
                    f"no run configuration has Target: {event.name}",
                    remedy="Add a .runconfig file to aml_config that names it.",
                )
            )

    # --- Runs

    def on_runs_read(self, event: messages.RunsRead) -> None:
        """A run came, or its state is another."""
        self._steps = event.steps
        if (recalled := self._recalled) is None:
            self._show_runs(event.runs)
            return
        self._recalled = None
        log = recalled.part("log")
        selected = log.text("run")
        self._show_runs(event.runs, select=selected if any(run.run_id == selected for run in event.runs) else None)
        self.parts.log.recall(log)

    def on_work_told(self, event: messages.WorkTold) -> None:
        """Something takes long: how far it is."""
        if event.progress is not None and event.progress.seconds >= WORK_SECONDS:
            self._tells_work = True
            self.say(event.progress.words)
        elif event.progress is None and self._tells_work:
            self._tells_work = False
            self.say("")

    def _show_runs(self, runs: list[Run], select: str | None = None) -> None:
        self._runs = runs
        if self._attention is not None:
            self._attention.runs_are(runs, self._selected if self.is_current else "")
        self.header.show_active([run.state for run in runs if run.is_active])
        self.parts.run_bar.show_runs(runs)
        self.parts.editor.show_images_used(_images_of(runs))
        empty = ("No run yet.", self._how_to_run())
        self.parts.jobs.show_runs(runs, steps=self._steps, empty=empty, current=select)
        if select is not None or not self._selected:
            self._select(select or (runs[0].run_id if runs else ""))
        else:
            self._show_selected()

    def _how_to_run(self) -> str:
        bar = self.parts.run_bar
        key = shown_key("run.start", "ctrl+r")
        return safe_text(f"{key} runs {bar.script or 'the script'} on {bar.environment or 'this machine'}.")

    def on_run_selected(self, event: messages.RunSelected) -> None:
        """Another run is under the cursor."""
        self._select(event.run_id)
        if event.opened:
            self.parts.log.take_focus()

    def _select(self, run_id: str) -> None:
        self._selected = run_id
        self._show_selected()

    def _show_selected(self) -> None:
        run = next((run for run in self._runs if run.run_id == self._selected), None)
        hint = self._how_to_run()
        self.show_at_the_side()
        self.parts.log.show_run(run, hint=hint)
        self.parts.latest.show_run(run, hint=hint)

    def action_run(self) -> None:
        """Start a run; what could not be started yet is when the project has been read."""
        raise NotImplementedError

    # --- Changes of configuration files

    @property
    def changes(self) -> ProjectChanges:
        """Makes changes and takes them back."""
        if self._changes is None:
            from tui_workbench.ui.screens.project_changes import ProjectChanges

            self._changes = ProjectChanges(self)
        return self._changes

    def on_change_wanted(self, event: messages.ChangeWanted) -> None:
        """Configuration files are to be changed."""
        if self.is_complete:
            self.run_worker(self.changes.make(event), group="changes")

    def action_undo_change(self) -> None:
        """Take back what was done last: a change of configuration files, or something else."""
        from tui_workbench.ui.undo import steps_of

        if steps_of(self.app).is_newest:
            self.run_worker(self._undo_step(), group="changes")
        elif self.is_complete:
            self.run_worker(self.changes.undo(), group="changes")

    async def _undo_step(self) -> None:
        from tui_workbench.ui.undo import steps_of

        try:
            self.say(f"Taken back: {await steps_of(self.app).take_back()}.")
        except WorkbenchError as error:
            self.show_error(error)

    # --- Machines

    def on_attach_wanted(self) -> None:
        """A machine is to be attached."""
        if self.is_complete:
            self.run_worker(self._attach_machine(), group="machine")

    async def _attach_machine(self) -> None:
        from tui_workbench.ui.screens.machine import AttachScreen

        checked = await self.app.push_screen_wait(AttachScreen(self.project, self.changes.history, self.look_now))
        if checked is not None:
            self._attached = checked.target.name
            self._choose_attached()
        self._was_checked(checked)

    def _choose_attached(self) -> None:
        if self._attached and self.parts.run_bar.choose_target(self._attached):
            self.parts.targets.point_at(self._attached)
            self._attached = ""

    def on_check_wanted(self, event: messages.CheckWanted) -> None:
        """A target is to be checked."""
        target = next((target for target in self._targets if target.name == event.name), None)
        if target is not None:
            self.run_worker(self._check_machine(target), group="machine")

    async def _check_machine(self, target: ComputeTarget) -> None:
        from tui_workbench.ui.screens.machine import CheckScreen

        self._was_checked(await self.app.push_screen_wait(CheckScreen(self.project, target)))

    def _was_checked(self, checked: Checked | None) -> None:
        if checked is not None:
            self._checks.add(checked)
            self._show_targets()
            self.look_now()

    # --- The editor

    def on_file_chosen(self, event: messages.FileChosen) -> None:
        """A file is to be edited."""
        if self.is_complete:
            self._open(self.parts.editor, event.path, event.line)

    @work(group="open")
    async def _open(self, editor: EditorPane, path: str, line: int) -> None:
        await editor.open_file(path, line)

    def on_editor_pane_dirty_changed(self, event: EditorPane.DirtyChanged) -> None:
        """Other files than before have edits."""
        self.files.show_dirty(event.paths)

    def on_editor_pane_file_saved(self) -> None:
        """A configuration may be another now."""
        self.parts.editor.others_changed()
        self.look_now()


def _images_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """The images that the last runs in containers were asked for, newest first."""
    used = (run.interpreter for run in runs[:RUNS_WITH_IMAGES] if run.target_type in ("localdocker", "remotedocker"))
    return tuple(dict.fromkeys(image for image in used if image))
