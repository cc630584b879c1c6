"""The content of a form, without its drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui_workbench.config.checks.findings import Finding, severity_rank
from tui_workbench.ui.form.form_rows import FormRow


class FormContent:
    """The rows of a form, their problems, and the cursor."""

    def __init__(self) -> None:
        self.rows: list[FormRow] = []
        self.findings: Mapping[str, Finding] = {}  # the worst problem of each row, by the key of the row
        self.cursor = 0

    @property
    def row(self) -> FormRow:
        """The row under the cursor. The form must have rows."""
        return self.rows[self.cursor]

    @property
    def current(self) -> FormRow | None:
        return self.row if self.rows else None

    @property
    def finding(self) -> Finding | None:
        return self.findings.get(self.row.key) if self.rows else None

    def show(self, rows: list[FormRow], findings: Sequence[Finding]) -> None:
        """Set the rows; the cursor stays on its row, or in its position if that row is no longer there."""
        key = self.row.key if self.rows else ""
        self.rows, self.findings = rows, _by_row(rows, findings)
        self.go_to(next((index for index, row in enumerate(rows) if row.key == key), self.cursor))

    def go_to(self, index: int) -> bool:
        """Move the cursor to the row with this index, or the nearest; return True if it has moved."""
        before, self.cursor = self.cursor, max(0, min(index, len(self.rows) - 1))
        return self.cursor != before

    def at_line(self, line: int) -> int | None:
        """Return the index of the last row whose value starts on or before this line of the text, or None."""
        at = [index for index, row in enumerate(self.rows) if 0 < row.line <= line]
        return max(at, key=lambda index: (self.rows[index].line, self.rows[index].depth), default=None)

    def next_finding(self) -> int | None:
        """Return the index of the next row with a problem, wrapping at the end; None if no row has a problem."""
        count = len(self.rows)
        behind = [(self.cursor + step) % count for step in range(1, count + 1)]
        return next((index for index in behind if self.rows[index].key in self.findings), None)


def _by_row(rows: Sequence[FormRow], findings: Sequence[Finding]) -> dict[str, Finding]:
    """Return the worst problem of each row.

    A problem belongs to the list entry in its line if there is one, else to the row of its field.
    """
    worst: dict[str, Finding] = {}
    for finding in sorted(findings, key=severity_rank):
        in_line = [row for row in rows if row.line == finding.line and row.line and row.kind != "add"]
        field = [row for row in rows if row.kind == "field" and row.field.key == finding.key]
        is_inside = any(row in field or (row.kind == "item" and row.field.key == finding.key) for row in in_line)
        if finding.key and field and not is_inside:
            in_line = field
        for row in (in_line or field)[-1:]:
            worst[row.key] = finding
    return worst
