"""An open configuration file: a form and a text as two views of one document, and the problems of the file.

The invariants: an edit in the form is an edit of the text, so both share one undo history; a fix is applied only to the
text in which the problem was found, so a changed text is checked again first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from threading import Lock

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget

from tui_workbench.config.checks.findings import Finding, severity_rank
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.checks.suggestions import Suggestion, suggestions
from tui_workbench.config.document import Document
from tui_workbench.config.schema.field_types import Field
from tui_workbench.config.schema.fields import kind_of
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.notebooks import is_notebook
from tui_workbench.core.text_files import TextFile
from tui_workbench.ui.blocking import OneAtATime, messages_handled
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.editor_commands import CONFIGURATION
from tui_workbench.ui.editor.editor_status import Note, about_finding_elsewhere, about_finding_here
from tui_workbench.ui.editor.file_view import FileView
from tui_workbench.ui.editor.notebook_view import NotebookView
from tui_workbench.ui.editor.text_editor import Mark
from tui_workbench.ui.files.file_tree import is_changeable
from tui_workbench.ui.form.form_drawing import FormHelp
from tui_workbench.ui.form.form_rows import FormRow, form_rows, in_order
from tui_workbench.ui.form.form_view import FormView
from tui_workbench.ui.messages import ChangeRequested
from tui_workbench.ui.terminal.code_document import preload as preload
from tui_workbench.ui.terminal.stand_ins import has_stand_ins


class Checker:
    """A checker of configuration files that knows the editor's unsaved texts. Thread-safe."""

    def __init__(self, images_used: tuple[str, ...] = ()) -> None:
        self.images_used = images_used  # images of earlier runs, suggested for image fields
        self._lock = Lock()
        self._contexts: dict[str, ProjectContext | None] = {}

    def check(self, file: TextFile, text: str) -> Sequence[Finding]:
        """Return the problems of `text`, the editor's version of `file`, in the order of the text."""
        with self._lock:
            context = self._context(file.path)
            if context is not None:
                context.show_unsaved(file.path, text)
            return Document(file._replace(text=text), context).problems()

    def forget(self, path: str) -> None:
        """Forget the unsaved text of a file that was closed. Later checks use the version on disk."""
        with self._lock:
            context = self._context(path)
            if context is not None:
                context.show_unsaved(path, None)

    def suggestions(self, path: str, field: Field, folder: str) -> Sequence[Suggestion]:
        """Return suggested values for a field of the file at `path`.

        The values for a path include the files in `folder`, which is "" or ends with `/`.
        """
        with self._lock:
            return suggestions(field, folder, self._context(path), self.images_used)

    def _context(self, path: str) -> ProjectContext | None:
        directory = os.path.dirname(path)
        if directory not in self._contexts:
            self._contexts[directory] = ProjectContext.of(path)
        return self._contexts[directory]


def view_of(file: TextFile, checker: Checker) -> FileView:
    """Create the view for the type of a file."""
    if not file.read_only and has_stand_ins(file.text):
        file = file._replace(read_only="it contains private-use characters that the editor reserves")
    if kind_of(file.path) is not None and not file.read_only:
        return ConfigView(file, checker).view
    if is_notebook(file.path) and not file.is_binary:
        return NotebookView(file).view
    return FileView(file)


class ConfigView(ExplainsUnavailable, Widget):
    """A view of an open `.compute`, `.runconfig` or dependency file as a form or as text."""

    DEFAULT_CSS = "ConfigView { layout: vertical; height: 1fr; }"

    BINDINGS = CONFIGURATION.bindings

    def __init__(self, file: TextFile, checker: Checker) -> None:
        super().__init__()
        self.as_form = True
        self.findings: Sequence[Finding] = ()
        self.form = FormView(self)
        self.view = FileView(file, self)
        self.editor = self.view.editor
        self._help = FormHelp()
        self._checker = checker
        self._checked_text = ""
        self._checks = OneAtATime(self, self._check_text)
        # One document is used for all versions of the text, because it knows the original bytes of values.
        self._document = Document(file)
        self._order: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.view

    # --- Presenter of the file

    @property
    def root(self) -> Widget:
        return self

    @property
    def body(self) -> Widget:
        return self.form if self.as_form else self.editor

    @property
    def is_editing(self) -> bool:
        return self.form.is_editing

    @property
    def is_typing(self) -> bool:
        return self.form.is_typing

    @property
    def line(self) -> int:
        row = self.form.current
        return row.line if self.as_form and row is not None else 0

    def parts(self) -> Iterable[Widget]:
        return self.form, self._help

    def begin(self) -> None:
        self.show(shown=True)
        self._show_rows()
        self.check()

    def on_show(self) -> None:
        self.check()

    def others_changed(self) -> None:
        self.check()

    def show(self, *, shown: bool) -> None:
        self.form.display = self._help.display = shown and self.as_form
        self.editor.display = shown and not self.as_form

    def show_text(self) -> None:
        if self.as_form:
            self.action_change_view()

    def go_to(self, line: int, column: int) -> None:
        """Go to the form row for a line of the text; without such a row, switch to the text."""
        if self.as_form and not self.form.go_to_line(line):
            self._change_view()

    @property
    def subtitle(self) -> Content:
        looks = ("bold", "dim") if self.as_form else ("dim", "bold")
        return Content.assemble(("Form", looks[0]), "  ", ("Text", looks[1]))

    def subtitle_clicked(self) -> None:
        self.action_change_view()

    def action_change_view(self) -> None:
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
        self.show(shown=True)
        if had_focus:
            self.screen.set_focus(self.body)
        self.view.draw()

    # --- Owner of the form

    def change(self, change: Callable[[Document], object]) -> None:
        """Change the document and the text as one undo step. Raises WorkbenchError."""
        document = self._synced()
        change(document)
        self.editor.replace_source(document.text)
        self._show_rows()

    async def suggest(self, row: FormRow, folder: str) -> Sequence[Suggestion]:
        return await asyncio.to_thread(self._checker.suggestions, self.view.path, row.field, folder)

    def undo(self) -> None:
        self.editor.undo()
        self._show_rows()

    def redo(self) -> None:
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
            key = shown_key("config.view", "ctrl+t")
            self.form.show([], (), empty=f"The form needs valid YAML. {key} shows the text.")

    def cursor_moved(self) -> None:
        self._help.show(self.form.current)
        self.view.draw_status()

    def refuse(self, error: WorkbenchError) -> None:
        self.view.show_error(f"{error.message}. {error.remedy}")

    async def flush_input(self) -> None:
        """Apply the value that is being typed in the form."""
        if self.as_form:
            await messages_handled(self.form)
            self.form.finish()

    # --- Checks

    def check(self) -> None:
        self._checks.start()

    async def _check_text(self) -> None:
        text = self.editor.source
        findings = await asyncio.to_thread(self._checker.check, self.view.file, text)
        self._show_findings(findings, text)
        self.refresh_bindings()

    def _show_findings(self, findings: Sequence[Finding], text: str) -> None:
        self.findings, self._checked_text = findings, text
        worst_last = sorted(findings, key=severity_rank)
        self.editor.mark_problems([_mark(finding, text) for finding in worst_last if finding.line])
        self._show_rows()
        self.view.draw_status()

    def text_changed(self) -> None:
        if self.editor.source != self._document.text:
            self._show_rows()
        self.check()

    # --- Status

    def note(self, note: Note) -> Note:
        """Return `note` if it is an error, else a note about the problem at the cursor, else `note`.

        If `note` is empty, return a note about the first problem elsewhere.
        """
        if note.role == "error" or not self.findings:
            return note
        if here := self._finding_here():
            return about_finding_here(
                here, fix_key=shown_key("form.fix", "f") if self.as_form else shown_key("config.fix", "f9")
            )
        if note.text:
            return note
        return about_finding_elsewhere(self.findings[0], others=len(self.findings) - 1, in_form=self.as_form)

    def facts(self, facts: list[str]) -> list[str]:
        return facts[2:-1] if self.as_form else facts

    def _finding_here(self) -> Finding | None:
        if self.as_form:
            return self.form.finding if self.form.current else next(iter(self.findings), None)
        line = self.editor.cursor_location[0] + 1
        here = [finding for finding in self.findings if finding.line == line]
        return max(here, key=severity_rank, default=None)

    # --- Commands

    def why_not(self, action: str) -> str:
        if action == "next_problem":
            return "" if self.findings else "This file has no problems."
        if action == "fix":
            finding = self._finding_here()
            return "" if finding and finding.fix else "No fix available here."
        if action == "gpu_ready":
            return "" if is_changeable(self.view.path) else "This file is not a target or run configuration."
        return ""

    def action_next_problem(self) -> None:
        if self.as_form and self.form.go_to_finding():
            return
        row = self.editor.cursor_location[0] + 1
        below = [finding for finding in self.findings if finding.line > row]
        for finding in (below or self.findings)[:1]:
            self.editor.go_to(finding.line, finding.column)

    def action_gpu_ready(self) -> None:
        self.post_message(ChangeRequested("gpu-ready", self.view.path))

    def action_fix(self) -> None:
        self.run_worker(self._fix())

    async def _fix(self) -> None:
        await self.view.flush_input()
        text = self.editor.source
        if text != self._checked_text:
            self._show_findings(await asyncio.to_thread(self._checker.check, self.view.file, text), text)
        finding = self._finding_here()
        fix = finding.fix if finding else None
        if fix is None or text != self.editor.source:
            return
        try:
            self.change(lambda document: document.apply(fix))
        except WorkbenchError as error:
            self.refuse(error)


def _mark(finding: Finding, text: str) -> Mark:
    end_of_line = text.find("\n", finding.start)
    end = min(finding.end, len(text) if end_of_line < 0 else end_of_line)
    return Mark(finding.line, finding.column, max(end - finding.start, 0), finding.severity)
