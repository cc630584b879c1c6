"""The rows of a terminal as text, in a fraction of the time of a full emulation.

A program that writes only changes does not repeat text that is already visible, so waiting for a text needs rows
instead of bytes. The output of the workbench and Textual is supported: moves, erasing and text. Colors are ignored, and
every character counts as one cell.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    rb"\x1b\[([0-9;?<>=$]*)([A-Za-z~])"  # a control sequence
    rb"|\x1b[\]P_][^\x07\x1b]*(?:\x07|\x1b\\)"  # a string sequence, such as a window title
    rb"|\x1b[^\[\]P_]"  # a short escape sequence
    rb"|[\r\n]"
    rb"|[^\x1b\r\n]+"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;?<>=$]*|[\]P_][^\x07\x1b]*\x1b?)?\Z|[\xc0-\xff][\x80-\xbf]{0,2}\Z")


class Rows:
    """The text of a terminal of this size."""

    def __init__(self, columns: int, rows: int) -> None:
        self._width = columns
        self.rows = [" " * columns] * rows
        self._x = self._y = 0
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Process output and return the complete text of the changed rows."""
        data = self._rest + data
        cut = len(data)
        if (unfinished := _UNFINISHED.search(data)) and not _is_whole(unfinished[0]):
            cut = unfinished.start()
        self._rest = data[cut:]
        touched: set[int] = set()
        for token in _TOKEN.finditer(data, 0, cut):
            if token[2] is not None:
                self._control(token[1], token[2], touched)
            elif token[0] == b"\r":
                self._x = 0
            elif token[0] == b"\n":
                self._x, self._y = 0, min(self._y + 1, len(self.rows) - 1)
            elif not token[0].startswith(b"\x1b"):
                self._write(token[0].decode("utf-8", "replace"), touched)
        return "\n".join(self.rows[row] for row in sorted(touched)).encode()

    def _write(self, text: str, touched: set[int]) -> None:
        row = self.rows[self._y]
        self.rows[self._y] = (row[: self._x] + text + row[self._x + len(text) :])[: self._width]
        self._x = min(self._x + len(text), self._width)
        touched.add(self._y)

    def _control(self, parameters: bytes, final: bytes, touched: set[int]) -> None:
        if final not in b"HCXKJ" or (parameters[:1] in b"?<>=" and parameters):
            return
        numbers = [int(number or b"0") for number in parameters.split(b";")]
        if final == b"H":
            self._y = min(max(numbers[0], 1), len(self.rows)) - 1
            self._x = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self._width) - 1
        elif final == b"C":
            self._x = min(self._x + max(numbers[0], 1), self._width)
        elif final == b"J":
            self.rows = [" " * self._width] * len(self.rows)
        else:
            length = max(numbers[0], 1) if final == b"X" else self._width - self._x
            kept = self._x
            self._write(" " * length, touched)
            self._x = kept


def _is_whole(end: bytes) -> bool:
    """Return True if the data does not end within a character or an escape sequence."""
    try:
        end.decode()
    except UnicodeDecodeError:
        return False
    return not end.startswith(b"\x1b")
