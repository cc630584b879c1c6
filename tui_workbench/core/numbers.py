"""Parse numbers in text that is not trusted."""

from __future__ import annotations

LARGEST = (1 << 53) - 1
"""The largest integer that is exact as a float, which is more than any size in bytes or time in seconds."""


def seconds_number(text: str) -> float | None:
    """Return the decimal number, such as `1700000000.25`, that a text consists of, or None; see `whole_number`."""
    whole, point, fraction = text.partition(".")
    number = whole_number(whole)
    if number is None or (point and whole_number(fraction[:9]) is None):
        return None
    return float(f"{number}.{fraction[:9] or 0}")


def whole_number(text: str | bytes, largest: int = LARGEST) -> int | None:
    """Return the number that a text consists of, or None if it is not a number from 0 to `largest`.

    Only ASCII digits are accepted: `str.isdigit` is also true for texts that `int` refuses, such as "²".
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(largest)):
        return None
    number = int(text)
    return number if number <= largest else None
