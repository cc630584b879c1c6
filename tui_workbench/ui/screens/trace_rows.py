"""How calls are shown: a row each in the list, and one of them whole; and reading them, in threads.

The invariant: a look costs what has changed since the last one, however many calls there are.
"""

from __future__ import annotations

import textwrap
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.trace_reading import ENDED, FAILED, GOES_ON, LOST, TraceFile, matches, shell_line, short_line
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tui_workbench.trace_reading import TracedCall
    from tui_workbench.ui.widgets.text_view import Line

MOST_SHOWN = 5_000
"""Calls in the list; of more, the newest."""

WIDE = 110
"""Columns from which on there is room for the kind and the result in words."""

LOOKS = {ENDED: ("✓", "success"), FAILED: ("✗", "error"), GOES_ON: ("●", "running"), LOST: ("?", "warning")}
"""A glyph and a colour for each state of a call."""

SHORTEST_LINE = 20


class Found(NamedTuple):
    """What a look at the calls came to: those that match, as rows too, and how many there are in all."""

    calls: Sequence[TracedCall]
    rows: Sequence[Row]
    total: int
    failed: int


class CallReader:
    """The calls in the trace of one folder, as they are shown. Any thread may call it; its calls block."""

    def __init__(self, folder: str) -> None:
        self._file = TraceFile(folder)
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[TracedCall, str, Row]] = {}
        self._asked: tuple[str, bool] | None = None
        self._found = Found((), (), 0, 0)

    def look(self, words: str, width: int) -> Found:
        """The newest calls in which each of the words stands, for a list of this width.

        The same object as before when nothing is different.
        """
        wide = width >= WIDE
        with self._lock:
            news = self._file.read_new()
            states = {key: state for key, (_, state, _) in self._rows.items() if state == GOES_ON}
            is_quiet = not news and all(self._rows[key][0].state == state for key, state in states.items())
            if is_quiet and self._asked == (words, wide):
                return self._found
            if self._asked is None or self._asked[1] != wide:
                self._rows.clear()
            self._asked = (words, wide)
            calls = self._file.calls[-MOST_SHOWN:]
            drawn = [self._drawn(call, wide=wide) for call in calls]
            chosen = [each for each in drawn if not words.strip() or matches(each[0], words)]
            self._found = Found(
                [call for call, _, _ in chosen],
                [row for _, _, row in chosen],
                len(calls),
                sum(state in (FAILED, LOST) for _, state, _ in drawn),
            )
            return self._found

    def _drawn(self, call: TracedCall, *, wide: bool) -> tuple[TracedCall, str, Row]:
        key = key_of(call)
        known = self._rows.get(key)
        if known is None or known[0] is not call or known[1] == GOES_ON:
            known = self._rows[key] = (call, call.state, _row(call, wide=wide))
        return known


def key_of(call: TracedCall) -> str:
    """What names a call among all: the number of a process comes again, in time."""
    return f"{call.id} {call.at}"


def _row(call: TracedCall, *, wide: bool) -> Row:
    """The call as a row of a list."""
    glyph, role = LOOKS[call.state]
    moment = time.strftime("%H:%M:%S", time.localtime(call.at))
    before = [Piece(f"{moment} ", "muted"), Piece(f"{glyph} ", role)]
    if wide:
        before.append(Piece(f"{call.result:<10.10}", role if call.state != ENDED else "muted"))
    before.append(Piece(f"{taken(call):>8}  ", "muted"))
    if wide:
        before.append(Piece(f"{call.kind:<8}", "function"))
    elif call.state == FAILED and call.code:
        before.append(Piece(f"{call.result} ", role))
    return Row(key_of(call), Piece(safe_text(short_line(call))), tuple(before))


def taken(call: TracedCall) -> str:
    """How long it took, in at most eight cells; empty while it goes on."""
    if call.took is None:
        return ""
    if call.took < 1:
        return f"{call.took * 1000:.0f} ms"
    return f"{call.took:.1f} s" if call.took < 100 else f"{call.took / 60:.0f} min"


def details_of(call: TracedCall, width: int) -> list[Line]:
    """The call whole: its line for a shell, what it complained of, when and for whom."""
    glyph, role = LOOKS[call.state]
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call.at))
    took = f" after {taken(call)}" if call.took is not None else ""
    lines: list[Line] = [
        (Piece(f"{glyph} {safe_text(call.result) or 'ended'}{took}", role), Piece(f"   {at}   {call.kind}", "muted"))
    ]
    if call.run:
        lines[0] = (*lines[0], Piece(f"   for {safe_text(call.run)}", "muted"))
    for text in (call.error, call.said):
        lines += [(Piece(part, "error" if call.state == FAILED else "warning"),) for part in _wrapped(text, width)]
    lines.append(())
    lines += [(Piece(part),) for part in _wrapped(shell_line(call), width)]
    return lines


def _wrapped(text: str, width: int) -> Iterator[str]:
    for line in text.split("\n") if text else ():
        yield from textwrap.wrap(
            safe_text(line),
            max(width, SHORTEST_LINE),
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=False,
            subsequent_indent="  ",
        ) or [""]
