"""What is copied, on its way to the clipboard of the person at the keyboard, wherever this program runs.

The terminal is asked to put it there (OSC 52), through tmux and GNU screen where they stand between. Nobody answers, so
the invariant is about what is known: where a terminal cannot have a clipboard, or will not take that much, the text
goes into a file instead, and its place is said. Whatever was copied can be pasted in this program in any case.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from textual.app import App

from tui_workbench.core import directories
from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.files import write_atomically
from tui_workbench.core.processes import has_program, run
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.terminal.terminal_sequences import through_screen, through_tmux, write

MOST_BYTES = 74_000
"""What a clipboard is given at most: 100,000 characters of base64 is where the first terminals stop reading."""

GIVE_SECONDS = 5.0
"""How long a program may take that is given a text."""

_DESKTOPS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--input", "--clipboard")),
    ("", ("pbcopy",)),
)

_one_at_a_time = threading.Lock()

_WITHOUT_CLIPBOARD = re.compile(r"linux|vt\d|ansi|pcansi|cygwin|mach|hurd")


def sequences(text: str, environ: Mapping[str, str]) -> str:
    """What is written to the terminal of this environment so that its clipboard holds the text.

    In tmux that goes by tmux itself: what is written there is the form for a tmux that is further away.
    """
    bare = _bare(text)
    name = environ.get("TERM", "")
    if environ.get("STY"):
        return through_screen(bare)
    if name.startswith("tmux"):
        return bare + through_tmux(bare)
    # A far program is not told which of the two shows it under this name. tmux takes no notice of screen's form, and
    # screen none of the bare one.
    return bare + through_screen(bare) if name.startswith("screen") else bare


def why_not(text: str, environ: Mapping[str, str]) -> str:
    """Why the text cannot reach a clipboard; empty when it can, as far as is known."""
    if len(text) > MOST_BYTES or len(text.encode(errors="surrogateescape")) > MOST_BYTES:
        return "This is too long for the clipboard of a terminal"
    if _WITHOUT_CLIPBOARD.match(environ.get("TERM", "")):
        return "This terminal has no clipboard"
    if _refuses(environ) and "TMUX" not in environ:
        return "This terminal lets no program copy, and neither wl-copy, xclip nor xsel is here"
    return ""


def desktop_command(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The program that copies on this machine's desktop, where its terminal lets nobody; empty when there is none."""
    if not _refuses(environ):
        return ()
    for variable, command in _DESKTOPS:
        if (not variable or environ.get(variable)) and has_program(command[0], environ):
            return command
    return ()


def _refuses(environ: Mapping[str, str]) -> bool:
    """True in a terminal of this machine of a kind that takes nothing by OSC 52. A far one does not tell its kind."""
    is_such = "VTE_VERSION" in environ or environ.get("TERM_PROGRAM") == "Apple_Terminal"
    return is_such and "SSH_CONNECTION" not in environ


def copy(app: App[Any], text: str) -> bool:
    """Bring the text to the user's clipboard. False when it goes into a file instead, which is then said here."""
    app._clipboard = text
    command, why = desktop_command(os.environ), ""
    if command:
        work = partial(_to_desktop, app, text, command)
    elif why := why_not(text, os.environ):
        work = partial(_save_and_tell, app, text, why)
    elif "TMUX" in os.environ:
        work = partial(_to_tmux, app, text)
    else:
        write(app, sequences(text, os.environ))
        return True
    app.run_worker(work, thread=True, group="copy")
    return not why


def save(text: str) -> str:
    """Write what was copied into a file that only the user can read. Returns its path. Blocks; raises StorageError."""
    folder = directories.user_state_directory()
    path = os.path.join(folder, "copied.txt")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StorageError(f"what was copied cannot be saved: {error.strerror}", file=path) from error
    write_atomically(path, text.encode(errors="surrogateescape"), mode=0o600)
    return path


def _save_and_tell(app: App[Any], text: str, why: str) -> None:
    """Blocks; to be run in a thread."""
    try:
        path = save(text)
    except WorkbenchError as error:
        app.call_from_thread(app.notify, safe_text(str(error)), severity="error", timeout=10.0, markup=False)
        return
    said = f"{why}; saved to {safe_text(directories.abbreviate_home(path))}"
    app.call_from_thread(app.notify, said, severity="warning", timeout=10.0, markup=False)


def _to_tmux(app: App[Any], text: str) -> None:
    """Give the text to the tmux that we run in: it keeps it, and hands it on to its terminal. Blocks.

    tmux does what it is told by a command whatever its options say of what comes through a pane.
    """
    with _one_at_a_time:
        # Of two texts that are copied at once, as by a key that cuts, the later one stays.
        taken = text != app.clipboard or _give(("tmux", "load-buffer", "-w", "-"), text)
    if not taken:
        # None before 3.2 knows `-w`, and from in a container there is no way to it.
        app.call_from_thread(write, app, _bare(text) + through_tmux(_bare(text)))


def _to_desktop(app: App[Any], text: str, command: tuple[str, ...]) -> None:
    """Give the text to the desktop, and to a tmux in between for its own pasting. Blocks."""
    with _one_at_a_time:
        if text != app.clipboard:
            return
        if "TMUX" in os.environ:
            _give(("tmux", "load-buffer", "-"), text)
        given = _give(command, text)
    if not given:
        _save_and_tell(app, text, f"{command[0]} failed")


def _give(command: Sequence[str], text: str) -> bool:
    """Start a program that takes the text; True when it says that it has."""
    data = text.encode(errors="surrogateescape")
    try:
        done = run(command, input=data, output=subprocess.DEVNULL, timeout=GIVE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _bare(text: str) -> str:
    return f"\x1b]52;c;{b64encode(text.encode(errors='surrogateescape')).decode()}\x07"
