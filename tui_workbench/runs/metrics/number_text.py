r"""The grammar of numbers in text: lines of output and cells of tables.

A wrong value is worse than none. A number that is directly followed by text that makes it another number is not read:
`0,31` (decimal comma), `1,234.5`, `1'234`, `12.3M`, `0.5x`, `3e4f`, `1.2.3`, `12:30`, `1_000` and `2 * 10^-3`.

All expressions take linear time: no quantifier is nested in another one whose matches it can continue.
"""

from __future__ import annotations

import re

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf(?:inity)?)"

_WIDE = "\u00a0\u2007\u2009\u202f"  # spaces that separate thousands
END = (
    r"(?=$|\s|[;|)\]}(]|,(?![\d.+-])|\.(?:\s|$)|[\"'](?!\w))"  # what can follow a number
    rf"(?![{_WIDE}]\d|\s?[x×*·]\s?10(?:\^|\*))"  # but not `1 234` or `2 x 10^-3`
)
"""The end of a number. It matches no characters."""

_WRAPPER = r"(?:tensor|tf\.Tensor|(?:Device)?Array|(?:(?:np|numpy|jnp|mx)\.)?(?:array|b?float\d+|u?int\d+|float_?))"
_WRAPPED = re.compile(
    rf"(?<![\w.]){_WRAPPER}\(\s*\[?({NUMBER})\]?\s*(?:,\s*(?=[a-z_]+=)[^()]*+(?:\([^()]*+\)[^()]*+)*+)?\)"
)
"""A number as Python prints it: `tensor(0.3, device='cuda:0')`, `np.float64(0.3)`, `Array(0.3, dtype=float32)`."""

_LISTED = re.compile(rf"([:=]\s?)\[\s*({NUMBER})\s*\](?=$|[\s,;)}}\]])")
"""A list of one number, such as `episodic_return=[22.]` and `lr=[0.001]`."""

_AVERAGE = re.compile(rf"\s*\(\s*({NUMBER})\s*%?\s*\)")
"""The average after the value of a batch: `Acc@1: 100.000 ( 50.000)`."""

_COMMA_IN_CELL = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")


_GROUPED = re.compile(r" \d{3}(?:[.,]\d|(?: \d{3})+(?!\S))")


def is_grouped(text: str, number: str, offset: int) -> bool:
    """Return True if the digits after `offset` belong to the `number` before it: `1 234.5`, `1 234 567`."""
    return number.lstrip("+-").isdigit() and len(number) <= 4 and _GROUPED.match(text, offset) is not None


def unwrapped(text: str) -> str:
    """Return a line with the plain numbers in place of the representations of tensors, arrays and scalars."""
    if "(" in text:
        text = _WRAPPED.sub(r"\1", text)
    return _LISTED.sub(r"\1\2", text) if "[" in text else text


def average_after(text: str, number: str, offset: int) -> str:
    """Return the average in parentheses at `offset`, which is after the `number`; "" if there is none.

    Both have a decimal point, so that `0.31 (7)` stays 0.31.
    """
    match = _AVERAGE.match(text, offset)
    return match[1] if match and _is_decimal(match[1]) and _is_decimal(number) else ""


def _is_decimal(number: str) -> bool:
    return not number.lstrip("+-").isdigit()


def cell_number(cell: str, *, decimal_comma: bool = False) -> float | None:
    """Return the number in a cell of a table, or None. With `decimal_comma`, `0,31` is a number, too."""
    if decimal_comma and _COMMA_IN_CELL.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None
