"""What is said and asked about an open file: the lines under its text, and the questions.

A note wraps where it is too long for its line. Nothing here changes the state of a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.config.checks.findings import Finding
from tui_workbench.core.text_files import TextFile
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.logs.reason_lines import reason_lines
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes.themes import palette_of, style
from tui_workbench.ui.widgets.question_row import Choice, Question

LEAST_ROOM = 20
"""Cells that a line of the note has at least, whatever stands beside it."""


class Note(NamedTuple):
    """A sentence, the colour of the palette it is written in, and what a key can do about it (`f9 fix`)."""

    text: str = ""
    role: str = "muted"
    hint: str = ""


class EditorStatus(Widget):
    """`▲ 12: nvidiaDocker is not true or false       Ln 12, Col 4   YAML`."""

    DEFAULT_CSS = "EditorStatus { dock: bottom; padding: 0 1; height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self._note = Note()
        self._facts: tuple[str, ...] = ()

    @property
    def note(self) -> Note:
        """What is said."""
        return self._note

    def show(self, note: Note, facts: Sequence[str]) -> None:
        """Show the note at the left and the facts at the right."""
        shown = note._replace(text=safe_text(note.text)), tuple(fact for fact in facts if fact)
        if shown != (self._note, self._facts):
            width = self.content_size.width
            before = len(self._lines(width))
            self._note, self._facts = shown
            self.refresh(layout=len(self._lines(width)) != before)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    @property
    def _hint(self) -> str:
        return f"{self._note.hint}   " if self._note.hint else ""

    def _lines(self, width: int) -> list[str]:
        room = max(width - cell_len(self._hint + "   ".join(self._facts)) - 2, LEAST_ROOM)
        return reason_lines(self._note.text, room) or [""]

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self), self.content_size.width
        plain = style(palette.text, palette.background)
        lines = self._lines(width)
        text = lines[y] if y < len(lines) else ""
        segments = [Segment(text, style(getattr(palette, self._note.role), palette.background))]
        if y == 0:
            facts = "   ".join(self._facts)
            gap = width - cell_len(text) - cell_len(self._hint + facts)
            segments += [
                Segment(" " * max(gap, 1), plain),
                Segment(self._hint, style(palette.accent, palette.background, bold=True)),
                Segment(facts, style(palette.muted, palette.background)),
            ]
        return Strip(segments).adjust_cell_length(width, plain)


class Answer:
    """The answers to the questions below."""

    KEEP = "keep"
    OVERWRITE = "overwrite"
    TAKE = "take"
    DIFFERENCE = "difference"
    SAVE = "save"
    DISCARD = "discard"


def about_change(*, saving: bool) -> Question:
    """What to do when the disk has another version than the one that was edited."""
    keep = Choice("k", "save mine over it", Answer.OVERWRITE) if saving else Choice("k", "keep mine", Answer.KEEP)
    take, difference = Choice("t", "take the disk's", Answer.TAKE), Choice("d", "difference", Answer.DIFFERENCE)
    return Question("The file changed on disk.", (keep, take, difference, Choice("esc", "decide later", "")))


def about_closing(*, deleted: bool) -> Question:
    """What to do with text that was not saved when its file is closed."""
    text = "The file is gone from the disk, only this text is left." if deleted else "This is not saved."
    save, discard = Choice("s", "save and close", Answer.SAVE), Choice("d", "discard it", Answer.DISCARD)
    return Question(text, (save, discard, Choice("esc", "go on editing", "")))


def note_of(file: TextFile, *, note: str, trouble: str, deleted: bool) -> Note:
    """The one thing to know about the file now, most pressing first."""
    if trouble:
        return Note(f"✗ {trouble}", "error")
    if deleted:
        return Note("Deleted on disk. Its text is kept here; saving writes it again.", "warning")
    if file.read_only:
        part = " The beginning is shown." if file.too_large or file.is_binary else ""
        return Note(f"Read-only: {file.read_only}.{part}")
    return Note(note)


def facts_of(file: TextFile, editor: TextEditor) -> list[str]:
    """Where the cursor is, and what is particular about the text."""
    row, column = editor.cursor_location
    line_ends = {"\r\n": "CRLF", "\r": "CR", "": "mixed line ends"}.get(file.newline, "")
    if file.read_only:
        line_ends = ""
    encoding = {"utf-8": "BOM" if file.has_bom else "", "": "binary"}.get(file.encoding, file.encoding)
    return [editor.cursor_character, f"{row + 1}:{column + 1}", encoding, line_ends, editor.language_note]


def about_finding_here(finding: Finding, *, fix_key: str) -> Note:
    """The finding where the cursor is, with its remedy and the key for its fix."""
    hint = f"{fix_key} fix" if finding.fix else ""
    return Note(f"▲ {sentence(finding.message)} {finding.remedy}", _role(finding), hint)


def about_finding_elsewhere(finding: Finding, *, others: int, in_form: bool) -> Note:
    """The first finding of several, with its place."""
    place = finding.key if in_form and finding.key else f"Line {finding.line}"
    more = f" (and {others} more)" if others else ""
    return Note(f"▲ {place}: {finding.message}{more}", _role(finding))


def sentence(clause: str) -> str:
    """A clause as a sentence; a name or code that it begins with keeps its small letter."""
    first = clause.partition(" ")[0]
    return f"{clause[:1].upper() if first.isalpha() else clause[:1]}{clause[1:]}."


def severity_rank(finding: Finding) -> int:
    """Sorts findings from the mildest to the worst."""
    return ("info", "warning", "error").index(finding.severity)


def _role(finding: Finding) -> str:
    return finding.severity if finding.severity in ("error", "warning") else "muted"
