"""What a check found: where, what, why it matters, and how one key puts it right.

Invariant: a fix is data, edits of the one file that the finding is in, made through the document and so undone as one
step.
"""

from __future__ import annotations

from tui_workbench.config.paths import Path
from tui_workbench.model import Problem
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    from tui_workbench.config.document import Document

ERROR, WARNING, INFO = "error", "warning", "info"


class SetValue(NamedTuple):
    """Give `path` the value."""

    path: Path
    value: Any

    def apply_to(self, document: Document) -> None:
        """Make the edit."""
        document.set(self.path, self.value)


class Unset(NamedTuple):
    """Remove what stands at `path`."""

    path: Path

    def apply_to(self, document: Document) -> None:
        """Make the edit."""
        document.unset(self.path)


class InsertItem(NamedTuple):
    """Put `value` before item `before` of the list at `path`."""

    path: Path
    before: int
    value: Any

    def apply_to(self, document: Document) -> None:
        """Make the edit."""
        document.insert_item(self.path, self.before, self.value)


class RenameKey(NamedTuple):
    """Call the key at `path` by another name."""

    path: Path
    name: str

    def apply_to(self, document: Document) -> None:
        """Make the edit."""
        document.rename_key(self.path, self.name)


class ReplaceText(NamedTuple):
    """Replace the characters from `start` to `end`; for texts that are no YAML yet."""

    start: int
    end: int
    text: str

    def apply_to(self, document: Document) -> None:
        """Make the edit."""
        document.replace_text(document.text[: self.start] + self.text + document.text[self.end :])


class WriteAsYaml(NamedTuple):
    """Write a JSON text as YAML, with the same values; keys without a value are left out."""

    def apply_to(self, document: Document) -> None:
        """Make the edit."""
        from tui_workbench.config.lifecycle import new_text

        root = document.tree.root
        keys = dict.fromkeys(key.text for key, value in root.entries if not value.is_null) if root is not None else {}
        values = {key: document.get((key,)) for key in keys}
        document.replace_text(new_text(document.path, values), label="write as YAML")


Edit = SetValue | Unset | InsertItem | RenameKey | ReplaceText | WriteAsYaml


class Fix(NamedTuple):
    """Edits that put a finding right. `title` says what they do, as a command: "set nvidiaDocker: true"."""

    title: str
    edits: tuple[Edit, ...]
    is_choice: bool = False
    """True when the fix gives something up or decides for the user: never part of fixing everything at once."""

    def apply_to(self, document: Document) -> None:
        """Make the edits. Raises ConfigurationError when one cannot be made."""
        for edit in self.edits:
            edit.apply_to(document)


class Finding(NamedTuple):
    """Something wrong or unwise. Lines and columns count from 1; `start` and `end` are offsets into the text."""

    severity: str  # error: a run would fail; warning: unwise; info: a better form exists
    code: str
    message: str  # a clause without a full stop
    remedy: str  # a sentence
    file: str
    line: int
    column: int
    start: int
    end: int
    key: str = ""  # of the field it is about, "" for the whole file
    fix: Fix | None = None

    @property
    def problem(self) -> Problem:
        """The finding as the rest of the workbench knows problems."""
        return Problem(self.file, self.line, self.column, self.severity, self.code, self.message, self.remedy)
