"""What may reach the user's terminal from the command line: text of ours, and what a script may rightly say.

A pipe or a file gets every byte as it is. A terminal gets colours, carriage returns, tabs and backspaces; any other
control byte would let a log set titles, write the clipboard or ask the terminal questions, so it is shown as a glyph.
"""

from __future__ import annotations

import re

_UNSAFE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"

# Colours (SGR), and erasing to the end of the line, which every progress bar does; then whatever else begins with ESC
# or is a control byte, in UTF-8 for C1 (0xC2 0x80 to 0xC2 0x9F).
_SEQUENCE = rb"(\x1b\[[0-9;:]{0,64}m|\x1b\[[0-2]?K)|([\x00-\x07\x0b\x0c\x0e-\x1f\x7f])|\xc2([\x80-\x9f])"
_UNFINISHED = rb"\x1b(\[[0-9;:]{0,64})?\Z|\xc2\Z"


def visible(text: str) -> str:
    """One line of text with every control and direction-changing character shown as a glyph."""
    return text if text.isascii() and text.isprintable() else re.sub(_UNSAFE, _glyph, text)


class TerminalFilter:
    """Passes a stream of bytes in pieces of any size.

    One terminal, one filter: it holds back an unfinished sequence.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What may be written for these bytes."""
        data = self._held + data
        unfinished = re.search(_UNFINISHED, data)
        self._held = unfinished.group() if unfinished else b""
        return re.sub(_SEQUENCE, _shown, data[: len(data) - len(self._held)])

    def flush(self) -> bytes:
        """What was held back, at the end of the stream, and colours back to normal."""
        rest, self._held = self._held, b""
        return re.sub(_SEQUENCE, _shown, rest) + b"\x1b[0m"


def _glyph(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def _shown(match: re.Match[bytes]) -> bytes:
    if match.group(1) is not None:
        return match.group(1)
    if match.group(2) is not None:
        code = match.group(2)[0]
        return ("\u2421" if code == 0x7F else chr(0x2400 + code)).encode()
    return f"<U+{match.group(3)[0]:04X}>".encode()
