"""Escape sequences for notifications and the window title, also through tmux and GNU screen.

No text can end a sequence or begin another sequence. Nothing is written in a browser, nor to a terminal that is known
not to understand the sequences.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import App

from tui_workbench.core.model import STATE_GLYPHS, RunState
from tui_workbench.ui.terminal.capabilities import IN_BROWSER
from tui_workbench.ui.terminal.safetext import safe_text

MAX_LENGTH = 200  # maximum length of a title or message, in characters

SCREEN_CHUNK = 240
"""Maximum size of a piece for GNU screen, in bytes. Screen cuts strings at 256 bytes."""

OSC9, OSC777 = "osc9", "osc777"

SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""Sequences for the stack of titles of xterm and tmux. Other terminals keep the last title."""

_SILENT = ("linux", "vt", "ansi", "dumb", "cygwin")
"""Prefixes of TERM for terminals without notifications and titles; consoles would print the sequences."""

_COUNTED = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED, RunState.UNKNOWN)


def understands(environ: Mapping[str, str]) -> bool:
    """Return True if notifications and titles may be sent to the terminal of this environment."""
    return IN_BROWSER not in environ and bool(name := environ.get("TERM", "")) and not name.startswith(_SILENT)


def notification(title: str, text: str, environ: Mapping[str, str], chosen: str = "auto") -> str:
    """Return the sequence for a notification, or "" if the terminal shows none. Texts may be untrusted.

    Only one form is sent, because terminals that know both would notify twice.
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
        # The title comes first, because a text that begins with `4;` would set a progress bar.
        bare = f"\x1b]9;{title}: {text}\x1b\\"
    if "TMUX" in environ or environ.get("TERM", "").startswith("tmux"):
        return through_tmux(bare)
    return through_screen(bare) if environ.get("STY") else bare


def title_sequence(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that sets the title of the window or of the tmux pane; "" if the terminal has no title."""
    return f"\x1b]2;{_plain(text)}\x1b\\" if understands(environ) else ""


def write(app: App[Any], sequence: str) -> None:
    """Write a sequence to the terminal of the app, if the app has a terminal."""
    if sequence and app._driver is not None and not app.is_headless:
        app._driver.write(sequence)


def _plain(text: str) -> str:
    return safe_text(text)[:MAX_LENGTH]


def through_tmux(sequence: str) -> str:
    """Wrap a sequence for tmux with `allow-passthrough`."""
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def through_screen(sequence: str) -> str:
    """Wrap a sequence for GNU screen, in pieces.

    Screen ends a string at the first string terminator. The sequence therefore ends with the equivalent BEL.
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
    pieces.append(piece)
    return "".join(f"\x1bP{piece.decode(errors='surrogateescape')}\x1b\\" for piece in pieces)


def window_title(project: str, active: Sequence[str], ended: str = "") -> str:
    """Return the title: `● 1 running · project`. `active` are the states of the active runs; `ended` comes first."""
    counted = [f"{STATE_GLYPHS[state]} {active.count(state)} {state}" for state in _COUNTED if state in active]
    return " · ".join([*([ended] if ended else []), *counted, project])


class WindowTitle:
    """The title of the window or tmux pane while the screens are shown."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._text = ""
        self._is_shown = False

    def begin(self) -> None:
        """Save the current title. Call this once, in the app's thread."""
        main = self._app.screen_stack[0]  # the main screen, because other screens are opened and closed
        self._app.app_suspend_signal.subscribe(main, self._restore)
        self._app.app_resume_signal.subscribe(main, self._take)
        self._take()

    def show(self, text: str) -> None:
        """Set the title. `text` may be untrusted."""
        if text != self._text:
            self._text = text
            if self._is_shown:
                self._write()

    def _take(self, _app: object = None) -> None:
        if not self._is_shown and understands(os.environ):
            self._is_shown = True
            write(self._app, SAVE_TITLE)
            if self._text:
                self._write()

    def end(self) -> None:
        """Restore the saved title. Call this before the main screen is removed, in the app's thread."""
        main = self._app.screen_stack[0]
        for signal in (self._app.app_suspend_signal, self._app.app_resume_signal):
            signal.unsubscribe(main)  # else the app would keep the screen
        self._restore()

    def _restore(self, _app: object = None) -> None:
        if self._is_shown:
            self._is_shown = False
            write(self._app, RESTORE_TITLE)

    def _write(self) -> None:
        write(self._app, title_sequence(self._text, os.environ))
