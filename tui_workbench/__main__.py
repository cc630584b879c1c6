"""`workbench-tui`: opens the screens, or runs one command, and imports only what that needs."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the program with the arguments of this process, and end the process.

    A process that only answers needs no tidying of its memory: it flushes what it said and is gone.
    """
    code = run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code)


def run() -> int:
    """Run the program with the arguments of this process. Returns its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from tui_workbench import __version__

        sys.stdout.write(f"workbench-tui {__version__}\n")
        return 0
    from tui_workbench import cli

    return cli.run(arguments)


if __name__ == "__main__":
    main()
