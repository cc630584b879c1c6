"""`workbench-tui`: opens the screens, or runs one command, and imports only what that needs."""

from __future__ import annotations

import gc
import os
import sys

# Loading modules makes no garbage, and looking for garbage takes a third of that time. The command, and the screens
# once they stand, collect it again.
gc.disable()

# `python -m` looks for modules in the current folder first, which may be a project of somebody else.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] != _HOME:
    del sys.path[0]

from tui_workbench import cli  # noqa: E402
from tui_workbench.core.plaintext import SafeStream  # noqa: E402


def main() -> None:
    """Run the program with the arguments of this process, and end the process.

    The process ends at once: threads that still wait for a machine must not hold it up.
    """
    _settle_standard_streams()
    try:
        code = cli.run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        code = cli.report_system_error(error)
    os._exit(code)


def _settle_standard_streams() -> None:
    """Have three streams that take every character, and that hand no control sequences to a terminal."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # A file opened later would otherwise get the number of the closed stream, and with it our output.
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115 it stays open
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        stream.reconfigure(errors="backslashreplace")
        if stream.isatty():
            setattr(sys, name, SafeStream.over(stream))


if __name__ == "__main__":
    main()
