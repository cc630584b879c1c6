"""What no terminal may be handed as it is, and how it is shown instead: the part of that which needs no library.

Both front ends stand on it: the screens through `ui.safetext`, the command line through `cli.terminal`.
"""

from __future__ import annotations

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
    import re

    return re.sub(UNSAFE, lambda match: match[0].translate(GLYPHS), text)
