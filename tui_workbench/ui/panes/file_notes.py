"""What is said and asked about an open file: the note of its status line, the facts beside it, the questions.

The invariant: it only puts the state of a view into words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.ui.widgets.editor_status import Note
from tui_workbench.ui.widgets.question_row import Choice, Question

if TYPE_CHECKING:
    from tui_workbench.config.findings import Finding
    from tui_workbench.ui.panes.file_view import FileView


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
    return Question("The file changed on disk.", (keep, take, difference))


def about_closing(*, deleted: bool) -> Question:
    """What to do with text that was not saved when its file is closed."""
    text = "The file is gone from the disk, only this text is left." if deleted else "This is not saved."
    save, discard = Choice("s", "save and close", Answer.SAVE), Choice("d", "discard it", Answer.DISCARD)
    return Question(text, (save, discard, Choice("esc", "go on editing", "")))


def note_of(view: FileView) -> Note:
    """The one thing to know about the file now, most pressing first."""
    file = view.file
    if view.trouble:
        return Note(f"✗ {view.trouble}", "error")
    if view.deleted:
        return Note("Deleted on disk. Its text is kept here; saving writes it again.", "warning")
    if file.read_only:
        part = " The beginning is shown." if file.too_large or file.is_binary else ""
        return Note(f"Read-only: {file.read_only}.{part}")
    return Note(view.note)


def facts_of(view: FileView) -> list[str]:
    """Where the cursor is, and what is particular about the text."""
    row, column = view.editor.cursor_location
    file = view.file
    line_ends = {"\r\n": "CRLF", "\r": "CR", "": "mixed line ends"}.get(file.newline, "")
    if file.read_only:
        line_ends = ""
    encoding = {"utf-8": "BOM" if file.has_bom else "", "": "binary"}.get(file.encoding, file.encoding)
    return [view.editor.cursor_character, f"{row + 1}:{column + 1}", encoding, line_ends, view.editor.language_note]


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


def _role(finding: Finding) -> str:
    return finding.severity if finding.severity in ("error", "warning") else "muted"
