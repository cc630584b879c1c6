"""The progress bar on stderr: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time

import pytest

from benchmarks.terminal import Terminal
from tui_workbench.cli.shared.progress_bar import LINE_SECONDS, ProgressBar, drawn
from tui_workbench.core.progress import BYTES, Progress

SCRIPT = """\
import sys, termios
quiet = termios.tcgetattr(0)
quiet[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, quiet)
print("ready", flush=True)
from tui_workbench.cli.shared import progress_bar
from tui_workbench.core.progress import Progress
progress_bar.DRAWING_SECONDS = 0.0
bar = progress_bar.ProgressBar()
for word in sys.stdin:
    if word.startswith("line"):
        bar.line("a line \\x1b[2Jof the build")
    elif word.startswith("end"):
        bar.show(None)
    else:
        bar.show(Progress("sending", float(word), 100.0, "files", 0.0, 10.0, 5.0))
"""


def lines(terminal: Terminal) -> list[str]:
    return [line.rstrip() for line in terminal.text().split("\n") if line.strip()]


def test_bar_stays_below_other_output() -> None:
    with Terminal([sys.executable, "-c", SCRIPT], columns=100, rows=10) as terminal:
        terminal.until_text("ready")
        for done in (10, 63):
            terminal.send(f"{done}\n")
            terminal.until_text(f"{done} %")
        terminal.send("line\n")
        terminal.until_text("of the build")
        assert "63 %" not in terminal.text()
        assert "a line ␛[2Jof the build" in terminal.text()
        terminal.send("64\n")
        terminal.until_text("64 %")
        assert lines(terminal)[-1].startswith("sending")
        terminal.send("end\n")
        terminal.until(lambda: "64 %" not in terminal.text())


@pytest.mark.parametrize("width", [20, 40, 60, 79, 200])
def test_bar_fits_every_width(width: int) -> None:
    for done in (0.0, 1.2e9, 1.9e9):
        assert len(drawn(Progress("sending", done, 1.9e9, BYTES, 0.0, 45e6, 9.0), width)) <= width


def test_bar_is_drawn_if_it_fits() -> None:
    progress = Progress("sending", 1.2e9, 1.9e9, BYTES, 0.0, 45e6, 9.0)
    assert "█" in drawn(progress, 100) or "#" in drawn(progress, 100)
    assert "63 %" in drawn(progress, 40)


def test_lines_are_printed_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar()
    for seconds in (0.1, LINE_SECONDS - 1, LINE_SECONDS, LINE_SECONDS + 1):
        bar.show(Progress("sending", 1, 2, "files", time.time(), 0.0, seconds))
    bar.show(None)
    assert capsys.readouterr().err == "sending: 1 of 2 files, 50 %\n"
