"""Filter the output of scripts for the terminal.

Pipes and files get every byte. A terminal gets text, colors, line endings, carriage returns, tabs, and sequences that
erase a line, which progress bars use. Other control characters are shown as glyphs, because they would let a log set
titles, write to the clipboard or query the terminal. Backspaces before a carriage return, which some progress bars
write, are removed. The rest of a line of megabytes is left out.
"""

from __future__ import annotations

import codecs
import json
import re

from tui_workbench.core.plaintext import GLYPHS, INVISIBLE, visible

LONGEST_SEQUENCE = 64
"""Maximum number of parameter characters of a color sequence, more than any terminal accepts."""

LONGEST_BACK = 1000
"""Maximum number of backspaces that are held back until it is known whether a carriage return follows."""

LONGEST_LINE = 4 << 20
"""Maximum number of characters of a line that a terminal gets."""

LONGEST_HELD = 1 << 16
"""Maximum number of characters of an unfinished line that `PlainFilter` keeps."""

_PARAMETERS = f"[0-9;:]{{0,{LONGEST_SEQUENCE}}}"
_SPECIAL = (
    f"(?P<color>\x1b\\[{_PARAMETERS}m)|(?P<erase>\x1b\\[[0-2]?K)"
    f"|(?P<back>\x08+)(?=\r)|[\\x00-\\x07\\x0b\\x0c\\x0e-\\x1a\\x1c-\\x1f{INVISIBLE}]+|\x08+|\x1b"
)
_SEQUENCE = "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[PX^_][^\x1b]*\x1b\\\\|[ -/]*[0-~])"
"""Complete terminal sequences: colors, cursor, titles, clipboard and modes."""
_UNFINISHED = f"(?:\x1b(\\[{_PARAMETERS})?|(?<!\x08)\x08+)\\Z"
_RESET = "\x1b[0m"
_LEFT_OUT = " … the rest of the line is left out"


class _Filter:
    """A filter of a stream of bytes in chunks of any size. It holds back incomplete sequences."""

    def __init__(self) -> None:
        # Bytes that are not UTF-8 become surrogates, which are shown as glyphs such as `<9B>`.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""

    def feed(self, data: bytes) -> bytes:
        """Return the filtered text of a chunk."""
        text = self._held + self._decoder.decode(data)
        end = self._end_of_complete(text)
        self._held = text[end:]
        return self._shown(text[:end]).encode()

    def flush(self) -> bytes:
        """Return the text that is held back at the end of the stream."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return self._shown(text).encode()

    def _end_of_complete(self, text: str) -> int:
        raise NotImplementedError

    def _shown(self, text: str) -> str:
        raise NotImplementedError


class PlainFilter(_Filter):
    """A filter that passes complete lines of plain text, without colors and control characters.

    If a line is overwritten, as by progress bars, only its last version is passed.
    """

    def feed(self, data: bytes) -> bytes:
        shown = super().feed(data)
        if len(self._held) > LONGEST_HELD:
            # Overwritten text is dropped.
            self._held = self._held[self._held.rstrip("\r").rfind("\r") + 1 :][-LONGEST_HELD:]
        return shown

    def _end_of_complete(self, text: str) -> int:
        return text.rfind("\n") + 1

    def _shown(self, text: str) -> str:
        return "".join(f"{_plain(line)}\n" for line in text.removesuffix("\n").split("\n")) if text else ""


class JsonFilter(PlainFilter):
    """A filter that writes each complete line of plain text as a JSON object, such as `{"line": "epoch 1"}`."""

    def _shown(self, text: str) -> str:
        shown = super()._shown(text)
        return "".join(json.dumps({"line": line}, ensure_ascii=False) + "\n" for line in shown.split("\n")[:-1])


def _plain(line: str) -> str:
    line = re.sub(_SEQUENCE, "", line)
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    while "\b" in line:
        line = re.sub("[^\b]?\b", "", line, count=1)
    return visible(line.replace("\t", " "))


class TerminalFilter(_Filter):
    """A filter that passes harmless text and sequences, and resets the colors at the end of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self._is_colored = False
        self._room = LONGEST_LINE  # number of characters that fit into the current line; -1 if it was cut

    def flush(self) -> bytes:
        return super().flush() + (_RESET.encode() if self._is_colored else b"")

    def _end_of_complete(self, text: str) -> int:
        unfinished = re.search(_UNFINISHED, text[-LONGEST_BACK:])
        return len(text) - len(unfinished[0]) if unfinished else len(text)

    def _shown(self, text: str) -> str:
        return self._safe_text(self._cut(text))

    def _cut(self, text: str) -> str:
        """Leave out the ends of overlong lines."""
        # The room of the unfinished last line counts for the next chunk. Most chunks have no overlong line.
        last = max(text.rfind("\n"), text.rfind("\r"))
        if len(text) <= self._room:
            self._room = (self._room if last < 0 else LONGEST_LINE) - (len(text) - last - 1)
            return text
        parts: list[str] = []
        for line in re.split("(?<=[\n\r])", text):
            end = line[-1:] if line.endswith(("\n", "\r")) else ""
            content = line.removesuffix(end)
            if len(content) > self._room >= 0:
                content, self._room = content[: self._room] + _LEFT_OUT, -1
            elif self._room >= 0:
                self._room -= len(content)
            else:
                content = ""
            parts += (content, end)
            self._room = LONGEST_LINE if end else self._room
        return "".join(parts)

    def _safe_text(self, text: str) -> str:
        # Most output is plain text, which takes this fast path.
        plain = text.replace("\n", "").replace("\r", "").replace("\t", "")
        return text if plain.isascii() and plain.isprintable() else re.sub(_SPECIAL, self._safe, text)

    def _safe(self, match: re.Match[str]) -> str:
        if match["color"]:
            self._is_colored = True
        if match["color"] or match["erase"]:
            return match[0]
        return "" if match["back"] else match[0].translate(GLYPHS)
