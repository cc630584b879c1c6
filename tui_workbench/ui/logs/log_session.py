"""One log that is looked at: where, what is searched in it, and what has been found out about it so far.

A session belongs to one thread (the reader's). Its methods are quick, whatever the size of the log: what takes longer
is work, done a slice at a time by `work`, the most wanted first. `state` says everything that the screen needs, as a
value.
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
"""Bytes that are looked through before they are shown, so that counts do not lag behind a log that grows quickly."""


class SearchState(NamedTuple):
    """How a search stands."""

    pattern: Pattern
    matches: int
    """Matching lines found so far."""
    counted: bool
    """True when `matches` is all of them."""
    ordinal: int | None
    """Which of them the marked line is, from 1; None when none is marked, or not known yet."""
    looking: bool
    """True while the next one is looked for."""
    wrapped: bool
    """True when the last step went around the end of the log."""


class LogState(NamedTuple):
    """What there is to show, at one moment."""

    revision: int = 0
    """Of the last command that is in it."""
    rows: tuple[Row, ...] = ()
    size: int = 0
    pinned: bool = True
    line_count: int | None = 0
    """Lines of the log; None while they are being counted."""
    top_number: int | None = 0
    """Number of the line of the first row, from 0; None while not known."""
    new_lines: int | None = 0
    """Lines that came since the end was left; None while not known."""
    total: float = 0
    """Lines, estimated where they are not counted: the length of the scroll bar."""
    position: float = 0
    """Lines above the first row, estimated likewise."""
    mark: int = NO_LINE
    """Offset of the line that was chosen: by a search, a jump or a click."""
    search: SearchState | None = None
    traceback: Traceback | None = None
    problem: StorageError | None = None

    @property
    def line_in_view(self) -> int:
        """The number, from 1, of the chosen line if it is in view, else of the first one; 0 while it is not known."""
        number = self.top_number
        if number is None or not self.rows:
            return 0
        first = number
        for place, row in enumerate(self.rows):
            number += int(place > 0 and row.starts_line)
            if row.line.start == self.mark:
                return number + 1
        return first + 1


class _View(NamedTuple):
    """Where one was before a search began."""

    top: Anchor
    pinned: bool
    mark: int


class LogSession:
    """A log that is looked at. `poll` looks for new bytes, `work` does a slice of what is left to do."""

    def __init__(self, path: str) -> None:
        self._log = LogFile(path)
        self.viewport = Viewport(self._log)
        self.mark = NO_LINE
        self.news = False
        """True when work has found something out that no `state` has told yet."""
        self._mark_matches = False
        self._ordinal: int | None = None
        self._generation = 0
        self._left_end_at = 0
        self._search: Search | None = None
        self._finder: Iterator[int | None] | None = None
        self._steps: list[int] = []  # asked for while the match before them is still being looked for
        self._wrapped = False
        self._origin: _View | None = None
        self._header = HEADER
        self._forget()

    def close(self) -> None:
        """Gives the file back."""
        self._log.close()

    def poll(self) -> bool:
        """Looks at the file; True when there is something new to show."""
        changed = self._log.poll()
        if changed:
            if self._generation != self._log.generation:
                self._generation = self._log.generation
                self._forget()
            if self._log.size - self._log.counted <= AT_ONCE:
                self._log.index(AT_ONCE)
            self.viewport.refresh()
        return changed

    def _forget(self) -> None:
        """What was known about the file no longer holds: it starts over."""
        self.mark_line(NO_LINE)
        self._left_end_at = 0
        self._origin = None
        self._finder = None
        if self._search is not None:
            self._search = Search(self._log, self._search.pattern)
        self._forget_traceback()

    def _forget_traceback(self) -> None:
        self._traceback: Traceback | None = None
        self._traceback_search = Search(self._log, self._header)
        self._traceback_finder: Iterator[int | None] | None = None
        self._traceback_until = 0  # how much of the log was looked through for tracebacks

    # Going somewhere

    def _moves(self) -> None:
        self._finder = None
        self._steps = []
        if self.viewport.pinned:
            self._left_end_at = self._log.size

    def move(self, rows: int) -> None:
        """Rows down, or up when negative."""
        self._moves()
        self.viewport.move(rows)

    def page(self, pages: float) -> None:
        """Pages down, or up when negative; one line of a whole page stays."""
        rows = max(1, int(self.viewport.height * abs(pages)) - (abs(pages) >= 1))
        self.move(rows if pages > 0 else -rows)

    def go_to_start(self) -> None:
        """To the first line."""
        self._moves()
        self.viewport.go_to_start()

    def go_to_end(self) -> None:
        """To the last line, and on with it."""
        self._moves()
        self.viewport.go_to_end()

    def go_to_line(self, number: float) -> None:
        """To the line of this number, from 0; to about there where lines are not counted."""
        self._moves()
        total, _ = self._measure()
        offset = self._log.line_offset(round(number))
        if number >= total - self.viewport.height:
            self.viewport.go_to_end()
        elif offset is not None:
            self.viewport.go_to(offset)
        else:
            self.viewport.go_to(self._log.line_start(int(self._log.size * number / max(1.0, total))))

    def return_to(self, offset: int) -> None:
        """To the line at this offset, where somebody was before the program was started anew."""
        self._moves()
        self.viewport.return_to(Anchor(self._log.line_start(min(offset, self._log.size))))

    def mark_line(self, offset: int, *, matches: bool = False) -> None:
        """Chooses the line that starts there."""
        self.mark = offset
        self._mark_matches = matches
        self._ordinal = None

    def show_traceback(self) -> None:
        """To the last traceback, with a little of what led to it."""
        if self._traceback is not None:
            self._moves()
            self.mark_line(self._traceback.offset)
            self.viewport.show_below(self.mark, 2)

    def look_for_tracebacks(self, mark: str) -> None:
        """Only tracebacks with this before them on their first line count."""
        header = Pattern(mark + HEADER.text)
        if header.text != self._header.text:
            self._header = header
            self._forget_traceback()

    # Searching

    def begin_search(self) -> None:
        """Remembers where one is: each further `search` starts from there."""
        self._origin = self._here()

    def search(self, pattern: Pattern | None) -> None:
        """Looks for the pattern from where one is, or was when the search began: backwards from a pinned end."""
        origin = self._origin or self._here()
        self._go_back(origin)
        self._wrapped = False
        self._search = None if pattern is None else Search(self._log, pattern)
        if self._search is not None:
            forward = not origin.pinned
            self._finder = self._find(self._search, origin.top.offset if forward else self._log.size, forward)

    def step(self, direction: int) -> None:
        """To the next matching line (1) or the one before (-1), around the end of the log if need be."""
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
        """The search is over: stay where it led, or go back to where it began and forget it."""
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
        self._moves()
        self.mark_line(view.mark)
        if view.pinned:
            self.viewport.go_to_end()
        else:
            self.viewport.return_to(view.top)

    def _find(self, search: Search, start: int, forward: bool) -> Iterator[int | None]:
        """The next match from there on, and if there is none the first one from the other end."""
        yield from search.forward(start) if forward else search.backward(start)
        self._wrapped = True
        yield from search.forward(0) if forward else search.backward(self._log.size)

    # Work

    @property
    def is_awaited(self) -> bool:
        """Whether work is left that a person waits for: a search or the count of lines, not looking for tracebacks."""
        searching = self._finder is not None or (self._search is not None and not self._search.complete)
        return searching or self._log.counted < self._log.size

    def work(self) -> bool:
        """Does one slice of the most wanted work. True when there is more."""
        if self._finder is not None:
            self._look_on(self._finder)
        elif self._search is not None and not self._search.complete:
            self._search.count()
            self.news = True
        elif self._log.counted < self._log.size:
            self._log.index()
            self.news = True
        elif self._traceback_finder is not None or self._traceback_until < self._log.size:
            self._look_for_traceback()
        else:
            return False
        return True

    def _look_on(self, finder: Iterator[int | None]) -> None:
        offset = next(finder, NO_LINE)
        if offset is None:
            return
        self._finder = None
        self.news = True
        steps = self._steps
        if offset != NO_LINE:
            self._moves()
            self.mark_line(offset, matches=True)
            self.viewport.reveal(offset)
            if steps:
                self.step(steps[0])
        self._steps = steps[1:]

    def _look_for_traceback(self) -> None:
        log = self._log
        if self._traceback_finder is None:
            # The last line looked at may not have been whole.
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

    # What there is to show

    def _measure(self) -> tuple[float, float]:
        """Lines in all, and lines above the top; both estimated from what is seen where they are not counted."""
        count, number = self._log.line_count, self._log.line_number(self.viewport.top.offset)
        if count is not None and number is not None:
            return count, number
        rows = self.viewport.rows()
        lines = max(1, sum(row.starts_line for row in rows))
        bytes_seen = rows[-1].line.end - rows[0].line.start if rows else 0
        average = max(1.0, bytes_seen / lines)
        return self._log.size / average, self.viewport.top.offset / average

    def state(self, revision: int) -> LogState:
        """Everything that the screen needs, as of now."""
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
