"""What is said to the terminal itself and not drawn: its notifications and its title, through tmux where that is there.

The invariants: no text can end a sequence or begin another one; where something else than a terminal shows the screens,
and where a terminal is known not to understand, nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import App

from tui_workbench.core.model import RunState
from tui_workbench.ui.formatting import RUN_STATES
from tui_workbench.ui.terminal.capabilities import IN_BROWSER
from tui_workbench.ui.terminal.safetext import safe_text

LONGEST = 200
"""Characters of a title or a message: more no terminal shows."""

SCREEN_CHUNK = 240
"""Bytes of one piece through GNU screen, which cuts its strings at 256."""

OSC9, OSC777 = "osc9", "osc777"

SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""xterm's stack of titles, which tmux has too. Who knows none keeps the last title."""

_SILENT = ("linux", "vt", "ansi", "dumb", "cygwin")
"""Names of terminals without either begin so; the consoles among them print what they do not understand."""

_COUNTED = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED, RunState.UNKNOWN)


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


def through_tmux(sequence: str) -> str:
    """The sequence as tmux hands it on, where its `allow-passthrough` is on."""
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def through_screen(sequence: str) -> str:
    """The sequence as GNU screen hands it on, in pieces.

    Its strings end with the first string terminator; one at the end becomes a BEL, which means the same.
    """
    data = sequence.removesuffix("\x1b\\")
    data = sequence if data == sequence else data + "\x07"
    pieces, piece = [], b""
    for character in data:
        encoded = character.encode(errors="surrogateescape")
        if len(piece) + len(encoded) > SCREEN_CHUNK:
            pieces.append(piece)
            piece = b""
        piece += encoded
    return "".join(f"\x1bP{each.decode(errors='surrogateescape')}\x1b\\" for each in [*pieces, piece])


def _outwards(sequence: str, environ: Mapping[str, str]) -> str:
    """The sequence as it gets through what stands between us and the terminal."""
    if "TMUX" in environ or environ.get("TERM", "").startswith("tmux"):
        return through_tmux(sequence)
    return through_screen(sequence) if environ.get("STY") else sequence


def window_title(project: str, active: Sequence[str], ended: str = "") -> str:
    """`● 1 running · project`; what has `ended` meanwhile comes first. `active` are the states of active runs."""
    counted = [
        f"{RUN_STATES[state].glyph} {active.count(state)} {RUN_STATES[state].word}"
        for state in _COUNTED
        if state in active
    ]
    return " · ".join([*([ended] if ended else []), *counted, project])


class WindowTitle:
    """Keeps the title of the window, and so the name of tmux's pane, while the screens are shown.

    Whoever gets the terminal from us, for a while or for good, finds the title that was there before.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._text = ""
        self._is_shown = False

    def begin(self) -> None:
        """Remember the title that is there. To be called once, on the app's own thread."""
        main = self._app.screen_stack[0]  # what opens over it may not be there yet, and goes away again
        self._app.app_suspend_signal.subscribe(main, self.end)
        self._app.app_resume_signal.subscribe(main, self._take)
        self._take()

    def show(self, text: str) -> None:
        """Have this title, of any origin."""
        if text != self._text:
            self._text = text
            if self._is_shown:
                self._write()

    def _take(self, _app: object = None) -> None:
        if not self._is_shown and understands(environment()):
            self._is_shown = True
            write(self._app, SAVE_TITLE)
            if self._text:
                self._write()

    def end(self, _app: object = None) -> None:
        """Have the title again that was there."""
        if self._is_shown:
            self._is_shown = False
            write(self._app, RESTORE_TITLE)

    def _write(self) -> None:
        write(self._app, title(self._text, environment()))
