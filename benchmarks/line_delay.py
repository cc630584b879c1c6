"""Time until a key is visible over a connection with a delay of 200 ms, alone and in a burst.

    python -m benchmarks.line_delay

An SSH server on this machine is reached through a relay that delays each byte by 100 ms in each direction, because
the kernels of build machines have no netem. The baseline is `cat` on the other side, whose terminal echoes each key.
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
"""Limits of a key and of a burst, as multiples of the delay of the connection."""

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample_project")


def main() -> int:
    """Run the benchmark."""
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
    """Return the seconds from typing until the text is on the screen."""
    pressed = terminal.send(keys)
    return terminal.until_text(seen) - pressed


if __name__ == "__main__":
    sys.exit(main())
