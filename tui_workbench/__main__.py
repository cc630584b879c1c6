"""`workbench-tui`: open the screens or run a command."""

from __future__ import annotations

import gc
import os
import sys

# Importing creates no garbage, and garbage collection would take a third of the import time. The command, and the
# screens after the first frame, enable collection again.
gc.disable()

if sys.platform == "win32":
    sys.exit(
        "workbench-tui: Windows has no POSIX system calls, which the workbench needs. Install it in WSL 2: run "
        "`wsl --install` in a terminal of Windows, open Ubuntu, and install the workbench there with pip, uv or pipx."
    )

# `python -m` searches the current folder first, which may be an untrusted project.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != _HOME:
    del sys.path[0]

from tui_workbench import cli  # noqa: E402
from tui_workbench.core.plaintext import SafeStream  # noqa: E402


def main() -> None:
    """Run the program and exit at once: threads that still wait for a machine must not delay the exit."""
    _prepare_standard_streams()
    try:
        code = cli.run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        code = cli.report_system_error(error)
    os._exit(code)


def _prepare_standard_streams() -> None:
    """Open missing streams, accept every character, and keep control sequences from the terminal."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # Otherwise a file that is opened later would get the closed stream's descriptor and our output.
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115 (stays open)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        stream.reconfigure(errors="backslashreplace")
        if stream.isatty():
            setattr(sys, name, SafeStream.over(stream))


if __name__ == "__main__":
    main()
