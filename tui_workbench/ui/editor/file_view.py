"""One open file of the editor: its text, its question, its line of status.

The invariants: `file` is always a version that stood on disk and was shown to the person, and a newer one waits in
`theirs` until it was decided about, so no version is overwritten unseen; a text goes only when a person says so; files
are read and written in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui_workbench.core.errors import StorageError
from tui_workbench.core.text_files import FileChangedError, TextFile, save
from tui_workbench.ui.blocking import messages_handled
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
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.messages import EditorRequested
from tui_workbench.ui.widgets.question_row import Question, QuestionRow

if TYPE_CHECKING:
    from tui_workbench.ui.editor.config_view import ConfigView


class TextFace:
    """How a file is shown: its text alone. `ConfigView` has the same methods, for a form over the text."""

    subtitle = Content("")
    """What stands in the lower border."""
    is_editing = is_typing = False
    """Whether a value is open, or typed, that is not in the text yet."""
    line = 0
    """The line, from 1, that the user is at; 0 for that of the cursor in the text."""

    def __init__(self, view: FileView) -> None:
        self.root: Widget = view  # holds all of the view
        self.body: Widget = view.editor  # has the focus while the file is edited

    def parts(self) -> Iterable[Widget]:
        """The widgets above the text."""
        return ()

    def begin(self) -> None:
        """The view stands."""

    def show(self, *, shown: bool) -> None:
        """Show or hide the body."""
        self.body.display = shown

    def show_text(self) -> None:
        """Have the text in the place of anything else."""

    def go_to(self, line: int, column: int) -> None:
        """Show a place in the file, also where the text is not shown."""

    def subtitle_clicked(self) -> None:
        """React to a click into the lower border."""

    def text_changed(self) -> None:
        """The text was edited."""

    def others_changed(self) -> None:
        """Other files of the project changed."""

    async def settle(self) -> None:
        """Have in the text what was typed before now."""

    def note(self, note: Note) -> Note:
        """What to say, given what is to be said about any file."""
        return note

    def facts(self, facts: list[str]) -> list[str]:
        """Which of the facts to say."""
        return facts


class FileView(Widget):
    """Any text file being edited or looked at. Posts what happened to it; knows nothing of other files."""

    DEFAULT_CSS = "FileView { layout: vertical; height: 1fr; }"

    BINDINGS = FILE.bindings

    @dataclass(eq=False)
    class Changed(Message):
        """The file became dirty or clean, was deleted, or got a question."""

        view: FileView

    class Saved(Changed):
        """The file was written."""

    class ClosingDecided(Changed):
        """The person decided that the file can be closed."""

    def __init__(self, file: TextFile, face: ConfigView | None = None) -> None:
        super().__init__()
        self.file = file
        self.theirs: TextFile | None = None
        self.dirty = False
        self.changes = 0
        self.deleted = False
        self.note = ""
        self.trouble = ""
        self.editor = TextEditor()
        self.face: TextFace | ConfigView = face or TextFace(self)
        self._status = EditorStatus()
        self._question: QuestionRow | None = None
        self._difference: DifferenceView | None = None
        self._search: FindRow | None = None
        self.busy = asyncio.Lock()
        """Held while the file is written, so that our own write is not taken for somebody else's."""

    def compose(self) -> ComposeResult:
        self.editor.load_source(self.file.text, "" if self.file.is_binary else language_of(self.path, self.file.text))
        self.editor.read_only = bool(self.file.read_only)
        yield from self.face.parts()
        yield self.editor
        yield self._status

    def on_mount(self) -> None:
        self.face.begin()
        self.draw()

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self.file.path

    @property
    def latest(self) -> TextFile:
        """The newest version on disk that is known."""
        return self.theirs or self.file

    @property
    def holds_unsaved_text(self) -> bool:
        """True when closing would lose text."""
        return self.dirty or (self.deleted and not self.file.read_only)

    def take_focus(self) -> None:
        """Put the focus into the text, or the difference when that is shown."""
        if self._difference is not None:
            self.screen.set_focus(self._difference)
        else:
            self.screen.set_focus(self.face.body)

    def go_to(self, line: int, column: int = 1) -> None:
        """Show a place in the file; line and column count from 1."""
        self.editor.go_to(line, column)
        self.face.go_to(line, column)

    def tell(self, trouble: str) -> None:
        """Show something that went wrong until the next edit."""
        self.trouble = trouble
        self.draw()

    # --- Saving

    async def settle(self) -> None:
        """Wait until the keys that were pressed before now are in the text. Not for handlers of the text itself."""
        await self.face.settle()
        await messages_handled(self.editor)
        self._compare()

    async def save(self) -> bool:
        """Write the file. False when it was not written; the view then says why, or asks."""
        await self.settle()
        async with self.busy:
            self.trouble = ""
            try:
                self.file = await asyncio.to_thread(save, self.file, self.editor.source)
            except FileChangedError as change:
                self.theirs = change.theirs
                await self._ask(about_change(saving=True), focus=self.has_focus_within)
                return False
            except StorageError as error:
                place = f"Line {error.line}: " if error.line else ""
                self.tell(f"{place}{error.message}. {error.remedy}")
                return False
        self.deleted, self.note = False, "Saved."
        self._compare()
        self.post_message(self.Saved(self))
        return True

    @property
    def has_edits(self) -> bool:
        """Whether anything is not saved; asks the text, where `dirty` is what was found after its last change."""
        return self._differs or self.face.is_typing

    @property
    def _differs(self) -> bool:
        return not self.file.read_only and self.editor.source != self.file.text

    def _compare(self) -> None:
        self.dirty = self._differs
        self.draw()

    # --- Questions

    async def ask_to_close(self) -> None:
        """Ask what to do with the unsaved text; `ClosingDecided` tells when it is all right to close."""
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
        if event.row is self._question:
            self.run_worker(self._follow(event.answer))

    async def _follow(self, answer: str) -> None:
        theirs = self.theirs
        if answer == Answer.DIFFERENCE:
            await self._show_difference()
        elif theirs is not None and not answer:
            # The question stays until it is answered; only the keys go back to the text.
            self.take_focus()
        else:
            await self._drop_question()
            if answer == Answer.DISCARD or (answer == Answer.SAVE and await self.save()):
                self.post_message(self.ClosingDecided(self))
            elif theirs is not None and answer == Answer.TAKE:
                self._take(theirs)
            elif theirs is not None:
                # It is still written in the form it had; only what it is compared with is the disk's version now.
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
        self.note = "The disk's version. Undo brings yours back." if was_dirty else "Reloaded: it changed on disk."
        self.draw()

    async def _show_difference(self) -> None:
        if self._difference is not None or self.theirs is None:
            return
        lines = await asyncio.to_thread(compare, self.theirs.text, self.editor.source)
        self._difference = DifferenceView(lines, removed="on the disk", added="here")
        self.face.show(shown=False)
        await self.mount(self._difference, before=self._question)
        self._difference.focus()

    async def _hide_difference(self) -> None:
        if self._difference is not None:
            difference, self._difference = self._difference, None
            self.face.show(shown=True)
            await difference.remove()

    def on_key(self, event: events.Key) -> None:
        """While the difference is looked at, the keys of the question answer it."""
        if self._difference is not None and self._question is not None and self._question.press(event.key):
            event.stop()

    async def on_difference_view_closed(self) -> None:
        await self._hide_difference()
        self.action_answer()

    # --- The disk

    async def meet(self, now: TextFile | None) -> None:
        """React to the version that stands on disk now, or to there being none."""
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

    # --- What happens in the text

    def on_text_area_changed(self) -> None:
        self.changes += 1
        self.trouble = ""
        self.face.text_changed()
        self._compare()
        if self.dirty:
            self.note = ""
        if self._search is not None:
            self._search.find_again()

    def on_text_area_selection_changed(self) -> None:
        self.draw_status()

    # --- Search

    async def action_find(self) -> None:
        self.face.show_text()
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
        """Why a command is not available now: a sentence, or "" when it is."""
        if action == "save" and not self.face.is_editing:
            if self.file.read_only:
                return f"The file is read-only: {self.file.read_only}."
            return "" if self.holds_unsaved_text else "Everything is saved."
        if action == "find":
            return "The difference is shown." if self._difference else ""
        if action == "answer":
            return "" if self._question else "Nothing is asked."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.why_not(action)

    def action_save(self) -> None:
        self.run_worker(self.save())

    def action_edit(self) -> None:
        row, column = self.editor.cursor_location
        at_cursor = EditorRequested(self.path, row + 1, column + 1)
        self.post_message(EditorRequested(self.path, self.face.line) if self.face.line else at_cursor)

    def action_answer(self) -> None:
        if self._question is not None:
            self._question.focus()

    # --- Drawing

    def draw(self) -> None:
        """Say again what there is to know, also around the view."""
        self.draw_status()
        self.post_message(self.Changed(self))

    def draw_status(self) -> None:
        """Say again what there is to know."""
        note = note_of(self.file, note=self.note, trouble=self.trouble, deleted=self.deleted)
        self._status.show(self.face.note(note), self.face.facts(facts_of(self.file, self.editor)))
