"""What may reach the user's terminal from the command line: text of ours, and what a script may rightly say.

A pipe or a file gets every byte as it is. A terminal gets text, colours, line ends, carriage returns and tabs, and
sequences that erase in the line, which progress bars write. Any other control character or sequence would let a log set
titles, write the clipboard or ask the terminal questions, so it is shown as a glyph. The backspaces that some progress
bars write before a carriage return are left out.
"""

from __future__ import annotations

import codecs
import re

from tui_workbench.core.plaintext import GLYPHS, INVISIBLE, visible

LONGEST_SEQUENCE = 64
"""Parameter characters of a colour sequence: more than any terminal takes, and few enough to hold back."""

LONGEST_BACK = 1000
"""Backspaces that are held back until it is known whether a carriage return follows."""

LONGEST_HELD = 1 << 16
"""Characters of an unfinished line that `PlainFilter` keeps."""

_PARAMETERS = f"[0-9;:]{{0,{LONGEST_SEQUENCE}}}"
_SPECIAL = (
    f"(?P<colour>\x1b\\[{_PARAMETERS}m)|(?P<erase>\x1b\\[[0-2]?K)"
    f"|(?P<back>\x08+)(?=\r)|[\\x00-\\x07\\x0b\\x0c\\x0e-\\x1a\\x1c-\\x1f{INVISIBLE}]+|\x08+|\x1b"
)
_SEQUENCE = "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[PX^_][^\x1b]*\x1b\\\\|[ -/]*[0-~])"
"""Of a terminal's sequences those that have an end: of colours, the cursor, titles, clipboards and modes."""
_UNFINISHED = f"(?:\x1b(\\[{_PARAMETERS})?|(?<!\x08)\x08+)\\Z"
_RESET = "\x1b[0m"


class _Filter:
    """Passes a stream of bytes in pieces of any size, and holds back what is not complete."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""

    def feed(self, data: bytes) -> bytes:
        """What may be written for these bytes."""
        text = self._held + self._decoder.decode(data)
        end = self._end_of_complete(text)
        self._held = text[end:]
        return self._shown(text[:end]).encode()

    def flush(self) -> bytes:
        """What was held back, at the end of the stream."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return self._shown(text).encode()

    def _end_of_complete(self, text: str) -> int:
        raise NotImplementedError

    def _shown(self, text: str) -> str:
        raise NotImplementedError


class PlainFilter(_Filter):
    """Passes lines of plain text, each when it is complete.

    No colours and no control characters; of a line that was written over, as progress bars do, what it came to.
    """

    def feed(self, data: bytes) -> bytes:
        shown = super().feed(data)
        if len(self._held) > LONGEST_HELD:
            # What was written over will not be said, and need not be kept.
            self._held = self._held[self._held.rstrip("\r").rfind("\r") + 1 :][-LONGEST_HELD:]
        return shown

    def _end_of_complete(self, text: str) -> int:
        return text.rfind("\n") + 1

    def _shown(self, text: str) -> str:
        return "".join(f"{_plain(line)}\n" for line in text.removesuffix("\n").split("\n")) if text else ""


def _plain(line: str) -> str:
    line = re.sub(_SEQUENCE, "", line)
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    while "\b" in line:
        line = re.sub("[^\b]?\b", "", line, count=1)
    return visible(line.replace("\t", " "))


class TerminalFilter(_Filter):
    """Passes what a terminal may see, and puts colours back to normal at the end of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self._is_coloured = False

    def flush(self) -> bytes:
        return super().flush() + (_RESET.encode() if self._is_coloured else b"")

    def _end_of_complete(self, text: str) -> int:
        unfinished = re.search(_UNFINISHED, text[-LONGEST_BACK:])
        return len(text) - len(unfinished[0]) if unfinished else len(text)

    def _shown(self, text: str) -> str:
        # By far the most: lines of plain text.
        plain = text.replace("\n", "").replace("\r", "").replace("\t", "")
        return text if plain.isascii() and plain.isprintable() else re.sub(_SPECIAL, self._safe, text)

    def _safe(self, match: re.Match[str]) -> str:
        if match["colour"]:
            self._is_coloured = True
        if match["colour"] or match["erase"]:
            return match[0]
        return "" if match["back"] else match[0].translate(GLYPHS)
