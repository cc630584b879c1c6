"""One open configuration file: checked as one types, its findings marked, and fixed by one key.

The invariant: a fix is made to the text that the finding was found in; when the text has changed since, it is checked
again first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui_workbench.errors import ConfigurationError
from tui_workbench.ui.commands import Command, bindings
from tui_workbench.ui.panes.file_notes import about_finding
from tui_workbench.ui.panes.file_view import FileView
from tui_workbench.ui.widgets.text_editor import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.config.findings import Finding
    from tui_workbench.files import TextFile
    from tui_workbench.ui.panes.checker import Checker
    from tui_workbench.ui.widgets.editor_status import Note

FIX_KEY = "f9"

CONFIGURATION = (
    Command("config.problem", "f8", "next_problem", "Problem", "Goes to the next problem of this file.", priority=True),
    Command(
        "config.fix", FIX_KEY, "fix", "Fix", "Puts right what is wrong in this line, as one undo step.", priority=True
    ),
)

_SEVERITIES = ("info", "warning", "error")
"""From the mildest to the worst."""


class ConfigView(FileView):
    """A `.compute`, `.runconfig` or dependency file."""

    BINDINGS = bindings(CONFIGURATION)

    def __init__(self, file: TextFile, checker: Checker) -> None:
        super().__init__(file)
        self.findings: Sequence[Finding] = ()
        self._checker = checker
        self._checked_text = ""
        self._unchecked = self._checking = False

    def on_mount(self) -> None:
        """Look for problems."""
        self.check()

    def on_show(self) -> None:
        """Look again: other files of the project may have changed meanwhile."""
        self.check()

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
            self.show_findings(findings, text)
        self._checking = False
        self.refresh_bindings()

    def show_findings(self, findings: Sequence[Finding], text: str) -> None:
        """Mark what was found in `text`."""
        self.findings, self._checked_text = findings, text
        worst_last = sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity))
        self.editor.mark_problems([_mark(finding, text) for finding in worst_last if finding.line])
        self._draw_status()

    def on_text_area_changed(self) -> None:
        """Check after every edit."""
        self.check()

    def status_note(self) -> Note:
        """What is wrong in the line of the cursor; else what any file says; else what is wrong elsewhere."""
        note = super().status_note()
        if note.role == "error" or not self.findings:
            return note
        if here := self._finding_here():
            return about_finding(here, here=True, others=0, fix_key=FIX_KEY)
        if note.text:
            return note
        return about_finding(self.findings[0], here=False, others=len(self.findings) - 1, fix_key=FIX_KEY)

    def _finding_here(self) -> Finding | None:
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
            if self.file.read_only:
                return "The file is read-only."
            return "" if finding and finding.fix else "There is nothing to fix in this line."
        return super().why_not(action)

    def action_next_problem(self) -> None:
        """Go to the next problem behind the cursor, around the end."""
        row = self.editor.cursor_location[0] + 1
        behind = [finding for finding in self.findings if finding.line > row]
        for finding in (behind or self.findings)[:1]:
            self.editor.go_to(finding.line, finding.column)

    def action_fix(self) -> None:
        """Fix the finding in the line of the cursor."""
        self.run_worker(self._fix())

    async def _fix(self) -> None:
        await self.settle()
        text = self.editor.source
        if text != self._checked_text:
            self.show_findings(await asyncio.to_thread(self._checker.check, self.file, text), text)
        finding = self._finding_here()
        if finding is None or finding.fix is None or text != self.editor.source:
            return
        document = self._checker.document(self.file, text)
        try:
            document.apply(finding.fix)
        except ConfigurationError as error:
            self.tell(f"{error.message}. {error.remedy}")
        else:
            self.editor.replace_source(document.text)


def _mark(finding: Finding, text: str) -> Mark:
    end_of_line = text.find("\n", finding.start)
    end = min(finding.end, len(text) if end_of_line < 0 else end_of_line)
    return Mark(finding.line, finding.column, max(end - finding.start, 0), finding.severity)
