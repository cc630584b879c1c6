"""An open log: the visible part, the search, the number of lines, and the last traceback.

Only the reader's thread uses a session. Its methods are fast for logs of any size; `work` does longer tasks in
slices, the most urgent first. `state` returns everything that the screen needs, as a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.core.errors import StorageError
from tui_workbench.runs.logs.log_file import LogFile
from tui_workbench.runs.logs.log_search import Pattern, Search
from tui_workbench.runs.logs.log_traceback import HEADER, Traceback, read_syntax_error, read_traceback
from tui_workbench.ui.logs.log_viewport import Anchor, Row, Viewport

NO_LINE = -1

AT_ONCE = 1 << 20
"""Maximum number of new bytes whose lines are counted before they are shown, so that counts keep up with a fast log."""


class SearchState(NamedTuple):
    """The results of a search so far."""

    pattern: Pattern
    matches: int  # matching lines found so far
    counted: bool  # True if `matches` is final
    ordinal: int | None  # number of the marked match, from 1; None if no match is marked, or while unknown
    looking: bool  # True while the search for the next match is running
    wrapped: bool  # True if the last step continued at the other end of the log


class LogState(NamedTuple):
    """The displayed values of a log."""

    revision: int = 0  # revision of the last command that is included
    rows: tuple[Row, ...] = ()
    size: int = 0
    left_out: int = 0  # bytes at the start of a very large log that are not shown
    pinned: bool = True
    line_count: int | None = 0  # None while the lines are being counted
    top_number: int | None = 0  # number of the first row's line, from 0; None: unknown
    new_lines: int | None = 0  # lines added since the user left the end; None: unknown
    total: float = 0  # lines of the log, estimated until they are counted
    position: float = 0  # lines above the first row, estimated until they are counted
    mark: int = NO_LINE  # offset of the line marked by a search, a jump or a click
    search: SearchState | None = None
    traceback: Traceback | None = None
    problem: StorageError | None = None

    @property
    def line_in_view(self) -> int:
        """The number, from 1, of the marked line if visible, else of the first visible line; 0 while unknown."""
        number = self.top_number
        if number is None or not self.rows:
            return 0
        first = number
        for index, row in enumerate(self.rows):
            number += int(index > 0 and row.starts_line)
            if row.line.start == self.mark:
                return number + 1
        return first + 1


class _View(NamedTuple):
    """A position in the log, to return to when a search is canceled."""

    top: Anchor
    pinned: bool
    mark: int


class LogSession:
    """An open log. `poll` checks for new bytes; `work` does a slice of the remaining work."""

    def __init__(self, path: str) -> None:
        self._log = LogFile(path)
        self.viewport = Viewport(self._log)
        self.mark = NO_LINE
        self.news = False  # True if `work` has found something since the last call to `state`
        self._mark_matches = False
        self._ordinal: int | None = None
        self._generation = 0
        self._left_end_at = 0
        self._search: Search | None = None
        self._finder: Iterator[int | None] | None = None
        self._steps: list[int] = []  # steps requested while the search for a match is running
        self._wrapped = False
        self._origin: _View | None = None
        self._header = HEADER
        self._reset()

    def close(self) -> None:
        self._log.close()

    def poll(self) -> bool:
        """Check the file. Return True if there is something new to show."""
        changed = self._log.poll()
        if changed:
            if self._generation != self._log.generation:
                self._generation = self._log.generation
                self._reset()
            if self._log.size - self._log.counted <= AT_ONCE:
                self._log.index(AT_ONCE)
            self.viewport.refresh()
        return changed

    def _reset(self) -> None:
        self.mark_line(NO_LINE)
        self._left_end_at = 0
        self._origin = None
        self._finder = None
        if self._search is not None:
            self._search = Search(self._log, self._search.pattern)
        self._reset_traceback()

    def _reset_traceback(self) -> None:
        self._traceback: Traceback | None = None
        self._traceback_search = Search(self._log, self._header)
        self._traceback_finder: Iterator[int | None] | None = None
        self._traceback_until = 0  # offset up to which tracebacks were searched

    # --- Moving

    def _begin_move(self) -> None:
        """Prepare a move to another position: stop the search for a match, and note the end if it was followed."""
        self._finder = None
        self._steps = []
        if self.viewport.pinned:
            self._left_end_at = self._log.size

    def move(self, rows: int) -> None:
        """Scroll some rows down, or up if negative."""
        self._begin_move()
        self.viewport.move(rows)

    def page(self, pages: float) -> None:
        """Scroll some pages down, or up if negative. A full page keeps one line of the old page."""
        rows = max(1, int(self.viewport.height * abs(pages)) - (abs(pages) >= 1))
        self.move(rows if pages > 0 else -rows)

    def go_to_start(self) -> None:
        self._begin_move()
        self.viewport.go_to_start()

    def go_to_end(self) -> None:
        """Go to the last line and follow the log."""
        self._begin_move()
        self.viewport.go_to_end()

    def go_to_line(self, number: float) -> None:
        """Go to a line by number, from 0. The position is approximate where lines are not counted yet."""
        self._begin_move()
        total, _ = self._measure()
        offset = self._log.line_offset(round(number))
        if number >= total - self.viewport.height:
            self.viewport.go_to_end()
        elif offset is not None:
            self.viewport.go_to(offset)
        else:
            begin, size = self._log.begin, self._log.size
            self.viewport.go_to(self._log.line_start(begin + int((size - begin) * number / max(1.0, total))))

    def return_to(self, offset: int) -> None:
        """Go to the line at an offset that was saved in an earlier session."""
        self._begin_move()
        self.viewport.return_to(Anchor(self._log.line_start(min(offset, self._log.size))))

    def mark_line(self, offset: int, *, matches: bool = False) -> None:
        self.mark = offset
        self._mark_matches = matches
        self._ordinal = None

    def show_traceback(self) -> None:
        """Go to the last traceback, if any, with two lines before it."""
        if self._traceback is not None:
            self._begin_move()
            self.mark_line(self._traceback.offset)
            self.viewport.show_below(self.mark, 2)

    def set_traceback_prefix(self, prefix: str) -> None:
        """Accept only tracebacks whose first line has this prefix."""
        header = Pattern(prefix + HEADER.text)
        if header.text != self._header.text:
            self._header = header
            self._reset_traceback()

    # --- Searching

    def begin_search(self) -> None:
        """Save the position; each following `search` starts there."""
        self._origin = self._here()

    def search(self, pattern: Pattern | None) -> None:
        """Search from the saved or the current position: backwards if the end is followed, else forwards.

        None ends the search and returns to that position.
        """
        origin = self._origin or self._here()
        self._go_back(origin)
        self._wrapped = False
        self._search = None if pattern is None else Search(self._log, pattern)
        if self._search is not None:
            forward = not origin.pinned
            self._finder = self._find(self._search, origin.top.offset if forward else self._log.size, forward)

    def step(self, direction: int) -> None:
        """Go to the next match (1) or the previous match (-1), wrapping at the ends of the log."""
        if self._search is None:
            return
        self._origin = None
        if self._finder is not None:
            self._steps.append(direction)
            return
        self._wrapped = False
        rows = self.viewport.rows()
        if self.mark != NO_LINE:
            start = self._log.line_end(self.mark) if direction > 0 else self.mark
        elif rows:
            start = rows[0].line.start if direction > 0 else rows[-1].line.end
        else:
            start = 0
        self._finder = self._find(self._search, start, direction > 0)

    def end_search(self, *, keep: bool) -> None:
        """Stay at the match and keep the search for `step` if `keep`, else end the search.

        The end of a search restores the position before the search, unless `step` was called.
        """
        if not keep:
            if self._origin is not None:
                self._go_back(self._origin)
            else:
                self.mark_line(NO_LINE)
            self._search = None
            self._finder = None
            self._steps = []
            self._wrapped = False
        self._origin = None

    def _here(self) -> _View:
        return _View(self.viewport.top, self.viewport.pinned, self.mark)

    def _go_back(self, view: _View) -> None:
        self._begin_move()
        self.mark_line(view.mark)
        if view.pinned:
            self.viewport.go_to_end()
        else:
            self.viewport.return_to(view.top)

    def _find(self, search: Search, start: int, forward: bool) -> Iterator[int | None]:
        """Find the next match from `start` on, wrapping at the ends of the log."""
        yield from search.forward(start) if forward else search.backward(start)
        self._wrapped = True
        yield from search.forward(0) if forward else search.backward(self._log.size)

    # --- Work

    @property
    def is_awaited(self) -> bool:
        """True if the user waits for work: a search or the line count, but not the traceback search."""
        searching = self._finder is not None or (self._search is not None and not self._search.complete)
        return searching or self._log.counted < self._log.size

    def work(self) -> bool:
        """Do a slice of the most urgent work. Return False when all work is done."""
        if self._finder is not None:
            self._continue_search(self._finder)
        elif self._search is not None and not self._search.complete:
            self._search.count()
            self.news = True
        elif self._log.counted < self._log.size:
            self._log.index()
            self.news = True
        elif self._traceback_finder is not None or self._traceback_until < self._log.size:
            self._continue_traceback_search()
        else:
            return False
        return True

    def _continue_search(self, finder: Iterator[int | None]) -> None:
        offset = next(finder, NO_LINE)
        if offset is None:
            return
        self._finder = None
        self.news = True
        steps = self._steps
        if offset != NO_LINE:
            self._begin_move()
            self.mark_line(offset, matches=True)
            self.viewport.reveal(offset)
            if steps:
                self.step(steps[0])
        self._steps = steps[1:]

    def _continue_traceback_search(self) -> None:
        log = self._log
        if self._traceback_finder is None:
            # The last line of the previous search may have been incomplete.
            seen = log.line_start(self._traceback_until)
            self._traceback_until = log.size
            self._traceback_finder = self._traceback_search.backward(log.size, seen)
        offset = next(self._traceback_finder, NO_LINE)
        if offset is None:
            return
        self._traceback_finder = None
        before = self._traceback
        if offset != NO_LINE:
            self._traceback = read_traceback(log, offset) or self._traceback
        elif self._traceback is not None and not self._traceback.exception:
            self._traceback = read_traceback(log, self._traceback.offset)
        self._traceback = read_syntax_error(log) or self._traceback
        self.news |= self._traceback != before

    # --- State

    def _measure(self) -> tuple[float, float]:
        """Return the numbers of lines in the log and above the top row, estimated until the lines are counted."""
        count, number = self._log.line_count, self._log.line_number(self.viewport.top.offset)
        if count is not None and number is not None:
            return count, number
        rows = self.viewport.rows()
        lines = max(1, sum(row.starts_line for row in rows))
        bytes_seen = rows[-1].line.end - rows[0].line.start if rows else 0
        average = max(1.0, bytes_seen / lines)
        begin = self._log.begin
        return (self._log.size - begin) / average, (self.viewport.top.offset - begin) / average

    def state(self, revision: int) -> LogState:
        log, viewport = self._log, self.viewport
        self.news = False
        total, position = self._measure()
        count = log.line_count
        left = None if viewport.pinned else log.line_number(self._left_end_at)
        new_lines = 0 if viewport.pinned else count - left if count is not None and left is not None else None
        return LogState(
            revision=revision,
            rows=viewport.rows(),
            size=log.size,
            left_out=log.begin,
            pinned=viewport.pinned,
            line_count=count,
            top_number=log.line_number(viewport.top.offset),
            new_lines=new_lines,
            total=total,
            position=position,
            mark=self.mark,
            search=self._search_state(),
            traceback=self._traceback,
            problem=log.problem,
        )

    def _search_state(self) -> SearchState | None:
        search = self._search
        if search is None:
            return None
        if self._mark_matches and self._ordinal is None:
            self._ordinal = search.ordinal(self.mark)
        counted = self._log.size - search.counted <= AT_ONCE
        return SearchState(
            search.pattern, search.matches, counted, self._ordinal, self._finder is not None, self._wrapped
        )
