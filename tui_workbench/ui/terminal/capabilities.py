"""What the terminal can show, found out from its environment before the first byte goes there.

The invariant: a terminal gets only what it was found to understand, and one that cannot show the screens at all gets a
sentence that says what is wrong and what to do. Nothing here asks the terminal itself: an answer would take as long as
the line to it, and would come among the first keys.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple

from tui_workbench.core.errors import WorkbenchError

Colors = Literal["truecolor", "256", "16", "none"]

LEAST_COLUMNS, LEAST_LINES = 40, 10
"""The smallest terminal in which the screens can be used."""


FAR_FRAMES = 30
"""Frames a second over SSH, where each is sent, in place of Textual's 60."""

IN_BROWSER = "TEXTUAL_DRIVER"
"""The variable that is set where something else than a terminal shows the screens."""


_PR_SET_PDEATHSIG = 1


class UnfitTerminal(WorkbenchError):
    """The terminal cannot show the screens."""

    exit_code = 2


class Terminal(NamedTuple):
    """What a terminal can show. The default is one that can do all that we use."""

    colors: Colors = "truecolor"
    unicode: bool = True


_NEVER = frozenset({"", "dumb", "unknown", "emacs", "network", "dialup"})
_KNOWN = """
    xterm screen tmux linux rxvt konsole kitty alacritty foot wezterm ghostty iterm iterm2 st stterm putty mintty
    mlterm contour gnome vte eterm Eterm nsterm cygwin ms rio ansi pcansi fbterm jfbterm kterm mrxvt terminator
    terminology aixterm dtterm mach hurd bvterm teraterm win32con
"""
_FAMILIES = frozenset(_KNOWN.split())
_WITH_TRUECOLOR = frozenset(["kitty", "ghostty", "wezterm", "alacritty", "foot", "contour", "rio"])
_WITHOUT_UNICODE = frozenset(["linux", "ansi", "pcansi", "cygwin", "mach", "hurd"])


def terminal_here(*, ascii_only: bool = False) -> Terminal:
    """What the terminal of this process can show. Raises UnfitTerminal when it cannot show the screens."""
    if IN_BROWSER in os.environ:
        return Terminal(unicode=not ascii_only)
    terminal = examine(os.environ, ascii_only=ascii_only)
    try:
        must_have_room(*os.get_terminal_size(1))
    except OSError:
        pass  # it does not tell; Textual then takes it for one of the usual size
    return terminal


def settle_in_browser() -> bool:
    """Do what a workbench in a browser must before its runs start; False when it is in a terminal.

    Runs do not inherit what the server has put into the environment for us; and when the server has gone, however that
    went, so does this process.
    """
    if IN_BROWSER not in os.environ:
        return False
    for name in (IN_BROWSER, "TEXTUAL_FPS", "TEXTUAL_COLOR_SYSTEM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"):
        os.environ.pop(name, None)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    return True


def examine(environ: Mapping[str, str], *, ascii_only: bool = False) -> Terminal:
    """What the terminal of this environment can show. Raises UnfitTerminal when it cannot show the screens.

    `ascii_only` keeps to ASCII whatever the terminal is.
    """
    name = environ.get("TERM", "")
    _must_move_the_cursor(name)
    return Terminal(_colors(environ, name), not ascii_only and _has_unicode(environ, name))


def must_have_room(columns: int, lines: int) -> None:
    """Raise UnfitTerminal when a terminal of this size is too small for the screens; 0 means that nobody knows."""
    if 0 < columns < LEAST_COLUMNS or 0 < lines < LEAST_LINES:
        raise UnfitTerminal(
            f"this terminal has {columns} columns and {lines} lines, "
            f"and the screens need {LEAST_COLUMNS} and {LEAST_LINES}",
            remedy="Make the window larger or its letters smaller; the commands (`workbench-tui --help`) fit anywhere.",
        )


@contextmanager
def told_to_textual(terminal: Terminal) -> Iterator[None]:
    """While this lasts, Textual can be imported and will draw as suits the terminal; what the user has set counts.

    Textual asks the environment once, while it is imported. Runs must not inherit what we say there, so it is taken
    back.
    """
    systems = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": "standard"}
    wanted = {"TEXTUAL_COLOR_SYSTEM": systems[terminal.colors]}
    if is_far(os.environ):
        wanted |= {"TEXTUAL_FPS": str(FAR_FRAMES), "TEXTUAL_ANIMATIONS": "none"}
    said = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(said)
    try:
        yield
        import textual.constants  # noqa: F401
    finally:
        for name in said:
            del os.environ[name]


def is_far(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is at the other end of an SSH connection."""
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


def _must_move_the_cursor(name: str) -> None:
    """Raise UnfitTerminal unless a terminal of this name can put its cursor anywhere, by the sequences that we use."""
    if name in _NEVER:
        what = "TERM is not set" if not name else f"TERM is {name!r}, a terminal that cannot place its cursor"
        raise UnfitTerminal(f"{what}, and the screens need one that can", remedy=_REMEDY)
    if _family(name) in _FAMILIES or _is_vt(name) or "256color" in name or _is_truecolor(name):
        return
    moves = _cursor_movement(name)
    if moves is None:
        raise UnfitTerminal(f"nothing is known of a terminal named {name!r} (TERM)", remedy=_REMEDY)
    # What may follow is how long a terminal of its time needed for it.
    if not moves.partition(b"$<")[0].replace(b"%02", b"%").replace(b"%03", b"%") == b"\x1b[%i%p1%d;%p2%dH":
        raise UnfitTerminal(f"TERM is {name!r}, a terminal that does not understand ANSI's sequences", remedy=_REMEDY)


_REMEDY = (
    "If your terminal is a usual one, try TERM=xterm-256color workbench-tui; without one, see `workbench-tui --help`."
)


def _family(name: str) -> str:
    """`screen` of `screen.xterm-256color`."""
    for mark in "-.+":
        name = name.partition(mark)[0]
    return name


def _is_vt(name: str) -> bool:
    """True for DEC's terminals from the first that understands ANSI's sequences."""
    number = _family(name)[2:]
    return name.startswith("vt") and len(number) == 3 and number.isdecimal()


def _is_truecolor(name: str) -> bool:
    return name.endswith(("-direct", "-truecolor")) or _family(name.removeprefix("xterm-")) in _WITH_TRUECOLOR


def _cursor_movement(name: str) -> bytes | None:
    """How the terminal's description has the cursor placed, b"" for not at all; None when there is no description."""
    import curses

    try:
        with open(os.devnull, "wb") as nothing:
            curses.setupterm(name, nothing.fileno())
    except curses.error:
        return None
    return curses.tigetstr("cup") or b""


def _colors(environ: Mapping[str, str], name: str) -> Colors:
    if environ.get("NO_COLOR") or _is_vt(name) or name.endswith(("-m", "-mono")):
        return "none"
    if _is_truecolor(name):
        return "truecolor"
    # GNU screen passes on what it was started with, and takes true colours for something else.
    in_screen = bool(environ.get("STY")) or (name.startswith("screen") and "TMUX" not in environ)
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") and not in_screen and name != "linux":
        return "truecolor"
    return "256" if "256color" in name else "16"


def _has_unicode(environ: Mapping[str, str], name: str) -> bool:
    if _is_vt(name) or _family(name) in _WITHOUT_UNICODE:
        return False
    locale = _locale(environ)
    if locale in ("C", "POSIX"):
        return False
    # No word about it is what containers and bare logins have, and the terminals before them speak UTF-8.
    _, dot, codeset = locale.partition(".")
    return not dot or codeset.lower().replace("-", "").startswith("utf8")


def _locale(environ: Mapping[str, str]) -> str:
    """What the user says the language is, in the order of POSIX."""
    # Python sets LC_CTYPE by itself where LANG says C.
    by_python = environ.get("LC_CTYPE") == "C.UTF-8" and not _said_at_start("LC_CTYPE")
    names = ("LC_ALL", "LANG") if by_python else ("LC_ALL", "LC_CTYPE", "LANG")
    return next((environ[name] for name in names if environ.get(name)), "")


def _said_at_start(variable: str) -> bool:
    """True when the variable was in the environment with which this process began, or nobody can know."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return f"\0{variable}=".encode() in b"\0" + file.read()
    except OSError:
        return True
