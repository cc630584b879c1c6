"""`workbench-tui`: opens the screens, or runs one command, and imports only what that needs."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the program with the arguments of this process. Returns its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from tui_workbench import __version__

        sys.stdout.write(f"workbench-tui {__version__}\n")
        return 0
    from tui_workbench.cli import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
