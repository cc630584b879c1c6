"""Parse numbers in text that is not trusted."""

from __future__ import annotations

LARGEST = (1 << 53) - 1
"""The largest integer that is exact as a float, which is more than any size in bytes or time in seconds."""


def whole_number(text: str | bytes, largest: int = LARGEST) -> int | None:
    """Return the number that a text consists of, or None if it is no number from 0 to `largest`.

    Only ASCII digits are accepted: `str.isdigit` is also true for texts that `int` refuses, such as "²".
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(largest)):
        return None
    number = int(text)
    return number if number <= largest else None
