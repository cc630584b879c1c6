"""What `doctor` finds out about the terminal: from what the environment says, and from asking the terminal itself.

The question is one that every terminal answers at once or not at all; its answer is waited for no longer than
`PATIENCE`, and read before anybody else can take it for keys.
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

from tui_workbench.cli.doctor.answer import Answer, ask, limited, ok
from tui_workbench.ui.terminal.capabilities import Terminal, UnsupportedTerminal, check_size, examine

NARROWEST, LOWEST = 80, 24
"""Columns and rows that every screen fits in."""

PATIENCE = 1.0
"""Seconds that a terminal far away has for its answer."""

_ASK_FOCUS, _ASK_WHAT = b"\x1b[?1004$p", b"\x1b[c"
_CLIPBOARD = "52"
"""Among the attributes of a terminal: that it takes text for the clipboard."""


class Said(NamedTuple):
    """What the terminal said of itself; None for what it did not answer."""

    clipboard: bool | None = None
    focus: bool | None = None


def answers() -> Iterator[Answer]:
    """Terminal, colours, characters, clipboard, focus."""
    is_there = sys.stdin.isatty() or sys.stdout.isatty()
    terminal = _controlling_terminal() if is_there else -1
    try:
        yield _size(terminal, os.environ.get("TERM", ""))
        yield characters(os.environ)
        if terminal >= 0:
            yield colours(os.environ)
            said = _asked(terminal) if _may_be_asked(os.environ) else Said()
            yield clipboard(os.environ, said)
            yield focus(os.environ, said)
    finally:
        if terminal >= 0:
            os.close(terminal)


def _controlling_terminal() -> int:
    """The terminal, also where one of stdin and stdout leads elsewhere; -1 when there is none."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return -1


def _may_be_asked(environment: Mapping[str, str]) -> bool:
    """Whether the question is sure not to be shown as text, nor its answer to be read by a pager behind us."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    is_odd = environment.get("TERM_PROGRAM") == "Apple_Terminal"
    return environment.get("TERM", "") not in ("", "dumb", "linux") and not is_odd


def _size(terminal: int, name: str) -> Answer:
    if terminal < 0:
        return limited(
            "terminal",
            "this is none",
            "The screens need one; every command works without.",
            "Over SSH, ask for one:",
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
        return limited("terminal", error.message, "Every command works without.", error.remedy)
    if 0 < size.columns < NARROWEST or 0 < size.lines < LOWEST:
        cost = f"Below {NARROWEST}x{LOWEST} parts of the screens are not to be seen."
        return limited("terminal", shown, cost, "Make the window larger, or its letters smaller.")
    inside = "tmux" if os.environ.get("TMUX") else "screen" if os.environ.get("STY") else ""
    return ok("terminal", f"{shown} in {inside}" if inside else shown)


def colours(environment: Mapping[str, str]) -> Answer:
    """How many colours the screens will use there."""
    if environment.get("NO_COLOR"):
        return ok("colours", "none, as NO_COLOR wants it")
    shown = _examined(environment).colors
    if shown == "truecolor":
        return ok("colours", "16 million")
    if shown == "256":
        return ok("colours", "256")
    cost = f"Themes are shown in {'the 16 colours of the terminal' if shown == '16' else 'black and white'}."
    if environment.get("TERM", "").startswith("xterm"):
        return limited("colours", shown, cost, "Where it has more than it says:", "export COLORTERM=truecolor")
    return limited("colours", shown, cost, "Use a terminal of a desktop, or SSH from one.")


def characters(environment: Mapping[str, str]) -> Answer:
    """Whether lines and marks can be drawn with Unicode."""
    named = next((value for key in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(key))), "")
    if _examined(environment).unicode:
        return ok("unicode", named or "no locale is set, which is taken for UTF-8")
    cost = "Lines, marks and charts are drawn with ASCII characters."
    if environment.get("TERM") == "linux":
        return limited("unicode", "the console has few characters", cost, "Use a terminal of a desktop, or SSH.")
    said = f"the locale is {named}" if named else "no locale is set"
    return limited("unicode", said, cost, "Where the terminal shows Unicode:", "export LANG=C.UTF-8")


def _examined(environment: Mapping[str, str]) -> Terminal:
    """What the screens would use there; for a terminal that cannot show them, what the plainest one could."""
    try:
        return examine(environment)
    except UnsupportedTerminal:
        return examine({**environment, "TERM": "xterm"})


def clipboard(environment: Mapping[str, str], said: Said) -> Answer:
    """Whether what is copied reaches the clipboard of the desk one sits at."""
    cost = "What is copied does not leave the workbench; it can be saved to a file."
    if environment.get("TERM") == "linux":
        return limited("clipboard", "the console has none", cost, "Use a terminal of a desktop, or SSH.")
    if environment.get("TMUX"):
        if _tmux("set-clipboard") == "off":
            return limited("clipboard", "tmux keeps it to itself", cost, "", "tmux set-option -g set-clipboard on")
        return ok("clipboard", "tmux passes it on to the terminal around it")
    if said.clipboard:
        return ok("clipboard", "the terminal takes it (OSC 52)")
    return ok("clipboard", "sent as OSC 52; the terminal does not say whether it takes that")


def focus(environment: Mapping[str, str], said: Said) -> Answer:
    """Whether the terminal tells when one looks elsewhere, and messages should come by the desktop."""
    cost = "The end of a run is told in the screens only, since nobody knows whether you look at them."
    if environment.get("TMUX"):
        if _tmux("focus-events") == "off":
            return limited("focus", "tmux does not tell of it", cost, "", "tmux set-option -g focus-events on")
        return ok("focus", "tmux tells of it when its terminal does")
    if said.focus is False:
        return limited("focus", "the terminal does not tell of it", cost, "Most other terminals do.")
    return ok("focus", "the terminal tells of it" if said.focus else "the terminal does not say whether it tells of it")


def _tmux(option: str) -> str:
    told = ask("tmux", "show-options", "-gqv", option, patience=PATIENCE)
    return told.text.strip() if told is not None else ""


def _asked(terminal: int) -> Said:
    """Ask the terminal; nothing is known of one that is not ours to ask."""
    if os.tcgetpgrp(terminal) != os.getpgrp():
        return Said()  # in the background, where changing its mode would stop us
    before = termios.tcgetattr(terminal)
    reply, deadline = b"", time.monotonic() + PATIENCE
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        os.write(terminal, _ASK_FOCUS + _ASK_WHAT)
        while not re.search(rb"\x1b\[\?[\d;]+c", reply):
            if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            reply += os.read(terminal, 1024)
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
    return understood(reply)


def understood(reply: bytes) -> Said:
    """What a terminal's answer means."""
    focus = re.search(rb"\x1b\[\?1004;(\d)\$y", reply)
    attributes = re.search(rb"\x1b\[\?([\d;]+)c", reply)
    return Said(
        clipboard=_CLIPBOARD in attributes[1].decode().split(";") if attributes else None,
        focus=focus[1] in b"123" if focus else None,
    )
