"""The text of a log that a person selected, read from the file: selections outlive what is in view.

In a selection of a log a line is named by its byte offset in place of a row number: that is in order, and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.runs.logfile import LogFile
from tui_workbench.ui.safetext import safe_line

if TYPE_CHECKING:
    from textual.selection import Selection

MOST_LINES = 20_000
"""Lines that one copy takes; no clipboard is made for more, and reading them takes some 20 ms."""

_PAGE = 1_000


def selected_text(path: str, selection: Selection) -> str:
    """The lines of the selection as they are shown, the first `MOST_LINES` of them."""
    lines: list[str] = []
    with LogFile(path) as log:
        start = selection.start.y if selection.start is not None else 0
        end = selection.end.y if selection.end is not None else log.size
        while start <= end and len(lines) < MOST_LINES:
            page = log.lines_from(start, _PAGE)
            if not page:
                break
            for line in page:
                span = selection.get_span(line.start)
                if span is None:
                    break
                plain = safe_line(line.data).plain
                lines.append(plain[span[0] : None if span[1] < 0 else span[1]])
            start = page[-1].end
    return "\n".join(lines[:MOST_LINES])
