"""Copy text to the clipboard of the user's terminal, locally, over SSH, and through tmux and GNU screen.

OSC 52 has no reply. If the terminal is known to have no clipboard, or if the text is too long, the text is saved to a
file, and a notification shows the path. Copied text can always be pasted within the app.
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

MAX_BYTES = 74_000
"""Maximum length of a text for OSC 52, in bytes. Some terminals stop reading after 100,000 characters of base64."""

PROGRAM_SECONDS = 5.0

_DESKTOPS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--input", "--clipboard")),
    ("", ("pbcopy",)),
)

_programs = threading.Lock()  # held while a program copies, so that the latest text is copied last

_WITHOUT_CLIPBOARD = re.compile(r"linux|vt\d|ansi|pcansi|cygwin|mach|hurd")


def sequences(text: str, environ: Mapping[str, str]) -> str:
    """Return escape sequences that copy the text to the clipboard of the terminal.

    They also pass through GNU screen and a remote tmux. A local tmux is called as a program instead.
    """
    bare = _bare(text)
    name = environ.get("TERM", "")
    if environ.get("STY"):
        return through_screen(bare)
    if name.startswith("tmux"):
        return bare + through_tmux(bare)
    # Over SSH, TERM=screen can mean tmux or GNU screen. Each ignores the sequence for the other.
    return bare + through_screen(bare) if name.startswith("screen") else bare


def why_not(text: str, environ: Mapping[str, str]) -> str:
    """Return the reason why the text cannot reach a clipboard, or "" if no reason is known."""
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogateescape")) > MAX_BYTES:
        return "The text is too long for a terminal clipboard"
    if _WITHOUT_CLIPBOARD.match(environ.get("TERM", "")):
        return "This terminal has no clipboard"
    if _refuses(environ) and "TMUX" not in environ:
        return "This terminal does not allow copying without wl-copy, xclip or xsel"
    return ""


def desktop_command(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that copies to the desktop's clipboard; () if none is found or the terminal can copy."""
    if not _refuses(environ):
        return ()
    for variable, command in _DESKTOPS:
        if (not variable or environ.get(variable)) and has_program(command[0], environ):
            return command
    return ()


def _refuses(environ: Mapping[str, str]) -> bool:
    """Return True for a local terminal without OSC 52. Over SSH the terminal is unknown."""
    lacks_osc52 = "VTE_VERSION" in environ or environ.get("TERM_PROGRAM") == "Apple_Terminal"
    return lacks_osc52 and "SSH_CONNECTION" not in environ


def copy(app: App[Any], text: str) -> bool:
    """Copy the text. If no clipboard can be reached, save the text to a file, notify the user, and return False."""
    app._clipboard = text
    command, reason = desktop_command(os.environ), ""
    if command:
        work = partial(_to_desktop, app, text, command)
    elif reason := why_not(text, os.environ):
        work = partial(_save_and_notify, app, text, reason)
    elif "TMUX" in os.environ:
        work = partial(_to_tmux, app, text)
    else:
        write(app, sequences(text, os.environ))
        return True
    app.run_worker(work, thread=True, group="copy")
    return not reason


def save(text: str) -> str:
    """Save the text to a private file and return its path. Blocks; raises StorageError."""
    folder = directories.user_state_directory()
    path = os.path.join(folder, "copied.txt")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot save the copied text: {error.strerror}",
            remedy="Free some space, or make the folder writable.",
            file=path,
        ) from error
    write_atomically(path, text.encode(errors="surrogateescape"), mode=0o600)
    return path


def _save_and_notify(app: App[Any], text: str, reason: str) -> None:
    try:
        path = save(text)
    except WorkbenchError as error:
        app.call_from_thread(app.notify, safe_text(str(error)), severity="error", timeout=10.0, markup=False)
        return
    message = f"{reason}; the text was saved to {safe_text(directories.abbreviate_home(path))}"
    app.call_from_thread(app.notify, message, severity="warning", timeout=10.0, markup=False)


def _to_tmux(app: App[Any], text: str) -> None:
    """Copy through the tmux command, which does not depend on the options of tmux. Blocks."""
    with _programs:
        # Skip the text if a newer text was copied meanwhile.
        is_done = text != app.clipboard or _pipe_to(("tmux", "load-buffer", "-w", "-"), text)
    if not is_done:
        # tmux before 3.2 has no `-w`, and a container cannot reach tmux.
        app.call_from_thread(write, app, _bare(text) + through_tmux(_bare(text)))


def _to_desktop(app: App[Any], text: str, command: tuple[str, ...]) -> None:
    """Copy to the clipboard of the desktop and, in tmux, also to the buffer of tmux. Blocks."""
    with _programs:
        if text != app.clipboard:
            return
        if "TMUX" in os.environ:
            _pipe_to(("tmux", "load-buffer", "-"), text)
        copied = _pipe_to(command, text)
    if not copied:
        _save_and_notify(app, text, f"{command[0]} failed")


def _pipe_to(command: Sequence[str], text: str) -> bool:
    """Send the text to a program. Return True on success."""
    data = text.encode(errors="surrogateescape")
    try:
        result = run(command, input=data, output=subprocess.DEVNULL, timeout=PROGRAM_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def _bare(text: str) -> str:
    return f"\x1b]52;c;{b64encode(text.encode(errors='surrogateescape')).decode()}\x07"
