"""Detect the capabilities of the terminal from its environment, before anything is written to it.

The terminal is not queried, because on a slow connection its answer would arrive among the first keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple

from tui_workbench.core import system
from tui_workbench.core.errors import WorkbenchError

Colors = Literal["truecolor", "256", "16", "none"]

MIN_COLUMNS, MIN_LINES = 40, 10
"""The smallest terminal in which the screens can be used."""

REMOTE_FPS = 30
"""Frames per second over SSH, instead of Textual's 60."""

IN_BROWSER = "TEXTUAL_DRIVER"
"""The environment variable that is set when a browser shows the screens."""


class UnsupportedTerminal(WorkbenchError):
    """The error for a terminal that cannot show the screens."""

    exit_code = 2


class Terminal(NamedTuple):
    """The capabilities of a terminal. The defaults describe a modern terminal."""

    colors: Colors = "truecolor"
    unicode: bool = True


_NEVER = frozenset({"", "dumb", "unknown", "emacs", "network", "dialup"})
_FAMILY_NAMES = """
    xterm screen tmux linux rxvt konsole kitty alacritty foot wezterm ghostty iterm iterm2 st stterm putty mintty
    mlterm contour gnome vte eterm Eterm nsterm cygwin ms rio ansi pcansi fbterm jfbterm kterm mrxvt terminator
    terminology aixterm dtterm mach hurd bvterm teraterm win32con
"""
_FAMILIES = frozenset(_FAMILY_NAMES.split())
_WITH_TRUECOLOR = frozenset(["kitty", "ghostty", "wezterm", "alacritty", "foot", "contour", "rio"])
_WITHOUT_UNICODE = frozenset(["linux", "ansi", "pcansi", "cygwin", "mach", "hurd"])


def detect_terminal(*, ascii_only: bool = False) -> Terminal:
    """Detect the terminal of this process. Raises UnsupportedTerminal when it cannot show the screens."""
    if IN_BROWSER in os.environ:
        return Terminal(unicode=not ascii_only)
    terminal = examine(os.environ, ascii_only=ascii_only)
    try:
        check_size(*os.get_terminal_size(1))
    except OSError:
        pass  # the size is unknown; Textual then assumes 80 x 25
    return terminal


def prepare_for_browser() -> bool:
    """Prepare a process whose screens are shown by a browser. Return False in a terminal.

    Remove the server's variables from the environment, so that runs do not inherit them. End this process when the
    server dies.
    """
    if IN_BROWSER not in os.environ:
        return False
    for name in (IN_BROWSER, "TEXTUAL_FPS", "TEXTUAL_COLOR_SYSTEM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"):
        os.environ.pop(name, None)
    system.end_with_parent()
    return True


def examine(environ: Mapping[str, str], *, ascii_only: bool = False) -> Terminal:
    """Detect the terminal that the environment describes. Raises UnsupportedTerminal."""
    name = environ.get("TERM", "")
    _check_cursor_movement(name)
    return Terminal(_colors(environ, name), not ascii_only and _has_unicode(environ, name))


def check_size(columns: int, lines: int) -> None:
    """Raise UnsupportedTerminal when a terminal of this size is too small for the screens; 0 is an unknown size."""
    if 0 < columns < MIN_COLUMNS or 0 < lines < MIN_LINES:
        raise UnsupportedTerminal(
            f"the terminal has {columns} columns and {lines} lines; "
            f"the screens need at least {MIN_COLUMNS} and {MIN_LINES}",
            remedy="Enlarge the window or use a smaller font. The commands (`workbench-tui --help`) work at any size.",
        )


@contextmanager
def textual_environment(terminal: Terminal) -> Iterator[None]:
    """Set the variables that tell Textual how to draw, unless the user has set them.

    Textual reads them only while it is imported. They are removed afterwards, so that runs do not inherit them.
    """
    systems = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": "standard"}
    variables = {"TEXTUAL_COLOR_SYSTEM": systems[terminal.colors]}
    if is_remote(os.environ):
        variables |= {"TEXTUAL_FPS": str(REMOTE_FPS), "TEXTUAL_ANIMATIONS": "none"}
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
        import textual.constants  # noqa: F401
    finally:
        for name in added:
            del os.environ[name]


def is_remote(environ: Mapping[str, str]) -> bool:
    """Return True if the terminal is at the other end of an SSH connection."""
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


def _check_cursor_movement(name: str) -> None:
    """Raise UnsupportedTerminal unless a terminal of this name places its cursor with ANSI sequences."""
    if not name:
        raise UnsupportedTerminal("TERM is not set", remedy=_REMEDY)
    if name in _NEVER:
        raise UnsupportedTerminal(f"TERM is {name!r}, a terminal that cannot position the cursor", remedy=_REMEDY)
    if _family(name) in _FAMILIES or _is_vt(name) or "256color" in name or _is_truecolor(name):
        return
    moves = _cursor_movement(name)
    if moves is None:
        raise UnsupportedTerminal(f"unknown terminal {name!r} (TERM)", remedy=_REMEDY)
    # `$<` begins a delay, for old hardware.
    if not moves.partition(b"$<")[0].replace(b"%02", b"%").replace(b"%03", b"%") == b"\x1b[%i%p1%d;%p2%dH":
        raise UnsupportedTerminal(f"TERM is {name!r}, a terminal without ANSI escape sequences", remedy=_REMEDY)


_REMEDY = (
    "In a terminal window, try `TERM=xterm-256color workbench-tui`. Without a terminal, use the commands: "
    "`workbench-tui --help` lists them."
)


def _family(name: str) -> str:
    """Return the first part of a terminal's name: `screen` of `screen.xterm-256color`."""
    for mark in "-.+":
        name = name.partition(mark)[0]
    return name


def _is_vt(name: str) -> bool:
    """Return True for DEC terminals from the VT100 on, the first with ANSI sequences."""
    number = _family(name)[2:]
    return name.startswith("vt") and len(number) == 3 and number.isdecimal()


def _is_truecolor(name: str) -> bool:
    return name.endswith(("-direct", "-truecolor")) or _family(name.removeprefix("xterm-")) in _WITH_TRUECOLOR


def _cursor_movement(name: str) -> bytes | None:
    """Return the terminfo entry `cup`; b"" if the terminal has none, None for an unknown terminal."""
    import curses

    try:
        with open(os.devnull, "wb") as null_device:
            curses.setupterm(name, null_device.fileno())
    except curses.error:
        return None
    return curses.tigetstr("cup") or b""


def _colors(environ: Mapping[str, str], name: str) -> Colors:
    if environ.get("NO_COLOR") or _is_vt(name) or name.endswith(("-m", "-mono")):
        return "none"
    if _is_truecolor(name):
        return "truecolor"
    # GNU screen passes COLORTERM on, but misreads true colors.
    in_screen = bool(environ.get("STY")) or (name.startswith("screen") and "TMUX" not in environ)
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") and not in_screen and name != "linux":
        return "truecolor"
    return "256" if "256color" in name else "16"


def _has_unicode(environ: Mapping[str, str], name: str) -> bool:
    if _is_vt(name) or _family(name) in _WITHOUT_UNICODE:
        return False
    # Python itself sets LC_CTYPE when LANG is C.
    by_python = environ.get("LC_CTYPE") == "C.UTF-8" and not system.had_variable_at_start("LC_CTYPE")
    # The variables of the locale, in the order of precedence that POSIX defines.
    variables = ("LC_ALL", "LANG") if by_python else ("LC_ALL", "LC_CTYPE", "LANG")
    locale = next((environ[variable] for variable in variables if environ.get(variable)), "")
    if locale in ("C", "POSIX"):
        return False
    # Containers and bare logins often set no locale; their terminals understand UTF-8.
    _, dot, codeset = locale.partition(".")
    return not dot or codeset.lower().replace("-", "").startswith("utf8")
