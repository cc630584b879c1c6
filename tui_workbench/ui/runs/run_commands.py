"""Commands on the selected run of a screen: rerun, restore files, open a shell, annotate.

Runs are started on the main screen, which asks questions and shows the log.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from textual import on, work
from textual.containers import Grid, Vertical
from textual.widget import Widget
from textual.widgets import Input, Static

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.model import JUPYTER, Run, RunRequest, RunState
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import size_text
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.table import RunRow
from tui_workbench.runs.shell import Shell, run_shell
from tui_workbench.runs.store.annotations import Annotations, with_tags
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.blocking import CallQueue, in_thread
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import ONE_RUN, RUN_EDIT
from tui_workbench.ui.formatting import NO_RERUN_OF_JUPYTER, error_text, run_title
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.messages import MonitorRequested
from tui_workbench.ui.run_messages import CancelConfirmed, RerunRequested, StartAgainRequested
from tui_workbench.ui.runs import run_actions as actions
from tui_workbench.ui.runs.restore_screen import RestoreScreen
from tui_workbench.ui.starting.run_bar import parse_arguments
from tui_workbench.ui.starting.shell import enter_shell
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.undo import undo_steps
from tui_workbench.ui.widgets.choice_field import ChoiceField
from tui_workbench.ui.widgets.dialog import DialogScreen, box_of
from tui_workbench.ui.widgets.field_row import PromptRow
from tui_workbench.ui.widgets.notice import Notice
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.text_field import TextField

ON_SEVERAL = ("pin", "archive", "tag", "cancel", "delete", "download", "export")
"""Actions that apply to all marked runs, if any."""


class RunContainer(ExplainsUnavailable, Vertical, inherit_bindings=False):
    """A part of a screen that shows runs and a selected run."""

    def __init__(self, project: Project, *children: Widget) -> None:
        super().__init__(*children)
        self.project = project

    def current_run(self) -> RunRow | None:
        raise NotImplementedError

    def marked_runs(self) -> list[Run]:
        return []

    def chosen_runs(self) -> list[Run]:
        """Return the marked runs, or the selected run if none is marked."""
        row = self.current_run()
        return self.marked_runs() or ([row.run] if row is not None else [])

    def runs_deleted(self, run_ids: Sequence[str]) -> None:
        raise NotImplementedError

    def reload(self) -> None:
        raise NotImplementedError

    def action_gpu_monitor(self) -> None:
        row = self.current_run()
        self.post_message(MonitorRequested(self.project, row.run.run_id if row is not None else ""))

    def why_not(self, action: str) -> str:
        return ""


class RunCommands(ExplainsUnavailable, Vertical, inherit_bindings=False):
    """The commands on the selected run of a `RunContainer`."""

    BINDINGS = ONE_RUN.bindings
    DEFAULT_CSS = "RunCommands { height: 1fr; }"
    heading = "Run"

    def __init__(self, screen: HistoryScreen, shown: RunContainer) -> None:
        self.edit_row = PromptRow()
        super().__init__(shown, self.edit_row)
        self._host = screen
        self._project = screen.project
        self._shown = shown
        self._calls = CallQueue(self)

    def on_mount(self) -> None:
        self._steps = undo_steps(self.app)  # not those of the next project, if a call ends after the user has switched

    def why_not(self, action: str) -> str:
        if action in ON_SEVERAL and (runs := self._shown.chosen_runs()):
            is_active = [run.is_active for run in runs]
            if action == "cancel" and not any(is_active):
                return "The run has ended."
            if action in ("delete", "export") and all(is_active):
                return "The run is active."
            return ""
        row = self._shown.current_run()
        if row is None:
            return "No run selected."
        if action in ("rerun", "rerun_edited", "restore", "shell") and not row.run.script_name:
            return "The record of this run is incomplete."
        if action in ("rerun", "rerun_edited") and row.run.script_name == JUPYTER:
            return NO_RERUN_OF_JUPYTER
        if action == "start_again" and (row.run.is_active or row.run.state == RunState.COMPLETED):
            return "Only failed, canceled or lost runs can be started again."
        if action == "restore" and not row.run.commit_id:
            return "This run has no snapshot."
        return ""

    def action_rerun(self) -> None:
        if row := self._shown.current_run():
            self._host.post_to_main(RerunRequested(row.run, None))

    def action_start_again(self) -> None:
        row = self._shown.current_run()
        if row is not None and not self.why_not("start_again"):
            self._host.post_to_main(StartAgainRequested(row.run))

    @work(group="edit", exclusive=True)
    async def action_rerun_edited(self) -> None:
        if row := self._shown.current_run():
            request = await self.app.push_screen_wait(RunEditScreen(self._project, row.run))
            if request is not None:
                self._host.post_to_main(RerunRequested(row.run, request))

    def action_restore(self) -> None:
        if row := self._shown.current_run():
            self.app.push_screen(RestoreScreen(self._project, row.run))

    def action_shell(self) -> None:
        if row := self._shown.current_run():
            self._host.say("Creating the working copy...")
            directory = RunDirectory(row.run.directory)
            self._host.ask("shell", partial(run_shell, self._project, directory), self._enter_shell)

    def _enter_shell(self, shell: Shell) -> None:
        self._host.say("")
        try:
            enter_shell(self.app, shell)
        except WorkbenchError as error:
            self._host.show_error(error)

    def action_note(self) -> None:
        if row := self._shown.current_run():
            self._ask_for("Note", row, row.facts.annotations.note.replace("\n", " ⏎ "), partial(self._note, row))

    def _ask_for(self, label: str, row: RunRow, text: str, then: Callable[[str], None]) -> None:
        self.edit_row.ask(f"{label} of {safe_text(run_title(row.run)[:40])}", text, then)

    def _note(self, row: RunRow, text: str) -> None:
        note = text.replace(" ⏎ ", "\n").strip()
        self._annotate([row.run], "Saved the note of {}.", lambda old: old._replace(note=note))

    # --- Actions on the marked runs, or on the selected run if none is marked

    def action_pin(self) -> None:
        if runs := self._shown.chosen_runs():
            self._calls.add(partial(actions.toggle_pinned, self._project, runs), partial(self._pinned, runs))

    def _pinned(self, runs: Sequence[Run], done: actions.Annotated) -> None:
        was_pinned = all(old.pinned for old in done.before.values())
        self._annotated(runs, "Unpinned {}." if was_pinned else "Pinned {}.", done)

    def action_archive(self) -> None:
        if runs := self._shown.chosen_runs():
            self._calls.add(partial(actions.toggle_archived, self._project, runs), partial(self._archived, runs))

    def _archived(self, runs: Sequence[Run], done: actions.Annotated) -> None:
        show, restore = shown_key("dashboard.archived", "v"), shown_key("one_run.archive", "d")
        text = f"Archived {{}}. Press {show} to show archived runs, and {restore} to unarchive runs."
        was_archived = all(old.archived for old in done.before.values())
        self._annotated(runs, "Unarchived {}." if was_archived else text, done)

    def action_tag(self) -> None:
        row = self._shown.current_run()
        if runs := self._shown.marked_runs():
            self.edit_row.ask(f"Tags to add to {_title(runs)}", "", partial(self._tag, runs, adds=True))
        elif row is not None:
            self._ask_for("Tags", row, row.facts.annotations.tags_text, partial(self._tag, [row.run], adds=False))

    def _tag(self, runs: Sequence[Run], text: str, *, adds: bool) -> None:
        try:
            tags = actions.tags_of(text)
        except UsageError as error:
            self._host.show_error(error)
        else:
            change = partial(with_tags, tags=tags) if adds else lambda old: old._replace(tags=tags)
            self._annotate(runs, "Saved the tags of {}.", change)

    def _annotate(self, runs: Sequence[Run], text: str, change: Callable[[Annotations], Annotations]) -> None:
        call = partial(actions.annotate, self._project, [run.run_id for run in runs], change)
        self._calls.add(call, partial(self._annotated, runs, text))

    def _annotated(self, runs: Sequence[Run], text: str, done: actions.Annotated) -> None:
        """Show the changes and `text`, in which `{}` stands for the changed runs."""
        if done.before:
            title = _title([run for run in runs if run.run_id in done.before])
            if self.is_attached:
                self._host.say(text.replace("{}", title))
            self._add_undo(
                f"annotate {title}", partial(actions.set_annotations, self._project, done.before), done.before
            )
        self._show_done(done.problems)

    def _add_undo(self, title: str, undo: Callable[[], Sequence[WorkbenchError]], run_ids: Iterable[str]) -> None:
        """Add an undo step for a change of runs. `undo` returns the errors that a second attempt would not avoid."""
        self._steps.add(title, partial(self._undo, undo), run_ids)

    def _show_done(self, problems: Sequence[WorkbenchError]) -> None:
        """Show the changes that were made, and the first error."""
        if self.is_attached:
            self._shown.reload()
        if problems:
            (self._host.show_error if self.is_attached else self._notify)(problems[0])

    async def _undo(self, undo: Callable[[], Sequence[WorkbenchError]]) -> None:
        problems = await in_thread(undo, self._host.show_progress)
        self._show_done(())
        if problems:
            self._notify(problems[0])  # the notice of the screen says which step was undone

    def _notify(self, error: WorkbenchError) -> None:
        self.app.notify(safe_text(error_text(error)), severity="error", markup=False)

    def action_cancel(self) -> None:
        if runs := [run for run in self._shown.chosen_runs() if run.is_active]:
            self._host.ask("dependents", partial(actions.dependents, runs), partial(self._ask_to_cancel, runs))

    def _ask_to_cancel(self, runs: Sequence[Run], others: Sequence[Run]) -> None:
        names, which = ", ".join(map(run_title, others)), "it" if len(runs) == 1 else "them"
        also = f" Runs that wait for {which} are also canceled: {names}." if names else ""
        question = f"Cancel {_title(runs)}?{safe_text(also)}"
        self._host.confirm(question, partial(self._cancel, runs), needs_letter=False)

    def _cancel(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self.app.screen_stack[0].post_message(CancelConfirmed(run.run_id))

    def action_delete(self) -> None:
        if runs := self._shown.chosen_runs():
            self._host.say("Measuring the size of the files...")
            self._host.ask("size", partial(actions.deletable, runs), partial(self._ask_to_delete, runs))

    def _ask_to_delete(self, chosen: Sequence[Run], deletable: actions.Deletable) -> None:
        stays = f"{deletable.staying} {'stays' if deletable.pinned + deletable.active == 1 else 'stay'}."
        if not deletable.runs:
            unpin = f"{shown_key('one_run.pin', 'p')} unpins runs."
            self._host.show_error(
                UsageError(f"nothing can be deleted: {stays}", remedy=unpin if deletable.pinned else "")
            )
            return
        is_all = len(deletable.runs) == len(chosen)
        title = _title(chosen) if is_all else f"{len(deletable.runs)} of {_title(chosen)}"
        undo = shown_key("history.undo", "ctrl+z")
        rest = f"{undo} undoes this." if is_all else f"{stays} {undo} undoes this."
        question = f"Move {title} ({size_text(deletable.size)}) to the trash? {rest}"
        call = partial(actions.delete, self._project, deletable.runs)
        delete = partial(self._calls.add, call, self._deleted, self._host.show_progress)
        self._host.confirm(question, delete)

    def _deleted(self, done: actions.Deletion) -> None:
        if done.run_ids:
            title = f"delete {counted(len(done.run_ids), 'run')}"
            self._add_undo(title, partial(actions.undelete, self._project, done.run_ids), done.run_ids)
        self._show_done(done.problems)
        if self.is_attached:
            moved = f"Moved {counted(len(done.run_ids), 'run')} to the trash."
            errors = map(error_text, done.problems[:1])
            self._host.notice.say(" ".join((moved, *errors)), wrong=bool(done.problems))
            self._shown.runs_deleted(done.run_ids)

    def action_download(self) -> None:
        def download(text: str) -> None:
            self._calls.add(partial(actions.download_all, runs, self._path(text)), self._host.say)

        if runs := self._shown.chosen_runs():
            folder = os.path.join(self._project.root, "")
            self.edit_row.ask(f"Copy the files of {_title(runs)} into", folder, download, is_suggestion=True)

    def action_export(self) -> None:
        def export(text: str) -> None:
            self._calls.add(partial(actions.export, self._project, runs, self._path(text)), self._host.say)

        if runs := self._shown.chosen_runs():
            path = os.path.join(self._project.root, "runs.csv")
            self.edit_row.ask(f"Export {_title(runs)} to", path, export, is_suggestion=True)

    def _path(self, text: str) -> str:
        return os.path.join(self._project.root, os.path.expanduser(text.strip()))


def _title(runs: Sequence[Run]) -> str:
    """Return the title of a single run, or the number of several runs, as safe text."""
    return safe_text(run_title(runs[0])[:40]) if len(runs) == 1 else counted(len(runs), "marked run")


UNCHANGED = "unchanged"
SNAPSHOT, PROJECT = "snapshot of the run", "current project"


class RunEditScreen(DialogScreen["RunRequest | None"], inherit_bindings=False):
    """A form to change the request of a run before a rerun. Its result is the request, or None if the user cancels."""

    BINDINGS = RUN_EDIT.bindings
    DECLARED_COMMANDS = RUN_EDIT
    about = "Fields that you do not change keep the values of the run. Secrets come from the current configuration."
    DEFAULT_CSS = """
    RunEditScreen > Vertical { max-height: 100%; padding: 1 0 0 0; }
    RunEditScreen Grid { grid-size: 2; grid-columns: 16 1fr; grid-rows: 1; height: auto; padding: 0 1; }
    RunEditScreen Grid { grid-gutter: 1 0; }
    RunEditScreen Notice { height: auto; margin: 1 0 0 0; background: $background; }
    RunEditScreen ChoiceField { width: 100%; }
    """

    def __init__(self, project: Project, run: Run) -> None:
        self._notice = Notice(id="said")
        self.arguments = TextField(shlex.join(run.arguments), placeholder="no arguments")
        self.configuration = ChoiceField(lambda value: self.configuration.show_value(value), placeholder=UNCHANGED)
        self.files = ChoiceField(lambda value: self.files.show_value(value), placeholder=SNAPSHOT)
        fields = {"Arguments": self.arguments, "Configuration": self.configuration, "Files": self.files}
        grid = Grid(*(widget for name, field in fields.items() for widget in (Static(name, markup=False), field)))
        super().__init__(box_of(f"Edit and rerun {run_title(run)}", grid, self._notice))
        self._project = project
        self._run = run

    def on_mount(self) -> None:
        self.set_focus(self.arguments)
        tracked = bool(self._run.commit_id)
        self.configuration.show_value(UNCHANGED)
        self.files.show_value(SNAPSHOT if tracked else PROJECT)
        self.files.show_options(_rows((SNAPSHOT, PROJECT) if tracked else (PROJECT,)))
        self.run_worker(self._list_configurations(), group="configurations")

    async def _list_configurations(self) -> None:
        configurations = await in_thread(self._project.run_configurations)
        names = [configuration.name for configuration in configurations if configuration.problem is None]
        self.configuration.show_options(_rows((UNCHANGED, *names)))

    def on_notice_changed(self, event: Notice.Changed) -> None:
        event.stop()
        self._notice.styles.height = len(self._notice.lines(self._notice.size.width or 80))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_go()

    def action_go(self) -> None:
        try:
            arguments = parse_arguments(self.arguments.value)
        except UsageError as error:
            self._notice.say(error_text(error), wrong=True)
            return
        from_snapshot = self.files.value == SNAPSHOT
        configuration, origin = self.configuration.value, self._run.run_id if from_snapshot else ""
        if configuration == UNCHANGED:
            configuration = "" if from_snapshot else self._run.run_configuration
        self.dismiss(RunRequest(configuration, self._run.script_name, arguments, exact_arguments=True, origin=origin))

    def action_leave(self) -> None:
        self.dismiss(None)


def _rows(values: Sequence[str]) -> tuple[Row, ...]:
    return tuple(Row(value, Piece(safe_text(value))) for value in values)
