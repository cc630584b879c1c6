"""Search a log for a text or a regular expression, in slices, so that the caller can stop after each slice.

A line counts once, as in `grep -c`. Colors (SGR sequences) are ignored, so that a word with several colors is found.
Only two numbers are stored for each slice of the file.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator

from tui_workbench.core.errors import UsageError
from tui_workbench.core.patterns import compile_search
from tui_workbench.runs.logs.log_file import LogFile

SLICE = 1 << 16  # bytes of a slice; above 128 KiB, malloc uses mmap, which takes three times as long
OVERLAP = 1 << 12  # overlap of the parts of a line that is longer than a slice; longer matches may be missed
WRONG = "invalid regular expression"  # start of the error message for an invalid pattern

_NEWLINE = b"\n"
_SGR = re.compile(rb"\x1b\[[0-9;:]*m")


class Pattern:
    """A text, or a regular expression in the syntax of RE2, which matches any expression in linear time.

    A pattern without uppercase letters ignores case. Raises UsageError if the text is empty, or if the expression is
    invalid or matches an empty string.
    """

    def __init__(self, text: str, *, regular_expression: bool = False) -> None:
        if not text:
            raise UsageError("the search text is empty", remedy="Type a text to search for.")
        self.text = text
        self.regular_expression = regular_expression
        letters = re.sub(r"\\.", "", text) if regular_expression else text
        self.ignore_case = letters == letters.lower() != letters.upper()
        self._expression = _compiled(text, self.ignore_case) if regular_expression else None
        # A search in lowercase bytes is six times as fast as an expression that ignores case.
        self._lower = self.ignore_case and text.isascii()
        self._in_text = re.compile(re.escape(text), re.IGNORECASE if self.ignore_case else 0)
        # A match includes the rest of its line, so that each line is found once.
        self._line_in_text = re.compile(self._in_text.pattern + ".*", self._in_text.flags)
        self._line_in_bytes = re.compile(re.escape(text.encode("utf-8", "surrogateescape")) + b".*")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the nonempty matches in a shown line as (start, end) in characters."""
        if self._expression is None:
            return [match.span() for match in self._in_text.finditer(text)]
        spans, data, at, characters = [], text.encode("utf-8", "replace"), 0, 0
        for match in self._expression.finditer(data):
            start = characters + len(data[at : match.start()].decode())
            at, characters = match.end(), start + len(match[0].decode())
            if characters > start:
                spans.append((start, characters))
        return spans

    def count(self, data: bytes) -> int:
        """Return the number of matching lines in the bytes."""
        lines = self._prepared(data)
        if self._expression is not None:
            return sum(1 for _ in self._match_starts(lines))
        # `findall` takes half as long as an iteration.
        return len(self._line_in_text.findall(lines) if isinstance(lines, str) else self._line_in_bytes.findall(lines))

    def first(self, data: bytes) -> int:
        """Return the offset of the first matching line in the bytes, or -1."""
        lines = self._prepared(data)
        position = next(self._match_starts(lines), None)
        return -1 if position is None else _line_start(data, lines, position)

    def last(self, data: bytes) -> int:
        """Return the offset of the last matching line in the bytes, or -1."""
        lines = self._prepared(data)
        position = None
        for position in self._match_starts(lines):  # noqa: B007
            pass
        return -1 if position is None else _line_start(data, lines, position)

    def _prepared(self, data: bytes) -> bytes | str:
        """Return the lines to search, without colors."""
        if b"\x1b" in data:
            data = _SGR.sub(b"", data)
        if self._expression is not None:
            return data if data.isascii() else data.decode("utf-8", "replace").encode()
        if self.ignore_case and not self._lower:
            return data.decode("utf-8", "surrogateescape")
        return data.lower() if self._lower else data

    def _match_starts(self, lines: bytes | str) -> Iterator[int]:
        """Yield the start of the first match in each matching line."""
        if isinstance(lines, str):
            yield from (match.start() for match in self._line_in_text.finditer(lines))
        elif self._expression is None:
            yield from (match.start() for match in self._line_in_bytes.finditer(lines))
        else:
            position = 0
            while match := self._expression.search(lines, position):
                yield match.start()
                position = lines.find(_NEWLINE, max(match.start(), match.end() - 1)) + 1
                if not position:
                    return


class Search:
    """A search for matching lines in a log, up to its end at the last `poll`.

    It can count these lines, and find the next or previous of them. Create a new object when the `generation` of the
    log changes.
    """

    def __init__(self, log: LogFile, pattern: Pattern) -> None:
        self.log = log
        self.pattern = pattern
        self._begin()

    def _begin(self) -> None:
        self.counted = self.log.begin  # offset up to which matches are counted; it is the start of a line
        # The start of each slice, which is the start of a line, and the number of matches before the slice.
        self._starts = array("Q", [self.counted])
        self._before = array("Q", [0])
        # In a line that is longer than a slice: the position, and whether the line has a match before it.
        self._position = self.counted
        self._matched_piece = False
        # The size of the file when its incomplete last line was searched, and whether that line matches.
        self._tail = (-1, False)

    @property
    def matches(self) -> int:
        return self._before[-1] + self._tail[1]

    @property
    def complete(self) -> bool:
        return self._tail[0] == self.log.size or self.counted == self.log.size

    def count(self) -> bool:
        """Search another slice. Return True at the end of the file."""
        if self.counted < self.log.begin:
            self._begin()  # the log was empty when this object was created
        if self.complete:
            return True
        data = self.log.read(self._position, SLICE)
        if not data:
            return True  # truncated: the next poll reports it
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
        matches = self.pattern.count(lines)
        if self._position > self.counted:
            first = lines[: lines.find(_NEWLINE) + 1]
            matches += self._matched_piece - (self._matched_piece and self.pattern.count(first) > 0)
        self._position += len(lines)
        self.counted = self._position
        self._matched_piece = False
        self._tail = (-1, False)
        self._starts.append(self.counted)
        self._before.append(self._before[-1] + matches)

    def ordinal(self, start: int) -> int | None:
        """Return the number (from 1) of the matching line at the offset, or None if it is not counted yet."""
        if start > self.counted or (start == self.counted and self._tail[0] < start):
            return None
        index = bisect_right(self._starts, start) - 1
        slice_start = self._starts[index]
        return self._before[index] + self.pattern.count(self.log.read(slice_start, start - slice_start)) + 1

    def forward(self, start: int) -> Iterator[int | None]:
        """Find the first matching line at or after `start`, which must be the start of a line or before the first line.

        Yields None after each slice without a match, so that the caller can stop. Then yields the offset of the line,
        if there is a match.
        """
        line = position = max(start, self.log.begin)
        while position < self.log.size:
            data = self.log.read(position, SLICE)
            if not data:
                return
            end = data.rfind(_NEWLINE) + 1
            last = position + len(data) >= self.log.size
            offset = self.pattern.first(data if last or not end else data[:end])
            if offset >= 0:
                yield position + offset if offset else line
                return
            if end and not last:
                line = position = self._skip_forward(position + end)
            else:
                position += len(data) if last else len(data) - OVERLAP
            yield None

    def backward(self, end: int, limit: int = 0) -> Iterator[int | None]:
        """Find the last matching line before `end` and not before `limit`, and yield the same values as `forward`.

        `end` and `limit` must be starts of lines or the end of the file.
        """
        limit = max(limit, self.log.begin)
        while end > limit:
            start = first = self.log.line_start(max(0, end - SLICE))
            if end - start > 2 * SLICE:
                first = min(end, self.log.line_end(start))
            start, first = max(start, limit), max(first, limit)
            offset = self.pattern.last(self.log.read(first, end - first))
            if offset >= 0:
                yield first + offset
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
        """Skip counted slices without matches, and return the start of the next slice to search."""
        index = bisect_left(self._starts, start)
        if index >= len(self._starts) or self._starts[index] != start:
            return start
        return self._starts[bisect_right(self._before, self._before[index]) - 1]

    def _skip_back(self, end: int) -> int:
        """Skip counted slices without matches backwards, and return the end of the next slice to search."""
        index = bisect_right(self._starts, end) - 1
        return self._starts[bisect_left(self._before, self._before[index])] if self._starts[index] == end else end


def _compiled(expression: str, ignore_case: bool) -> re.Pattern[bytes]:
    try:
        compiled = compile_search(expression, ignore_case=ignore_case)
    except ValueError as error:
        raise UsageError(
            f"{WRONG}: {error}", remedy="Correct the expression, or search for it as plain text."
        ) from error
    if compiled.search(b""):
        raise UsageError(
            "the expression matches an empty string", remedy="Use an expression that matches at least one character."
        )
    return compiled


def _line_start(data: bytes, lines: bytes | str, position: int) -> int:
    """Convert a position in prepared lines to the offset of its line in the original bytes."""
    if len(lines) == len(data):
        return data.rfind(_NEWLINE, 0, position) + 1
    number = lines.count("\n", 0, position) if isinstance(lines, str) else lines.count(b"\n", 0, position)
    offset = 0
    for _ in range(number):
        offset = data.find(_NEWLINE, offset) + 1
    return offset
