"""Characters that no terminal may get as they are, and what is shown instead: the part that needs no library.

The screens use it through `ui.terminal.safetext`, the command line through `cli.shared.terminal`. As the last resort,
standard streams that are terminals are `SafeStream`s: whatever is printed, tracebacks included, passes their filter.
"""

from __future__ import annotations

import io
import os
import re
from typing import TextIO

# Besides the control characters: soft hyphen, fillers, zero-width, bidi controls, separators, variation selectors,
# surrogates, non-characters, tags. That is Unicode's Default_Ignorable_Code_Point, the categories Cc, Cs, Zl and Zp,
# and the invisible rest of Cf.
INVISIBLE = (
    "\\x7f-\\x9f\\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""All of these but the controls below the space, as they stand between the brackets of a regular expression."""

UNSAFE = f"[\\x00-\\x1f{INVISIBLE}]+"
"""A regular expression for a run of them, controls included."""

_UNSAFE = re.compile(UNSAFE)


def glyph(character: str) -> str:
    """What is shown in place of one unsafe character: `␛`, `<9B>` for an undecodable byte, `<U+202E>` for the others.

    Variation selectors give an empty string: they only choose between two looks of the character before, whose width
    then no two terminals agree on.
    """
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xFE00 <= code <= 0xFE0F:
        return ""
    if 0xDC80 <= code <= 0xDCFF:  # what the surrogateescape error handler makes of a byte that is no UTF-8
        return f"<{code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"


class _Glyphs(dict[int, str]):
    """`glyph` as a table for `str.translate`."""

    def __missing__(self, code: int) -> str:
        shown = self[code] = glyph(chr(code))
        return shown


GLYPHS = _Glyphs()
"""For `str.translate` of a text in which every character is unsafe."""


def visible(text: str) -> str:
    """The text with every unsafe character as a glyph, line ends and tabs too: one line, whatever it holds."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda match: match[0].translate(GLYPHS), text)


_NOT_FOR_TERMINALS = re.compile(f"\x1b\\[[0-9;:]{{0,64}}m|\r\n|[\\x00-\\x08\\x0b-\\x1f{INVISIBLE}]")


def for_terminal(text: str) -> str:
    """The text for a terminal: line ends, tabs and colours stay, other control characters become glyphs."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return _NOT_FOR_TERMINALS.sub(lambda found: found[0] if len(found[0]) > 1 else glyph(found[0]), text)


class SafeStream(io.TextIOWrapper):
    """A standard stream that is a terminal, and gets nothing but text, line ends, tabs and colours."""

    @classmethod
    def over(cls, stream: TextIO) -> SafeStream:
        """The same stream with the filter; `stream` stays usable."""
        return cls(stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)

    def write(self, text: str) -> int:
        """Write the text without control sequences."""
        super().write(for_terminal(text))
        return len(text)


def write_controls(stream: TextIO, text: str) -> None:
    """Write text with control sequences of our own to a terminal."""
    if isinstance(stream, io.TextIOWrapper):
        io.TextIOWrapper.write(stream, text)
    else:
        stream.write(text)


def columns_of(stream: TextIO, default: int) -> int:
    """The width of the terminal that a stream leads to; `default` where there is none, or it does not tell."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or default
    except OSError:
        return default
