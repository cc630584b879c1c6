"""`workbench-tui`: opens the screens, or runs one command, and imports only what that needs."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the program with the arguments of this process, and end the process.

    A process that only answers needs no tidying of its memory: it flushes what it said and is gone.
    """
    _settle_standard_streams()
    try:
        code = run()
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        from tui_workbench.cli import report_system_error

        code = report_system_error(error)
    os._exit(code)


def _settle_standard_streams() -> None:
    """Make sure that there are three, and that no character of ours is one too many for the user's locale."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # A file opened later would otherwise get the number of the closed stream, and with it our output.
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115 it stays open
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


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
