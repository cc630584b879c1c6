"""What is said to the terminal itself and not drawn: its notifications and its title, through tmux where that is there.

The invariants: no text can end a sequence or begin another one; where something else than a terminal shows the screens,
and where a terminal is known not to understand, nothing is written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tui_workbench.ui.passthrough import through_screen, through_tmux
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.terminal import IN_BROWSER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App

LONGEST = 200
"""Characters of a title or a message: more no terminal shows."""

OSC9, OSC777 = "osc9", "osc777"

SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""xterm's stack of titles, which tmux has too. Who knows none keeps the last title."""

_SILENT = ("linux", "vt", "ansi", "dumb", "cygwin")
"""Names of terminals without either begin so; the consoles among them print what they do not understand."""


def understands(environ: Mapping[str, str]) -> bool:
    """Whether the terminal of this environment may be told anything at all."""
    return IN_BROWSER not in environ and bool(name := environ.get("TERM", "")) and not name.startswith(_SILENT)


def notification(title: str, text: str, environ: Mapping[str, str], chosen: str = "auto") -> str:
    """What asks the terminal to notify its person; empty where it would not understand. Texts are of any origin.

    Some understand one form and some the other, and those that know both would notify twice.
    """
    if not understands(environ):
        return ""
    form = chosen
    if form not in (OSC9, OSC777):
        knows_only_777 = "VTE_VERSION" in environ or environ.get("TERM", "").startswith("rxvt")
        form = OSC777 if knows_only_777 else OSC9
    title, text = _plain(title), _plain(text)
    if form == OSC777:
        bare = f"\x1b]777;notify;{title.replace(';', ',')};{text.replace(';', ',')}\x1b\\"
    else:
        # `4;` at the beginning would be a progress bar.
        bare = f"\x1b]9;{title}: {text}\x1b\\"
    return _outwards(bare, environ)


def title(text: str, environ: Mapping[str, str]) -> str:
    """What gives the window, or tmux's pane, this title."""
    return f"\x1b]2;{_plain(text)}\x1b\\" if understands(environ) else ""


def write(app: App[Any], sequence: str) -> None:
    """Say it to the terminal of the app, if it has one."""
    if sequence and app._driver is not None and not app.is_headless:
        app._driver.write(sequence)


def environment() -> Mapping[str, str]:
    """That of this process, in which its terminal is described."""
    return os.environ


def _plain(text: str) -> str:
    return safe_text(text)[:LONGEST]


def _outwards(sequence: str, environ: Mapping[str, str]) -> str:
    """The sequence as it gets through what stands between us and the terminal."""
    if "TMUX" in environ or environ.get("TERM", "").startswith("tmux"):
        return through_tmux(sequence)
    return through_screen(sequence) if environ.get("STY") else sequence
