"""Checks of the terminal, from the environment and from a query to the terminal.

Terminals answer the query immediately or never. The check waits for the answer, for at most `QUERY_SECONDS`, so that no
other program reads the answer as keys.
"""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tui_workbench.cli.doctor.answer import Answer, limited, ok, run_program
from tui_workbench.ui.terminal.capabilities import Terminal, UnsupportedTerminal, check_size, examine

NARROWEST, LOWEST = 80, 24
"""The smallest terminal, in columns and rows, that every screen fits in."""

QUERY_SECONDS = 1.0
"""Time limit for answers of the terminal and of tmux, in seconds. A connection to the terminal may be slow."""

_QUERY_FOCUS, _QUERY_ATTRIBUTES = b"\x1b[?1004$p", b"\x1b[c"
_OTHER_TERMINAL = "Use a desktop terminal, or connect over SSH from one."
_CLIPBOARD = "52"
"""The device attribute (DA1) of a terminal that lets programs write to the clipboard (OSC 52)."""


class TerminalReply(NamedTuple):
    """The reply of the terminal; None for capabilities that it does not report."""

    clipboard: bool | None = None
    focus: bool | None = None


def answers() -> Iterator[Answer]:
    is_there = sys.stdin.isatty() or sys.stdout.isatty()
    terminal = _controlling_terminal() if is_there else -1
    try:
        yield _size(terminal, os.environ.get("TERM", ""))
        yield characters(os.environ)
        if terminal >= 0:
            yield colors(os.environ)
            reply = _query(terminal) if _can_query(os.environ) else TerminalReply()
            yield clipboard(os.environ, reply)
            yield focus(os.environ, reply)
    finally:
        if terminal >= 0:
            os.close(terminal)


def _controlling_terminal() -> int:
    """Open the terminal, even if stdin or stdout is redirected. Return -1 without a terminal."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return -1


def _can_query(environment: Mapping[str, str]) -> bool:
    """Return False if the terminal might print the query, or a pager might read the answer."""
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        return False
    is_odd = environment.get("TERM_PROGRAM") == "Apple_Terminal"
    return environment.get("TERM", "") not in ("", "dumb", "linux") and not is_odd


def _size(terminal: int, name: str) -> Answer:
    if terminal < 0:
        return limited(
            "terminal",
            "not a terminal",
            "The screens need a terminal; commands do not.",
            "Over SSH, request a terminal:",
            "ssh -t HOST workbench-tui",
        )
    size = os.get_terminal_size(terminal)
    shown = name or "TERM is not set"
    if size.columns and size.lines:
        shown += f", {size.columns}x{size.lines}"
    try:
        examine(os.environ)
        check_size(size.columns, size.lines)
    except UnsupportedTerminal as error:
        return limited("terminal", error.message, "Only commands work, not the screens.", error.remedy)
    if 0 < size.columns < NARROWEST or 0 < size.lines < LOWEST:
        cost = f"Below {NARROWEST}x{LOWEST}, parts of the screens are hidden."
        return limited("terminal", shown, cost, "Enlarge the window or reduce the font size.")
    inside = "tmux" if os.environ.get("TMUX") else "screen" if os.environ.get("STY") else ""
    return ok("terminal", f"{shown} in {inside}" if inside else shown)


def colors(environment: Mapping[str, str]) -> Answer:
    if environment.get("NO_COLOR"):
        return ok("colors", "none, because NO_COLOR is set")
    shown = _examined(environment).colors
    if shown == "truecolor":
        return ok("colors", "16 million")
    if shown == "256":
        return ok("colors", "256")
    cost = f"Themes are shown in {'the 16 colors of the terminal' if shown == '16' else 'black and white'}."
    if environment.get("TERM", "").startswith("xterm"):
        return limited("colors", shown, cost, "If the terminal has more colors:", "export COLORTERM=truecolor")
    return limited("colors", shown, cost, _OTHER_TERMINAL)


def characters(environment: Mapping[str, str]) -> Answer:
    """Check that lines and marks can be drawn with Unicode."""
    named = next((value for key in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(key))), "")
    if _examined(environment).unicode:
        return ok("unicode", named or "no locale is set; UTF-8 is assumed")
    cost = "Lines, marks and charts are drawn with ASCII characters."
    if environment.get("TERM") == "linux":
        return limited("unicode", "the Linux console has few characters", cost, _OTHER_TERMINAL)
    message = f"the locale is {named}" if named else "no locale is set"
    return limited("unicode", message, cost, "If the terminal supports UTF-8:", "export LC_ALL=C.UTF-8")


def _examined(environment: Mapping[str, str]) -> Terminal:
    """Return the capabilities of the terminal; for an unsupported terminal, those of xterm."""
    try:
        return examine(environment)
    except UnsupportedTerminal:
        return examine({**environment, "TERM": "xterm"})


def clipboard(environment: Mapping[str, str], reply: TerminalReply) -> Answer:
    """Check that copied text reaches the clipboard of the user's desktop."""
    if environment.get("TERM") == "linux":
        cost = "Copied text is saved to a file, and can be pasted only in the workbench."
        return limited("clipboard", "the Linux console has no clipboard", cost, _OTHER_TERMINAL)
    if environment.get("TMUX"):
        if _tmux("set-clipboard") == "off":
            cost = "Copied text can be pasted only in the workbench and in tmux."
            return limited("clipboard", "switched off in tmux", cost, "", "tmux set-option -g set-clipboard on")
        return ok("clipboard", "tmux passes copied text to its terminal")
    if reply.clipboard:
        return ok("clipboard", "supported by the terminal (OSC 52)")
    return ok("clipboard", "sent as OSC 52; the terminal does not report whether it supports this")


def focus(environment: Mapping[str, str], reply: TerminalReply) -> Answer:
    """Check that the terminal reports focus changes. Desktop notifications are sent only while it has no focus."""
    cost = "The end of a run is shown only on the screens, without a desktop notification."
    if environment.get("TMUX"):
        if _tmux("focus-events") == "off":
            command = "tmux set-option -g focus-events on"
            return limited("focus", "tmux does not report focus changes", cost, "", command)
        return ok("focus", "tmux reports focus changes if its terminal does")
    if reply.focus is False:
        remedy = "Use another terminal: most terminals report focus changes."
        return limited("focus", "the terminal does not report focus changes", cost, remedy)
    message = "reported by the terminal" if reply.focus else "unknown whether the terminal reports focus changes"
    return ok("focus", message)


def _tmux(option: str) -> str:
    done = run_program("tmux", "show-options", "-gqv", option, timeout=QUERY_SECONDS)
    return done.text.strip() if done is not None else ""


def _query(terminal: int) -> TerminalReply:
    if os.tcgetpgrp(terminal) != os.getpgrp():
        return TerminalReply()  # changing the terminal's mode would stop a background process
    before = termios.tcgetattr(terminal)
    # `setcbreak` turns off the echo, which would print the answer.
    reply, deadline = b"", time.monotonic() + QUERY_SECONDS
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        # The attributes are queried last: most terminals report them, and their answer ends the wait.
        os.write(terminal, _QUERY_FOCUS + _QUERY_ATTRIBUTES)
        while not re.search(rb"\x1b\[\?[\d;]+c", reply):
            if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            reply += os.read(terminal, 1024)
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
    return parse_reply(reply)


def parse_reply(reply: bytes) -> TerminalReply:
    focus = re.search(rb"\x1b\[\?1004;(\d)\$y", reply)
    attributes = re.search(rb"\x1b\[\?([\d;]+)c", reply)
    return TerminalReply(
        clipboard=_CLIPBOARD in attributes[1].decode().split(";") if attributes else None,
        focus=focus[1] in b"123" if focus else None,
    )
