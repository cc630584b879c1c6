"""One open configuration file: a form and a text that are two views of one document, and the findings in it.

The invariants: the text is the truth and its history the only one, so an edit in the form is an edit of the text, and
undo spans both; a fix is made to the text that the finding was found in, which is checked again first when it changed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.content import Content

from tui_workbench.config.document import Document
from tui_workbench.errors import WorkbenchError
from tui_workbench.ui.command import shown_key
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.editor_commands import CONFIGURATION
from tui_workbench.ui.messages import ChangeWanted, EditorWanted
from tui_workbench.ui.panes.config_changes import is_changeable
from tui_workbench.ui.panes.file_notes import about_finding_elsewhere, about_finding_here, facts_of, sentence
from tui_workbench.ui.panes.file_view import FileView
from tui_workbench.ui.panes.form_help import FormHelp
from tui_workbench.ui.panes.form_rows import FormRow, form_rows, in_order
from tui_workbench.ui.panes.form_view import FormView
from tui_workbench.ui.widgets.text_editor import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from tui_workbench.config.findings import Finding
    from tui_workbench.config.suggestions import Suggestion
    from tui_workbench.files import TextFile
    from tui_workbench.ui.panes.checker import Checker
    from tui_workbench.ui.widgets.editor_status import Note


_SEVERITIES = ("info", "warning", "error")
"""From the mildest to the worst."""


class ConfigView(FileView):
    """A `.compute`, `.runconfig` or dependency file. Posts `ChangeWanted`, too."""

    BINDINGS = bindings(CONFIGURATION)

    def __init__(self, file: TextFile, checker: Checker, *, as_form: bool = True) -> None:
        super().__init__(file)
        self.as_form = as_form
        self.findings: Sequence[Finding] = ()
        self.form = FormView(self)
        self._help = FormHelp()
        self._checker = checker
        self._checked_text = ""
        self._unchecked = self._checking = False
        # Kept, because it remembers the bytes that values had at first.
        self._document = Document(file)
        self._order: list[str] = []

    def compose(self) -> ComposeResult:
        """The form and its help, the text, the status."""
        yield self.form
        yield self._help
        yield from super().compose()

    def on_mount(self) -> None:
        """Show the view that was asked for, and look for problems."""
        self.show_body(shown=True)
        self._show_rows()
        self.check()

    def on_show(self) -> None:
        """Look again: other files of the project may have changed meanwhile."""
        self.check()

    def others_changed(self) -> None:
        """What is wrong here may depend on them."""
        self.check()

    # --- Two views

    def show_body(self, *, shown: bool) -> None:
        """Show or hide the view of the file that is in use."""
        self.form.display = self._help.display = shown and self.as_form
        self.editor.display = shown and not self.as_form

    def focus_body(self) -> None:
        """Put the focus into the form or the text."""
        self.screen.set_focus(self.form if self.as_form else self.editor)

    def go_to(self, line: int, column: int = 1) -> None:
        """Show a line: its row in the form, or the text when it has none."""
        self.editor.go_to(line, column)
        if self.as_form and not self.form.go_to_line(line):
            self._change_view()

    @property
    def subtitle(self) -> Content:
        """Which view is shown."""
        names = ("Form", "Text") if self.as_form else ("Text", "Form")
        loud, quiet = (f"{names[0]}", "bold"), (f"{names[1]}", "dim")
        return Content.assemble(loud, "  ", quiet) if self.as_form else Content.assemble(quiet, "  ", loud)

    def subtitle_clicked(self) -> None:
        """Change the view."""
        self.action_change_view()

    def action_change_view(self) -> None:
        """Change between form and text; the cursor stays at its value."""
        if self.form.finish():
            self._change_view()

    def _change_view(self) -> None:
        had_focus = self.has_focus_within
        self.as_form = not self.as_form
        if self.as_form:
            self._order = []
            self._show_rows()
            self.form.go_to_line(self.editor.cursor_location[0] + 1)
        elif (row := self.form.current) and row.line:
            self.editor.go_to(row.line)
        self.show_body(shown=True)
        if had_focus:
            self.focus_body()
        self._draw()

    async def action_find(self) -> None:
        """Search in the text."""
        if self.as_form:
            self.action_change_view()
        await super().action_find()

    # --- The form's owner

    def change(self, change: Callable[[Document], object]) -> None:
        """Make a change of the document, and so of the text, as one undo step. Raises WorkbenchError."""
        document = self._synced()
        change(document)
        self.editor.replace_source(document.text)
        self._show_rows()

    async def suggest(self, row: FormRow, folder: str) -> Sequence[Suggestion]:
        """Values that the row could have; of files, those in `folder`."""
        return await asyncio.to_thread(self._checker.suggestions, self.path, row.field, folder)

    def undo(self) -> None:
        """Take back the last edit, whichever view made it."""
        self.editor.undo()
        self._show_rows()

    def redo(self) -> None:
        """Make again what was taken back."""
        self.editor.redo()
        self._show_rows()

    def _synced(self) -> Document:
        self._document.replace_text(self.editor.source)
        return self._document

    def _show_rows(self) -> None:
        if not self.as_form:
            return
        document = self._synced()
        if document.error is None:
            rows = in_order(form_rows(document), self._order)
            self._order = self._order or [row.field.key for row in rows if row.kind == "field"]
            self.form.show(rows, self.findings)
        else:
            self.form.show([], (), empty=f"This is no YAML yet. {sentence(document.error.message)}")

    def on_form_view_moved(self) -> None:
        """Another row is under the cursor."""
        self._help.show(self.form.current)
        self._draw_status()

    def on_form_view_text_wanted(self) -> None:
        """The value can only be edited as text."""
        self.action_change_view()

    def on_form_view_fix_wanted(self) -> None:
        """The finding of the row should be fixed."""
        self.action_fix()

    def on_form_view_refused(self, event: FormView.Refused) -> None:
        """A change could not be made."""
        self.tell(f"{event.error.message}. {event.error.remedy}")

    @property
    def has_edits(self) -> bool:
        """Whether anything is not saved, or is being typed."""
        return super().has_edits or self.form.is_typing

    async def settle(self) -> None:
        """Wait until the keys pressed before now are in the text; what is being typed in the form is taken."""
        if self.as_form:
            settled = asyncio.Event()
            if self.form.call_later(settled.set):
                await settled.wait()
            self.form.finish()
        await super().settle()

    # --- Checks

    def check(self) -> None:
        """Check the text as it is now, in a thread. The newest text is checked last, and never two at once."""
        self._unchecked = True
        if not self._checking:
            self._checking = True
            self.run_worker(self._check_until_fresh())

    async def _check_until_fresh(self) -> None:
        while self._unchecked:
            self._unchecked = False
            text = self.editor.source
            findings = await asyncio.to_thread(self._checker.check, self.file, text)
            self._show_findings(findings, text)
        self._checking = False
        self.refresh_bindings()

    def _show_findings(self, findings: Sequence[Finding], text: str) -> None:
        self.findings, self._checked_text = findings, text
        worst_last = sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity))
        self.editor.mark_problems([_mark(finding, text) for finding in worst_last if finding.line])
        self._show_rows()
        self._draw_status()

    def on_text_area_changed(self) -> None:
        """Check after every edit, and keep the form in step."""
        if self.editor.source != self._document.text:
            self._show_rows()
        self.check()

    # --- What is said

    def status_note(self) -> Note:
        """What is wrong where the cursor is; else what any file says; else what is wrong elsewhere."""
        note = super().status_note()
        if note.role == "error" or not self.findings:
            return note
        if here := self._finding_here():
            return about_finding_here(
                here, fix_key=shown_key("form.fix", "f") if self.as_form else shown_key("config.fix", "f9")
            )
        if note.text:
            return note
        return about_finding_elsewhere(self.findings[0], others=len(self.findings) - 1, in_form=self.as_form)

    def status_facts(self) -> list[str]:
        """In the form only what is particular about the file."""
        facts = facts_of(self)
        return facts[2:-1] if self.as_form else facts

    def _finding_here(self) -> Finding | None:
        if self.as_form:
            return self.form.finding if self.form.current else next(iter(self.findings), None)
        line = self.editor.cursor_location[0] + 1
        here = [finding for finding in self.findings if finding.line == line]
        return max(here, key=lambda finding: _SEVERITIES.index(finding.severity), default=None)

    # --- Commands

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action == "next_problem":
            return "" if self.findings else "This file has no problems."
        if action == "fix":
            finding = self._finding_here()
            return "" if finding and finding.fix else "There is nothing to fix here."
        if action == "gpu_ready":
            return "" if is_changeable(self.path) else "This is no target and no run configuration."
        if action == "save" and self.form.is_editing:
            return ""
        return super().why_not(action)

    def action_next_problem(self) -> None:
        """Go to the next problem behind the cursor, around the end."""
        if self.as_form and self.form.go_to_finding():
            return
        row = self.editor.cursor_location[0] + 1
        behind = [finding for finding in self.findings if finding.line > row]
        for finding in (behind or self.findings)[:1]:
            self.editor.go_to(finding.line, finding.column)

    def action_gpu_ready(self) -> None:
        """Make the target or run configuration use the GPU."""
        self.post_message(ChangeWanted("gpu-ready", self.path))

    def action_edit(self) -> None:
        """Open the file in the user's own editor, at the row of the form."""
        row = self.form.current
        if self.as_form and row is not None and row.line:
            self.post_message(EditorWanted(self.path, row.line))
        else:
            super().action_edit()

    def action_fix(self) -> None:
        """Fix the finding where the cursor is."""
        self.run_worker(self._fix())

    async def _fix(self) -> None:
        await self.settle()
        text = self.editor.source
        if text != self._checked_text:
            self._show_findings(await asyncio.to_thread(self._checker.check, self.file, text), text)
        finding = self._finding_here()
        fix = finding.fix if finding else None
        if fix is None or text != self.editor.source:
            return
        try:
            self.change(lambda document: document.apply(fix))
        except WorkbenchError as error:
            self.tell(f"{error.message}. {error.remedy}")


def _mark(finding: Finding, text: str) -> Mark:
    end_of_line = text.find("\n", finding.start)
    end = min(finding.end, len(text) if end_of_line < 0 else end_of_line)
    return Mark(finding.line, finding.column, max(end - finding.start, 0), finding.severity)
