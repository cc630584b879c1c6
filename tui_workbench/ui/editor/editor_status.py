"""The status lines under an open file, and the questions about it."""

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
from tui_workbench.ui.formatting import sentence
from tui_workbench.ui.logs.reason_lines import reason_lines
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes.themes import palette_of, style
from tui_workbench.ui.widgets.question_row import Choice, Question

LEAST_ROOM = 20  # smallest width of the note, in cells


OLD_DATA_SOURCE = (
    "Runs cannot use this data source of Azure ML Workbench. Read the original file with pandas, and prepare the data "
    "in the script."
)


class Note(NamedTuple):
    """A sentence, its color in the palette, and a key with its label (`f9 fix`)."""

    text: str = ""
    role: str = "muted"
    hint: str = ""


class EditorStatus(Widget):
    """A note, which wraps, and text properties: `▲ Line 12: nvidiaDocker is not true or false       12:4   YAML`."""

    DEFAULT_CSS = "EditorStatus { dock: bottom; padding: 0 1; height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self._note = Note()
        self._facts: tuple[str, ...] = ()

    @property
    def note(self) -> Note:
        return self._note

    def show(self, note: Note, facts: Sequence[str]) -> None:
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
    """The answers to the questions about a file."""

    KEEP = "keep"
    OVERWRITE = "overwrite"
    TAKE = "take"
    DIFFERENCE = "difference"
    SAVE = "save"
    DISCARD = "discard"


def about_change(*, saving: bool) -> Question:
    """Return the question about an edited file that has changed on disk."""
    keep = Choice("k", "overwrite", Answer.OVERWRITE) if saving else Choice("k", "keep mine", Answer.KEEP)
    take, difference = Choice("t", "load disk version", Answer.TAKE), Choice("d", "show diff", Answer.DIFFERENCE)
    return Question("Changed on disk.", (keep, take, difference, Choice("esc", "decide later", "")))


def about_closing(*, deleted: bool) -> Question:
    """Return the question about the unsaved text of a file that is being closed."""
    text = "The file was deleted on disk; the editor has the only copy." if deleted else "Unsaved edits."
    save, discard = Choice("s", "save and close", Answer.SAVE), Choice("d", "discard edits", Answer.DISCARD)
    return Question(text, (save, discard, Choice("esc", "cancel", "")))


def note_of(file: TextFile, *, note: str, error: str, deleted: bool) -> Note:
    """Return the most important note about the file."""
    if error:
        return Note(f"✗ {error}", "error")
    if deleted:
        return Note("Deleted on disk. Save to create the file again.", "warning")
    if file.read_only:
        part = " Only the beginning is shown." if file.too_large or file.is_binary else ""
        return Note(f"Read-only: {file.read_only}.{part}")
    if not note and file.path.endswith((".dsource", ".dprep")):
        return Note(OLD_DATA_SOURCE)
    return Note(note)


def facts_of(file: TextFile, editor: TextEditor) -> list[str]:
    """Return the position of the cursor and the unusual properties of the text."""
    row, column = editor.cursor_location
    line_ends = {"\r\n": "CRLF", "\r": "CR", "": "mixed line endings"}.get(file.newline, "")
    if file.read_only:
        line_ends = ""
    encoding = {"utf-8": "BOM" if file.has_bom else "", "": "binary"}.get(file.encoding, file.encoding)
    return [editor.cursor_character, f"{row + 1}:{column + 1}", encoding, line_ends, editor.language_note]


def about_finding_here(finding: Finding, *, fix_key: str) -> Note:
    """Return a note with the problem at the cursor, its remedy and the key for its fix."""
    hint = f"{fix_key} fix" if finding.fix else ""
    return Note(f"▲ {sentence(finding.message)} {finding.remedy}", _role(finding), hint)


def about_finding_elsewhere(finding: Finding, *, others: int, in_form: bool) -> Note:
    """Return a note with the first problem and its line or field."""
    location = finding.key if in_form and finding.key else f"Line {finding.line}"
    more = f" (and {others} more)" if others else ""
    return Note(f"▲ {location}: {finding.message}{more}", _role(finding))


def _role(finding: Finding) -> str:
    return finding.severity if finding.severity in ("error", "warning") else "muted"
