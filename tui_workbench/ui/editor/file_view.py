"""An open file of the editor: text, status and question.

The invariants: `file` is a version from disk that the user has seen. A newer version waits in `theirs` until the user
decides between the versions, so no version is overwritten unseen. Only the user discards unsaved text. Files are read
and written in threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui_workbench.core.errors import StorageError
from tui_workbench.core.text_files import FileChangedError, TextFile, reread, save
from tui_workbench.ui.blocking import messages_handled
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.editor_commands import FILE
from tui_workbench.ui.editor.difference_view import DifferenceView, compare
from tui_workbench.ui.editor.editor_status import (
    Answer,
    EditorStatus,
    Note,
    about_change,
    about_closing,
    facts_of,
    note_of,
)
from tui_workbench.ui.editor.find_row import FindRow
from tui_workbench.ui.editor.languages import language_of
from tui_workbench.ui.editor.presenter import Presenter
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.messages import EditorRequested
from tui_workbench.ui.recovery import Unsaved
from tui_workbench.ui.widgets.question_row import Question, QuestionRow


class TextPresenter:
    """A presenter that shows a file as text, and the base of one that also shows it in another way."""

    is_editing = is_typing = False
    line = 0

    def __init__(self, view: FileView) -> None:
        self._view = view

    @property
    def root(self) -> Widget:
        return self._view

    @property
    def body(self) -> Widget:
        return self._view.editor

    @property
    def subtitle(self) -> Content:
        return Content("")

    def parts(self) -> Iterable[Widget]:
        return ()

    def show(self, *, shown: bool) -> None:
        self.body.display = shown

    def begin(self) -> None: ...
    def show_text(self) -> None: ...
    def go_to(self, line: int, column: int) -> None: ...
    def subtitle_clicked(self) -> None: ...
    def text_changed(self) -> None: ...
    def others_changed(self) -> None: ...
    async def flush_input(self) -> None: ...

    def note(self, note: Note) -> Note:
        return note

    def facts(self, facts: list[str]) -> list[str]:
        return facts


class FileView(ExplainsUnavailable, Widget):
    """A text file that is edited or viewed."""

    DEFAULT_CSS = "FileView { layout: vertical; height: 1fr; }"

    BINDINGS = FILE.bindings

    @dataclass(eq=False)
    class Changed(Message):
        """Posted when the state of the file may have changed: edits, deletion, errors, or a question."""

        view: FileView

    class Saved(Changed):
        """Posted when the file was written."""

    class ClosingDecided(Changed):
        """Posted when the user has decided to close the file."""

    def __init__(self, file: TextFile, presenter: Presenter | None = None) -> None:
        super().__init__()
        self.file = file
        self.theirs: TextFile | None = None
        self.dirty = False
        self.changes = 0
        self.deleted = False
        self.note = ""
        self.error = ""
        self.editor = TextEditor()
        self.presenter: Presenter = presenter or TextPresenter(self)
        self._status = EditorStatus()
        self._question: QuestionRow | None = None
        self._difference: DifferenceView | None = None
        self._search: FindRow | None = None
        self.busy = asyncio.Lock()  # held during a write, so that the change on disk is ignored
        self._answering = asyncio.Lock()  # held while an answer is executed

    def compose(self) -> ComposeResult:
        self.editor.load_source(self.file.text, "" if self.file.is_binary else language_of(self.path, self.file.text))
        self.editor.read_only = bool(self.file.read_only)
        yield from self.presenter.parts()
        yield self.editor
        yield self._status

    def on_mount(self) -> None:
        self.presenter.begin()
        self.draw()

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def holds_unsaved_text(self) -> bool:
        """True if closing the file would lose text."""
        return self.dirty or (self.deleted and not self.file.read_only)

    def take_focus(self) -> None:
        self.screen.set_focus(self._difference or self.presenter.body)

    def go_to(self, line: int, column: int = 1) -> None:
        """Move the cursor to a line and column, which count from 1."""
        self.editor.go_to(line, column)
        self.presenter.go_to(line, column)

    def show_error(self, text: str) -> None:
        """Show an error until the next edit."""
        self.error = text
        self.draw()

    # --- Saving

    async def flush_input(self) -> None:
        """Wait until earlier key presses are in the text. Message handlers of the text must not call this."""
        await self.presenter.flush_input()
        await messages_handled(self.editor)
        self._compare()

    async def save(self) -> bool:
        """Write the file. Return False on failure; the view then shows an error or asks a question."""
        await self.flush_input()
        async with self.busy:
            self.error = ""
            try:
                self.file = await asyncio.to_thread(save, self.file, self.editor.source)
            except FileChangedError as change:
                self.theirs = change.theirs
                await self._ask(about_change(saving=True), focus=self.has_focus_within)
                return False
            except StorageError as error:
                location = f"Line {error.line}: " if error.line else ""
                self.show_error(f"{location}{error.message}. {error.remedy}")
                return False
        self.deleted, self.note = False, "Saved."
        self._compare()
        self.post_message(self.Saved(self))
        return True

    @property
    def has_edits(self) -> bool:
        """True if there are unsaved edits, including a value that is being typed."""
        return self._differs or self.presenter.is_typing

    @property
    def _differs(self) -> bool:
        return not self.file.read_only and self.editor.source != self.file.text

    def _compare(self) -> None:
        self.dirty = self._differs
        self.draw()

    # --- Questions

    async def ask_to_close(self) -> None:
        """Ask whether to save or discard the unsaved text. Posts `ClosingDecided` when the file can be closed."""
        await self._ask(about_closing(deleted=self.deleted), focus=True)

    async def _ask(self, question: Question, *, focus: bool) -> None:
        await self._drop_question()
        self._question = QuestionRow(question, focus_key=shown_key("file.answer", "ctrl+o"))
        await self.mount(self._question, before=self._status)
        if focus:
            self._question.focus()
        self.draw()

    async def _drop_question(self) -> None:
        had_focus = any(part is not None and part.has_focus for part in (self._question, self._difference))
        await self._hide_difference()
        if self._question is not None:
            question, self._question = self._question, None
            await question.remove()
        if had_focus:
            self.take_focus()

    def on_question_row_answered(self, event: QuestionRow.Answered) -> None:
        event.stop()
        self.run_worker(self._answer(event.row, event.answer))

    async def _answer(self, row: QuestionRow, answer: str) -> None:
        async with self._answering:
            theirs = self.theirs
            if row is not self._question:
                return  # the answer was typed before the previous answer had taken effect
            if answer == Answer.DIFFERENCE:
                await self._show_difference()
            elif theirs is not None and not answer:
                # The question stays open.
                self.take_focus()
            else:
                await self._drop_question()
                if answer == Answer.DISCARD or (answer == Answer.SAVE and await self.save()):
                    self.post_message(self.ClosingDecided(self))
                elif theirs is not None and answer == Answer.TAKE:
                    self._take(theirs)
                elif theirs is not None:
                    # The text keeps its encoding and line endings, and is compared with `theirs` from now on.
                    self.file = self.file._replace(text=theirs.text, signature=theirs.signature)
                    self.theirs = None
                    self._compare()
                    if answer == Answer.OVERWRITE:
                        await self.save()
                self.draw()

    def _take(self, version: TextFile) -> None:
        was_dirty = self.dirty
        self.file, self.theirs, self.deleted = version, None, False
        self.editor.read_only = bool(version.read_only)
        self.editor.replace_source(version.text)
        self._compare()
        self.note = "Reloaded. Undo restores your text." if was_dirty else "Reloaded after a change on disk."
        self.draw()

    async def _show_difference(self) -> None:
        if self._difference is not None or self.theirs is None:
            return
        lines = await asyncio.to_thread(compare, self.theirs.text, self.editor.source)
        if self._question is None:
            return  # the file on disk became the same as the text
        self._difference = DifferenceView(lines, removed="on disk", added="in the editor")
        self.presenter.show(shown=False)
        await self.mount(self._difference, before=self._question)
        self._difference.focus()

    async def _hide_difference(self) -> None:
        if self._difference is not None:
            difference, self._difference = self._difference, None
            self.presenter.show(shown=True)
            await difference.remove()

    def on_key(self, event: events.Key) -> None:
        if self._difference is not None and self._question is not None and self._question.press(event.key):
            event.stop()

    async def on_difference_view_closed(self) -> None:
        await self._hide_difference()
        self.action_answer()

    # --- The file on disk

    async def restore_unsaved(self, unsaved: Unsaved) -> None:
        """Restore an unsaved text as an edit, which undo reverts."""
        if not self.dirty and not unsaved.file.same_content(self.file):
            self.file = unsaved.file  # the version that was edited; `disk_changed` handles the current version below
        self.editor.replace_source(unsaved.text)
        await self.flush_input()
        await messages_handled(self)  # wait until the edit is in the text
        now = await asyncio.to_thread(reread, self.file)
        if now is not self.file:
            await self.disk_changed(now)
        if self.dirty:
            when = time.strftime("%H:%M", time.localtime(unsaved.kept_at))
            self.note = f"Restored unsaved edits from {when}. Undo discards them."
        self.draw()

    async def disk_changed(self, now: TextFile | None) -> None:
        """Handle a change on disk. `now` is the new version, or None if the file was deleted."""
        if now is None:
            self.deleted = True
        elif now.same_content(self.file):
            self.file, self.deleted = now, False
            if self.theirs is not None:
                self.theirs = None
                await self._drop_question()
        elif not self._differs or now.text == self.editor.source:
            self._take(now)
        else:
            self.deleted, self.theirs = False, now
            await self._ask(about_change(saving=False), focus=False)
        self.draw()

    # --- The text

    def on_text_area_changed(self) -> None:
        self.changes += 1
        self.error = ""
        self.presenter.text_changed()
        self._compare()
        if self.dirty:
            self.note = ""
        if self._search is not None:
            self._search.find_again()

    def on_text_area_selection_changed(self) -> None:
        self.draw_status()

    # --- Search

    async def action_find(self) -> None:
        self.presenter.show_text()
        if self._search is None:
            self._search = FindRow(self.editor)
            await self.mount(self._search, before=self._status)
        self._search.start()

    async def on_find_row_closed(self) -> None:
        if self._search is not None:
            search, self._search = self._search, None
            await search.end()
        self.take_focus()

    # --- Commands

    def why_not(self, action: str) -> str:
        if action == "save" and not self.presenter.is_editing:
            if self.file.read_only:
                return f"The file is read-only: {self.file.read_only}."
            return "" if self.holds_unsaved_text else "No unsaved edits."
        if action == "find":
            return "Close the diff first." if self._difference else ""
        if action == "answer":
            return "" if self._question else "No open question."
        return ""

    def action_save(self) -> None:
        self.run_worker(self.save())

    def action_edit(self) -> None:
        row, column = self.editor.cursor_location
        position = (self.presenter.line,) if self.presenter.line else (row + 1, column + 1)
        self.post_message(EditorRequested(self.path, *position))

    def action_answer(self) -> None:
        if self._question is not None:
            self._question.focus()

    # --- Drawing

    def draw(self) -> None:
        self.draw_status()
        self.post_message(self.Changed(self))

    def draw_status(self) -> None:
        note = note_of(self.file, note=self.note, error=self.error, deleted=self.deleted)
        self._status.show(self.presenter.note(note), self.presenter.facts(facts_of(self.file, self.editor)))
