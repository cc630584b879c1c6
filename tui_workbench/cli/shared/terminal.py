"""What may reach the user's terminal from the command line: text of ours, and what a script may rightly say.

A pipe or a file gets every byte as it is. A terminal gets text, colours, line ends, carriage returns and tabs; any
other control character or sequence would let a log set titles, write the clipboard or ask the terminal questions, so it
is shown as a glyph. Erasing in the line, which progress bars do, is done with spaces; the backspaces that some of them
write before a carriage return are left out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from tui_workbench.core.plaintext import GLYPHS, INVISIBLE, visible

LONGEST_SEQUENCE = 64
"""Parameter characters of a colour sequence: more than any terminal takes, and few enough to hold back."""

LONGEST_LINE = 1000
"""Columns that are erased at most: what a line asks for must not become pages of spaces."""

LONGEST_HELD = 1 << 16
"""Characters of an unfinished line that `PlainFilter` keeps."""

_PARAMETERS = f"[0-9;:]{{0,{LONGEST_SEQUENCE}}}"
_SPECIAL = (
    f"(?P<colour>\x1b\\[{_PARAMETERS}m)|\x1b\\[(?P<erase>[0-2]?)K"
    f"|(?P<back>\x08+)(?=\r)|[\\x00-\\x07\\x0b\\x0c\\x0e-\\x1a\\x1c-\\x1f{INVISIBLE}]+|\x08+|\x1b"
)
_SEQUENCE = "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[PX^_][^\x1b]*\x1b\\\\|[ -/]*[0-~])"
"""Of a terminal's sequences those that have an end: of colours, the cursor, titles, clipboards and modes."""
_UNFINISHED = f"(?:\x1b(\\[{_PARAMETERS})?|(?<!\x08)\x08+)\\Z"
_RESET = "\x1b[0m"


class PlainFilter:
    """Passes a stream of bytes in pieces of any size as lines of plain text, each when it is complete.

    No colours and no control characters; of a line that was written over, as progress bars do, what it came to.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""

    def feed(self, data: bytes) -> bytes:
        """What may be written for these bytes."""
        text = self._held + self._decoder.decode(data)
        complete, end, self._held = text.rpartition("\n")
        if len(self._held) > LONGEST_HELD:
            # What was written over will not be said, and need not be kept.
            self._held = self._held[self._held.rstrip("\r").rfind("\r") + 1 :][-LONGEST_HELD:]
        return "".join(f"{_plain(line)}\n" for line in complete.split("\n")).encode() if end else b""

    def flush(self) -> bytes:
        """What was held back, at the end of the stream."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return f"{_plain(text)}\n".encode() if text else b""


def _plain(line: str) -> str:
    line = re.sub(_SEQUENCE, "", line)
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    while "\b" in line:
        line = re.sub("[^\b]?\b", "", line, count=1)
    return visible(line.replace("\t", " "))


class TerminalFilter:
    """Passes a stream of bytes in pieces of any size.

    One terminal, one filter: it holds back an unfinished sequence, and knows how far the line has been written.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""
        self._coloured = False
        self._column = 0
        self._width = 0

    def feed(self, data: bytes) -> bytes:
        """What may be written for these bytes."""
        text = self._held + self._decoder.decode(data)
        unfinished = re.search(_UNFINISHED, text[-LONGEST_LINE:])
        self._held = unfinished[0] if unfinished else ""
        return self._shown(text[: len(text) - len(self._held)])

    def flush(self) -> bytes:
        """What was held back, at the end of the stream, and colours back to normal."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return self._shown(text) + (_RESET.encode() if self._coloured else b"")

    def _shown(self, text: str) -> bytes:
        # By far the most: lines of plain text.
        plain = text.replace("\n", "").replace("\r", "").replace("\t", "")
        if plain.isascii() and plain.isprintable():
            return self._written(text).encode()
        return "".join(self._pieces(text)).encode()

    def _pieces(self, text: str) -> Iterator[str]:
        position = 0
        for match in re.finditer(_SPECIAL, text):
            yield self._written(text[position : match.start()])
            position = match.end()
            if match["colour"]:
                self._coloured = True
                yield match[0]
            elif match["back"]:
                continue
            elif match["erase"] is not None:
                yield self._erase(match["erase"] or "0")
            else:
                yield self._written(match[0].translate(GLYPHS))
        yield self._written(text[position:])

    def _written(self, text: str) -> str:
        """The text, whose way along the line is noted."""
        start = text.rfind("\n") + 1
        if start:
            self._column = self._width = 0
        for part in re.split("([\r\t])", text[start:]):
            if part == "\r":
                self._column = 0
            else:
                self._column += 8 - self._column % 8 if part == "\t" else len(part)
                self._width = max(self._width, self._column)
        return text

    def _erase(self, what: str) -> str:
        """Spaces over a part of the line (0: behind the cursor, 1: before it, 2: all of it), and back."""
        before = min(self._column, LONGEST_LINE)
        behind = max(0, min(self._width, LONGEST_LINE) - before)
        if what == "0":
            self._width = self._column
            return " " * behind + "\b" * behind
        if what == "1":
            return "\b" * before + " " * before
        self._width = self._column
        return "\b" * before + " " * (before + behind) + "\b" * behind
