"""Format text for people: plurals, and the replacement of characters that are unsafe for terminals.

The screens replace characters with `ui.terminal.safetext`, and the command line with `cli.shared.terminal`. In
addition, `SafeStream` filters all output of standard streams to terminals, including tracebacks.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from typing import TextIO

# Source: Unicode's Default_Ignorable_Code_Point, and the categories Cc, Cf, Cs, Zl and Zp. They include control
# characters, the soft hyphen, fillers, zero-width characters, bidi controls, variation selectors, surrogates,
# non-characters and tags.
INVISIBLE = (
    "\\x7f-\\x9f\\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""All invisible characters except U+0000 to U+001F, as a character class of a regular expression without brackets."""

UNSAFE = f"[\\x00-\\x1f{INVISIBLE}]+"
"""A regular expression for unsafe characters. It is not compiled on import, because few commands need it."""


def glyph(character: str) -> str:
    """Return the replacement for an unsafe character: `␛`, `<9B>` for an undecodable byte, or `<U+202E>`.

    Variation selectors are removed: terminals disagree on the width of the character before them.
    """
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xFE00 <= code <= 0xFE0F:
        return ""
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, from the surrogateescape error handler
        return f"<{code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"


class _Glyphs(dict[int, str]):
    """A table for `str.translate` that calls `glyph` for each new character."""

    def __missing__(self, code: int) -> str:
        shown = self[code] = glyph(chr(code))
        return shown


GLYPHS = _Glyphs()
"""A table for `str.translate`. It replaces every character, so translate only unsafe characters."""


def visible(text: str) -> str:
    """Return the text with all unsafe characters replaced, including line endings and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(UNSAFE, lambda match: match[0].translate(GLYPHS), text)


def short_name(text: str, longest: int) -> str:
    """Return an untrusted name as one line of at most `longest` characters, without unsafe characters."""
    return " ".join(re.sub(UNSAFE, " ", text[: 4 * longest]).split())[:longest].rstrip()


_NOT_FOR_TERMINALS = f"\x1b\\[[0-9;:]{{0,64}}m|\r\n|[\\x00-\\x08\\x0b-\\x1f{INVISIBLE}]"


def for_terminal(text: str) -> str:
    """Return the text with all unsafe characters replaced, except line endings, tabs and color sequences."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return re.sub(_NOT_FOR_TERMINALS, lambda match: match[0] if len(match[0]) > 1 else glyph(match[0]), text)


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: `1 file`, `2 files`, `3 processes`."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def number_ranges(numbers: Iterable[int]) -> str:
    """Format numbers in ascending order as ranges: `1-3, 5`."""
    ranges: list[list[int]] = []  # the first and the last number, or a single number
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)


class SafeStream(io.TextIOWrapper):
    """A standard stream that passes only text, line endings, tabs and colors to the terminal."""

    @classmethod
    def over(cls, stream: TextIO) -> SafeStream:
        """Return a filter for `stream`. The stream itself stays usable."""
        return cls(stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)

    def write(self, text: str) -> int:
        super().write(for_terminal(text))
        return len(text)


def write_controls(stream: TextIO, text: str) -> None:
    """Write text with control sequences, even to a `SafeStream`."""
    if isinstance(stream, io.TextIOWrapper):
        io.TextIOWrapper.write(stream, text)
    else:
        stream.write(text)


def columns_of(stream: TextIO, default: int) -> int:
    """Return the width of the terminal of a stream, or `default` if the stream has no terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or default
    except OSError:
        return default
