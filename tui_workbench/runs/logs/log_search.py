"""Searching a log: which lines match a text or an expression, in slices, so that whoever waits can stop between two.

A line counts once, however often it matches, as in `grep -c`. Colours (SGR sequences) are looked through: what a person
sees as one word is found even when its letters are coloured one by one. Nothing is kept but one number for each slice
of the file.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator
from typing import Any

from tui_workbench.core.errors import UsageError
from tui_workbench.runs.logs.log_file import LogFile

SLICE = 1 << 16
"""Bytes looked at between two chances to stop. Above 128 KiB the C library maps memory for each, at thrice the time."""

OVERLAP = 1 << 12
"""Bytes by which the pieces overlap in which a line longer than a slice is searched: there a longer match is missed."""

WRONG = "the expression is wrong"
"""How the message begins about what is no regular expression."""

_NEWLINE = b"\n"
_SGR = re.compile(rb"\x1b\[[0-9;:]*m")
_FLAGS_AND_REST = re.compile(r"(\(\?[aiLmsux]+\))?(.*)", re.DOTALL)


class Pattern:
    """What is searched for: a text, or a regular expression in Python's syntax.

    Smart case: letters match both cases unless there is a capital among them. Raises UsageError, with the place in
    the expression, when it is none, or when it matches the empty text and so every line.
    """

    def __init__(self, text: str, *, regular_expression: bool = False) -> None:
        if not text:
            raise UsageError("there is nothing to search for", remedy="Type what to search for.")
        self.text = text
        self.regular_expression = regular_expression
        letters = re.sub(r"\\.", "", text) if regular_expression else text
        self.ignore_case = letters == letters.lower() != letters.upper()
        self._shown = _compiled(text if regular_expression else re.escape(text), self.ignore_case)
        # Bytes are lowered before a plain search: sixfold faster than an expression that ignores case.
        self._lower = self.ignore_case and not regular_expression and text.isascii()
        self._in_bytes, self._in_text = self._line_patterns()

    def _line_patterns(self) -> tuple[re.Pattern[bytes] | None, re.Pattern[str]]:
        # The rest of the line is part of the match, so that findall gives each line once. Flags come first in Python.
        whole = _FLAGS_AND_REST.sub(r"\1(?:\2).*\\n?", self._shown.pattern, count=1)
        in_text = re.compile(whole, self._shown.flags)
        if not self.regular_expression and (self._lower or not self.ignore_case):
            return re.compile(re.escape(self.text.encode("utf-8", "surrogateescape")) + b".*"), in_text
        try:
            return re.compile(whole.encode("ascii"), self._shown.flags & ~re.UNICODE), in_text
        except (UnicodeEncodeError, re.error):
            return None, in_text  # `ü`, `\N{...}` and `\u....` are for text only

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where a shown line matches: (start, end) in characters, in order, none empty."""
        return [match.span() for match in self._shown.finditer(text) if match.end() > match.start()]

    def count(self, data: bytes) -> int:
        """How many of the lines in the bytes match."""
        pattern, lines = self._prepared(data)
        return len(pattern.findall(lines))

    def first(self, data: bytes) -> int:
        """Offset of the first of the lines in the bytes that matches; -1 when none does."""
        pattern, lines = self._prepared(data)
        match = pattern.search(lines)
        return -1 if match is None else _line_start(data, lines, match.start())

    def last(self, data: bytes) -> int:
        """Offset of the last of the lines in the bytes that matches; -1 when none does."""
        pattern, lines = self._prepared(data)
        match = None
        for match in pattern.finditer(lines):  # noqa: B007
            pass
        return -1 if match is None else _line_start(data, lines, match.start())

    def _prepared(self, data: bytes) -> tuple[re.Pattern[Any], bytes | str]:
        """The same lines without colours, and the pattern to hold against them."""
        if b"\x1b" in data:
            data = _SGR.sub(b"", data)
        if self._in_bytes is None or (self.regular_expression and not data.isascii()):
            return self._in_text, data.decode("utf-8", "surrogateescape")
        return self._in_bytes, data.lower() if self._lower else data


class Search:
    """One pattern in one log: how many lines match, and where the next one is, up to where `poll` last saw the end.

    Start a new one when the log's `generation` changes.
    """

    def __init__(self, log: LogFile, pattern: Pattern) -> None:
        self.log = log
        self.pattern = pattern
        self.counted = 0
        """Bytes whose matches are counted: whole lines from the start of the file."""
        # Where each slice begins, the one under way included: always the start of a line; and matching lines before it.
        self._starts = array("Q", [0])
        self._before = array("Q", [0])
        # How far the line under way is searched when it is longer than a slice, and whether it matched so far.
        self._position = 0
        self._matched_piece = False
        # Whether the last line, without its newline, matches, and where the file ended when that was searched.
        self._tail = (-1, False)

    @property
    def matches(self) -> int:
        """Matching lines found so far."""
        return self._before[-1] + self._tail[1]

    @property
    def complete(self) -> bool:
        """True when all of the file is counted."""
        return self._tail[0] == self.log.size or self.counted == self.log.size

    def count(self) -> bool:
        """Searches one more slice. True when nothing is left to search."""
        if self.complete:
            return True
        data = self.log.read(self._position, SLICE)
        if not data:
            return True  # cut off meanwhile: the next poll says so
        end = data.rfind(_NEWLINE) + 1
        if end:
            self._count_lines(data[:end])
        elif self._position + len(data) < self.log.size:
            self._matched_piece = self._matched_piece or self.pattern.count(data) > 0
            self._position += len(data) - OVERLAP
            return False
        if self._position + len(data) - end >= self.log.size:
            rest = data[end:]
            self._tail = (self.log.size, bool(rest) and (self._matched_piece or self.pattern.count(rest) > 0))
        return self.complete

    def _count_lines(self, lines: bytes) -> None:
        found = self.pattern.count(lines)
        if self._position > self.counted:
            first = lines[: lines.find(_NEWLINE) + 1]
            found += self._matched_piece - (self._matched_piece and self.pattern.count(first) > 0)
        self._position += len(lines)
        self.counted = self._position
        self._matched_piece = False
        self._tail = (-1, False)
        self._starts.append(self.counted)
        self._before.append(self._before[-1] + found)

    def ordinal(self, start: int) -> int | None:
        """Which of the matching lines (from 1) is the one at this offset; None while they are not counted so far."""
        if start > self.counted or (start == self.counted and self._tail[0] < start):
            return None
        index = bisect_right(self._starts, start) - 1
        slice_start = self._starts[index]
        return self._before[index] + self.pattern.count(self.log.read(slice_start, start - slice_start)) + 1

    def forward(self, start: int) -> Iterator[int | None]:
        """Looks for the first matching line that starts at or behind `start`, itself the start of a line.

        Gives None after each slice without one, so that the caller can stop, and the line's offset at last; ends
        without an offset when there is none.
        """
        line = position = start
        while position < self.log.size:
            data = self.log.read(position, SLICE)
            if not data:
                return
            end = data.rfind(_NEWLINE) + 1
            last = position + len(data) >= self.log.size
            found = self.pattern.first(data if last or not end else data[:end])
            if found >= 0:
                yield position + found if found else line
                return
            if end and not last:
                line = position = self._skip_forward(position + end)
            else:
                position += len(data) if last else len(data) - OVERLAP
            yield None

    def backward(self, end: int, limit: int = 0) -> Iterator[int | None]:
        """Like `forward`, for the last matching line before `end` and not before `limit`.

        Both are the start of a line or the end of the file.
        """
        while end > limit:
            start = first = self.log.line_start(max(0, end - SLICE))
            if end - start > 2 * SLICE:
                first = min(end, self.log.line_end(start))
            start, first = max(start, limit), max(first, limit)
            found = self.pattern.last(self.log.read(first, end - first))
            if found >= 0:
                yield first + found
                return
            if first > start and (yield from self._long_line_matches(start, first)):
                yield start
                return
            end = self._skip_back(start)
            yield None

    def _long_line_matches(self, start: int, end: int) -> Generator[None, None, bool]:
        for position in range(start, end, SLICE - OVERLAP):
            if self.pattern.count(self.log.read(position, min(SLICE, end - position))):
                return True
            yield None
        return False

    def _skip_forward(self, start: int) -> int:
        """The start of the first slice at or behind `start` that may have a match, as far as slices are counted."""
        index = bisect_left(self._starts, start)
        if index >= len(self._starts) or self._starts[index] != start:
            return start
        return self._starts[bisect_right(self._before, self._before[index]) - 1]

    def _skip_back(self, end: int) -> int:
        """The end of the last slice that may have a match before `end`, as far as slices are counted."""
        index = bisect_right(self._starts, end) - 1
        return self._starts[bisect_left(self._before, self._before[index])] if self._starts[index] == end else end


def _compiled(expression: str, ignore_case: bool) -> re.Pattern[str]:
    try:
        compiled = re.compile(expression, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    except (re.error, OverflowError, RecursionError) as error:
        position = getattr(error, "pos", None)
        place = f" at character {position + 1}" if position is not None else ""
        reason = getattr(error, "msg", str(error))
        raise UsageError(f"{WRONG}: {reason}{place}", remedy="alt+r searches for it as text.") from error
    if compiled.search(""):
        raise UsageError("this expression matches every line", remedy="Say what must be there.")
    return compiled


def _line_start(data: bytes, lines: bytes | str, position: int) -> int:
    """Offset in the bytes of the line that holds the position in what was prepared from them."""
    if len(lines) == len(data):
        return data.rfind(_NEWLINE, 0, position) + 1
    number = lines.count("\n", 0, position) if isinstance(lines, str) else lines.count(b"\n", 0, position)
    offset = 0
    for _ in range(number):
        offset = data.find(_NEWLINE, offset) + 1
    return offset
