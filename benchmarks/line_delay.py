"""Over a line of 200 ms: how long until a key is seen, alone and in a burst, beside how long the line alone takes.

    python -m benchmarks.line_delay

A real SSH server on this machine, reached through a relay that holds each byte back for 100 ms in each direction (the
kernels of build machines have no netem). The baseline is `cat` at the other end: its terminal echoes each key, so what
it takes is the line's own delay and nothing else.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import MILLISECONDS, check, finish, note, percentile
from benchmarks.terminal import Terminal
from tests.terminal.sshd import SlowLine, Sshd

ONE_WAY = 0.1
KEYS = 20
BURST = "abcdefghijklmnopqrstuvwxyz0123"
LIMIT, BURST_LIMIT = 1.5, 2.0
"""Times the line's own delay until a key is seen, which adds a frame and the painting, and of a burst."""

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")


def main() -> int:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        project = shutil.copytree(
            SAMPLE, os.path.join(folder, "project"), ignore=shutil.ignore_patterns(".workbench", "outputs")
        )
        home.mkdir()
        with Sshd(Path(folder)) as sshd, SlowLine(sshd.port, ONE_WAY) as line:
            with Terminal(sshd.command(["sh", "-c", "echo there; exec cat"], {}, port=line.port)) as terminal:
                terminal.until_text("there")
                alone = [typed(terminal, key, BURST[: place + 1]) for place, key in enumerate(BURST[:KEYS])]
            delay = percentile(alone, 50)
            with sshd.workbench(project, home, port=line.port) as terminal:
                terminal.until_text("ready")
                terminal.send("1/train.py\r")
                terminal.until_text("Train a small")
                terminal.settle(1.0)
                keys = [typed(terminal, key, BURST[: place + 1]) for place, key in enumerate(BURST[:KEYS])]
                terminal.send("\r")
                terminal.settle(1.0)
                burst = typed(terminal, BURST, BURST)
                terminal.settle(1.0)
                terminal.send("\x1b")
                terminal.settle(1.0)
                pane = typed(terminal, "?", "esc closes")
    note(f"the line alone: {MILLISECONDS.show(delay)} until a key is echoed")
    check("a key until it is seen, median", percentile(keys, 50), LIMIT * delay)
    check("a key until it is seen, p95", percentile(keys, 95), LIMIT * delay)
    check(f"{len(BURST)} keys at once until the last is seen", burst, BURST_LIMIT * delay)
    note(f"help, from its key: {MILLISECONDS.show(pane)}")
    return finish()


def typed(terminal: Terminal, keys: str, seen: str) -> float:
    """Seconds from typing until it is on the screen."""
    pressed = terminal.send(keys)
    return terminal.until_text(seen) - pressed


if __name__ == "__main__":
    sys.exit(main())
