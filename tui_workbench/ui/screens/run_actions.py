"""What can be done with one run from any screen of the history: again, changed, restored, entered, said something of.

The invariant: what starts a run happens on the main screen, which asks what has to be asked and shows the log; what is
said of a run is written at once, and shown as it was written.
"""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from tui_workbench.errors import UsageError, WorkbenchError
from tui_workbench.ui.blocking import Unbegun, in_thread
from tui_workbench.ui.messages import RunAgainWanted
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.dashboard_columns import tags_text
from tui_workbench.ui.screens.history_screen import HistoryScreen
from tui_workbench.ui.undo import steps_of
from tui_workbench.ui.widgets.field_row import FieldRow
from tui_workbench.ui.words import run_title

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message

    from tui_workbench.model import RunRequest
    from tui_workbench.project import Project
    from tui_workbench.runs.annotations import Annotations
    from tui_workbench.runs.shell import Shell
    from tui_workbench.runs.table import RunRow

TAGS, NOTE = "tags", "note"


class RunActions(HistoryScreen, inherit_bindings=False):
    """A screen about runs, one of which is the current one."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.edit_row = FieldRow()
        self._edited: RunRow | None = None

    # --- What a subclass says

    def current_run(self) -> RunRow | None:
        """The run that commands are about."""
        raise NotImplementedError

    @property
    def selected_run_id(self) -> str:
        """The id of the run that commands are about."""
        row = self.current_run()
        return row.run.run_id if row is not None else ""

    def annotated(self) -> None:
        """What is said of a run is something else now."""
        raise NotImplementedError

    def why_not(self, action: str) -> str:
        """Commands are about the current run."""
        if action not in _ABOUT_ONE:
            return super().why_not(action)
        row = self.current_run()
        if row is None:
            return "No run is under the cursor."
        if action in ("rerun", "rerun_edited", "restore", "shell") and not row.run.script_name:
            return "What is left of this run does not say what it was."
        if action in ("restore",) and not row.run.commit_id:
            return "There is no snapshot of this run: it was not tracked."
        return ""

    # --- Again

    def action_rerun(self) -> None:
        """Run it again as it was."""
        row = self.current_run()
        if row is not None:
            self._run_again(row, None)

    def action_rerun_edited(self) -> None:
        """Change what is run first."""
        row = self.current_run()
        if row is not None:
            self.run_worker(Unbegun(self._edit_and_run, row), group="edit", exclusive=True)

    async def _edit_and_run(self, row: RunRow) -> None:
        from tui_workbench.ui.screens.run_edit import RunEditScreen

        request = await self.app.push_screen_wait(RunEditScreen(self.project, row.run))
        if request is not None:
            self._run_again(row, request)

    def _run_again(self, row: RunRow, request: RunRequest | None) -> None:
        self.leave_it_to_main(RunAgainWanted(row.run, request))

    def leave_it_to_main(self, message: Message) -> None:
        """Go to the main screen, which is told this."""
        main = self.app.screen_stack[0]
        while self.app.screen is not main:
            self.app.pop_screen()
        main.post_message(message)

    # --- Its files

    def action_restore(self) -> None:
        """Show what restoring would change."""
        from tui_workbench.ui.screens.run_restore import RestoreScreen

        row = self.current_run()
        if row is not None:
            self.app.push_screen(RestoreScreen(self.project, row.run))

    def action_shell(self) -> None:
        """Open a shell in a copy of the project as the run had it."""
        row = self.current_run()
        if row is not None:
            self.say("The copy is being made...")
            self.ask("shell", partial(_shell_of, self.project, row.run.run_id), self._enter_shell)

    def _enter_shell(self, shell: Shell) -> None:
        from tui_workbench.ui.screens.shell import enter_shell

        self.say("")
        try:
            enter_shell(self.app, shell)
        except WorkbenchError as error:
            self.show_error(error)

    # --- What people say of it

    def action_pin(self) -> None:
        """At the top of the table, or not."""
        self._annotate(lambda said: said._replace(pinned=not said.pinned))

    def action_archive(self) -> None:
        """Out of the table, or back."""
        row = self.current_run()
        if row is not None and not row.facts.annotations.archived:
            self.say(f"{safe_text(run_title(row.run))} is archived: v shows archived runs, d brings it back.")
        self._annotate(lambda said: said._replace(archived=not said.archived))

    def action_tag(self) -> None:
        """Type the tags."""
        self._edit(TAGS, lambda row: tags_text(row.facts))

    def action_note(self) -> None:
        """Type the note."""
        self._edit(NOTE, lambda row: row.facts.annotations.note.replace("\n", " ⏎ "))

    def _edit(self, what: str, text: Callable[[RunRow], str]) -> None:
        row = self.current_run()
        if row is None:
            return
        self._edited = row
        label = f"{what.capitalize()} of {safe_text(run_title(row.run)[:40])}"
        self.edit_row.open(text(row), label=label, about=what)

    def edited(self, text: str) -> None:
        """What was typed into the row is to be kept."""
        what, row = self.edit_row.about_what, self._edited
        self.end_edit()
        if row is None:
            return
        if what == NOTE:
            note = text.replace(" ⏎ ", "\n").strip()
            self._annotate(lambda said: said._replace(note=note), row)
            return
        try:
            tags = tags_of(text)
        except UsageError as error:
            self.show_error(error)
            return
        self._annotate(lambda said: said._replace(tags=tags), row)

    def end_edit(self) -> None:
        """Back to where one was."""
        self.edit_row.close()
        self.give_back_focus()

    def give_back_focus(self) -> None:
        """The row that had the focus is gone."""
        self.screen.focus_next()

    def _annotate(self, change: Callable[[Annotations], Annotations], row: RunRow | None = None) -> None:
        row = row or self.current_run()
        if row is not None:
            run_id, title = row.run.run_id, safe_text(run_title(row.run))

            def done(before: Annotations) -> None:
                steps_of(self.app).add(f"what was said of {title}", partial(self._say_as_before, run_id, before))
                self.annotated()

            self.ask("annotate", partial(_annotate, self.project, run_id, change), done)

    async def _say_as_before(self, run_id: str, before: Annotations) -> None:
        await in_thread(partial(_annotate, self.project, run_id, lambda said: before))
        if self.is_attached:
            self.annotated()


_ABOUT_ONE = frozenset(("rerun", "rerun_edited", "restore", "shell", "tag", "note", "pin", "archive"))


def tags_of(text: str) -> dict[str, str]:
    """The tags that a person has typed: `best, lr=0.1`. Raises UsageError for one without a name."""
    tags: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if not name.strip() and value:
            raise UsageError(f"the tag {part.strip()!r} has no name", remedy="Write name or name=value, with commas.")
        if name.strip():
            tags[name.strip()] = value.strip()
    return tags


def arguments_of(text: str) -> tuple[str, ...]:
    """The arguments that a person has typed. Raises UsageError when a quotation does not end."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"the arguments cannot be read: {error}", remedy="Close the quotation.") from error


def _annotate(project: Project, run_id: str, change: Callable[[Annotations], Annotations]) -> Annotations:
    """Change what is said of a run; gives what was said before."""
    from tui_workbench.runs import Runs

    before: list[Annotations] = []

    def remember(said: Annotations) -> Annotations:
        before.append(said)
        return change(said)

    Runs(project).annotate(run_id, remember)
    return before[-1]


def _shell_of(project: Project, run_id: str) -> Shell:
    from tui_workbench.runs import Runs

    return Runs(project).shell(run_id=run_id)
